/* Nodes of groups with their derivatives, sums of the groups' derivatives, and bounds.
 *
 * Derivatives are in coordinates w of theta = centre + factor w: see groups.c for the notation. */
#include "groups.h"

/* Relative rounding error of a difference of log-likelihoods, with its derivatives: 1e-16 times the
 * number of terms. */
static const double ROUNDING = 1e-12;

/* Sums over rows, with derivatives in coordinates w of theta = centre + factor w. */
typedef struct node_sums {
    const mh_groups *groups;
    const double *nodes; /* z of this group, (q, n_nodes) */
    const double *whole; /* factor, (d, d); NULL for the identity */
    int64_t *is_read;    /* whether the group depends on each coordinate, (d,) */
    double *factor;      /* of this group, with lines of zeros for the effects, (d + q, size) */
    double *directions;  /* scratch, (d, d) */
    double *location;    /* derivatives of the effects' location, (q, size) */
    double *vectors;     /* position without effects, and unit effects, (1 + q, d + q) */
    mh_scale_value *scales;
    double *effects, *turns; /* at each node: effects, (q, n_nodes), their derivatives, (.., d) */
    double *bends;           /* sums of f_a c_a at each node, (q, n_nodes) */
    double *forms, *along, *matrix;
    int64_t orders; /* 0, 1 or 2: derivatives to sum; 3: third derivatives alone */
    mh_nodes *out;
} node_sums;

/* Whitened derivative of the coordinate of an entry of the effects' factor, (d,). */
static const double *line_of_scale(const node_sums *sums, int64_t e)
{
    return sums->factor + sums->groups->scales[e].coordinate * sums->out->size;
}

/* Write derivatives v_a of a row's predictors at a node, (m, d). */
static void write_along(const node_sums *sums, const double *unit, int64_t m, int64_t q)
{
    const int64_t size = sums->out->size, n = sums->out->n_nodes;
    for (int64_t a = 0; a < m; a++) {
        mh_copy_to(sums->along + a * size, sums->forms + a * size, size);
        for (int64_t k = 0; k < sums->groups->n_effects; k++)
            mh_add_times(sums->along + a * size, unit[k * m + a],
                         sums->turns + (k * n + q) * size, size);
    }
}

static void add_slopes(const node_sums *sums, const double *slopes, const double *unit, int64_t m,
                       int64_t q)
{
    const int64_t size = sums->out->size;
    double *gradient = sums->out->gradients + q * size;
    double *hessian = sums->out->hessians + q * size * size;
    for (int64_t a = 0; a < m; a++) {
        const double *one = sums->along + a * size;
        for (int64_t k = 0; k < sums->groups->n_effects; k++)
            sums->bends[k * sums->out->n_nodes + q] += slopes[1 + a] * unit[k * m + a];
        for (int64_t j = 0; j < size; j++)
            gradient[j] += slopes[1 + a] * one[j];
        for (int64_t b = 0; sums->orders > 1 && b < m; b++) {
            const double *other = sums->along + b * size, slope = slopes[mh_second(m, a, b)];
            for (int64_t j = 0; j < size; j++)
                for (int64_t k = 0; k <= j; k++)
                    hessian[j * size + k] += slope * one[j] * other[k];
        }
    }
}

/* Number of a third derivative f_abc among those with a <= b <= c. */
static int64_t number_of_third(int64_t m, int64_t a, int64_t b, int64_t c)
{
    int64_t number = 0, at[3] = {mh_min(a, mh_min(b, c)), 0, mh_max(a, mh_max(b, c))};
    at[1] = a + b + c - at[0] - at[2];
    for (int64_t k = 0; k < at[0]; k++)
        number += (m - k) * (m - k + 1) / 2;
    for (int64_t k = at[0]; k < at[1]; k++)
        number += m - k;
    return number + at[2] - at[1];
}

/* Add sum_a v_a M_a, with M_a = sum_bc f_abc v_b v_c, weighted, for j >= k >= l. */
static void add_third(const node_sums *sums, const double *thirds, int64_t m, double share)
{
    const int64_t size = sums->out->size;
    double *bend = sums->matrix;
    for (int64_t a = 0; a < m; a++) {
        const double *first = sums->along + a * size;
        mh_fill(bend, size * size, 0.0);
        for (int64_t b = 0; b < m; b++)
            for (int64_t c = 0; c < m; c++) {
                const double by = share * thirds[number_of_third(m, a, b, c)];
                const double *x = sums->along + b * size, *y = sums->along + c * size;
                for (int64_t k = 0; by != 0.0 && k < size; k++)
                    for (int64_t l = 0; l <= k; l++)
                        bend[k * size + l] += by * x[k] * y[l];
            }
        for (int64_t j = 0; j < size; j++)
            for (int64_t k = 0; first[j] != 0.0 && k <= j; k++)
                for (int64_t l = 0; l <= k; l++)
                    sums->out->third[(j * size + k) * size + l] += first[j] * bend[k * size + l];
    }
}

