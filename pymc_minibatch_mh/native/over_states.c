/* Bounds of derivatives of rows with log-sums over states, in balls around the centre.
 *
 * Let w_j have mean m_j over states at the centre. A row is P + sum over s of c_s L_s,
 *
 *     P = phi_rest + sum over s and j of c_s m_sj phi_sj,   L = log sum_k exp(o_k + sum_j (w_kj - m_j) phi_j),
 *
 * and the third and fourth derivative of L are bounded as over nodes (over_nodes.c), those of P from
 * the suprema of its functions. With the derivative of order n at the centre, of norm t, and a bound b
 * of the next one, a Taylor remainder of order n - 1 has a gradient of at most
 *
 *     |z|^(n - 1)/(n - 1)! (t + b |z|/n)
 *
 * along any unit direction, and a value of at most |z|^n/n! (t + b |z|/(n + 1)): the bound t + b R/n. */
#include "groups.h"

/* Maximum number of states whose pairs are bounded as well. */
enum { MOST_PAIRED = 32 };

/* A row, with derivatives in coordinates z of the unit ball. */
typedef struct state_bounds {
    const mh_state_rows *rows;
    int64_t m, width;       /* width of slopes */
    double *gradients;      /* of all functions in z, (n_functions, m) */
    double *hessians;       /* (n_functions, m, m) */
    double *means;          /* coefficient of each function in P, (n_functions,) */
    double *total;          /* gradient, Hessian of the row, (m + m * m) */
    double *tensor, *turned; /* third derivative, (m, m, m); scratch */
    double third, fourth;   /* in the ball */
} state_bounds;

static mh_status room_for_row(const mh_state_rows *rows, state_bounds *out, mh_arena *scratch)
{
    const int64_t m = rows->n_arguments, n = rows->n_functions;
    *out = (state_bounds){.rows = rows, .m = m, .width = mh_width_of_slopes(m)};
    MH_VECTOR(double, room, scratch, n * (m + m * m + 1) + m + m * m + 2 * m * m * m);
    out->gradients = room;
    out->hessians = out->gradients + n * m;
    out->means = out->hessians + n * m * m;
    out->total = out->means + n;
    out->tensor = out->total + m + m * m;
    out->turned = out->tensor + m * m * m;
    return MH_OK;
}

/* Write derivatives of all functions in z: S'g and S'HS, S the `factor`. */
static void turn_functions(state_bounds *row, const double *slopes, const double *factor)
{
    const int64_t m = row->m;
    mh_fill(row->gradients, row->rows->n_functions * (m + m * m), 0.0);
    for (int64_t j = 0; j < row->rows->n_functions; j++, slopes += row->width)
        for (int64_t a = 0; a < m; a++) {
            mh_add_times(row->gradients + j * m, slopes[1 + a], factor + a * m, m);
            for (int64_t b = 0; b < m; b++) {
                const double slope = slopes[mh_second(m, a, b)];
                for (int64_t x = 0; slope != 0.0 && x < m; x++)
                    mh_add_times(row->hessians + (j * m + x) * m, slope * factor[a * m + x],
                                 factor + b * m, m);
            }
        }
}

/* Turn one index of a tensor, the first, and put it last. */
static void turn_index(const double *tensor, const double *factor, int64_t m, double *out)
{
    mh_fill(out, m * m * m, 0.0);
    for (int64_t a = 0; a < m; a++)
        for (int64_t bc = 0; bc < m * m; bc++)
            mh_add_times(out + bc * m, tensor[a * m * m + bc], factor + a * m, m);
}

/* Write the third derivative of P in z. */
static void turn_thirds(state_bounds *row, const double *thirds, const double *factor)
{
    const int64_t m = row->m, count = m * (m + 1) * (m + 2) / 6;
    int64_t entry = 0;
    for (int64_t a = 0; a < m; a++)
        for (int64_t b = a; b < m; b++)
            for (int64_t c = b; c < m; c++, entry++) {
                double total = 0.0;
                for (int64_t j = 0; j < row->rows->n_functions; j++)
                    total += row->means[j] * thirds[j * count + entry];
                double *t = row->tensor;
                t[(a * m + b) * m + c] = t[(a * m + c) * m + b] = t[(b * m + a) * m + c] = total;
                t[(b * m + c) * m + a] = t[(c * m + a) * m + b] = t[(c * m + b) * m + a] = total;
            }
    turn_index(row->tensor, factor, m, row->turned);
    turn_index(row->turned, factor, m, row->tensor);
    turn_index(row->tensor, factor, m, row->turned);
    mh_copy_to(row->tensor, row->turned, m * m * m);
}

static mh_status room_for_states(int64_t n, int64_t m, mh_nodes *out, mh_arena *scratch)
{
    *out = (mh_nodes){n, m, mh_take(scratch, n, double), mh_take(scratch, n, double),
                      mh_take(scratch, n * m, double), mh_take(scratch, n * m * m, double),
                      mh_take(scratch, m * m * m, double)};
    MH_NEED(out->values && out->shares && out->gradients && out->hessians && out->third);
    mh_fill(out->gradients, n * m, 0.0);
    mh_fill(out->hessians, n * m * m, 0.0);
    mh_fill(out->third, m * m * m, 0.0);
    return MH_OK;
}

