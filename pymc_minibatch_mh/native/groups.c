/* Groups as observations: values, derivatives and remainders of l_g = log sum_q exp F_gq.
 *
 * F_q depends on the position through the predictors of the group's rows,
 *
 *     u_a = x_a.theta + c_a.alpha_q,   alpha_q = location theta + offset + L(theta) z_q,
 *
 * with q effects alpha_q of a group, and a lower triangular L, each of whose entries is a function of
 * one coordinate: v_a = x_a + c_a.D_q has the derivatives D_q of the effects. Averages E are over the
 * nodes, with weights exp(F_q - l): gradient and Hessian of l are E F' and E F'' + Cov F'. A remainder
 * needs them along the directions of both ends only, so nothing is kept for each group. */
#include "groups.h"

/* Number of evaluations, rows times nodes, in a block of rows. */
enum { EVALUATIONS = 2048 };

int64_t mh_nodes_of(const mh_groups *groups, int64_t g)
{
    for (int64_t k = groups->n_integrated; k < groups->n_terms; k++) {
        const int64_t *starts = groups->starts + k * (groups->n_groups + 1);
        if (starts[g + 1] > starts[g])
            return 1;
    }
    return groups->n_nodes;
}

void mh_write_weights(const mh_groups *groups, int64_t g, double *log_weights)
{
    const int64_t n = mh_nodes_of(groups, g);
    if (n == groups->n_nodes)
        mh_copy_to(log_weights, groups->log_weights + g * n, n);
    else
        mh_fill(log_weights, n, 0.0);
}

static mh_status room_for_block(const mh_groups *groups, const mh_term *term, int64_t n_nodes,
                                int64_t n_vectors, int64_t n, mh_row_block *out, mh_arena *scratch)
{
    const int64_t m = term->n_arguments;
    const int64_t most = mh_min(mh_max(EVALUATIONS / n_nodes, 1), n), count = most * n_nodes;
    const int64_t n_outputs = mh_max(1 + m + m * (m + 1) / 2, m * (m + 1) * (m + 2) / 6);
    *out = (mh_row_block){.term = term, .most = most, .n_vectors = n_vectors, .n_nodes = n_nodes,
                          .n_effects = groups->n_effects};
    out->lines = mh_take(scratch, most * (n_vectors * m + term->n_taken), double);
    out->inputs = mh_take(scratch, mh_max(count, 2) * (m + term->n_taken), double);
    out->outputs = mh_take(scratch, count * n_outputs, double);
    MH_NEED(out->lines && out->inputs && out->outputs);
    return mh_room_for_forms(term, most, &out->forms, scratch);
}

mh_status mh_visit_group(const mh_groups *groups, int64_t g, const double *vectors,
                         int64_t n_vectors, mh_visit visit, void *state, mh_arena *scratch)
{
    const int64_t n_nodes = mh_nodes_of(groups, g);
    for (int64_t k = 0; k < groups->n_terms; k++) {
        const int64_t *starts = groups->starts + k * (groups->n_groups + 1);
        const int64_t n = starts[g + 1] - starts[g];
        MH_SCOPE(scratch);
        mh_row_block block;
        if (n == 0)
            continue;
        MH_TRY(room_for_block(groups, groups->terms + k, n_nodes, n_vectors, n, &block, scratch));
        for (int64_t start = 0; start < n; start += block.most) {
            block.n = mh_min(block.most, n - start);
            mh_read_rows(block.term, groups->rows + starts[g] + start, block.n, vectors, n_vectors,
                         groups->size + groups->n_effects, &block.forms, block.lines);
            visit(&block, state);
        }
    }
    return MH_OK;
}

