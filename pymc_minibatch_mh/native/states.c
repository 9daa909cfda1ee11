/* Rows with log-sums over states: values, derivatives and remainders of
 *
 *     l(u) = phi_rest(u) + sum over s of c_s log sum_k exp F_sk,   F_sk = o_sk + sum_j w_skj phi_sj(u).
 *
 * Features phi are few compiled functions of the predictors u. With averages E over states of weights
 * exp F_k, centred gradients x_k of F_k, and C_aj = Cov(F'_a, w_j), derivatives of a log-sum are
 *
 *     E F',   E F'' + E x x',   E F''' + (C_a.phi''_bc + C_b.phi''_ac + C_c.phi''_ab) + E x_a x_b x_c,
 *
 * where E F'' is the sum of E w_j phi''_j, and so on. */
#include "groups.h"

static int64_t n_thirds(int64_t m) { return m * (m + 1) * (m + 2) / 6; }

/* Scratch of a row. */
typedef struct state_room {
    double *line;    /* inputs of the compiled functions */
    double *entries; /* their outputs */
    double *slopes, *thirds; /* of all functions, (n_functions, ...) */
    double *values, *shares; /* of states, (n_states,) */
    double *means;               /* of weights, (n_features,) */
    double *apart, *covariances; /* x, (n_states, m); C, (m, n_features) */
    double *row;             /* value and derivatives of a row */
} state_room;

static int64_t most_of(const mh_state_rows *rows, int64_t features)
{
    int64_t most = 1;
    for (int64_t s = 0; s < rows->n_sums; s++)
        most = mh_max(most, features ? rows->sums[s].n_features : rows->sums[s].n_states);
    return most;
}

static double *piece_of(double **scratch, int64_t count)
{
    double *piece = *scratch;
    *scratch += count;
    return piece;
}

/* Divide scratch into pieces; returns their size. */
static int64_t divide(const mh_state_rows *rows, double *scratch, state_room *out)
{
    const int64_t m = rows->n_arguments, width = mh_width_of_slopes(m), n = rows->n_functions;
    const int64_t n_states = most_of(rows, 0), n_features = most_of(rows, 1);
    double *next = scratch;
    out->line = piece_of(&next, m + rows->n_read);
    out->entries = piece_of(&next, n * mh_max(width, n_thirds(m)));
    out->slopes = piece_of(&next, n * width);
    out->thirds = piece_of(&next, n * n_thirds(m));
    out->values = piece_of(&next, n_states);
    out->shares = piece_of(&next, n_states);
    out->means = piece_of(&next, n_features);
    out->apart = piece_of(&next, n_states * m);
    out->covariances = piece_of(&next, m * n_features);
    out->row = piece_of(&next, width);
    return next - scratch;
}

int64_t mh_room_of_states(const mh_state_rows *rows)
{
    double none;
    state_room room;
    return divide(rows, &none, &room);
}

/* Evaluate compiled functions at predictors (u + move, or u if `move` is NULL). */
static void evaluate(const mh_state_rows *rows, mh_row_function function, const double *u,
                     const double *move, const double *taken, const state_room *room)
{
    const int64_t m = rows->n_arguments;
    for (int64_t a = 0; a < m; a++)
        room->line[a] = u[a] + (move ? move[a] : 0.0);
    mh_copy_to(room->line + m, taken, rows->n_read);
    function(room->line, room->entries, 1);
}

static void spread_out(const double *entries, const int64_t *places, int64_t n, double *out,
                       int64_t size)
{
    mh_fill(out, size, 0.0);
    for (int64_t i = 0; i < n; i++)
        out[places[i]] = entries[i];
}

static double number_of(const mh_states *sum, int64_t k, const double *taken)
{
    return sum->leaves[k] < 0 ? sum->numbers[k] : taken[sum->leaves[k]];
}

/* Write F_k and shares of all states, and return the log-sum. Functions have values `stride` apart.
 * Unless it is NULL, `size` becomes the mean of the absolute summands of F_k. */
static double weigh_states(const mh_states *sum, const double *functions, int64_t stride,
                           const double *taken, double *values, double *shares, double *size)
{
    const int64_t n = sum->n_states, n_features = sum->n_features;
    const double *phi = functions + sum->first * stride;
    for (int64_t k = 0; k < n; k++) {
        values[k] = number_of(sum, 1 + k, taken);
        for (int64_t j = 0; values[k] != -INFINITY && j < n_features; j++)
            values[k] += sum->weights[k * n_features + j] * phi[j * stride];
    }
    const double total = mh_log_of_sum(values, n, shares);
    if (size)
        *size = fabs(total);
    for (int64_t k = 0; size && k < n; k++) {
        if (!(shares[k] > 0.0))
            continue;
        double absolute = fabs(number_of(sum, 1 + k, taken));
        for (int64_t j = 0; j < n_features; j++)
            absolute += fabs(sum->weights[k * n_features + j] * phi[j * stride]);
        *size += shares[k] * absolute;
    }
    return total;
}