static void add_to_nodes(mh_row_block *block, void *state)
{
    const node_sums *sums = state;
    const mh_term *term = block->term;
    const int64_t m = term->n_arguments, count = block->n * block->n_nodes;
    const int64_t thirds = sums->orders == 3;
    const int64_t width = thirds ? m * (m + 1) * (m + 2) / 6
                                 : sums->orders > 0 ? mh_width_of_slopes(m) : 1;
    mh_write_inputs(block, 0, sums->effects);
    (thirds ? term->thirds : sums->orders > 0 ? term->slopes : term->values)(
        block->inputs, block->outputs, count);
    for (int64_t i = 0, j = 0; i < block->n; i++) {
        const double *unit = mh_units(block, mh_line(block, i));
        if (sums->orders > 0)
            mh_whiten_forms(term, &block->forms, i, sums->factor, sums->out->size, sums->forms);
        for (int64_t q = 0; q < block->n_nodes; q++, j++) {
            const double *found = block->outputs + j * width;
            if (!thirds)
                sums->out->values[q] += found[0];
            if (sums->orders == 0 || (thirds && !(sums->out->shares[q] > 0.0)))
                continue;
            write_along(sums, unit, m, q);
            if (thirds)
                add_third(sums, found, m, sums->out->shares[q]);
            else
                add_slopes(sums, found, unit, m, q);
        }
    }
}

static void add_square(const double *vector, double weight, int64_t size, double *matrix)
{
    for (int64_t j = 0; j < size; j++)
        for (int64_t k = 0; k <= j; k++)
            matrix[j * size + k] += weight * vector[j] * vector[k];
}

static void mirror_hessians(const node_sums *sums)
{
    const int64_t size = sums->out->size, n = sums->out->n_nodes;
    for (int64_t q = 0; q < n; q++) {
        double *hessian = sums->out->hessians + q * size * size;
        for (int64_t e = 0; e < sums->groups->n_scales; e++) {
            const mh_scale *at = sums->groups->scales + e;
            const double bend = sums->bends[at->row * n + q] * sums->scales[e].second *
                                sums->nodes[at->column * sums->groups->n_nodes + q];
            add_square(line_of_scale(sums, e), bend, size, hessian);
        }
        for (int64_t j = 0; j < size; j++)
            for (int64_t k = 0; k < j; k++)
                hessian[k * size + j] = hessian[j * size + k];
    }
}

static void mirror_third(double *third, int64_t size)
{
#define AT(j, k, l) third[((j) * size + (k)) * size + (l)]
    for (int64_t j = 0; j < size; j++)
        for (int64_t k = 0; k <= j; k++)
            for (int64_t l = 0; l <= k; l++)
                AT(j, l, k) = AT(k, j, l) = AT(k, l, j) = AT(l, j, k) = AT(l, k, j) = AT(j, k, l);
#undef AT
}

/* Set the number of whitened coordinates, with the derivatives of the effects' location. */
static void set_size(node_sums *sums, int64_t size)
{
    const mh_groups *groups = sums->groups;
    sums->out->size = size;
    mh_fill(sums->location, groups->n_effects * size, 0.0);
    for (int64_t k = 0; k < groups->n_effects; k++)
        for (int64_t j = 0; j < groups->size; j++)
            mh_add_times(sums->location + k * size, groups->location[k * groups->size + j],
                         sums->factor + j * size, size);
}

/* Use a factor, or the identity if it is NULL, in all coordinates. */
static void use_factor(node_sums *sums, const double *factor, int64_t size)
{
    mh_fill(sums->factor, (size + sums->groups->n_effects) * size, 0.0);
    for (int64_t j = 0; j < size; j++) {
        if (factor)
            mh_copy_to(sums->factor + j * size, factor + j * size, size);
        else
            sums->factor[j * size + j] = 1.0;
    }
    set_size(sums, size);
}

/* Room for the nodes of a group, with derivatives in coordinates theta = centre + factor w; the
 * model's own coordinates if `factor` is NULL. */