void mh_write_inputs(const mh_row_block *block, int64_t at, const double *effects)
{
    const int64_t m = block->term->n_arguments, n_taken = block->term->n_taken;
    double *inputs = block->inputs;
    for (int64_t i = 0; i < block->n; i++) {
        const double *line = mh_line(block, i), *further = line + at * m;
        const double *unit = mh_units(block, line), *taken = line + block->n_vectors * m;
        for (int64_t q = 0; q < block->n_nodes; q++, inputs += m + n_taken) {
            for (int64_t a = 0; a < m; a++) {
                inputs[a] = line[a] + (at ? further[a] : 0.0);
                for (int64_t k = 0; k < block->n_effects; k++)
                    inputs[a] += unit[k * m + a] * effects[k * block->n_nodes + q];
            }
            mh_copy_to(inputs + m, taken, n_taken);
        }
    }
}

double mh_log_of_sum(const double *values, int64_t n, double *shares)
{
    double largest = -INFINITY, total = 0.0;
    for (int64_t q = 0; q < n; q++)
        largest = mh_larger(largest, values[q]);
    for (int64_t q = 0; q < n; q++) {
        shares[q] = isfinite(largest) ? exp(values[q] - largest) : 1.0;
        total += shares[q];
    }
    for (int64_t q = 0; q < n; q++)
        shares[q] /= total;
    return largest + log(total);
}

mh_scale_value mh_scale_at(const mh_scale *scale, double x)
{
    if (scale->root == 0)
        return (mh_scale_value){scale->spread, 0.0, 0.0};
    if (scale->root == 1)
        return (mh_scale_value){scale->spread * x, scale->spread, 0.0};
    const double tau = scale->spread * sqrt(x);
    return (mh_scale_value){tau, 0.5 * tau / x, -0.25 * tau / (x * x)};
}

void mh_effects_at(const mh_groups *groups, int64_t g, const double *theta, double *effects)
{
    const int64_t n = mh_nodes_of(groups, g);
    const double *nodes = groups->nodes + g * groups->n_effects * groups->n_nodes;
    for (int64_t k = 0; k < groups->n_effects; k++)
        mh_fill(effects + k * n, n,
                mh_inner(groups->location + k * groups->size, theta, groups->size) +
                    groups->offsets[k]);
    for (const mh_scale *at = groups->scales; at < groups->scales + groups->n_scales; at++)
        mh_add_times(effects + at->row * n, mh_scale_at(at, theta[at->coordinate]).value,
                     nodes + at->column * n, n);
}

/* ---- Remainders. ---- */

/* An end of a proposal: sums over rows at each node of its value, and of first and second
 * derivatives at the centre in its direction, (n_nodes,) each. */
typedef struct group_end {
    double *effects;       /* less those at the centre until rows are read, (q, n_nodes) */
    double *turns, *bends; /* derivatives of the effects along the direction, (q, n_nodes) */
    double *values, *first, *second;
} group_end;

typedef struct remainder_sums {
    const mh_groups *groups;
    int64_t n_nodes;                  /* of this group */
    double *effects, *values, *sizes; /* at the centre; sizes: sums of absolute values */
    group_end ends[2];
} remainder_sums;

static mh_status room_for_end(int64_t n, int64_t n_effects, group_end *out, mh_arena *scratch)
{
    const int64_t all = n_effects * n;
    MH_VECTOR(double, room, scratch, 3 * (all + n));
    double *sums = room + 3 * all;
    *out = (group_end){room, room + all, room + 2 * all, sums, sums + n, sums + 2 * n};
    return MH_OK;
}

