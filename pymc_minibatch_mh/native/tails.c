/* Tails of distributions, and the batch size that keeps a variance below a limit.
 *
 * The upper tail of Student's t has an absolute error below 1e-11. Below 30 degrees of freedom it
 * is half of the incomplete beta function I_x(degrees/2, 1/2), x = degrees/(degrees + t^2), from
 * its continued fraction; from 30 on, it is the normal tail at the deviate of Hill (1970),
 * doi:10.1145/355598.362775. */
#include "inside.h"

static const double SQRT_HALF = 0.70710678118654757, FIRST_NORMAL_DEGREE = 30.0, TINY = 1e-300;
enum { MOST_STEPS = 200 };

/* P(Z <= x) of a standard normal Z, to a few ulp in both tails. */
double mh_normal_cdf(double x) { return 0.5 * erfc(-x * SQRT_HALF); }

/* 1/(1 + exp(-x)); 0 and 1 at the infinities. */
double mh_logistic(double x) { return 1.0 / (1.0 + exp(-x)); }

static double away_from_zero(double x) { return fabs(x) > TINY ? x : TINY; }

/* The continued fraction of the incomplete beta function, by Lentz's recurrence. */
static double beta_fraction(double a, double b, double x)
{
    double c = 1.0, d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    double fraction = d;
    for (int k = 1; k < MOST_STEPS; k++) {
        const double m = k, twice = 2 * k;
        const double even = m * (b - m) * x / ((a + twice - 1.0) * (a + twice));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        fraction *= d * c;
        const double odd = -(a + m) * (a + b + m) * x / ((a + twice) * (a + twice + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        fraction *= d * c;
        if (fabs(d * c - 1.0) < 1e-15)
            break;
    }
    return fraction;
}

static double student_tail_by_beta(double t, double degrees)
{
    const double a = 0.5 * degrees, b = 0.5;
    const double x = degrees / (degrees + t * t), y = t * t / (degrees + t * t);
    if (x <= 0.0)
        return 0.0;
    if (y <= 0.0)
        return 0.5;
    const double log_beta = lgamma(a) + lgamma(b) - lgamma(a + b);
    const double front = exp(a * log(x) + b * log(y) - log_beta);
    if (x < (a + 1.0) / (a + b + 2.0))
        return 0.5 * front * beta_fraction(a, b, x) / a;
    return 0.5 * (1.0 - front * beta_fraction(b, a, y) / b);
}

double mh_student_tail(double t, double degrees)
{
    if (!(t < INFINITY))
        return 0.0;
    if (degrees < FIRST_NORMAL_DEGREE)
        return student_tail_by_beta(t, degrees);
    const double a = degrees - 0.5, b = 48.0 * a * a;
    /* Limit y: if t * t overflows, the series would be NaN, but the tail probability is 0. */
    const double y = mh_smaller(a * log1p(t * t / degrees), 1500.0);
    const double series =
        (((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b);
    return mh_normal_cdf(-((series + y + 3.0) / b + 1.0) * sqrt(y));
}

int64_t mh_rows_for_variance(double noise, int64_t total, double variance)
{
    if (!(noise < INFINITY))
        return total;
    return mh_min(total, (int64_t)ceil(1.0 / (1.0 / (double)total + variance / noise)));
}