static mh_status room_for_nodes(const mh_groups *groups, const double *factor, int64_t orders,
                                node_sums *sums, mh_nodes *out, mh_arena *scratch)
{
    const int64_t size = groups->size, n = groups->n_nodes, n_effects = groups->n_effects;
    const int64_t width = size + n_effects;
    int64_t m = 0;
    for (int64_t k = 0; k < groups->n_terms; k++)
        m = mh_max(m, groups->terms[k].n_arguments);
    *out = (mh_nodes){n, size, mh_take(scratch, n, double), mh_take(scratch, n, double),
                      mh_take(scratch, n * size, double), mh_take(scratch, n * size * size, double),
                      mh_take(scratch, orders > 2 ? size * size * size : 0, double)};
    *sums = (node_sums){.groups = groups, .whole = factor, .out = out};
    sums->is_read = mh_take(scratch, size, int64_t);
    sums->factor = mh_take(scratch, width * size, double);
    sums->directions = mh_take(scratch, factor ? size * size : 0, double);
    sums->location = mh_take(scratch, n_effects * size, double);
    sums->vectors = mh_take(scratch, (1 + n_effects) * width, double);
    sums->scales = mh_take(scratch, groups->n_scales, mh_scale_value);
    sums->effects = mh_take(scratch, n_effects * n, double);
    sums->turns = mh_take(scratch, n_effects * n * size, double);
    sums->bends = mh_take(scratch, n_effects * n, double);
    sums->forms = mh_take(scratch, m * size, double);
    sums->along = mh_take(scratch, m * size, double);
    sums->matrix = mh_take(scratch, orders > 2 ? size * size : 0, double);
    MH_NEED(out->values && out->shares && out->gradients && out->hessians && out->third);
    MH_NEED(sums->factor && sums->location && sums->vectors && sums->effects && sums->bends);
    MH_NEED(sums->forms && sums->along && sums->scales && sums->turns && sums->matrix);
    MH_NEED(sums->is_read && sums->directions);
    use_factor(sums, factor, size);
    return MH_OK;
}

/* Mark the coordinates that rows of a block depend on. */
static void mark_read(mh_row_block *block, void *state)
{
    const node_sums *sums = state;
    const mh_term *term = block->term;
    const int64_t d = sums->groups->size;
    for (int64_t i = 0; i < block->n; i++) {
        for (int64_t j = 0; j < term->n_fixed; j++)
            if (term->fixed_coordinates[j] < d && block->forms.fixed[i * term->n_fixed + j] != 0.0)
                sums->is_read[term->fixed_coordinates[j]] = 1;
        for (int64_t j = 0; j < term->n_chosen; j++)
            if (block->forms.places[i * term->n_chosen + j] < d)
                sums->is_read[block->forms.places[i * term->n_chosen + j]] = 1;
    }
}

/* Whitened coordinates of the coordinates that the group depends on, if these are fewer: their lines
 * of the factor are L Q, with orthonormal lines Q, and L is the factor in the coordinates Q w, which
 * are no longer than w. */
static mh_status whiten_group(node_sums *sums, int64_t g, mh_arena *scratch)
{
    const mh_groups *groups = sums->groups;
    const int64_t d = groups->size;
    int64_t size = 0, r = 0;
    for (int64_t j = 0; j < d; j++) {
        sums->is_read[j] = 0;
        for (int64_t k = 0; k < groups->n_effects; k++)
            sums->is_read[j] |= groups->location[k * d + j] != 0.0;
    }
    for (int64_t e = 0; e < groups->n_scales; e++)
        sums->is_read[groups->scales[e].coordinate] |= groups->scales[e].root != 0;
    MH_TRY(mh_visit_group(groups, g, sums->vectors, 1 + groups->n_effects, mark_read, sums, scratch));
    for (int64_t j = 0; j < d; j++)
        size += sums->is_read[j];
    if (size == d) {
        use_factor(sums, sums->whole, d);
        return MH_OK;
    }
    mh_fill(sums->factor, (d + groups->n_effects) * size, 0.0);
    for (int64_t j = 0; j < d; j++) {
        if (!sums->is_read[j])
            continue;
        double *left = sums->directions + r * d, *line = sums->factor + j * size;
        mh_copy_to(left, sums->whole + j * d, d);
        for (int64_t k = 0; k < r; k++) {
            line[k] = mh_inner(left, sums->directions + k * d, d);
            mh_add_times(left, -line[k], sums->directions + k * d, d);
        }
        line[r] = mh_length_of(left, d);
        for (int64_t k = 0; k < d; k++)
            left[k] = line[r] > 0.0 ? left[k] / line[r] : 0.0;
        r++;
    }
    set_size(sums, size);
    return MH_OK;
}

