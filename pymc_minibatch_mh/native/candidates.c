/* Candidates: rows drawn at rates whose total is known without evaluating any row.
 *
 * Part p of row i (parts.c) has x_ip = s_i |w| or |z_if e_f|, at both ends. By Minkowski's
 * inequality
 *
 *     sum over i of (sum over p of x_ip)^3 + (sum of x_ip')^3 <= A^3,
 *     A = sum over p of P_p^(1/3),    P_p = sum over i of x_ip^3 + x_ip'^3,
 *
 * and by Hoelder's, with a and b computed as A from the parts of d_i and of max(x_i, x_i'),
 *
 *     sum over i of d_i max(x_i, x_i')^2 <= a b^2.
 *
 * Thinning bounds therefore add up to at most A^3/6 or a b^2/2; the smaller one is the total rate.
 * Candidates come from superposed Poisson processes: one for the cubes of both ends, or one for the
 * step (a third of the rate) and one for the farther end. Each draws a part p, then row i with
 * probability proportional to its cube in P_p. For a factor, P_f is the sum of C_g |e_g|^3 over its
 * levels g, and C_g the sum of |z_i|^3 over the rows of g: a level is drawn, then one of its rows.
 * A candidate is kept with probability phi_i over its rate, by look-up tables, before its data are
 * read: kept rows are independent Poisson counts of mean kappa phi_i, whatever the total rate. */
#include "inside.h"

/* Cubes of a change from x to y. ENDS: |x|^3 + |y|^3; WAY: |y - x|^3; FARTHER: the larger end's. */
enum { ENDS, WAY, FARTHER, KINDS };

/* Safety factor of a rate: exceeds 1 by far more than rounding errors. */
#define ROUNDING (1.0 + 1e-10)

static double cube_of(int64_t kind, double one, double other)
{
    const double here = fabs(one), there = fabs(other);
    if (kind == ENDS)
        return mh_cube(here) + mh_cube(there);
    return mh_cube(kind == WAY ? fabs(other - one) : mh_larger(here, there));
}

static double cube_of_border(int64_t kind, const double *border)
{
    return kind == WAY ? mh_cube(border[2]) : cube_of(kind, border[0], border[1]);
}

/* Write sums of cubes of each kind: for the common effects, then for each factor, (3, F + 1).
 * Levels beyond their radii are left out of the sums, and listed in `outside`. */
static void sum_cubes(const mh_parts *parts, const mh_part_ends *ends, double *sums,
                      int64_t *outside)
{
    const int64_t count = parts->n_factors + 1;
    int64_t n = 0;
    for (int64_t kind = 0; kind < KINDS; kind++)
        sums[kind * count] = parts->border_cubes * cube_of_border(kind, ends->border);
    for (int64_t f = 0; f < parts->n_factors; f++) {
        const int64_t low = parts->first[f], high = parts->first[f + 1];
        double cubes[KINDS + 1];
        mh_sum_cubes_within(parts->cubes + low, parts->radii + low, ends->here + low,
                            ends->there + low, high - low, cubes);
        for (int64_t kind = 0; kind < KINDS; kind++)
            sums[kind * count + 1 + f] = cubes[kind];
        for (int64_t g = low; cubes[KINDS] < (double)(high - low) && g < high; g++)
            if (!mh_is_within(parts, ends, g))
                outside[++n] = g;
    }
    outside[0] = n;
}

/* For each factor, write running sums over levels g of C_g times cube_of(kind, ...), shape (L,). */
static void run_through(const mh_parts *parts, const mh_part_ends *ends, int64_t kind,
                        double *running)
{
    for (int64_t f = 0; f < parts->n_factors; f++) {
        double total = 0.0;
        for (int64_t g = parts->first[f]; g < parts->first[f + 1]; g++) {
            if (mh_is_within(parts, ends, g))
                total += parts->cubes[g] * cube_of(kind, ends->here[g], ends->there[g]);
            running[g] = total;
        }
    }
}

/* Write chances and units of one process (see mh_rates); `total` is the sum of cube roots. */
static void fill_chances(const double *sums, int64_t count, int64_t kind, double total,
                         double *chances, double *units)
{
    const double whole = kind == ENDS ? 1.0 : (1.0 + (kind == FARTHER)) / 3.0;
    for (int64_t p = 0; p < count; p++) {
        const double root = cbrt(sums[p]);
        chances[p] = whole * root / total;
        units[p] = root > 0.0 ? whole / (root * root * total) : 0.0;
    }
}

mh_status mh_find_rates(const mh_parts *parts, const mh_part_ends *ends, mh_rates *rates,
                        int64_t *outside, double *limit, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    const int64_t count = parts->n_factors + 1, size = parts->first[parts->n_factors];
    double *sums = mh_take(scratch, KINDS * count, double), roots[KINDS] = {0.0};
    MH_NEED(sums);
    sum_cubes(parts, ends, sums, outside);
    for (int64_t kind = 0; kind < KINDS; kind++)
        for (int64_t p = 0; p < count; p++)
            roots[kind] += cbrt(sums[kind * count + p]);
    const double by_ends = mh_cube(roots[ENDS]) / 6.0;
    const double by_way = 0.5 * roots[WAY] * mh_square(roots[FARTHER]);
    rates->kinds[0] = by_ends <= by_way ? ENDS : WAY;
    rates->kinds[1] = by_ends <= by_way ? -1 : FARTHER;
    *limit = mh_smaller(by_ends, by_way) * ROUNDING;
    for (int64_t k = 0; k < 2; k++) {
        const int64_t kind = rates->kinds[k];
        double *chances = rates->chances + k * count, *units = rates->units + k * count;
        if (kind < 0 || !(*limit > 0.0)) {
            mh_fill(chances, count, 0.0);
            mh_fill(units, count, 0.0);
            continue;
        }
        fill_chances(sums + kind * count, count, kind, roots[kind], chances, units);
        run_through(parts, ends, kind, rates->running + k * size);
    }
    return MH_OK;
}

