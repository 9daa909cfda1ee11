/* The austere test: a sequential t-test of the Metropolis decision on growing batches.
 *
 * The uniform is drawn first. Metropolis accepts iff the exact log ratio exceeds log(uniform). Each
 * look tests this with t = (D* - log uniform)/s and n - 1 degrees of freedom, where D* is the
 * estimated log ratio and s^2 its variance. The test stops if the tail probability beyond |t| is
 * below epsilon; otherwise it evaluates batch_size more rows. With a boundary above 0.5 early looks
 * need a smaller tail probability, that of the normal limit G_0 (n/N)^(0.5 - boundary).
 *
 * A batch of differences that are equal up to rounding is undecided, unless all differences were
 * equal in every proposal that was evaluated on all rows. */
#include "inside.h"

/* Relative deviation up to which differences count as equal: rounding alone can cause it. */
static const double ROUNDING = 1e-12;

/* Tail probability below which a look at n rows decides. */
static double level(int64_t n, int64_t total, const mh_austere_test *test)
{
    if (test->boundary == 0.5)
        return test->epsilon;
    const double share = (double)n / (double)total;
    return mh_normal_cdf(-test->limit * pow(share, 0.5 - test->boundary));
}

/* Number of rows of the next look: batch_size more, or all if epsilon is 0; `noise` is unused. */
int64_t mh_austere_sample_size(const void *settings, double noise, int64_t n, int64_t total)
{
    const mh_austere_test *test = settings;
    (void)noise;
    return test->epsilon > 0.0 ? mh_min(total, n + test->batch_size) : total;
}

/* Accept, reject or ask for more rows. The error estimate is the tail probability beyond |t|, which
 * is compared with the level; it is 0 if all rows were evaluated. */
mh_status mh_austere_decide(const void *settings, const mh_look *look, mh_verdict *out)
{
    const mh_austere_test *test = settings;
    const double log_ratio = look->log_ratio;
    *out = (mh_verdict){MH_REJECT, 0.0, 0.0};
    const double threshold = log(look->uniform);
    out->probability = mh_chance_of(log_ratio);
    out->verdict = log_ratio > threshold ? MH_ACCEPT : MH_REJECT;
    if (look->n >= look->total || !isfinite(log_ratio))
        return MH_OK;
    const double deviation = sqrt(look->variance);
    if (!(deviation > ROUNDING * mh_larger(1.0, fabs(log_ratio)))) {
        /* Equal differences in a batch do not exclude rare unequal ones: evaluate more rows. */
        if (!(test->kappa == 0.0 && test->third_moment == 0.0)) {
            out->verdict = MH_READ_MORE;
            out->error = 0.5;
        }
        return MH_OK;
    }
    out->error = mh_student_tail(fabs(log_ratio - threshold) / deviation, (double)look->n - 1.0);
    if (!(out->error < level(look->n, look->total, test)))
        out->verdict = MH_READ_MORE;
    return MH_OK;
}
