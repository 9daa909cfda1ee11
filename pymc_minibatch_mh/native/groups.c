/* Groups as observations: values, derivatives and remainders of l_g = log sum_q exp F_gq.
 *
 * F_q depends on the position through the predictors of the group's rows,
 *
 *     u_a = x_a.theta + c_a alpha_q,   alpha_q = location.theta + offset + tau z_q,
 *
 * with derivatives v_a = x_a + c_a (location + tau' z_q e_s). Averages E are over the nodes, with
 * weights exp(F_q - l): gradient and Hessian of l are E F' and E F'' + Cov F'. A remainder needs
 * them along the directions of both ends only, so nothing is kept for each group. */
#include "groups.h"

/* Number of evaluations, rows times nodes, in a block of rows. */
enum { EVALUATIONS = 2048 };

static mh_status room_for_block(const mh_groups *groups, const mh_term *term, int64_t n_vectors,
                                int64_t n, mh_row_block *out, mh_arena *scratch)
{
    const int64_t m = term->n_arguments, n_nodes = groups->n_nodes;
    const int64_t most = mh_min(mh_max(EVALUATIONS / n_nodes, 1), n), count = most * n_nodes;
    const int64_t n_outputs = mh_max(1 + m + m * (m + 1) / 2, m * (m + 1) * (m + 2) / 6);
    *out = (mh_row_block){.term = term, .most = most, .n_vectors = n_vectors, .n_nodes = n_nodes};
    out->lines = mh_take(scratch, most * (n_vectors * m + term->n_taken), double);
    out->inputs = mh_take(scratch, count * (m + term->n_taken), double);
    out->outputs = mh_take(scratch, count * n_outputs, double);
    MH_NEED(out->lines && out->inputs && out->outputs);
    return mh_room_for_forms(term, most, &out->forms, scratch);
}

