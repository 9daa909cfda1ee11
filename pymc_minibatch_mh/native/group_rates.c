/* Rates of candidates that add up over groups of rows: each group has a table and a size of its own.
 *
 * Rows of a group depend on shared directions and on some of its own. Let w and e be the lengths of a
 * whitened position along the former and the latter. The unit direction of row i has components of
 * lengths f_i and h_i, so that its product with the position is at most x_i = f_i w + h_i e. With x_i'
 * at the other end, d_i the same for the step, and p one more than the order, the row changes by at
 * most c_i times the smaller one of
 *
 *     (x_i^p + x_i'^p)/p!    and    d_i max(x_i, x_i')^(p - 1)/(p - 1)!.
 *
 * For any weights 0 < l < 1 and t > 0, convexity and the inequality of means
 *
 *     (f w + h e)^p <= (f w)^p/l^(p - 1) + (h e)^p/(1 - l)^(p - 1),
 *     d m^(p - 1) <= (t^(p - 1) d^p + (p - 1) m^p/t)/p
 *
 * bound this by c_i (u f_i^p + v h_i^p): over a group's rows, sums of c_i f_i^p and of c_i h_i^p are known
 * in advance. They also give the l and t with the smallest total rate u sum c f^p + v sum c h^p.
 * All rates may be raised by a factor, as far as thinning bounds times kappa exceed them often.
 * A candidate is drawn by its group, by one of both summands, then by an alias table of the group. */
#include "inside.h"

/* Safety factors: of distances from the centre and of rates; both exceed rounding errors by far. */
static const double OUTSIDE = 1.0 + 1e-12, ROUNDING = 1.0 + 1e-10;
enum { HERE, THERE, STEP, SHARED = 0, OWN, PARTS };

static double power(double x, int64_t exponent)
{
    double result = 1.0;
    for (int64_t k = 0; k < exponent; k++)
        result *= x;
    return result;
}

/* Add squares of products of both ends and of the step with n directions. */
static void add_squares(const double *directions, int64_t n, const mh_move *move, int64_t size,
                        double squares[3])
{
    for (int64_t k = 0; k < n; k++, directions += size) {
        squares[HERE] += mh_square(mh_inner(directions, move->here, size));
        squares[THERE] += mh_square(mh_inner(directions, move->there, size));
        squares[STEP] += mh_square(mh_inner(directions, move->step, size));
    }
}

/* Write rates of a row of a group per unit of c_i times either share; return the group's rate. `lengths`
 * are w and e, of both ends and the step; `sums` is a line of mh_table.sums. */
static double rate_of_group(const double *sums, double lengths[PARTS][3], int64_t p, double *units)
{
    const double *roots = sums + PARTS;
    double most = 0.0, way = 0.0, farther[PARTS], factorial = 1.0;
    for (int k = 0; k < PARTS; k++) {
        farther[k] = mh_larger(lengths[k][HERE], lengths[k][THERE]);
        most += roots[k] * farther[k];
        way += roots[k] * lengths[k][STEP];
    }
    for (int64_t k = 2; k <= p; k++)
        factorial *= (double)k;
    double of_ends[PARTS] = {0.0}, of_way[PARTS] = {0.0}, by_ends = 0.0, by_way = 0.0;
    for (int k = 0; k < PARTS; k++) {
        if (!(roots[k] > 0.0 && farther[k] > 0.0))
            continue;
        const double scale = ROUNDING * power(most / roots[k], p - 1) / factorial;
        const double ends = power(lengths[k][HERE], p) + power(lengths[k][THERE], p);
        of_ends[k] = scale * ends / power(farther[k], p - 1);
        of_way[k] = scale * (lengths[k][STEP] + (double)(p - 1) * farther[k] * way / most);
        by_ends += of_ends[k] * sums[k];
        by_way += of_way[k] * sums[k];
    }
    memcpy(units, by_ends <= by_way ? of_ends : of_way, sizeof of_ends);
    return mh_smaller(by_ends, by_way);
}

/* Find the table of a group with the smallest rate; write units, and return the rate. */
static double find_rate(const mh_bounds *bounds, int64_t g, double lengths[PARTS][3], int64_t p,
                        int64_t *table, double *units)
{
    const double here = mh_square(lengths[SHARED][HERE]) + mh_square(lengths[OWN][HERE]);
    const double there = mh_square(lengths[SHARED][THERE]) + mh_square(lengths[OWN][THERE]);
    const double outer = sqrt(mh_larger(here, there)) * OUTSIDE;
    double best = INFINITY, own[PARTS];
    *table = -1;
    for (int64_t k = 0; k < bounds->n_tables; k++) {
        const mh_table *candidate = bounds->tables + k;
        if (!(outer <= candidate->radius))
            continue;
        /* Tables of larger radii have larger bounds. */
        if (*table >= 0 && candidate->radius > bounds->tables[*table].radius)
            break;
        const double rate = rate_of_group(candidate->sums + 2 * PARTS * g, lengths, p, own);
        if (!(rate < best))
            continue;
        best = rate;
        *table = k;
        memcpy(units, own, sizeof own);
    }
    return best;
}

