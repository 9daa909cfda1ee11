/* Exact draws of two effects of a group with the normal law, by rejection from planes.
 *
 * The density of z is exp(h(z) - |z|^2/2) up to a factor, with h the sum over the group's rows, which is
 * concave. The axes y = U'z are the principal ones of the density at its mode, so that U rotates. A grid
 * divides the plane into rectangles, and in each of them
 *
 *     h(z) <= h(p) + h'(p).(z - p),    -y_k^2/2 <= t_k^2/2 - t_k y_k,
 *
 * whatever the points p and t: the bound is a product of exponentials of y_1 and y_2, whose integral
 * over the rectangle is known. Points are those of the grid, but t_k further out where the bound would
 * not fall outwards. Where many proposals are rejected, a finer grid goes on: each proposal is drawn
 * independently of those before it. See Gilks, Wild (1992), doi:10.2307/2347565, for one dimension. */
#include "effects.h"

enum { MAX_STEPS = 100, MAX_HALVINGS = 60, FIRST_GRID = 3, LAST_GRID = 17, TRIALS_OF_GRID = 5 };
/* In standard deviations: distance of points in a grid of 3 x 3, and its power of 2/(n - 1) in others;
 * maximum distance from a point that counts as the mode; minimum slope outwards times them. */
static const double SPACING = 1.4, FINENESS = 0.62, NEAR = 0.05, MIN_SLOPE = 0.5;
/* Maximum fall of h from the mode to a point: beyond, planes have errors of rounding. */
static const double MAX_FALL = 30.0;

/* A rectangle: along each axis an exponential that falls from `start` in the direction `side`. */
typedef struct rectangle {
    double start[2], side[2], length[2], rate[2];
    double height, mass; /* logarithm of the bound at both starts; its integral, up to a factor */
} rectangle;

typedef struct plane {
    const mh_drawing *on;
    double mode[2], sd[2], cosine, sine; /* in y; of U */
    double value;                        /* of h near the mode */
    int64_t n_cells;
    rectangle *cells;
    double total, top; /* sum of the masses, which are relative to exp top */
} plane;

/* h with its derivatives along both axes, at y. */
static mh_row_sum rows_at_axes(const plane *at, const double *y, int wants_slopes)
{
    const double z[2] = {at->cosine * y[0] - at->sine * y[1], at->sine * y[0] + at->cosine * y[1]};
    mh_row_sum rows = mh_rows_at(at->on, z, wants_slopes);
    const double slope = rows.slope[0];
    rows.slope[0] = at->cosine * slope + at->sine * rows.slope[1];
    rows.slope[1] = at->cosine * rows.slope[1] - at->sine * slope;
    return rows;
}

static int is_finite(const mh_row_sum *rows)
{
    double total = rows->value + rows->slope[0] + rows->slope[1];
    for (int64_t k = 0; k < 3; k++)
        total += rows->bend[k];
    return isfinite(total);
}

static double density_of(const mh_row_sum *rows, const double *z)
{
    return rows->value - 0.5 * (z[0] * z[0] + z[1] * z[1]);
}

/* Find the mode by Newton's method with halved steps, and axes there. `mode` has a start in z. */
static mh_status find_axes(plane *at)
{
    double z[2] = {at->mode[0], at->mode[1]};
    mh_row_sum rows = mh_rows_at(at->on, z, 1);
    if (!is_finite(&rows)) {
        z[0] = z[1] = 0.0;
        rows = mh_rows_at(at->on, z, 1);
    }
    for (int64_t k = 0; k < MAX_STEPS && is_finite(&rows); k++) {
        const double a = 1.0 - rows.bend[0], b = -rows.bend[1], c = 1.0 - rows.bend[2];
        const double x = rows.slope[0] - z[0], y = rows.slope[1] - z[1], det = a * c - b * b;
        double step[2] = {(c * x - b * y) / det, (a * y - b * x) / det};
        if (x * step[0] + y * step[1] <= NEAR * NEAR) {
            const double angle = 0.5 * atan2(2.0 * b, a - c);
            const double mean = 0.5 * (a + c), apart = hypot(0.5 * (a - c), b);
            at->value = rows.value;
            at->cosine = cos(angle);
            at->sine = sin(angle);
            at->sd[0] = 1.0 / sqrt(mean + apart);
            at->sd[1] = 1.0 / sqrt(mh_larger(det / (mean + apart), 1.0));
            at->mode[0] = at->cosine * (z[0] + step[0]) + at->sine * (z[1] + step[1]);
            at->mode[1] = at->cosine * (z[1] + step[1]) - at->sine * (z[0] + step[0]);
            return MH_OK;
        }
        const double before = density_of(&rows, z);
        for (int64_t j = 0; j < MAX_HALVINGS; j++) {
            const double there[2] = {z[0] + step[0], z[1] + step[1]};
            rows = mh_rows_at(at->on, there, 1);
            if (is_finite(&rows) && density_of(&rows, there) > before) {
                mh_copy_to(z, there, 2);
                break;
            }
            step[0] *= 0.5;
            step[1] *= 0.5;
            rows.value = NAN;
        }
    }
    return MH_NO_ENVELOPE;
}

/* Bound along an axis between two ends, from the slope of the rows there and their point: an exponential
 * that falls from one end. Returns what it adds to the height at that end. */