mh_status mh_visit_group(const mh_groups *groups, int64_t g, const double *vectors,
                         int64_t n_vectors, mh_visit visit, void *state, mh_arena *scratch)
{
    for (int64_t k = 0; k < groups->n_terms; k++) {
        const int64_t *starts = groups->starts + k * (groups->n_groups + 1);
        const int64_t n = starts[g + 1] - starts[g];
        MH_SCOPE(scratch);
        mh_row_block block;
        if (n == 0)
            continue;
        MH_TRY(room_for_block(groups, groups->terms + k, n_vectors, n, &block, scratch));
        for (int64_t start = 0; start < n; start += block.most) {
            block.n = mh_min(block.most, n - start);
            mh_read_rows(block.term, groups->rows + starts[g] + start, block.n, vectors, n_vectors,
                         groups->size + 1, &block.forms, block.lines);
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
        const double *line = mh_line(block, i);
        const double *unit = line + (block->n_vectors - 1) * m, *further = line + at * m;
        for (int64_t q = 0; q < block->n_nodes; q++, inputs += m + n_taken) {
            for (int64_t a = 0; a < m; a++)
                inputs[a] = line[a] + (at ? further[a] : 0.0) + unit[a] * effects[q];
            mh_copy_to(inputs + m, unit + m, n_taken);
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

mh_group_scale mh_scale_at(const mh_groups *groups, double x)
{
    if (groups->root == 1)
        return (mh_group_scale){groups->spread * x, groups->spread, 0.0};
    const double tau = groups->spread * sqrt(x);
    return (mh_group_scale){tau, 0.5 * tau / x, -0.25 * tau / (x * x)};
}

/* ---- Remainders. ---- */

/* An end of a proposal: sums over rows at each node of its value, and of first and second
 * derivatives at the centre in its direction, (n_nodes,) each. */
typedef struct group_end {
    double *effects, *values;
    double *turns, *bends; /* derivatives of the effects along the direction: first, second */
    double *first, *second;
} group_end;

typedef struct remainder_sums {
    const mh_groups *groups;
    double *effects, *values, *sizes; /* at the centre; sizes: sums of absolute values */
    group_end ends[2];
} remainder_sums;

static mh_status room_for_end(int64_t n, group_end *out, mh_arena *scratch)
{
    MH_VECTOR(double, room, scratch, 6 * n);
    *out = (group_end){room, room + n, room + 2 * n, room + 3 * n, room + 4 * n, room + 5 * n};
    return MH_OK;
}

/* Effects at the nodes of a group: at the centre, and at both ends, `moves` away, (2, d + 1). */
static void place_effects(const mh_groups *groups, int64_t g, const double *centre,
                          const double *moves, remainder_sums *out)
{
    const int64_t n = groups->n_nodes, size = groups->size, s = groups->scale;
    const double *nodes = groups->nodes + g * n, *log_weights = groups->log_weights + g * n;
    const double middle = mh_inner(groups->location, centre, size) + groups->offset;
    const mh_group_scale at = mh_scale_at(groups, centre[s]);
    for (int64_t q = 0; q < n; q++) {
        out->effects[q] = middle + at.value * nodes[q];
        out->values[q] = log_weights[q];
        out->sizes[q] = fabs(log_weights[q]);
    }
    for (int64_t k = 0; k < 2; k++) {
        const double *move = moves + k * (size + 1);
        const double shift = mh_inner(groups->location, move, size);
        const double wider = mh_scale_at(groups, centre[s] + move[s]).value - at.value;
        const double change = groups->root == 1 ? at.first * move[s] : wider;
        const group_end *end = out->ends + k;
        for (int64_t q = 0; q < n; q++) {
            end->effects[q] = out->effects[q] + (shift + change * nodes[q]);
            end->turns[q] = shift + at.first * move[s] * nodes[q];
            end->bends[q] = at.second * mh_square(move[s]) * nodes[q];
            end->values[q] = log_weights[q];
            end->first[q] = end->second[q] = 0.0;
        }
    }
}

/* Add derivatives of rows at the centre in the direction of an end, which is vector `at`. */
static void add_directional(const mh_row_block *block, int64_t at, const group_end *end,
                            int64_t order)
{
    const int64_t m = block->term->n_arguments, width = mh_width_of_slopes(m);
    const double *slopes = block->outputs;
    for (int64_t i = 0; i < block->n; i++) {
        const double *line = mh_line(block, i);
        const double *move = line + at * m, *unit = line + (block->n_vectors - 1) * m;
        for (int64_t q = 0; q < block->n_nodes; q++, slopes += width)
            for (int64_t a = 0; a < m; a++) {
                const double along = move[a] + unit[a] * end->turns[q];
                end->first[q] += slopes[1 + a] * along;
                if (order < 2)
                    continue;
                end->second[q] += slopes[1 + a] * unit[a] * end->bends[q];
                for (int64_t b = 0; b < m; b++)
                    end->second[q] += slopes[mh_second(m, a, b)] * along *
                                      (move[b] + unit[b] * end->turns[q]);
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
    const int64_t n = sums->groups->n_nodes, order = sums->groups->order;
    double first = 0.0, second = 0.0;
    for (int64_t q = 0; order > 0 && q < n; q++)
        if (shares[q] > 0.0)
            first += shares[q] * end->first[q];
    for (int64_t q = 0; order > 1 && q < n; q++)
        if (shares[q] > 0.0)
            second += shares[q] * (end->second[q] + mh_square(end->first[q] - first));
    return mh_log_of_sum(end->values, n, unused) - first - 0.5 * second;
}

mh_status mh_differences_of_groups(const mh_groups *groups, const double *ends,
                                   const int64_t *numbers, int64_t n, double *differences,
                                   double *scales, mh_arena *scratch)
{
    const int64_t size = groups->size, n_nodes = groups->n_nodes;
    MH_SCOPE(scratch);
    remainder_sums sums = {.groups = groups};
    MH_VECTOR(double, vectors, scratch, 4 * (size + 1));
    MH_VECTOR(double, room, scratch, 5 * n_nodes);
    sums.effects = room;
    sums.values = room + n_nodes;
    sums.sizes = room + 2 * n_nodes;
    double *shares = room + 3 * n_nodes, *unused = room + 4 * n_nodes;
    MH_TRY(room_for_end(n_nodes, sums.ends, scratch));
    MH_TRY(room_for_end(n_nodes, sums.ends + 1, scratch));
    mh_fill(vectors, 4 * (size + 1), 0.0);
    for (int64_t k = 0; k < 3; k++)
        mh_copy_to(vectors + k * (size + 1), ends + k * size, size);
    vectors[3 * (size + 1) + size] = 1.0;
    for (int64_t i = 0; i < n; i++) {
        place_effects(groups, numbers[i], vectors, vectors + size + 1, &sums);
        MH_TRY(mh_visit_group(groups, numbers[i], vectors, 4, add_to_remainders, &sums, scratch));
        mh_log_of_sum(sums.values, n_nodes, shares);
        const double before = remainder_of(&sums, sums.ends, shares, unused);
        const double change = remainder_of(&sums, sums.ends + 1, shares, unused) - before;
        differences[i] = isfinite(change) ? change : -INFINITY;
        scales[i] = 0.0;
        for (int64_t q = 0; q < n_nodes; q++)
            scales[i] += shares[q] > 0.0 ? shares[q] * sums.sizes[q] : 0.0;
    }
    return MH_OK;
}