/* Place the nodes of a group at a position. */
static mh_status place_nodes(node_sums *sums, int64_t g, const double *theta, mh_arena *scratch)
{
    if (sums->whole)
        MH_TRY(whiten_group(sums, g, scratch));
    const mh_groups *groups = sums->groups;
    const int64_t d = groups->size, n = mh_nodes_of(groups, g), n_effects = groups->n_effects;
    const int64_t size = sums->out->size, width = d + n_effects;
    sums->out->n_nodes = n;
    mh_fill(sums->vectors, (1 + n_effects) * width, 0.0);
    mh_copy_to(sums->vectors, theta, d);
    sums->nodes = groups->nodes + g * n_effects * groups->n_nodes;
    mh_effects_at(groups, g, theta, sums->effects);
    for (int64_t k = 0; k < n_effects; k++) {
        sums->vectors[(1 + k) * width + d + k] = 1.0;
        for (int64_t q = 0; q < n; q++)
            mh_copy_to(sums->turns + (k * n + q) * size, sums->location + k * size, size);
    }
    for (int64_t e = 0; e < groups->n_scales; e++) {
        const mh_scale *at = groups->scales + e;
        sums->scales[e] = mh_scale_at(at, theta[at->coordinate]);
        for (int64_t q = 0; q < n; q++)
            mh_add_times(sums->turns + (at->row * n + q) * size,
                         sums->scales[e].first * sums->nodes[at->column * groups->n_nodes + q],
                         line_of_scale(sums, e), size);
    }
    return MH_OK;
}

/* Sum values and derivatives up to an order over the rows of a group. */
static mh_status sum_nodes(node_sums *sums, int64_t g, const double *theta, int64_t orders,
                           mh_arena *scratch)
{
    const mh_groups *groups = sums->groups;
    mh_nodes *out = sums->out;
    MH_TRY(place_nodes(sums, g, theta, scratch));
    const int64_t size = out->size, n = out->n_nodes;
    mh_write_weights(groups, g, out->values);
    mh_fill(sums->bends, groups->n_effects * n, 0.0);
    mh_fill(out->gradients, n * size, 0.0);
    mh_fill(out->hessians, orders > 1 ? n * size * size : 0, 0.0);
    sums->orders = mh_min(orders, 2);
    MH_TRY(mh_visit_group(groups, g, sums->vectors, 1 + groups->n_effects, add_to_nodes, sums, scratch));
    mh_log_of_sum(out->values, n, out->shares);
    if (orders > 1)
        mirror_hessians(sums);
    if (orders < 3)
        return MH_OK;
    mh_fill(out->third, size * size * size, 0.0);
    sums->orders = 3;
    MH_TRY(mh_visit_group(groups, g, sums->vectors, 1 + groups->n_effects, add_to_nodes, sums, scratch));
    mirror_third(out->third, size);
    return MH_OK;
}

/* Add value, gradient and Hessian of a group: E F' and E F'' + Cov F'. */
static void add_nodes(const mh_nodes *nodes, double *sums, double *hessian, double *mean)
{
    const int64_t size = nodes->size;
    mh_fill(mean, size, 0.0);
    for (int64_t q = 0; q < nodes->n_nodes; q++)
        for (int64_t j = 0; nodes->shares[q] > 0.0 && j < size; j++)
            mean[j] += nodes->shares[q] * nodes->gradients[q * size + j];
    for (int64_t j = 0; j < size; j++)
        sums[1 + j] += mean[j];
    for (int64_t q = 0; hessian && q < nodes->n_nodes; q++) {
        const double *gradient = nodes->gradients + q * size;
        const double *own = nodes->hessians + q * size * size, share = nodes->shares[q];
        for (int64_t j = 0; share > 0.0 && j < size; j++)
            for (int64_t k = 0; k < size; k++)
                hessian[j * size + k] += share * (own[j * size + k] + (gradient[j] - mean[j]) *
                                                                          (gradient[k] - mean[k]));
    }
}

mh_status mh_derivatives_of_groups(const mh_groups *groups, const double *theta,
                                   const int64_t *numbers, int64_t n, int64_t wants_hessian,
                                   double *sums, double *hessian, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    mh_nodes nodes;
    node_sums room;
    const int64_t orders = wants_hessian ? 2 : 1;
    MH_VECTOR(double, mean, scratch, groups->size);
    MH_TRY(room_for_nodes(groups, NULL, orders, &room, &nodes, scratch));
    for (int64_t i = 0; i < n; i++) {
        MH_TRY(sum_nodes(&room, numbers[i], theta, orders, scratch));
        sums[0] += mh_log_of_sum(nodes.values, nodes.n_nodes, nodes.shares);
        add_nodes(&nodes, sums, wants_hessian ? hessian : NULL, mean);
    }
    return MH_OK;
}