/* ---- Values. ---- */

/* Value of a row, at predictors u + move; the sum of absolute values is added to `size`. */
static double value_of_row(const mh_state_rows *rows, const double *u, const double *move,
                           const double *taken, const state_room *room, double *size)
{
    evaluate(rows, rows->values, u, move, taken, room);
    double total = room->entries[0];
    *size += fabs(total);
    for (int64_t s = 0; s < rows->n_sums; s++) {
        const mh_states *sum = rows->sums + s;
        const double factor = number_of(sum, 0, taken);
        double absolute;
        if (factor == 0.0)
            continue;
        total += factor * weigh_states(sum, room->entries, 1, taken, room->values, room->shares,
                                       &absolute);
        *size += fabs(factor) * absolute;
    }
    return total;
}

void mh_values_of_states(const mh_state_rows *rows, const double *inputs, double *outputs,
                         int64_t n, double *scratch)
{
    const int64_t m = rows->n_arguments;
    state_room room;
    divide(rows, scratch, &room);
    for (int64_t i = 0; i < n; i++, inputs += m + rows->n_taken) {
        double unused = 0.0;
        outputs[i] = value_of_row(rows, inputs, NULL, inputs + m, &room, &unused);
    }
}

/* ---- First and second derivatives. ---- */

/* Write mean weights and centred gradients of the states of a sum, from slopes of all functions. */
static void centre_states(const mh_states *sum, int64_t m, const state_room *room)
{
    const int64_t n = sum->n_states, n_features = sum->n_features, width = mh_width_of_slopes(m);
    const double *phi = room->slopes + sum->first * width;
    mh_fill(room->means, n_features, 0.0);
    for (int64_t k = 0; k < n; k++)
        mh_add_times(room->means, room->shares[k], sum->weights + k * n_features, n_features);
    mh_fill(room->apart, n * m, 0.0);
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; room->shares[k] > 0.0 && j < n_features; j++) {
            const double apart = sum->weights[k * n_features + j] - room->means[j];
            mh_add_times(room->apart + k * m, apart, phi + j * width + 1, m);
        }
}

/* Write value, gradient and Hessian of a row. */
static void slopes_of_row(const mh_state_rows *rows, const double *u, const double *taken,
                          const state_room *room, double *out)
{
    const int64_t m = rows->n_arguments, width = mh_width_of_slopes(m);
    evaluate(rows, rows->slopes, u, NULL, taken, room);
    spread_out(room->entries, rows->slope_places, rows->n_slope_places, room->slopes,
               rows->n_functions * width);
    mh_copy_to(out, room->slopes, width);
    for (int64_t s = 0; s < rows->n_sums; s++) {
        const mh_states *sum = rows->sums + s;
        const double factor = number_of(sum, 0, taken);
        if (factor == 0.0)
            continue;
        out[0] += factor * weigh_states(sum, room->slopes, width, taken, room->values,
                                        room->shares, NULL);
        centre_states(sum, m, room);
        for (int64_t j = 0; j < sum->n_features; j++)
            mh_add_times(out + 1, factor * room->means[j],
                         room->slopes + (sum->first + j) * width + 1, width - 1);
        for (int64_t k = 0; k < sum->n_states; k++) {
            const double *x = room->apart + k * m;
            const double by = factor * room->shares[k];
            double *second = out + 1 + m;
            for (int64_t a = 0; by != 0.0 && a < m; a++)
                for (int64_t b = a; b < m; b++)
                    *second++ += by * x[a] * x[b];
        }
    }
}

void mh_slopes_of_states(const mh_state_rows *rows, const double *inputs, double *outputs,
                         int64_t n, double *scratch)
{
    const int64_t m = rows->n_arguments;
    state_room room;
    divide(rows, scratch, &room);
    for (int64_t i = 0; i < n; i++, inputs += m + rows->n_taken)
        slopes_of_row(rows, inputs, inputs + m, &room, outputs + i * mh_width_of_slopes(m));
}

/* ---- Third derivatives. ---- */

