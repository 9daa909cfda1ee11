/* The penalty test: Metropolis acceptance of a log ratio with normal noise.
 *
 * With D* normal around the exact log ratio, with known variance s^2, accepting with probability
 * min(1, exp(D* - s^2/2)) satisfies detailed balance. A batch of n rows only gives an estimate of
 * s^2, so that the test accepts with
 *
 *     p = min(1, exp(D* - u)),    u = s^2/2 + s^4/(4(n+1)) + s^6/(3(n+1)(n+3)).
 *
 * The series is asymptotic in s^2/n and needs s^2 < n/4. With all rows evaluated the test is exact
 * Metropolis. */
#include "inside.h"

/* `MAX_SD`: maximum standard deviation of the log ratio; `AIM`: the batch size is chosen for a
 * predicted variance of AIM * MAX_SD^2. */
static const double MAX_SD = 1.2, AIM = 0.7;
/* Maxima over z: `DENSITY` of the standard normal density phi(z), `SLOPE` of |z| phi(z). */
static const double DENSITY = 0.3989422804014327, SLOPE = 0.24197072451914337;

/* Penalty u for a variance estimated from n rows. */
double mh_penalty(double variance, int64_t n)
{
    const double one = (double)n + 1.0, three = (double)n + 3.0;
    const double second = variance * variance / (4.0 * one);
    const double third = mh_cube(variance) / (3.0 * one * three);
    return variance / 2.0 + second + third;
}

/* Estimated error of the acceptance probability, relative to one with exact detailed balance.
 *
 * The leading Edgeworth term of a skewed batch of n of all `total` rows, with f = n/total and a the
 * acceptance at known variance as a function of the exact log ratio: |g| s^3 ((1-2f) a''' - 3(1-f)
 * a'')/(6 sqrt(n(1-f))), g the larger of the batch's and the measured skewness (NaN counts as 0),
 * maximised over the log ratio by a''' = a'' + z phi(z)/s^2, |z phi(z)| <= 0.242 and |a''| <=
 * 0.399/s; plus 0.085 s^4/n^2. It is 0 with all rows evaluated. */
double mh_penalty_error(const mh_look *look, const mh_penalty_test *test)
{
    if (look->n >= look->total)
        return 0.0;
    const double variance = look->variance, n = (double)look->n;
    const double f = n / (double)look->total;
    const double batch = fabs(look->skewness);
    const double skew = batch > test->skewness ? batch : test->skewness;
    const double shape =
        (2.0 - f) * DENSITY * variance + fabs(1.0 - 2.0 * f) * SLOPE * sqrt(variance);
    const double error = skew * shape / (6.0 * sqrt(n * (1.0 - f)));
    return mh_smaller(1.0, error + 0.085 * mh_square(variance / n));
}

/* Size of the single minibatch, of at least `least`, for a noise V of N times the change of a row:
 * ceil(1/(1/total + 0.7 MAX_SD^2/V)). */
int64_t mh_rows_of_penalty(double noise, int64_t total, int64_t least)
{
    const int64_t rows = mh_rows_for_variance(noise, total, AIM * mh_square(MAX_SD));
    return mh_min(total, mh_max(rows, least));
}

/* Size of the single minibatch. V has to be symmetric in the two positions, or the test is biased. */
int64_t mh_penalty_sample_size(const void *settings, double noise, int64_t n, int64_t total)
{
    const mh_penalty_test *test = settings;
    (void)n;
    return mh_rows_of_penalty(noise, total, test->batch_size);
}

/* Accept or reject from the single minibatch; its skewness affects only the error estimate. */
mh_status mh_penalty_decide(const void *settings, const mh_look *look, mh_verdict *out)
{
    const mh_penalty_test *test = settings;
    *out = (mh_verdict){MH_REJECT, 0.0, 0.0};
    if (look->n >= look->total || !isfinite(look->log_ratio)) {
        out->probability = mh_chance_of(look->log_ratio);
    } else {
        const double penalty = mh_penalty(look->variance, look->n);
        out->probability = exp(mh_smaller(0.0, look->log_ratio - penalty));
        out->error = mh_penalty_error(look, test);
    }
    out->verdict = look->uniform < out->probability ? MH_ACCEPT : MH_REJECT;
    return MH_OK;
}