/* Write states with their centred derivatives, and suprema of these, (3, n_states). */
static void place_states(const state_bounds *row, const mh_states *sum, const double *slopes,
                         const double *suprema, const double *offsets, mh_nodes *nodes,
                         double *means, double *over)
{
    const int64_t n = sum->n_states, n_features = sum->n_features, m = row->m;
    mh_fill(means, n_features, 0.0);
    for (int64_t k = 0; k < n; k++) {
        nodes->values[k] = offsets[k];
        for (int64_t j = 0; offsets[k] != -INFINITY && j < n_features; j++)
            nodes->values[k] +=
                sum->weights[k * n_features + j] * slopes[(sum->first + j) * row->width];
    }
    mh_log_of_sum(nodes->values, n, nodes->shares);
    for (int64_t k = 0; k < n; k++)
        mh_add_times(means, nodes->shares[k], sum->weights + k * n_features, n_features);
    mh_fill(over, 3 * n, 0.0);
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; offsets[k] != -INFINITY && j < n_features; j++) {
            const int64_t f = sum->first + j;
            const double apart = sum->weights[k * n_features + j] - means[j];
            mh_add_times(nodes->gradients + k * m, apart, row->gradients + f * m, m);
            mh_add_times(nodes->hessians + k * m * m, apart, row->hessians + f * m * m, m * m);
            for (int64_t i = 0; apart != 0.0 && i < 3; i++)
                over[i * n + k] += fabs(apart) * suprema[3 * f + i];
        }
}

/* Add a log-sum: derivatives of L at the centre, and bounds of L and of its part of P. */
static mh_status add_sum(state_bounds *row, const mh_states *sum, const double *slopes,
                         const double *suprema, const double *numbers, double radius,
                         mh_arena *scratch)
{
    MH_SCOPE(scratch);
    const int64_t n = sum->n_states, m = row->m;
    const double factor = numbers[0];
    mh_nodes nodes;
    double third, fourth;
    MH_VECTOR(double, means, scratch, sum->n_features);
    MH_VECTOR(double, over, scratch, 3 * n);
    MH_TRY(room_for_states(n, m, &nodes, scratch));
    place_states(row, sum, slopes, suprema, numbers + 1, &nodes, means, over);
    for (int64_t j = 0; j < sum->n_features; j++)
        row->means[sum->first + j] = factor * means[j];
    for (int64_t k = 0; k < n; k++)
        for (int64_t a = 0; a < m; a++)
            mh_add_times(row->total + m + a * m, factor * nodes.shares[k] * nodes.gradients[k * m + a],
                         nodes.gradients + k * m, m);
    const mh_suprema bounds = {over, over + n, over + 2 * n, over};
    MH_TRY(mh_bound_over_nodes(&nodes, &bounds, radius, MOST_PAIRED, &third, &fourth, scratch));
    row->third += fabs(factor) * third;
    row->fourth += fabs(factor) * fourth;
    MH_TRY(mh_tensor_of_nodes(&nodes, row->turned, scratch));
    mh_add_times(row->tensor, factor, row->turned, m * m * m);
    return MH_OK;
}

/* Add P to the derivatives at the centre but the third, and to bounds in the ball. */
static void add_common(state_bounds *row, const double *suprema)
{
    const int64_t m = row->m;
    for (int64_t j = 0; j < row->rows->n_functions; j++) {
        mh_add_times(row->total, row->means[j], row->gradients + j * m, m);
        mh_add_times(row->total + m, row->means[j], row->hessians + j * m * m, m * m);
        if (row->means[j] != 0.0) {
            row->third += fabs(row->means[j]) * suprema[3 * j + 1];
            row->fourth += fabs(row->means[j]) * suprema[3 * j + 2];
        }
    }
}

/* Bound of a row, from its derivatives at the centre and in the ball. */
static mh_status join(state_bounds *row, double radius, int64_t order, double *bound,
                      mh_arena *scratch)
{
    const int64_t m = row->m;
    double middle;
    MH_TRY(mh_norm_of_tensor(row->tensor, m, &middle, scratch));
    const double second = mh_length_of(row->total + m, m * m), third = mh_smaller(row->third, middle + radius * row->fourth);
    if (order == 3)
        *bound = mh_smaller(row->third, middle + radius / 3.0 * row->fourth);
    else if (order == 2)
        *bound = second + radius / 2.0 * third;
    else
        *bound = mh_length_of(row->total, m) + radius * (second + radius / 2.0 * third);
    *bound = isnan(*bound) ? INFINITY : *bound * (1.0 + 1e-9);
    return MH_OK;
}

mh_status mh_bound_states(const mh_state_rows *rows, int64_t n, const double *slopes,
                          const double *thirds, const double *suprema, const double *factors,
                          const double *numbers, double radius, int64_t order, double *bounds,
                          mh_arena *scratch)
{
    MH_SCOPE(scratch);
    state_bounds row;
    const int64_t m = rows->n_arguments, n_functions = rows->n_functions;
    const int64_t count = m * (m + 1) * (m + 2) / 6;
    MH_TRY(room_for_row(rows, &row, scratch));
    MH_VECTOR(double, of_sums, scratch, m * m * m);
    for (int64_t i = 0; i < n; i++) {
        const double *here = slopes + i * n_functions * row.width, *over = suprema + i * n_functions * 3;
        row.third = row.fourth = 0.0;
        mh_fill(row.means, n_functions + m + m * m + m * m * m, 0.0);
        row.means[0] = 1.0;
        turn_functions(&row, here, factors + i * m * m);
        for (int64_t s = 0; s < rows->n_sums; numbers += 1 + rows->sums[s++].n_states)
            if (numbers[0] != 0.0)
                MH_TRY(add_sum(&row, rows->sums + s, here, over, numbers, radius, scratch));
        mh_copy_to(of_sums, row.tensor, m * m * m);
        turn_thirds(&row, thirds + i * n_functions * count, factors + i * m * m);
        mh_add_times(row.tensor, 1.0, of_sums, m * m * m);
        add_common(&row, over);
        MH_TRY(join(&row, radius, order, bounds + i, scratch));
    }
    return MH_OK;
}