static void write_covariances(const mh_states *sum, int64_t m, const state_room *room)
{
    const int64_t n_features = sum->n_features;
    mh_fill(room->covariances, m * n_features, 0.0);
    for (int64_t k = 0; k < sum->n_states; k++)
        for (int64_t a = 0; a < m; a++)
            mh_add_times(room->covariances + a * n_features,
                         room->shares[k] * room->apart[k * m + a],
                         sum->weights + k * n_features, n_features);
}

/* Third derivative of a log-sum in predictors a, b and c. */
static double third_of_sum(const mh_states *sum, int64_t m, const int64_t at[3], int64_t entry,
                           const state_room *room)
{
    const int64_t n_features = sum->n_features, width = mh_width_of_slopes(m);
    const int64_t a = at[0], b = at[1], c = at[2], bc = mh_second(m, b, c);
    const int64_t ac = mh_second(m, a, c), ab = mh_second(m, a, b);
    double total = 0.0;
    for (int64_t j = 0; j < n_features; j++) {
        const double *phi = room->slopes + (sum->first + j) * width, *c_j = room->covariances + j;
        total += room->means[j] * room->thirds[(sum->first + j) * n_thirds(m) + entry] +
                 c_j[a * n_features] * phi[bc] + c_j[b * n_features] * phi[ac] +
                 c_j[c * n_features] * phi[ab];
    }
    for (int64_t k = 0; k < sum->n_states; k++) {
        const double *x = room->apart + k * m;
        total += room->shares[k] * x[a] * x[b] * x[c];
    }
    return total;
}

static void thirds_of_row(const mh_state_rows *rows, const double *u, const double *taken,
                          const state_room *room, double *out)
{
    const int64_t m = rows->n_arguments, count = n_thirds(m);
    slopes_of_row(rows, u, taken, room, room->row);
    evaluate(rows, rows->thirds, u, NULL, taken, room);
    spread_out(room->entries, rows->third_places, rows->n_third_places, room->thirds,
               rows->n_functions * count);
    mh_copy_to(out, room->thirds, count);
    for (int64_t s = 0; s < rows->n_sums; s++) {
        const mh_states *sum = rows->sums + s;
        const double factor = number_of(sum, 0, taken);
        if (factor == 0.0)
            continue;
        weigh_states(sum, room->slopes, mh_width_of_slopes(m), taken, room->values, room->shares,
                     NULL);
        centre_states(sum, m, room);
        write_covariances(sum, m, room);
        int64_t entry = 0;
        for (int64_t a = 0; a < m; a++)
            for (int64_t b = a; b < m; b++)
                for (int64_t c = b; c < m; c++, entry++)
                    out[entry] +=
                        factor * third_of_sum(sum, m, (int64_t[3]){a, b, c}, entry, room);
    }
}

void mh_thirds_of_states(const mh_state_rows *rows, const double *inputs, double *outputs,
                         int64_t n, double *scratch)
{
    const int64_t m = rows->n_arguments;
    state_room room;
    divide(rows, scratch, &room);
    for (int64_t i = 0; i < n; i++, inputs += m + rows->n_taken)
        thirds_of_row(rows, inputs, inputs + m, &room, outputs + i * n_thirds(m));
}

/* ---- Differences of remainders. ---- */

/* Change of the expansion around the centre from one end to the other; sizes are added. */
static double change_of_expansion(const double *slopes, int64_t m, int64_t order,
                                  const double *here, const double *there, double *size)
{
    double total = 0.0;
    for (int64_t a = 0; order > 0 && a < m; a++) {
        double slope = slopes[1 + a];
        for (int64_t b = 0; order > 1 && b < m; b++)
            slope += slopes[mh_second(m, a, b)] * 0.5 * (here[b] + there[b]);
        total += slope * (there[a] - here[a]);
        *size += fabs(slope * (there[a] - here[a]));
    }
    return total;
}

void mh_difference_of_states(const mh_state_rows *rows, const double *inputs, double *outputs,
                             int64_t n, double *scratch)
{
    const int64_t m = rows->n_arguments;
    state_room room;
    divide(rows, scratch, &room);
    for (int64_t i = 0; i < n; i++, inputs += 3 * m + rows->n_taken) {
        const double *here = inputs + m, *there = inputs + 2 * m, *taken = inputs + 3 * m;
        double size = 0.0;
        const double before = value_of_row(rows, inputs, here, taken, &room, &size);
        const double after = value_of_row(rows, inputs, there, taken, &room, &size);
        if (rows->order > 0)
            slopes_of_row(rows, inputs, taken, &room, room.row);
        const double expansion = change_of_expansion(room.row, m, rows->order, here, there, &size);
        outputs[2 * i] = after - before - expansion;
        outputs[2 * i + 1] = size;
    }
}
