/* Tables of bounds |dU_i| <= c_i M over nested regions, and the choice of one for a proposal.
 *
 * M is computed from a proposal without its components in the null space of the likelihood. If each
 * group of rows depends on few directions only, M is the maximum over groups. All sizes are
 * symmetric in the two positions. */
#include "inside.h"

/* Safety factor of distances from the centre: exceeds 1 by far more than rounding errors. */
static const double OUTSIDE = 1.0 + 1e-12;

/* Inner products of a proposal, and of its projection for each group of rows, if there are any. */
typedef struct {
    mh_products dots;
    double low, high; /* of the products of both ends with the vector `along` */
    int64_t n_groups;
    const mh_products *groups;
} seen;

/* Whitened vector without its components in the null space of the likelihood. */
static double *read_part(const mh_bounds *bounds, const double *vector, int64_t size,
                         mh_arena *scratch)
{
    double *out = mh_take(scratch, size, double);
    if (out)
        mh_copy_to(out, vector, size);
    for (int64_t k = 0; out && k < bounds->n_unread; k++) {
        const double *direction = bounds->unread + k * size;
        const double along = -mh_inner(direction, vector, size);
        for (int64_t i = 0; i < size; i++)
            out[i] += along * direction[i];
    }
    return out;
}

/* Write a proposal's inner products after removing the null space of the likelihood. */
static mh_status products_of_read(const mh_bounds *bounds, const mh_move *move, int64_t size,
                                  mh_products *out, mh_arena *scratch)
{
    const mh_move read = {.here = read_part(bounds, move->here, size, scratch),
                          .there = read_part(bounds, move->there, size, scratch),
                          .step = read_part(bounds, move->step, size, scratch)};
    MH_NEED(read.here && read.there && read.step);
    mh_products_of_move(&read, size, out);
    return MH_OK;
}

/* Add the squares and products of a proposal's components along n directions. */
static void add_along(const double *directions, int64_t n, const mh_move *move, int64_t size,
                      mh_products *out)
{
    for (int64_t k = 0; k < n; k++) {
        const double *direction = directions + k * size;
        const double a = mh_inner(direction, move->here, size);
        const double other = mh_inner(direction, move->there, size);
        const double b = mh_inner(direction, move->step, size);
        mh_add_products_of(a, other, b, out);
    }
}

/* Write dot products of each group, and the largest squared lengths of both ends over groups. */
static mh_status products_of_groups(const mh_bounds *bounds, const mh_move *move, int64_t size,
                                    seen *out, mh_arena *scratch)
{
    MH_VECTOR(mh_products, groups, scratch, bounds->n_groups);
    mh_products common = {0};
    add_along(bounds->shared, bounds->n_shared, move, size, &common);
    out->dots = (mh_products){0};
    for (int64_t g = 0; g < bounds->n_groups; g++) {
        groups[g] = common;
        add_along(bounds->own + g * bounds->each * size, bounds->each, move, size, groups + g);
        out->dots.here = mh_larger(out->dots.here, groups[g].here);
        out->dots.there = mh_larger(out->dots.there, groups[g].there);
    }
    out->n_groups = bounds->n_groups;
    out->groups = groups;
    return MH_OK;
}

/* Separate both ends into their products with a unit vector and the squared lengths of the rest. */
static void split_ends(const double *along, const mh_move *move, int64_t size, seen *out)
{
    const double here = mh_inner(along, move->here, size), there = mh_inner(along, move->there, size);
    out->low = mh_smaller(here, there);
    out->high = mh_larger(here, there);
    out->dots.here = mh_larger(0.0, mh_inner(move->here, move->here, size) - here * here);
    out->dots.there = mh_larger(0.0, mh_inner(move->there, move->there, size) - there * there);
}

static mh_status see(const mh_bounds *bounds, const mh_reference *reference, const mh_move *move,
                     seen *out, mh_arena *scratch)
{
    const int64_t size = reference->size;
    *out = (seen){0};
    if (bounds->along) {
        split_ends(bounds->along, move, size, out);
        return MH_OK;
    }
    if (bounds->n_groups)
        return products_of_groups(bounds, move, size, out, scratch);
    if (bounds->n_unread)
        return products_of_read(bounds, move, size, &out->dots, scratch);
    mh_products_of_move(move, size, &out->dots);
    return MH_OK;
}