/* Effects at the nodes of a group at an end, `move` away from the centre. */
static void place_end(const mh_groups *groups, int64_t g, const double *centre, const double *move,
                      const double *effects, group_end *end)
{
    const int64_t n = mh_nodes_of(groups, g), size = groups->size, all = groups->n_effects * n;
    for (int64_t k = 0; k < groups->n_effects; k++) {
        const double shift = mh_inner(groups->location + k * size, move, size);
        mh_fill(end->effects + k * n, n, shift);
        mh_fill(end->turns + k * n, n, shift);
    }
    mh_fill(end->bends, all, 0.0);
    for (const mh_scale *scale = groups->scales; scale < groups->scales + groups->n_scales; scale++) {
        const int64_t s = scale->coordinate;
        const double *nodes =
            groups->nodes + (g * groups->n_effects + scale->column) * groups->n_nodes;
        const mh_scale_value at = mh_scale_at(scale, centre[s]);
        const double wider = mh_scale_at(scale, centre[s] + move[s]).value - at.value;
        const double turn = at.first * move[s], change = scale->root == 1 ? turn : wider;
        mh_add_times(end->effects + scale->row * n, change, nodes, n);
        mh_add_times(end->turns + scale->row * n, turn, nodes, n);
        mh_add_times(end->bends + scale->row * n, at.second * mh_square(move[s]), nodes, n);
    }
    for (int64_t j = 0; j < all; j++)
        end->effects[j] += effects[j];
    mh_write_weights(groups, g, end->values);
    mh_fill(end->first, n, 0.0);
    mh_fill(end->second, n, 0.0);
}

/* Effects at the nodes of a group: at the centre, and at both ends, `moves` away, (2, d + q). */
static void place_effects(const mh_groups *groups, int64_t g, const double *centre,
                          const double *moves, remainder_sums *out)
{
    out->n_nodes = mh_nodes_of(groups, g);
    mh_effects_at(groups, g, centre, out->effects);
    mh_write_weights(groups, g, out->values);
    for (int64_t q = 0; q < out->n_nodes; q++)
        out->sizes[q] = fabs(out->values[q]);
    for (int64_t k = 0; k < 2; k++)
        place_end(groups, g, centre, moves + k * (groups->size + groups->n_effects), out->effects,
                  out->ends + k);
}

/* Write derivatives of a row's predictors along an end at a node: first, and second, (m,) each. */
static void write_directional(const mh_row_block *block, const double *line, const double *move,
                              const group_end *end, int64_t q, double *along)
{
    const int64_t m = block->term->n_arguments;
    const double *unit = mh_units(block, line);
    for (int64_t a = 0; a < m; a++) {
        along[a] = move[a];
        along[m + a] = 0.0;
        for (int64_t k = 0; k < block->n_effects; k++) {
            along[a] += unit[k * m + a] * end->turns[k * block->n_nodes + q];
            along[m + a] += unit[k * m + a] * end->bends[k * block->n_nodes + q];
        }
    }
}

/* Add derivatives of rows at the centre in the direction of an end, which is vector `at`. */
static void add_directional(const mh_row_block *block, int64_t at, const group_end *end,
                            int64_t order)
{
    const int64_t m = block->term->n_arguments, width = mh_width_of_slopes(m);
    const double *slopes = block->outputs;
    double *along = block->inputs; /* no longer needed */
    for (int64_t i = 0; i < block->n; i++) {
        const double *line = mh_line(block, i);
        for (int64_t q = 0; q < block->n_nodes; q++, slopes += width) {
            write_directional(block, line, line + at * m, end, q, along);
            for (int64_t a = 0; a < m; a++) {
                end->first[q] += slopes[1 + a] * along[a];
                if (order < 2)
                    continue;
                end->second[q] += slopes[1 + a] * along[m + a];
                for (int64_t b = 0; b < m; b++)
                    end->second[q] += slopes[mh_second(m, a, b)] * along[a] * along[b];
            }
        }
    }
}

static void add_to_remainders(mh_row_block *block, void *state)
{
    const remainder_sums *sums = state;
    const int64_t order = sums->groups->order, n_nodes = block->n_nodes;
    const int64_t count = block->n * n_nodes, width = mh_width_of_slopes(block->term->n_arguments);
    for (int64_t k = 0; k < 2; k++) {
        mh_write_inputs(block, 1 + k, sums->ends[k].effects);
        block->term->values(block->inputs, block->outputs, count);
        const double *value = block->outputs;
        for (int64_t i = 0; i < block->n; i++)
            for (int64_t q = 0; q < n_nodes; q++)
                sums->ends[k].values[q] += *value++;
    }
    mh_write_inputs(block, 0, sums->effects);
    block->term->slopes(block->inputs, block->outputs, count);
    const double *slopes = block->outputs;
    for (int64_t i = 0; i < block->n; i++)
        for (int64_t q = 0; q < n_nodes; q++, slopes += width) {
            sums->values[q] += *slopes;
            sums->sizes[q] += fabs(*slopes);
        }
    for (int64_t k = 0; order > 0 && k < 2; k++)
        add_directional(block, 1 + k, sums->ends + k, order);
}