/* First index from `low` on, and before `high`, at which the ascending sums exceed `value`. */
static int64_t first_above(const double *sums, int64_t low, int64_t high, double value)
{
    MH_BISECT(low, high, !(sums[middle - 1] > value))
    return low;
}

/* Like first_above, but search from index `near`, near the result, to touch few cache lines. */
static int64_t first_above_near(const double *sums, int64_t low, int64_t high, double value,
                                int64_t near)
{
    int64_t step = 1;
    if (sums[near] > value) {
        while (near - step >= low && sums[near - step] > value)
            step *= 2;
        return first_above(sums, mh_max(low, near - step), mh_min(high, near + 1), value);
    }
    while (near + step < high && !(sums[near + step] > value))
        step *= 2;
    return first_above(sums, mh_min(near + 1, high - 1), mh_min(high, near + step + 1), value);
}

/* A candidate before its row is located: search for `value` among the running sums of a level, from
 * `low` to `high`, starting `near`; or, if `high` is -1, use entry `near` of the alias table. */
typedef struct sought {
    int64_t low, high, near;
    double value;
} sought;

/* Draw the process and the part of a candidate; if rounding leaves a remainder, take the last part
 * of positive probability. */
static void draw_part(const mh_parts *parts, const mh_rates *rates, const mh_generator *rng,
                      int64_t *process, int64_t *part)
{
    const int64_t count = parts->n_factors + 1;
    double left = mh_uniform(rng);
    *process = *part = 0;
    for (int64_t i = 0; i < 2 * count && left >= 0.0; i++) {
        if (!(rates->chances[i] > 0.0))
            continue;
        *process = i >= count;
        *part = i - *process * count;
        left -= rates->chances[i];
    }
}

/* Draw a candidate's part, its level and a value that selects its row; prefetch the tables. */
static sought seek(const mh_parts *parts, const mh_rates *rates, const mh_generator *rng)
{
    int64_t process, part;
    draw_part(parts, rates, rng, &process, &part);
    if (part == 0) {
        const int64_t row = mh_integer_below(rng, parts->n_rows);
        mh_prefetch(parts->thresholds + row);
        mh_prefetch(parts->aliases + row);
        return (sought){0, -1, row, mh_uniform(rng)};
    }
    const int64_t low = parts->first[part - 1], high = parts->first[part];
    const double *running = rates->running + process * parts->first[parts->n_factors];
    const int64_t g = first_above(running, low, high, mh_uniform(rng) * running[high - 1]);
    const int64_t start = parts->starts[g], stop = parts->starts[g + 1];
    const double share = mh_uniform(rng);
    const int64_t near = start + (int64_t)(share * (double)(stop - start));
    mh_prefetch(parts->running + near);
    mh_prefetch(parts->rows + near);
    return (sought){start, stop, near, share * parts->cubes[g]};
}

static int64_t row_of(const mh_parts *parts, sought one)
{
    if (one.high < 0)
        return one.value < parts->thresholds[one.near] ? one.near : parts->aliases[one.near];
    const double *running = parts->running;
    return parts->rows[first_above_near(running, one.low, one.high, one.value, one.near)];
}

/* Prefetch tables for all candidates before locating the first, so that cache misses overlap. */
void mh_draw_candidates(const mh_parts *parts, const mh_rates *rates, const mh_generator *rng,
                        int64_t n, int64_t *rows, double *chances)
{
    sought all[MH_AHEAD];
    for (int64_t i = 0; i < n; i++) {
        all[i] = seek(parts, rates, rng);
        chances[i] = mh_uniform(rng);
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = rows[i] = row_of(parts, all[i]);
        mh_prefetch(parts->border + row);
        mh_prefetch(parts->weights + row * parts->n_factors);
        mh_prefetch(parts->elements + row * parts->n_factors);
    }
}

/* Probability that a candidate is this row, over all processes and parts. */
static double chance_of_row(const mh_parts *parts, const mh_part_ends *ends, const mh_rates *rates,
                            int64_t row)
{
    const int64_t n = parts->n_factors;
    const int32_t *elements = parts->elements + row * n;
    const double *weights = parts->weights + row * n, s = parts->border[row];
    double chance = 0.0;
    for (int64_t k = 0; k < 2 && rates->kinds[k] >= 0; k++) {
        const int64_t kind = rates->kinds[k];
        const double *units = rates->units + k * (n + 1);
        chance += units[0] * s * s * s * cube_of_border(kind, ends->border);
        for (int64_t f = 0; f < n; f++) {
            const int64_t g = elements[f];
            if (g < 0)
                continue;
            const double z = fabs(weights[f]);
            chance += units[1 + f] * (z * z * z * cube_of(kind, ends->here[g], ends->there[g]));
        }
    }
    return chance;
}

double mh_share_of_candidates(const mh_parts *parts, const mh_part_ends *ends,
                              const mh_rates *rates, double limit, int64_t row)
{
    const double rate = limit * chance_of_row(parts, ends, rates, row);
    return rate > 0.0 ? mh_ceiling(parts, ends, row) / rate : 0.0;
}