/* Size M of a proposal; if rows have groups, the maximum of M over the groups. */
static double largest_size(const seen *move, int64_t order, int64_t kind)
{
    if (!move->n_groups)
        return mh_size_of_move(&move->dots, order, kind);
    double largest = 0.0;
    for (int64_t g = 0; g < move->n_groups; g++)
        largest = mh_larger(largest, mh_size_of_move(move->groups + g, order, kind));
    return largest;
}

/* Size M by a user's metric: the larger of the forward and the reverse size. */
static double given_size(mh_metric metric, const mh_move *move, int64_t size)
{
    const double forth = metric(move->position, move->new, size);
    const double back = metric(move->new, move->position, size);
    /* Without a bound in one direction M is infinite in both: all rows are evaluated. */
    return forth >= 0.0 && back >= 0.0 ? mh_larger(forth, back) : INFINITY;
}

static double size_by(const mh_bounds *bounds, int64_t kind, const mh_move *move, const seen *part,
                      const mh_reference *reference)
{
    if (kind == MH_GIVEN)
        return given_size(bounds->metric, move, reference->size);
    return largest_size(part, reference->order, kind);
}

mh_status mh_smallest_table(const mh_bounds *bounds, const mh_reference *reference,
                            const mh_move *move, int64_t *table, double *m, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    seen part;
    MH_TRY(see(bounds, reference, move, &part, scratch));
    const double outer = sqrt(mh_larger(part.dots.here, part.dots.there)) * OUTSIDE;
    double best_size = INFINITY, best_m = INFINITY, m_k = INFINITY;
    int64_t known = -1; /* kind of table for which m_k was computed: reuse m_k */
    *table = -1;
    for (int64_t k = 0; k < bounds->n_tables; k++) {
        const mh_table *candidate = bounds->tables + k;
        if (!(outer <= candidate->radius && candidate->low <= part.low &&
              part.high <= candidate->high))
            continue;
        if (candidate->kind != known)
            m_k = size_by(bounds, candidate->kind, move, &part, reference);
        known = candidate->kind;
        if (candidate->total * m_k < best_size) {
            *table = k;
            best_size = candidate->total * m_k;
            best_m = m_k;
        }
    }
    *m = reference->relative * best_m;
    return MH_OK;
}

mh_status mh_draw_rows(const mh_generator *rng, const mh_bounds *bounds, int64_t table, int64_t n,
                       int64_t *rows)
{
    if (bounds->supply.room > 0)
        return mh_take_rows(&bounds->supply, table, n, rows);
    const mh_table *candidate = bounds->tables + table;
    mh_draw_alias(rng, bounds->n_drawn, candidate->thresholds, candidate->aliases, n, rows);
    return MH_OK;
}

void mh_ask_for_bounds(const mh_table *table, const int64_t *drawn, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        mh_prefetch(table->c + drawn[i]);
}

/* Choose the table as mh_smallest_table does, for a proposal from `position` to `new_position`. */
mh_status mh_table_of_move(const mh_bounds *bounds, const mh_reference *reference,
                           double *position, double *new_position, int64_t *table, double *m,
                           mh_arena *scratch)
{
    MH_SCOPE(scratch);
    mh_move move;
    MH_TRY(mh_move_between(reference, position, new_position, &move, scratch));
    return mh_smallest_table(bounds, reference, &move, table, m, scratch);
}

mh_status mh_sizes_between(const mh_bounds *bounds, const mh_reference *reference, int64_t n,
                           double *ends, double *sizes, mh_arena *scratch)
{
    for (int64_t k = 0; k < n; k++) {
        double *position = ends + 2 * k * reference->size, m = INFINITY;
        int64_t table = -1;
        MH_TRY(mh_table_of_move(bounds, reference, position, position + reference->size, &table, &m,
                                scratch));
        sizes[k] = table >= 0 ? bounds->tables[table].total * m : INFINITY;
    }
    return MH_OK;
}
