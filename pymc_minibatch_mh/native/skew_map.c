/* A triangular map of third order, from standard normal numbers w to a skewed posterior.
 *
 * With log pi(m + T x) = -x.x/2 + S(x, x, x)/6 + ... and S averaged over the normal approximation,
 *
 *     x_a = k_a + w' S_a w/2 + exp(e_a) (w_a + c_a (sqrt(1 + w_a^2) - 1)),   theta = m + T x,
 *
 * where e_a = sum_b S_aab w_b/2 and S_a have only coordinates before a: every monomial of S belongs
 * to its latest coordinate. The map is increasing in w_a because |c_a| < 1, and tails stay normal; an
 * effect given the logarithm of its scale is the exponent alone. So the map has an inverse by
 * substitution, w = (u - c sqrt(u^2 + 1 - c^2))/(1 - c^2) with u = c + (x_a - k_a - ...)/exp(e_a),
 * and the density of every position is known, whatever S is. */
#include "inside.h"

/* Exponents are clipped, so that far draws stay finite; a clipped exponent is constant in w_a. */
static const double MAX_EXPONENT = 3.0;

/* Location and log scale of x_a given the earlier coordinates of w. */
typedef struct conditional {
    double location, exponent;
} conditional;

static conditional given_earlier(const mh_skew_map *map, int64_t a, const double *white)
{
    conditional out = {map->shifts[a], mh_inner(map->exponents + a * map->size, white, a)};
    for (int64_t j = map->starts[a]; j < map->starts[a + 1]; j++)
        out.location += map->values[j] * white[map->firsts[j]] * white[map->seconds[j]];
    out.exponent = mh_larger(-MAX_EXPONENT, mh_smaller(out.exponent, MAX_EXPONENT));
    return out;
}

/* d x_a / d w_a over exp(e_a), between 0.1 and 1.9: products over coordinates stay in range. */
static double slope_of_bend(double bend, double white)
{
    return 1.0 + bend * white / sqrt(1.0 + white * white);
}

/* Whiten a position: its density is standard normal in `white`, times exp(log_volume). */
mh_status mh_whiten_by_map(const mh_skew_map *map, const double *position, double *white,
                           double *log_volume, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    const int64_t size = map->size;
    MH_VECTOR(double, away, scratch, size);
    MH_VECTOR(double, x, scratch, size);
    for (int64_t a = 0; a < size; a++)
        away[a] = position[map->order[a]] - map->centre[a];
    mh_lower_times(map->whitener, away, 0, size, x);
    double exponents = 0.0, slopes = 1.0;
    for (int64_t a = 0; a < size; a++) {
        const conditional earlier = given_earlier(map, a, white);
        const double bend = map->bends[a], rest = 1.0 - bend * bend;
        const double u = bend + (x[a] - earlier.location) * exp(-earlier.exponent);
        white[a] = (u - bend * sqrt(u * u + rest)) / rest;
        exponents += earlier.exponent;
        slopes *= slope_of_bend(bend, white[a]);
    }
    *log_volume = -exponents - log(slopes);
    return MH_OK;
}

mh_status mh_place_by_map(const mh_skew_map *map, const double *white, double *position,
                          double *log_volume, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    const int64_t size = map->size;
    MH_VECTOR(double, x, scratch, size);
    MH_VECTOR(double, away, scratch, size);
    double exponents = 0.0, slopes = 1.0;
    for (int64_t a = 0; a < size; a++) {
        const conditional earlier = given_earlier(map, a, white);
        const double bend = map->bends[a], root = sqrt(1.0 + white[a] * white[a]);
        x[a] = earlier.location + exp(earlier.exponent) * (white[a] + bend * (root - 1.0));
        exponents += earlier.exponent;
        slopes *= slope_of_bend(bend, white[a]);
    }
    mh_lower_times(map->factor, x, 0, size, away);
    for (int64_t a = 0; a < size; a++)
        position[map->order[a]] = map->centre[a] + away[a];
    *log_volume = -exponents - log(slopes);
    return MH_OK;
}