mh_status mh_values_of_nodes(const mh_groups *groups, const double *theta,
                             const int64_t *numbers, int64_t n, double *values, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    mh_nodes nodes;
    node_sums room;
    MH_TRY(room_for_nodes(groups, NULL, 0, &room, &nodes, scratch));
    for (int64_t i = 0; i < n; i++, values += groups->n_nodes) {
        const double *log_weights = groups->log_weights + numbers[i] * groups->n_nodes;
        MH_TRY(sum_nodes(&room, numbers[i], theta, 0, scratch));
        for (int64_t q = 0; q < groups->n_nodes; q++)
            values[q] = q < nodes.n_nodes ? nodes.values[q] : nodes.values[0] + log_weights[q];
        if (nodes.n_nodes < groups->n_nodes)
            values[0] += log_weights[0];
    }
    return MH_OK;
}

mh_status mh_tangents_at_nodes(const mh_groups *groups, const double *theta, int64_t first,
                               int64_t last, double *values, double *gradients, double *slopes,
                               mh_arena *scratch)
{
    MH_SCOPE(scratch);
    mh_nodes nodes;
    node_sums room;
    const int64_t n = groups->n_nodes, size = n * groups->size;
    MH_TRY(room_for_nodes(groups, NULL, 1, &room, &nodes, scratch));
    for (int64_t g = first; g < last; g++, values += n, slopes += n, gradients += size) {
        MH_TRY(sum_nodes(&room, g, theta, 1, scratch));
        mh_copy_to(values, nodes.values, n);
        mh_copy_to(slopes, room.bends, n);
        mh_copy_to(gradients, nodes.gradients, size);
    }
    return MH_OK;
}

/* ---- Bounds: see over_nodes.c. ---- */

/* Predictors of some groups' rows at all nodes. Arrays have entries (row, node, predictor) for each
 * term in turn; `next` is the next entry of each term. */
typedef struct node_entries {
    node_sums sums;
    int64_t *next, n_entries, n_kinds;
    double *values, *norms;
    const double *weights; /* (n_kinds, n_entries); NULL to write values and norms */
    double *matrices;      /* sums of weights v_a v_a', (n_kinds, n_nodes, d, d) */
} node_entries;

static void visit_entries(mh_row_block *block, void *state)
{
    node_entries *to = state;
    const node_sums *sums = &to->sums;
    const int64_t m = block->term->n_arguments, size = sums->out->size;
    int64_t *next = to->next + (block->term - sums->groups->terms);
    for (int64_t i = 0; i < block->n; i++) {
        const double *line = mh_line(block, i), *unit = mh_units(block, line);
        mh_whiten_forms(block->term, &block->forms, i, sums->factor, sums->out->size, sums->forms);
        for (int64_t q = 0; q < block->n_nodes; q++) {
            write_along(sums, unit, m, q);
            for (int64_t a = 0; a < m; a++, ++*next) {
                const double *along = sums->along + a * size;
                for (int64_t k = 0; k < to->n_kinds; k++)
                    add_square(along, to->weights[k * to->n_entries + *next], size,
                               to->matrices + (k * sums->groups->n_nodes + q) * size * size);
                if (to->n_kinds > 0)
                    continue;
                to->values[*next] = line[a];
                for (int64_t k = 0; k < sums->groups->n_effects; k++)
                    to->values[*next] +=
                        unit[k * m + a] * sums->effects[k * block->n_nodes + q];
                to->norms[*next] = sqrt(mh_inner(along, along, size));
            }
        }
    }
}

static mh_status room_for_entries(const mh_groups *groups, const double *factor,
                                  const int64_t *begins, node_entries *out, mh_nodes *nodes,
                                  mh_arena *scratch)
{
    MH_TRY(room_for_nodes(groups, factor, 0, &out->sums, nodes, scratch));
    out->next = mh_take(scratch, groups->n_terms, int64_t);
    MH_NEED(out->next);
    for (int64_t k = 0; k < groups->n_terms; k++)
        out->next[k] = begins[k];
    return MH_OK;
}

mh_status mh_place_nodes(const mh_groups *groups, const double *theta, const double *factor,
                         int64_t first, int64_t last, const int64_t *begins, double *values,
                         double *norms, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    mh_nodes nodes;
    node_entries to = {.values = values, .norms = norms};
    MH_TRY(room_for_entries(groups, factor, begins, &to, &nodes, scratch));
    for (int64_t g = first; g < last; g++) {
        MH_TRY(place_nodes(&to.sums, g, theta, scratch));
        MH_TRY(mh_visit_group(groups, g, to.sums.vectors, 1 + groups->n_effects, visit_entries, &to, scratch));
    }
    return MH_OK;
}

