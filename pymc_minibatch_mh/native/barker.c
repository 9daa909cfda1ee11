/* Barker's test on a batch: accept iff D* + X_nc + X_corr > 0. D* is the log ratio estimated from
 * n rows, s^2 its estimated variance, X_nc is N(0, sigma^2 - s^2), and X_corr follows the tabulated
 * discrete distribution C_sigma, for which N(0, sigma^2) + C_sigma is nearly a logistic variable.
 * The two auxiliary variables are integrated out, so that one uniform number decides:
 *
 *     p = sum_j m_j Phi((D* + c_j)/sqrt(sigma^2 - s^2)),    accept iff uniform < p.
 *
 * The test is exact if all rows are evaluated. */
#include "inside.h"

/* |Argument| beyond which the normal cdf Phi counts as 0 or 1. */
static const double REACH = 8.3;
/* Maximum variance of a batch, as a fraction of sigma^2, for a skewness correction: beyond it too
 * little noise is added for the acceptance probability to have a smooth third derivative. */
static const double SKEW_ROOM = 0.85;
/* CURVATURE: sup |S''| = 1/(6 sqrt(3)), S the logistic function; ROOT_TWO_PI: sqrt(2 pi). */
static const double CURVATURE = 0.096225044864937631, ROOT_TWO_PI = 2.5066282746310002;
/* Fraction of the admissible variance at which a batch size aims, so that few batches exceed it. */
static const double AIM = 0.7;

/* Index of the first atom >= `value`, or of the first atom > `value` if `after` is true. */
static int64_t index_of_atom(const mh_barker_test *test, double value, int after)
{
    const double *atoms = test->atoms;
    int64_t low = -1, high = test->n_atoms;
    MH_BISECT(low, high, after ? atoms[middle] <= value : atoms[middle] < value)
    return high;
}

/* Acceptance probability p of a batch; X_nc is 0 if the variance exceeds sigma^2. */
double mh_barker_probability(double log_ratio, double variance, const mh_barker_test *test)
{
    const double room = mh_square(test->sigma) - variance;
    const double noise = room > 0.0 ? sqrt(room) : 0.0;
    const int64_t lower = index_of_atom(test, -log_ratio - REACH * noise, 0);
    const int64_t upper = index_of_atom(test, -log_ratio + REACH * noise, 1);
    double probability = test->tails[upper];
    for (int64_t j = lower; j < upper; j++) {
        const double share =
            noise > 0.0 ? mh_normal_cdf((log_ratio + test->atoms[j]) / noise) : 0.5;
        probability += test->masses[j] * share;
    }
    return probability;
}

/* The first Edgeworth correction of the acceptance probability F(D*, s^2) of a batch.
 *
 * With third moments of the rows, E F(D*, s^2) = S(D) - (2-f) g s^3 S'''(D)/(6 sqrt(n(1-f))) to the
 * order 1/sqrt(n), with f = n/total. The correction adds the same term with F''' for S'''; the mean
 * of F''' is S'''. The skewed limit in the paper's appendix A.5 has an additional shift, which
 * belongs to a studentised mean. */
double mh_barker_skew_shift(const mh_look *look, const mh_barker_test *test)
{
    const double variance = look->variance, skewness = look->skewness, n = (double)look->n;
    const double square = mh_square(test->sigma);
    if (!(variance < SKEW_ROOM * square && fabs(skewness) < INFINITY))
        return 0.0;
    const double noise = sqrt(square - variance);
    double bend = 0.0;
    for (int64_t j = 0; j < test->n_atoms; j++) {
        const double z = (look->log_ratio + test->atoms[j]) / noise;
        bend += test->masses[j] * exp(-0.5 * z * z) * (z * z - 1.0);
    }
    bend /= ROOT_TWO_PI * mh_cube(noise);
    const double f = n / (double)look->total;
    return (2.0 - f) * skewness * pow(variance, 1.5) * bend / (6.0 * sqrt(n * (1.0 - f)));
}