/* Remainder at an end less the value at the centre; `shares` of the nodes at the centre. */
static double remainder_of(const remainder_sums *sums, const group_end *end, const double *shares,
                           double *unused)
{
    const int64_t n = sums->n_nodes, order = sums->groups->order;
    double first = 0.0, second = 0.0;
    for (int64_t q = 0; order > 0 && q < n; q++)
        if (shares[q] > 0.0)
            first += shares[q] * end->first[q];
    for (int64_t q = 0; order > 1 && q < n; q++)
        if (shares[q] > 0.0)
            second += shares[q] * (end->second[q] + mh_square(end->first[q] - first));
    return mh_log_of_sum(end->values, n, unused) - first - 0.5 * second;
}

static mh_status differences_of_stored(const mh_groups *groups, const double *ends,
                                       const int64_t *numbers, int64_t n, double *differences,
                                       double *scales, mh_arena *scratch)
{
    if (n == 0)
        return MH_OK;
    MH_VECTOR(int64_t, order, scratch, n);
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    const mh_groups *fetched = groups->fetch(numbers, n);
    if (!fetched)
        return MH_NO_ROWS;
    return mh_differences_of_groups(fetched, ends, order, n, differences, scales, scratch);
}

mh_status mh_differences_of_groups(const mh_groups *groups, const double *ends,
                                   const int64_t *numbers, int64_t n, double *differences,
                                   double *scales, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    if (groups->fetch)
        return differences_of_stored(groups, ends, numbers, n, differences, scales, scratch);
    const int64_t size = groups->size, n_nodes = groups->n_nodes;
    remainder_sums sums = {.groups = groups};
    const int64_t n_effects = groups->n_effects, width = size + n_effects;
    MH_VECTOR(double, vectors, scratch, (3 + n_effects) * width);
    MH_VECTOR(double, room, scratch, 4 * n_nodes);
    sums.values = room;
    sums.sizes = room + n_nodes;
    double *shares = room + 2 * n_nodes, *unused = room + 3 * n_nodes;
    sums.effects = mh_take(scratch, n_effects * n_nodes, double);
    MH_NEED(sums.effects);
    MH_TRY(room_for_end(n_nodes, n_effects, sums.ends, scratch));
    MH_TRY(room_for_end(n_nodes, n_effects, sums.ends + 1, scratch));
    mh_fill(vectors, (3 + n_effects) * width, 0.0);
    for (int64_t k = 0; k < 3; k++)
        mh_copy_to(vectors + k * width, ends + k * size, size);
    for (int64_t k = 0; k < n_effects; k++)
        vectors[(3 + k) * width + size + k] = 1.0;
    for (int64_t i = 0; i < n; i++) {
        place_effects(groups, numbers[i], vectors, vectors + width, &sums);
        MH_TRY(mh_visit_group(groups, numbers[i], vectors, 3 + n_effects, add_to_remainders, &sums,
                              scratch));
        mh_log_of_sum(sums.values, sums.n_nodes, shares);
        const double before = remainder_of(&sums, sums.ends, shares, unused);
        const double change = remainder_of(&sums, sums.ends + 1, shares, unused) - before;
        differences[i] = isfinite(change) ? change : -INFINITY;
        scales[i] = 0.0;
        for (int64_t q = 0; q < sums.n_nodes; q++)
            scales[i] += shares[q] > 0.0 ? shares[q] * sums.sizes[q] : 0.0;
    }
    return MH_OK;
}