/* Frobenius norm of a symmetric matrix, of which the lower triangle is given. */
static double norm_of_lower(const double *matrix, int64_t size)
{
    double total = 0.0;
    for (int64_t j = 0; j < size; j++)
        for (int64_t k = 0; k <= j; k++)
            total += (j == k ? 1.0 : 2.0) * mh_square(matrix[j * size + k]);
    return sqrt(total);
}

mh_status mh_norms_of_nodes(const mh_groups *groups, const double *theta, const double *factor,
                            int64_t first, int64_t last, const int64_t *begins,
                            int64_t n_entries, int64_t n_kinds, const double *weights,
                            double *norms, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    mh_nodes nodes;
    node_entries to = {.n_entries = n_entries, .n_kinds = n_kinds, .weights = weights};
    MH_TRY(room_for_entries(groups, factor, begins, &to, &nodes, scratch));
    const int64_t n = groups->n_nodes, d = groups->size, count = last - first;
    to.matrices = mh_take(scratch, n_kinds * n * d * d, double);
    MH_NEED(to.matrices);
    for (int64_t g = 0; g < count; g++) {
        MH_TRY(place_nodes(&to.sums, first + g, theta, scratch));
        const int64_t size = nodes.size;
        mh_fill(to.matrices, n_kinds * n * size * size, 0.0);
        MH_TRY(mh_visit_group(groups, first + g, to.sums.vectors, 1 + groups->n_effects, visit_entries, &to, scratch));
        for (int64_t k = 0; k < n_kinds; k++)
            for (int64_t q = 0; q < n; q++)
                norms[(k * count + g) * n + q] =
                    norm_of_lower(to.matrices + (k * n + q) * size * size, size);
    }
    return MH_OK;
}

/* Bound of 6 |r(w)|/|w|^3 in the ball of the last of n ascending radii R,
 *
 *     integral over s from 0 to 1 of 3 (1 - s)^2 min(t(s R), b(s R)),
 *
 * with t(rho) the third derivative at the centre plus the integral of the fourth up to rho, and b(rho)
 * a bound of the third over the ball; both fourth and b are constant between radii. */
static double radial_bound(double middle, int64_t n, const double *radii, const double *third,
                           const double *fourth)
{
    const double whole = radii[n - 1];
    double total = 0.0, from = 0.0, t = middle;
    for (int64_t k = 0; k < n; from = radii[k++]) {
        const double rise = fourth[k] * (radii[k] - from);
        /* The line from t to t + rise, up to where it meets b. */
        const double part = rise > 0.0 ? (third[k] - t) / rise : INFINITY;
        const double until = from + mh_larger(0.0, mh_smaller(part, 1.0)) * (radii[k] - from);
        const double y0 = 1.0 - from / whole, y1 = 1.0 - until / whole, y2 = 1.0 - radii[k] / whole;
        if (until > from) {
            const double slope = fourth[k] * whole, start = t + slope * y0;
            total += start * (mh_cube(y0) - mh_cube(y1)) -
                     0.75 * slope * (mh_cube(y0) * y0 - mh_cube(y1) * y1);
        }
        if (until < radii[k])
            total += third[k] * (mh_cube(y1) - mh_cube(y2));
        t += rise;
    }
    return total * (1.0 + 1e-9);
}

/* Control variates P of a group that are quadratic in coordinates x: those of theta, but for entry k,
 * if k is not negative, which is the square of theta_k. Along a line v, with y = s.v the change of
 * theta_k,
 *
 *     D^3 P = 6 y^2 bend.v,   D^4 P = 12 h y^4,   h the second derivative in x_k. */
typedef struct control {
    const mh_groups *groups; /* in coordinates x */
    const double *centre, *s;
    int64_t k;
    mh_nodes nodes; /* at the centre, where P has value and gradient `sums` and a Hessian, in x */
    node_sums room;
    double *sums, *hessian, *mean;
    double *move, *turned; /* of a position: x less the centre, (d,), and dx/dw, (d, d) */
    double *slope, *products, *bend; /* there: dP/dx, (d,), and the Hessian times `turned` */
    double *here, *second; /* value and gradient, and Hessian of l - P there, in w */
} control;