mh_status mh_find_group_rates(const mh_bounds *bounds, const mh_reference *reference,
                              const mh_move *move, double factor, mh_group_rates *out,
                              mh_arena *scratch)
{
    const double raised = factor * reference->relative;
    const int64_t n = bounds->n_groups, size = reference->size;
    double squares[3] = {0.0}, lengths[PARTS][3];
    *out = (mh_group_rates){.bounds = bounds,
                            .tables = mh_take(scratch, n, int64_t),
                            .units = mh_take(scratch, PARTS * n, double),
                            .running = mh_take(scratch, n, double)};
    MH_NEED(out->tables && out->units && out->running);
    add_squares(bounds->shared, bounds->n_shared, move, size, squares);
    for (int k = 0; k < 3; k++)
        lengths[SHARED][k] = sqrt(squares[k]);
    for (int64_t g = 0; g < n; g++) {
        double own[3] = {0.0}, *units = out->units + PARTS * g;
        add_squares(bounds->own + g * bounds->each * size, bounds->each, move, size, own);
        for (int k = 0; k < 3; k++)
            lengths[OWN][k] = sqrt(own[k]);
        units[SHARED] = units[OWN] = 0.0;
        const double rate =
            find_rate(bounds, g, lengths, reference->order + 1, out->tables + g, units);
        for (int k = 0; k < PARTS; k++)
            units[k] *= raised;
        out->widest = mh_max(out->widest, out->tables[g]);
        out->total += rate * raised;
        out->running[g] = out->total;
    }
    return MH_OK;
}

const mh_table *mh_table_of_row(const mh_group_rates *rates, int64_t row)
{
    return rates->bounds->tables + rates->tables[rates->bounds->labels[row]];
}

double mh_size_in_group(const mh_group_rates *rates, int64_t row)
{
    const float *shares = rates->bounds->shares + PARTS * row, c = mh_table_of_row(rates, row)->c[row];
    const double *units = rates->units + PARTS * rates->bounds->labels[row];
    /* Products as alias tables have them, in single precision. */
    const double first = (double)(c * shares[SHARED]), second = (double)(c * shares[OWN]);
    return (units[SHARED] * first + units[OWN] * second) / (double)c;
}

/* Draw a group and a part of its rate; write the index of an entry of the part's alias tables. */
static const mh_table *draw_entry(const mh_group_rates *rates, const mh_generator *rng,
                                  int64_t *index, int64_t *entry)
{
    const mh_bounds *bounds = rates->bounds;
    const double value = mh_uniform(rng) * rates->total;
    int64_t g = 0, high = bounds->n_groups;
    MH_BISECT(g, high, !(rates->running[middle - 1] > value))
    const mh_table *table = bounds->tables + rates->tables[g];
    const double left = g > 0 ? value - rates->running[g - 1] : value;
    const double *units = rates->units + PARTS * g, *sums = table->sums + 2 * PARTS * g;
    const double relative = units[SHARED] * sums[SHARED];
    const int part = !(left < relative) && units[OWN] * sums[OWN] > 0.0;
    *index = bounds->starts[g] + mh_integer_below(rng, bounds->starts[g + 1] - bounds->starts[g]);
    *entry = *index + part * bounds->n_drawn;
    return table;
}

void mh_draw_of_groups(const mh_group_rates *rates, const mh_generator *rng, int64_t n,
                       int64_t *rows, double *sizes, double *chances)
{
    const mh_table *tables[MH_AHEAD];
    int64_t entries[MH_AHEAD];
    for (int64_t k = 0; k < n; k++) {
        tables[k] = draw_entry(rates, rng, rows + k, entries + k);
        chances[k] = mh_uniform(rng);
        mh_prefetch(tables[k]->thresholds + entries[k]);
        mh_prefetch(tables[k]->aliases + entries[k]);
        mh_prefetch(rates->bounds->members + rows[k]);
    }
    for (int64_t k = 0; k < n; k++) {
        const double threshold = tables[k]->thresholds[entries[k]];
        const int is_kept = chances[k] < threshold;
        rows[k] = is_kept ? rates->bounds->members[rows[k]] : tables[k]->aliases[entries[k]];
        /* The rescaled number is uniform again. */
        chances[k] = is_kept ? chances[k] / threshold : (chances[k] - threshold) / (1.0 - threshold);
        mh_prefetch(tables[k]->c + rows[k]);
        mh_prefetch(rates->bounds->shares + PARTS * rows[k]);
        mh_prefetch(rates->bounds->labels + rows[k]);
    }
    for (int64_t k = 0; k < n; k++)
        sizes[k] = mh_size_in_group(rates, rows[k]);
}
