/* A user's test on batches, whose functions are called by shims. A shim returns a negative number
 * if the function raises. */
#include "inside.h"

/* Number of rows of the next look; if the function raises, all rows (counted in full_pass). */
int64_t mh_own_sample_size(const void *settings, double noise, int64_t n, int64_t total)
{
    const mh_custom_test *test = settings;
    const int64_t target = test->sample_size(noise, n, total, test->numbers, test->n_numbers);
    if (target < 0)
        return total;
    /* Ask for at least one new row: a look without new rows could repeat for ever. */
    return mh_min(mh_max(mh_max(target, n + 1), 2), total);
}

mh_status mh_own_decide(const void *settings, const mh_look *look, mh_verdict *out)
{
    const mh_custom_test *test = settings;
    *out = (mh_verdict){MH_REJECT, 0.0, 0.0};
    if (!(look->log_ratio > -INFINITY))
        return MH_OK;
    double answer[3];
    if (test->decide_batch(look->log_ratio, look->variance, look->skewness, look->n, look->total,
                           look->uniform, test->numbers, test->n_numbers, answer) < 0)
        return MH_TEST_FAILED;
    if (!(answer[0] <= 1.0 && 0.0 <= answer[1] && answer[1] <= 1.0))
        return MH_TEST_FAILED;
    out->probability = answer[1];
    out->error = answer[2];
    if (answer[0] >= 0.0)
        out->verdict = answer[0] > 0.0 ? MH_ACCEPT : MH_REJECT;
    else if (look->n < look->total)
        out->verdict = MH_READ_MORE;
    else if (look->uniform < exp(mh_smaller(0.0, look->log_ratio)))
        out->verdict = MH_ACCEPT; /* undecided with all rows: exact Metropolis test */
    return MH_OK;
}