static mh_status room_for_control(const mh_groups *own, const double *centre, int64_t k,
                                  const double *theta, const double *factor, control *out,
                                  mh_arena *scratch)
{
    const int64_t d = own->size;
    *out = (control){.groups = own, .centre = centre, .k = k};
    out->s = k < 0 ? NULL : factor + k * d;
    MH_TRY(room_for_nodes(own, NULL, 2, &out->room, &out->nodes, scratch));
    MH_VECTOR(double, vectors, scratch, 2 * (1 + d) + 3 * d);
    MH_VECTOR(double, matrices, scratch, 4 * d * d);
    out->sums = vectors;
    out->here = vectors + 1 + d;
    out->mean = out->here + 1 + d;
    out->move = out->mean + d;
    out->slope = out->move + d;
    out->hessian = matrices;
    out->turned = matrices + d * d;
    out->products = matrices + 2 * d * d;
    out->second = matrices + 3 * d * d;
    out->bend = k < 0 ? NULL : out->products + k * d;
    for (int64_t i = 0; i < d; i++) {
        out->move[i] = (i == k ? mh_square(theta[i]) : theta[i]) - centre[i];
        for (int64_t j = 0; j < d; j++)
            out->turned[i * d + j] = (i == k ? 2.0 * theta[i] : 1.0) * factor[i * d + j];
    }
    return MH_OK;
}

/* Write value, gradient and Hessian of a group, of which the nodes are known. */
static void sum_group(const mh_nodes *nodes, double *sums, double *hessian, double *mean)
{
    mh_fill(sums, 1 + nodes->size, 0.0);
    mh_fill(hessian, nodes->size * nodes->size, 0.0);
    add_nodes(nodes, sums, hessian, mean);
    sums[0] = mh_log_of_sum(nodes->values, nodes->n_nodes, nodes->shares);
}

/* Write derivatives of l - P at the position, from the nodes there; return the rounding error of its
 * value. */
static mh_status subtract_control(control *p, int64_t g, const mh_nodes *nodes, double *rounding,
                                  mh_arena *scratch)
{
    const int64_t d = nodes->size;
    MH_TRY(sum_nodes(&p->room, g, p->centre, 2, scratch));
    sum_group(&p->nodes, p->sums, p->hessian, p->mean);
    sum_group(nodes, p->here, p->second, p->mean);
    double size = fabs(p->sums[0]) + fabs(p->here[0]);
    p->here[0] -= p->sums[0];
    mh_fill(p->products, d * d, 0.0);
    for (int64_t i = 0; i < d; i++) {
        const double bend = mh_inner(p->hessian + i * d, p->move, d), slope = p->sums[1 + i];
        p->here[0] -= p->move[i] * (slope + 0.5 * bend);
        size += fabs(p->move[i]) * (fabs(slope) + fabs(bend));
        p->slope[i] = slope + bend;
        for (int64_t j = 0; j < d; j++) {
            mh_add_times(p->products + i * d, p->hessian[i * d + j], p->turned + j * d, d);
            p->here[1 + j] -= p->slope[i] * p->turned[i * d + j];
        }
    }
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++) {
            mh_add_times(p->second + j * d, -p->turned[i * d + j], p->products + i * d, d);
            if (p->k >= 0)
                p->second[i * d + j] -= 2.0 * p->slope[p->k] * p->s[i] * p->s[j];
        }
    *rounding = ROUNDING * size;
    return MH_OK;
}

/* Subtract the third derivative of P from a tensor. */
static void subtract_third(const control *p, double *tensor)
{
    const double *s = p->s, *bend = p->bend;
    const int64_t size = p->k < 0 ? 0 : p->groups->size;
    for (int64_t j = 0; j < size; j++)
        for (int64_t k = 0; k < size; k++)
            for (int64_t l = 0; l < size; l++)
                tensor[(j * size + k) * size + l] -=
                    2.0 * (s[j] * s[k] * bend[l] + s[j] * bend[k] * s[l] + bend[j] * s[k] * s[l]);
}

/* Whether nodes that their rows make impossible at the centre may be possible in the ball. */
static int may_appear(const mh_nodes *nodes, const double *log_weights, const mh_suprema *over)
{
    for (int64_t q = 0; q < nodes->n_nodes; q++)
        if (nodes->values[q] == -INFINITY && log_weights[q] != -INFINITY &&
            !(over->second[q] < INFINITY && over->third[q] < INFINITY))
            return 1;
    return 0;
}

/* Bounds of a group over the balls of a region. */
typedef struct group_bounds {
    const mh_region *region;
    double value, slope, bend, middle; /* at the position: norms of l - P and of its derivatives */
    double *third, *fourth;            /* in the balls, (n_radii,) */
} group_bounds;