/* The estimated error of the acceptance probability of a batch of n of all `total` rows.
 *
 * Edgeworth: the leading error of a studentised mean, (2-f) |g| s^3/(48 sqrt(n(1-f))) + 0.0319
 * s^4/(n-1) with f = n/total and g the larger of the batch's and the measured skewness (NaN counts
 * as 0). For growing batches, whose stopping rule shifts D*, add |g| sigma/(4 sqrt(n)). Novak:
 * (6.4 m + 2)/sqrt(n), the paper's corollary 1 with E|X| <= 1 and m the larger of the measured
 * E|X|^3 and |g|; this bounds the error for independent rows and true moments only. Both add the
 * error of the table, and (s^2 - sigma^2) sup|S''|/2 for excess noise if s^2 > sigma^2. The error
 * is 0 if all rows are evaluated. */
double mh_barker_error(double variance, double skewness, int64_t n, int64_t total,
                       const mh_barker_test *test)
{
    if (n >= total)
        return 0.0;
    const double skew = fabs(skewness) > test->skewness ? fabs(skewness) : test->skewness;
    const double sigma = test->sigma, count = (double)n;
    double error =
        test->table_error + mh_larger(0.0, variance - sigma * sigma) * CURVATURE / 2.0;
    if (test->novak) {
        error += (6.4 * mh_larger(test->third_moment, skew) + 2.0) / sqrt(count);
    } else {
        const double f = count / (double)total;
        error += (2.0 - f) * skew * pow(variance, 1.5) / (48.0 * sqrt(count * (1.0 - f)));
        error += 0.0319 * variance * variance / (count - 1.0);
        if (test->grow)
            error += skew * sigma / (4.0 * sqrt(count));
    }
    return mh_smaller(error, 1.0);
}

/* Whether the predicted error of a batch of n rows is at most max_error. */
static int is_enough(double noise, int64_t n, int64_t total, const mh_barker_test *test)
{
    const double variance = noise * (1.0 / (double)n - 1.0 / (double)total);
    return mh_barker_error(variance, 0.0, n, total, test) <= test->max_error;
}

/* Number of rows of the next look. A growing batch adds batch_size, for any noise V. A predicted
 * batch has n = ceil(1/(1/total + 0.7 sigma^2/V)), at least batch_size, or more to meet max_error;
 * V must be symmetric in the two positions, or the test is biased. */
int64_t mh_barker_sample_size(const void *settings, double noise, int64_t n, int64_t total)
{
    const mh_barker_test *test = settings;
    if (test->grow)
        return mh_min(total, n + test->batch_size);
    const int64_t rows =
        mh_max(mh_rows_for_variance(noise, total, AIM * mh_square(test->sigma)), test->batch_size);
    if (rows >= total)
        return total;
    if (is_enough(noise, rows, total, test))
        return rows;
    int64_t low = rows - 1, high = total;
    MH_BISECT(low, high, !is_enough(noise, middle, total, test))
    return high;
}

mh_status mh_barker_decide(const void *settings, const mh_look *look, mh_verdict *out)
{
    const mh_barker_test *test = settings;
    *out = (mh_verdict){MH_REJECT, 0.0, 0.0};
    if (!(look->log_ratio > -INFINITY))
        return MH_OK;
    if (look->n >= look->total || isinf(look->log_ratio)) {
        out->probability = mh_logistic(look->log_ratio);
        out->verdict = look->uniform < out->probability ? MH_ACCEPT : MH_REJECT;
        return MH_OK;
    }
    double probability = mh_barker_probability(look->log_ratio, look->variance, test);
    if (test->skewed)
        probability =
            mh_smaller(mh_larger(probability + mh_barker_skew_shift(look, test), 0.0), 1.0);
    out->probability = probability;
    out->error = mh_barker_error(look->variance, look->skewness, look->n, look->total, test);
    out->verdict = look->uniform < probability ? MH_ACCEPT : MH_REJECT;
    if (test->grow && !(look->variance < mh_square(test->sigma) && out->error <= test->max_error))
        out->verdict = MH_READ_MORE;
    return MH_OK;
}
