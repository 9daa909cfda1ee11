/* M(theta, theta'): bound of the change of rows' remainders in a proposal, in units of their c_i.
 *
 * With a, a' the whitened positions relative to the centre and b = a' - a, a row changes its
 * remainder by at most c_i M, where c_i depends on the row alone and M on the proposal alone. All
 * of this is bitwise symmetric in the two positions: otherwise a test would not be reversible.
 *
 * Kinds of tables of c_i, each with its M: sums over directions (MH_DIRECTIONAL); from the joint
 * length of the linear predictors (MH_JOINT); for a single linear predictor (MH_SHARP); by a user's
 * metric (MH_GIVEN); for all proposals alike, with M = 1 (MH_CONSTANT); of the remainder at either
 * end, c_i |a|^3/6, instead of its change (MH_ENDS); for rows with kinks, where remainders are at most
 * of first order in the distance of an end, and jump by at most c_i (MH_KINKED). */
#include "inside.h"

enum {
    /* Number of trapezoids along the path; any number gives a bound, as the integrand is convex. */
    PANELS = 4,
    ANGLES = 24
};

/* Bound of the maximum of a trigonometric polynomial of degree 3, relative to its largest value at
 * angles pi/24 apart: 1 / cos(1.5 pi / ANGLES). Ehlich, Zeller (1964), doi:10.1007/BF01111276. */
static const double MISSED = 1.0195911582083184;
static const double COSINES[ANGLES] = {
    1.0, 0.9914448613738104, 0.9659258262890683, 0.9238795325112867,
    0.8660254037844387, 0.7933533402912352, 0.7071067811865476, 0.6087614290087207,
    0.5000000000000001, 0.38268343236508984, 0.25881904510252074, 0.1305261922200517,
    6.123233995736766e-17, -0.1305261922200516, -0.25881904510252063, -0.3826834323650895,
    -0.4999999999999998, -0.6087614290087207, -0.7071067811865475, -0.793353340291235,
    -0.8660254037844387, -0.9238795325112867, -0.9659258262890682, -0.9914448613738104,
};
static const double SINES[ANGLES] = {
    0.0, 0.13052619222005157, 0.25881904510252074, 0.3826834323650898,
    0.49999999999999994, 0.6087614290087207, 0.7071067811865475, 0.7933533402912352,
    0.8660254037844386, 0.9238795325112867, 0.9659258262890683, 0.9914448613738104,
    1.0, 0.9914448613738104, 0.9659258262890683, 0.9238795325112868,
    0.8660254037844387, 0.7933533402912352, 0.7071067811865476, 0.6087614290087209,
    0.49999999999999994, 0.3826834323650899, 0.258819045102521, 0.130526192220052,
};
static const double THREE_ROOTS = 5.196152422706632; /* 3 sqrt(3) */
/* Factor far above the rounding errors of the inputs of M. */
static const double ROUNDING = 1.0 + 1e-10;
/* Rounding error of a difference of log-likelihoods, in units of the larger of them: 64 epsilon. */
static const double ULPS = 64 * 2.220446049250313e-16;

/* ---- A proposal in whitened coordinates. ---- */

void mh_whiten(const double *whitener, const double *end, const double *start, int64_t size,
               double *difference, double *out)
{
    for (int64_t j = 0; j < size; j++)
        difference[j] = end[j] - start[j];
    mh_lower_times(whitener, difference, 0, size, out);
}

/* Whiten a proposal to a, a' and b; b separately, because a' - a cancels in short steps. */
mh_status mh_move_between(const mh_reference *reference, double *position, double *new_position,
                          mh_move *out, mh_arena *scratch)
{
    const int64_t size = reference->size;
    const double *whitener = reference->whitener, *centre = reference->centre;
    *out = (mh_move){position, new_position, mh_take(scratch, size, double),
                     mh_take(scratch, size, double), mh_take(scratch, size, double)};
    double *difference = mh_take(scratch, size, double);
    MH_NEED(out->here && out->there && out->step && difference);
    mh_whiten(whitener, position, centre, size, difference, out->here);
    mh_whiten(whitener, new_position, centre, size, difference, out->there);
    mh_whiten(whitener, new_position, position, size, difference, out->step);
    return MH_OK;
}

void mh_products_of_move(const mh_move *move, int64_t size, mh_products *out)
{
    mh_products dots = {0};
    for (int64_t i = 0; i < size; i++)
        mh_add_products_of(move->here[i], move->there[i], move->step[i], &dots);
    *out = dots;
}

/* Distance from `origin` in posterior standard deviations. */
double mh_whitened_norm(const double *whitener, const double *position, const double *origin,
                        int64_t size)
{
    double total = 0.0;
    for (int64_t i = 0; i < size; i++) {
        double along = 0.0;
        for (int64_t j = 0; j <= i; j++)
            along += whitener[i * size + j] * (position[j] - origin[j]);
        total += along * along;
    }
    return sqrt(total);
}

/* ---- The size M of a proposal. ---- */

static double cosine(double along, double square, double step)
{
    const double product = sqrt(square * step);
    return product > 0.0 ? mh_smaller(fabs(along) / product, 1.0) : 0.0;
}

/* Supremum of (s.x)(t.x) over unit vectors x, for unit vectors s and t with cosine w. */
static double direction_one(double w) { return 0.5 * (1.0 + w); }

/* Supremum of (s.x)^2 (t.x) over unit vectors x, for unit vectors s and t with cosine w. */
static double direction_two(double w)
{
    const double q = sqrt(2.0 + 0.25 * w * w) - 0.5 * w, both = 2.0 + w * q;
    return both * sqrt(both) / (q * THREE_ROOTS);
}