/* Bound the derivatives of a group in all balls; `suprema`: (n_kinds, 4, each), of this group on. */
static mh_status bound_in_balls(const mh_nodes *nodes, const double *log_weights,
                                const double *suprema, int64_t each, group_bounds *out,
                                mh_arena *scratch)
{
    const mh_region *region = out->region;
    const int64_t skipped = region->n_radii - region->n_kinds;
    for (int64_t r = skipped; r < region->n_radii; r++) {
        const double *at = suprema + (r - skipped) * 4 * each;
        const mh_suprema over = {at, at + each, at + 2 * each, at + 3 * each};
        MH_TRY(mh_bound_over_nodes(nodes, &over, region->radii[r], region->most_paired,
                                   out->third + r, out->fourth + r, scratch));
        if (may_appear(nodes, log_weights, &over))
            out->third[r] = out->fourth[r] = INFINITY;
    }
    for (int64_t r = 0; r < skipped; r++) {
        out->third[r] = out->third[skipped];
        out->fourth[r] = out->fourth[skipped];
    }
    return MH_OK;
}

/* Add the third and fourth derivatives of P to those of the group. */
static void add_control(const control *p, group_bounds *out)
{
    const mh_region *region = out->region;
    const int64_t d = p->groups->size, k = p->k;
    if (k < 0)
        return;
    const double square = mh_inner(p->s, p->s, d);
    const double third = 6.0 * square * mh_length_of(p->bend, d);
    const double fourth = 12.0 * square * square * fabs(p->hessian[k * d + k]);
    for (int64_t r = 0; r < region->n_radii; r++) {
        out->third[r] += third + region->radii[region->n_radii - 1] * fourth;
        out->fourth[r] += fourth;
    }
}

/* Bound of |l - P| in the ball of radius number r. */
static double bound_in_ball(const group_bounds *at, int64_t r)
{
    const double radius = at->region->radii[r];
    const double cubic =
        radial_bound(at->middle, r + 1, at->region->radii, at->third, at->fourth) / 6.0;
    return (at->value + radius * (at->slope + radius * (0.5 * at->bend + radius * cubic))) *
           (1.0 + 1e-9);
}

/* Write what is known of l - P at a position other than the centre of P. */
static mh_status know_position(control *p, int64_t g, const mh_nodes *nodes, double *tensor,
                               group_bounds *out, mh_arena *scratch)
{
    const int64_t d = nodes->size;
    double rounding;
    MH_TRY(subtract_control(p, g, nodes, &rounding, scratch));
    subtract_third(p, tensor);
    out->value = fabs(p->here[0]) + rounding;
    out->slope = mh_length_of(p->here + 1, d);
    out->bend = mh_length_of(p->second, d * d);
    return MH_OK;
}

mh_status mh_bound_groups(const mh_groups *groups, int64_t first, int64_t last,
                          const mh_region *region, const double *suprema, const mh_groups *own,
                          const double *centre, int64_t squared, double *bounds,
                          mh_arena *scratch)
{
    MH_SCOPE(scratch);
    mh_nodes nodes;
    node_sums room;
    control p;
    const double *theta = region->theta, *factor = region->factor;
    const int64_t n = groups->n_nodes, size = groups->size, count = last - first;
    MH_VECTOR(double, tensor, scratch, size * size * size);
    MH_VECTOR(double, derivatives, scratch, 2 * region->n_radii);
    MH_VECTOR(double, log_weights, scratch, n);
    group_bounds at = {region, 0.0, 0.0, 0.0, 0.0, derivatives, derivatives + region->n_radii};
    MH_TRY(room_for_nodes(groups, factor, 3, &room, &nodes, scratch));
    if (own) {
        room.whole = NULL;
        MH_TRY(room_for_control(own, centre, squared, theta, factor, &p, scratch));
    }
    for (int64_t g = 0; g < count; g++) {
        MH_TRY(sum_nodes(&room, first + g, theta, 3, scratch));
        MH_TRY(mh_tensor_of_nodes(&nodes, tensor, scratch));
        mh_write_weights(groups, first + g, log_weights);
        MH_TRY(bound_in_balls(&nodes, log_weights, suprema + g * n, count * n, &at, scratch));
        if (own) {
            MH_TRY(know_position(&p, first + g, &nodes, tensor, &at, scratch));
            add_control(&p, &at);
        }
        MH_TRY(mh_norm_of_tensor(tensor, nodes.size, &at.middle, scratch));
        for (int64_t r = 0; r < region->n_radii; r++)
            bounds[r * count + g] = bound_in_ball(&at, r);
    }
    return MH_OK;
}