static double bound_axis(const plane *at, int64_t k, const double *ends, double point, double slope,
                         rectangle *out)
{
    const double least = MIN_SLOPE / at->sd[k];
    double tangent = point;
    if (ends[1] == INFINITY)
        tangent = mh_larger(tangent, slope + least);
    if (ends[0] == -INFINITY)
        tangent = mh_smaller(tangent, slope - least);
    const double total = slope - tangent;
    const int64_t from = total > 0.0;
    out->start[k] = ends[from];
    out->side[k] = from ? -1.0 : 1.0;
    out->length[k] = ends[1] - ends[0];
    out->rate[k] = fabs(total);
    return slope * (ends[from] - point) + 0.5 * tangent * tangent - tangent * ends[from];
}

/* Add the rectangle of point (i, j) of a grid of n x n. */
static mh_status add_rectangle(plane *at, int64_t n, double spacing, const int64_t *numbers)
{
    double point[2], ends[2][2];
    rectangle *out = at->cells + at->n_cells++;
    for (int64_t k = 0; k < 2; k++) {
        const double unit = spacing * at->sd[k], from = 0.5 * (double)(n - 1);
        const double number = (double)numbers[k] - from;
        point[k] = at->mode[k] + unit * number;
        ends[k][0] = numbers[k] > 0 ? at->mode[k] + unit * (number - 0.5) : -INFINITY;
        ends[k][1] = numbers[k] < n - 1 ? at->mode[k] + unit * (number + 0.5) : INFINITY;
    }
    mh_row_sum rows = rows_at_axes(at, point, 1);
    const double least = at->value - MAX_FALL;
    for (int64_t j = 0; j < MAX_HALVINGS && !(is_finite(&rows) && rows.value > least); j++) {
        for (int64_t k = 0; k < 2; k++)
            point[k] = 0.5 * (point[k] + at->mode[k]);
        rows = rows_at_axes(at, point, 1);
    }
    if (!is_finite(&rows))
        return MH_NO_ENVELOPE;
    out->height = rows.value;
    for (int64_t k = 0; k < 2; k++)
        out->height += bound_axis(at, k, ends[k], point[k], rows.slope[k], out);
    at->top = mh_larger(at->top, out->height);
    return MH_OK;
}

static mh_status build_grid(plane *at, int64_t n)
{
    const double spacing = SPACING * pow(2.0 / (double)(n - 1), FINENESS);
    at->n_cells = 0;
    at->top = -INFINITY;
    at->total = 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            MH_TRY(add_rectangle(at, n, spacing, (const int64_t[2]){i, j}));
    for (rectangle *cell = at->cells; cell < at->cells + at->n_cells; cell++) {
        cell->mass = exp(cell->height - at->top);
        for (int64_t k = 0; k < 2; k++)
            cell->mass *= mh_width_of_fall(cell->rate[k], cell->length[k]);
        at->total += cell->mass;
    }
    return at->total > 0.0 && isfinite(at->total) ? MH_OK : MH_NO_ENVELOPE;
}

/* Draw y below the bounds, and return the logarithm of the bound there. */
static double draw_below(const plane *at, double *y)
{
    double rest = mh_uniform(at->on->rng) * at->total;
    const rectangle *cell = at->cells, *last = cell + at->n_cells - 1;
    while (cell < last && rest >= cell->mass)
        rest -= cell++->mass;
    double height = cell->height;
    for (int64_t k = 0; k < 2; k++) {
        const double u = mh_uniform(at->on->rng);
        const double distance = mh_quantile_of_fall(cell->rate[k], cell->length[k], u);
        y[k] = cell->start[k] + cell->side[k] * distance;
        height -= cell->rate[k] * distance;
    }
    return height;
}

mh_status mh_draw_in_plane(const mh_drawing *on, int64_t g, double *effects, int64_t *trials,
                           mh_arena *scratch)
{
    MH_SCOPE(scratch);
    const int64_t n_nodes = on->groups->n_nodes;
    const double *nodes = on->groups->nodes + 2 * g * n_nodes + n_nodes / 2;
    plane at = {.on = on, .mode = {nodes[0], nodes[n_nodes]}};
    at.cells = mh_take(scratch, LAST_GRID * LAST_GRID, rectangle);
    MH_NEED(at.cells);
    MH_TRY(find_axes(&at));
    for (int64_t k = 0, n = FIRST_GRID; k < MH_MAX_TRIALS; k++) {
        double y[2];
        if (k == 0)
            MH_TRY(build_grid(&at, n));
        else if (k % TRIALS_OF_GRID == 0 && n < LAST_GRID)
            MH_TRY(build_grid(&at, n = 2 * n - 1));
        const double height = draw_below(&at, y);
        const mh_row_sum rows = rows_at_axes(&at, y, 0);
        const double value = density_of(&rows, y);
        ++*trials;
        if (mh_is_above(value, height))
            return MH_NO_ENVELOPE;
        if (on->rng->standard_exponential(on->rng->bits) >= height - value) {
            effects[0] = at.cosine * y[0] - at.sine * y[1];
            effects[1] = at.sine * y[0] + at.cosine * y[1];
            return MH_OK;
        }
    }
    return MH_NO_ENVELOPE;
}