/* Upper bound of M at orders 1 to 3, an integral from a to a', by a composite trapezoid rule. */
static double path(const mh_products *dots, int64_t order, int64_t directional)
{
    if (dots->step <= 0.0)
        return 0.0;
    double total = 0.0;
    for (int64_t k = 0; k <= PANELS; k++) {
        const double t = (double)k / (double)PANELS;
        double square = (1.0 - t) * dots->here + t * dots->there - t * (1.0 - t) * dots->step;
        square = mh_larger(square, 0.0);
        double value = order == 1 ? sqrt(square) : 0.5 * square;
        if (order == 3) {
            value *= sqrt(square) / 3.0;
        } else if (directional) {
            const double along = (1.0 - t) * dots->along_here + t * dots->along_there;
            const double w = cosine(along, square, dots->step);
            value *= order == 1 ? direction_one(w) : direction_two(w);
        }
        total += k == 0 || k == PANELS ? 0.5 * value : value;
    }
    return total / (double)PANELS * sqrt(dots->step);
}

/* Maximum of |v|v| - u|u||/2 over unit directions x, with u = x.a and v = x.a'.
 *
 * With |f''| <= D a first-order remainder changes by at most D times this. With the middle m of the
 * proposal the value is |x.b x.m| if u and v have one sign, and (x.b)^2/4 + (x.m)^2 otherwise. The
 * maximum of the latter is an eigenvalue if m is shorter than b/2; elsewhere it is smaller than a
 * value of the former. */
static double first_of_one_argument(const mh_products *dots)
{
    const double half = 0.25 * dots->step;
    const double middle = mh_larger(0.5 * (dots->here + dots->there) - half, 0.0);
    const double along = 0.5 * (dots->along_here + dots->along_there);
    const double largest = 0.5 * (sqrt(dots->step * middle) + fabs(along));
    if (!(middle < half))
        return largest;
    const double apart = sqrt(mh_square(half - middle) + mh_square(along));
    return mh_larger(largest, 0.5 * (half + middle + apart));
}

/* Maximum of |(x.a')^3 - (x.a)^3|/6 over unit directions x.
 *
 * With |f'''| <= D a second-order remainder changes by at most D times this, whether or not the
 * centre lies between the ends. */
static double second_of_one_argument(const mh_products *dots)
{
    const double length = sqrt(dots->step);
    if (length == 0.0)
        return 0.0;
    const double first = dots->along_here / length;
    const double second = sqrt(mh_larger(dots->here - first * first, 0.0));
    double largest = 0.0;
    for (int k = 0; k < ANGLES; k++) {
        const double here = first * COSINES[k] + second * SINES[k], change = length * COSINES[k];
        const double there = here + change;
        /* Factorise the difference of cubes, which would cancel in a short step. */
        largest = mh_larger(largest, fabs(change) * (here * here + here * there + there * there));
    }
    return largest * MISSED / 6.0;
}

/* Inner products in the same order for a proposal and its reverse: otherwise rounding errors would
 * depend on the direction. */
static mh_products ordered(const mh_products *dots)
{
    int swap = dots->here > dots->there;
    if (dots->here == dots->there) {
        const double one = fabs(dots->along_here), other = fabs(dots->along_there);
        swap = one > other || (one == other && dots->along_here < 0.0);
    }
    if (!swap)
        return *dots;
    return (mh_products){dots->there, dots->here, dots->step, -dots->along_there,
                         -dots->along_here};
}

double mh_size_of_move(const mh_products *products, int64_t order, int64_t kind)
{
    if (kind == MH_CONSTANT)
        return 1.0;
    if (kind == MH_KINKED)
        return mh_larger(1.0, sqrt(products->here) + sqrt(products->there)) * ROUNDING;
    if (order == 0)
        return sqrt(products->step) * ROUNDING;
    const mh_products dots = ordered(products);
    if (order == 1 && kind == MH_SHARP)
        return first_of_one_argument(&dots) * ROUNDING;
    double ends = 0.5 * (dots.here + dots.there);
    if (order == 2)
        ends = (dots.here * sqrt(dots.here) + dots.there * sqrt(dots.there)) / 6.0;
    if (order == 3)
        ends = (mh_square(dots.here) + mh_square(dots.there)) / 24.0;
    if (kind == MH_ENDS)
        return ends * ROUNDING;
    double size = mh_smaller(ends, path(&dots, order, kind == MH_DIRECTIONAL));
    if (kind == MH_SHARP && order == 2)
        size = mh_smaller(size, second_of_one_argument(&dots));
    return size * ROUNDING;
}

/* ---- An evaluated row and its bound. ---- */

double mh_ratio_to_bound(double difference, double scale, double bound, double inverse_temperature)
{
    const double excess = inverse_temperature * (fabs(difference) - ULPS * scale);
    /* A row without a bound is evaluated in every update, so no change is too large. */
    if (bound == INFINITY)
        return 0.0;
    /* A NaN change violates every bound: test for it, because comparisons with NaN are false. */
    if (isnan(excess))
        return INFINITY;
    if (bound > 0.0)
        return mh_larger(excess, 0.0) / bound;
    return excess > 0.0 ? INFINITY : 0.0;
}

double mh_hold_against_bound(int64_t row, double difference, double scale, double bound,
                             double inverse_temperature, mh_counts *counts)
{
    const double ratio = mh_ratio_to_bound(difference, scale, bound, inverse_temperature);
    if (!(ratio <= counts->bound_ratio)) {
        counts->bound_ratio = ratio;
        counts->bound_row = (double)row;
    }
    return ratio;
}
