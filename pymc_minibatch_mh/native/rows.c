/* Rows: differences between the ends of a proposal, derivatives, and averaged third derivatives.
 *
 * A row is a function f of m linear predictors (forms.c), or else a graph of all coordinates. With
 * linear predictors B theta, B of shape (m, d), and derivatives g, H of f, it adds B^T g to the
 * gradient and B^T H B to the Hessian. Fixed coefficients are summed in a separate matrix, whose
 * inner loops are contiguous in memory, and are added to their coordinates once.
 *
 * Averaged over N(theta, L L^T), third derivatives add half of f_abc w_b.w_c, summed over b and c,
 * to the derivative in linear predictor a; w_a = L^T b_a are the whitened linear predictors. */
#include "inside.h"

/* Block of rows of one term: linear predictors, and the inputs and outputs of the row function. */
typedef struct block {
    const mh_term *term;
    int64_t most;
    mh_forms forms;
    double *inputs;  /* `n_vectors` times m linear predictors, and the leaves, (most, ...) */
    double *outputs; /* (most, n_outputs) */
} block;

static mh_status room_for_block(const mh_term *term, int64_t n, int64_t n_vectors,
                                int64_t n_outputs, block *out, mh_arena *scratch)
{
    const int64_t most = mh_rows_of_block(term, n);
    const int64_t width = n_vectors * term->n_arguments + term->n_taken;
    out->term = term;
    out->most = most;
    out->inputs = mh_take(scratch, most * width, double);
    out->outputs = mh_take(scratch, most * n_outputs, double);
    MH_NEED(out->inputs && out->outputs);
    return mh_room_for_forms(term, most, &out->forms, scratch);
}

/* ---- Differences. ---- */

/* Write differences of rows of a term; `ends`, (3, d): centre, both positions relative to it. */
static mh_status differences_of_term(const mh_term *term, const double *ends, int64_t size,
                                     const int64_t *numbers, int64_t n, double *differences,
                                     double *scales, mh_arena *scratch)
{
    block read;
    MH_TRY(room_for_block(term, n, 3, 2, &read, scratch));
    for (int64_t start = 0; start < n; start += read.most) {
        const int64_t count = mh_min(read.most, n - start);
        mh_read_rows(term, numbers + start, count, ends, 3, size, &read.forms, read.inputs);
        term->difference(read.inputs, read.outputs, count);
        for (int64_t i = 0; i < count; i++) {
            const double change = read.outputs[2 * i];
            differences[start + i] = isfinite(change) ? change : -INFINITY;
            scales[start + i] = read.outputs[2 * i + 1];
        }
    }
    return MH_OK;
}

mh_status mh_differences_of_rows(const mh_rows *rows, const double *position,
                                 const double *new_position, const double *centre,
                                 const int64_t *numbers, const int64_t *ends, double *differences,
                                 double *scales, mh_arena *scratch)
{
    if (!rows->terms && !rows->groups) {
        rows->differences(position, new_position, centre, numbers, ends, rows->context,
                          differences, scales);
        return MH_OK;
    }
    MH_SCOPE(scratch);
    const int64_t size = rows->size;
    MH_VECTOR(double, of_move, scratch, 3 * size);
    for (int64_t j = 0; j < size; j++) {
        of_move[j] = centre[j];
        of_move[size + j] = position[j] - centre[j];
        of_move[2 * size + j] = new_position[j] - centre[j];
    }
    if (rows->groups)
        return mh_differences_of_groups(rows->groups, of_move, numbers, ends[0], differences,
                                        scales, scratch);
    for (int64_t k = 0, start = 0; k < rows->n_terms; start = ends[k++])
        if (ends[k] > start)
            MH_TRY(differences_of_term(rows->terms + k, of_move, size, numbers + start,
                                       ends[k] - start, differences + start, scales + start,
                                       scratch));
    return MH_OK;
}

/* ---- Derivatives. ---- */

/* Sums over rows of a term: gradient and Hessian of the fixed coefficients, (S,) and (S, S); value
 * and gradient, (1 + d,), and Hessian, (d, d), of the coordinates. `hessian` may be NULL. */
typedef struct sums_of_term {
    double *gradient, *products, *sums, *hessian;
    int64_t size;
    double *weights; /* derivatives of a block in one or two linear predictors, (most,) */
} sums_of_term;

static int64_t start_of(const mh_term *term, int64_t a)
{
    return a > 0 ? term->fixed_ends[a - 1] : 0;
}

static void copy_column(const double *lines, int64_t width, int64_t n, double *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = lines[i * width];
}

/* Add the gradients of n rows, from derivatives in linear predictors, of row stride `width`. */
static void add_gradient(const block *read, const double *slopes, int64_t width, int64_t n,
                         const sums_of_term *out)
{
    const mh_term *term = read->term;
    for (int64_t a = 0; a < term->n_arguments; a++) {
        copy_column(slopes + 1 + a, width, n, out->weights);
        mh_add_lines(read->forms.fixed, term->n_fixed, out->weights, n, start_of(term, a),
                     term->fixed_ends[a], out->gradient);
    }
    for (int64_t i = 0, at = 0; term->n_chosen && i < n; i++)
        for (int64_t g = 0; g < term->n_chosen; g++, at++) {
            const double slope = slopes[i * width + 1 + term->chosen_arguments[g]];
            out->sums[1 + read->forms.places[at]] += slope * read->forms.chosen[at];
        }
}

/* Add the second derivatives of a row that involve an indexed coefficient, as in a[group]. */
static void add_chosen(const block *read, const double *slopes, int64_t i, double *hessian,
                       int64_t size)
{
    const mh_term *term = read->term;
    const int64_t m = term->n_arguments, n_chosen = term->n_chosen;
    const double *fixed = read->forms.fixed + i * term->n_fixed;
    const double *chosen = read->forms.chosen + i * n_chosen;
    const int64_t *places = read->forms.places + i * n_chosen;
    for (int64_t g = 0; g < n_chosen; g++) {
        const int64_t p = places[g], a = term->chosen_arguments[g];
        for (int64_t b = 0; b < m; b++) {
            const double slope = chosen[g] * slopes[mh_second(m, a, b)];
            for (int64_t j = start_of(term, b); j < term->fixed_ends[b]; j++) {
                const int64_t q = term->fixed_coordinates[j];
                hessian[p * size + q] += slope * fixed[j];
                hessian[q * size + p] += slope * fixed[j];
            }
        }
        for (int64_t h = 0; h < n_chosen; h++) {
            const double slope = chosen[g] * slopes[mh_second(m, a, term->chosen_arguments[h])];
            hessian[p * size + places[h]] += slope * chosen[h];
        }
    }
}

static void add_hessian(const block *read, int64_t width, int64_t n, const sums_of_term *out)
{
    const mh_term *term = read->term;
    const int64_t m = term->n_arguments;
    for (int64_t a = 0; a < m; a++)
        for (int64_t b = 0; b <= a; b++) {
            copy_column(read->outputs + mh_second(m, a, b), width, n, out->weights);
            mh_add_products(read->forms.fixed, term->n_fixed, out->weights, n, start_of(term, a),
                            term->fixed_ends[a], start_of(term, b), term->fixed_ends[b],
                            out->products);
        }
    for (int64_t i = 0; term->n_chosen && i < n; i++)
        add_chosen(read, read->outputs + i * width, i, out->hessian, out->size);
}

/* Add the sums of fixed coefficients to their coordinates. */
static void add_fixed(const mh_term *term, const sums_of_term *from)
{
    const int64_t *places = term->fixed_coordinates, n = term->n_fixed;
    for (int64_t j = 0; j < n; j++)
        from->sums[1 + places[j]] += from->gradient[j];
    for (int64_t j = 0; from->hessian && j < n; j++)
        for (int64_t k = 0; k <= j; k++) {
            const double product = from->products[j * n + k];
            from->hessian[places[j] * from->size + places[k]] += product;
            if (j != k)
                from->hessian[places[k] * from->size + places[j]] += product;
        }
}

/* Allocate the sums of fixed coefficients, and set them to zero; `hessian` may be NULL. */
static mh_status room_for_sums(const mh_term *term, int64_t most, int64_t size, double *sums,
                               double *hessian, sums_of_term *out, mh_arena *scratch)
{
    const int64_t n = term->n_fixed, n_products = hessian ? n * n : 0;
    *out = (sums_of_term){
        mh_take(scratch, n, double), mh_take(scratch, n_products, double), sums, hessian, size,
        mh_take(scratch, most, double),
    };
    MH_NEED(out->gradient && out->products && out->weights);
    mh_fill(out->gradient, n, 0.0);
    mh_fill(out->products, n_products, 0.0);
    return MH_OK;
}

static mh_status derivatives_of_term(const mh_term *term, const double *position, int64_t size,
                                     const int64_t *numbers, int64_t n, double *sums,
                                     double *hessian, mh_arena *scratch)
{
    const int64_t m = term->n_arguments, width = 1 + m + m * (m + 1) / 2;
    block read;
    sums_of_term to;
    MH_TRY(room_for_block(term, n, 1, width, &read, scratch));
    MH_TRY(room_for_sums(term, read.most, size, sums, hessian, &to, scratch));
    for (int64_t start = 0; start < n; start += read.most) {
        const int64_t count = mh_min(read.most, n - start);
        mh_read_rows(term, numbers + start, count, position, 1, size, &read.forms, read.inputs);
        term->slopes(read.inputs, read.outputs, count);
        for (int64_t i = 0; i < count; i++)
            sums[0] += read.outputs[i * width];
        add_gradient(&read, read.outputs, width, count, &to);
        if (hessian)
            add_hessian(&read, width, count, &to);
    }
    add_fixed(term, &to);
    return MH_OK;
}

mh_status mh_derivatives_of_rows(const mh_rows *rows, const double *position,
                                 const int64_t *numbers, const int64_t *ends,
                                 int64_t wants_hessian, double *sums, double *hessian,
                                 mh_arena *scratch)
{
    if (rows->groups)
        return mh_derivatives_of_groups(rows->groups, position, numbers, ends[0], wants_hessian,
                                        sums, hessian, scratch);
    if (!rows->terms) {
        rows->derivatives(position, numbers, ends, rows->context, wants_hessian, sums, hessian);
        return MH_OK;
    }
    MH_SCOPE(scratch);
    for (int64_t k = 0, start = 0; k < rows->n_terms; start = ends[k++])
        if (ends[k] > start)
            MH_TRY(derivatives_of_term(rows->terms + k, position, rows->size, numbers + start,
                                       ends[k] - start, sums, wants_hessian ? hessian : NULL,
                                       scratch));
    return MH_OK;
}

/* ---- Third derivatives of rows with one linear predictor. ---- */

/* List a row's coordinates in ascending order, with the sums of their coefficients; return their number. */
static int64_t list_coefficients(const block *read, int64_t i, int64_t *places, double *values)
{
    const mh_term *term = read->term;
    const int64_t n_fixed = term->n_fixed, n = n_fixed + term->n_chosen;
    int64_t count = 0;
    for (int64_t j = 0; j < n; j++) {
        const int64_t g = i * term->n_chosen + j - n_fixed;
        const int64_t place = j < n_fixed ? term->fixed_coordinates[j] : read->forms.places[g];
        const double value = j < n_fixed ? read->forms.fixed[i * n_fixed + j] : read->forms.chosen[g];
        int64_t at = count;
        while (at > 0 && places[at - 1] > place)
            at--;
        if (at > 0 && places[at - 1] == place) {
            values[at - 1] += value;
            continue;
        }
        memmove(places + at + 1, places + at, (size_t)(count - at) * sizeof *places);
        memmove(values + at + 1, values + at, (size_t)(count - at) * sizeof *values);
        places[at] = place;
        values[at] = value;
        count++;
    }
    return count;
}

static void add_thirds(const int64_t *places, const double *values, int64_t n, double third,
                       int64_t size, double *out)
{
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = a; b < n; b++) {
            const double product = third * values[a] * values[b];
            double *line = out + (places[a] * size + places[b]) * size;
            for (int64_t c = b; c < n; c++)
                line[places[c]] += product * values[c];
        }
}

static mh_status thirds_of_term(const mh_term *term, const double *position, int64_t size,
                                const int64_t *numbers, int64_t n, double *out, mh_arena *scratch)
{
    block read;
    MH_TRY(room_for_block(term, n, 1, 1, &read, scratch));
    MH_VECTOR(int64_t, places, scratch, term->n_fixed + term->n_chosen);
    MH_VECTOR(double, values, scratch, term->n_fixed + term->n_chosen);
    for (int64_t start = 0; start < n; start += read.most) {
        const int64_t count = mh_min(read.most, n - start);
        mh_read_rows(term, numbers + start, count, position, 1, size, &read.forms, read.inputs);
        term->thirds(read.inputs, read.outputs, count);
        for (int64_t i = 0; i < count; i++) {
            const int64_t length = list_coefficients(&read, i, places, values);
            add_thirds(places, values, length, read.outputs[i], size, out);
        }
    }
    return MH_OK;
}

mh_status mh_thirds_of_rows(const mh_rows *rows, const double *position, const int64_t *numbers,
                            const int64_t *ends, double *out, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    for (int64_t k = 0, start = 0; k < rows->n_terms; start = ends[k++])
        if (ends[k] > start)
            MH_TRY(thirds_of_term(rows->terms + k, position, rows->size, numbers + start,
                                  ends[k] - start, out, scratch));
    return MH_OK;
}

/* ---- Skewness. ---- */

/* Add the contribution of f_abc, a <= b <= c, to the slopes. Each distinct permutation (i, j, k) of
 * its index adds half of f_abc w_j.w_k to slope i; `white` are the w_a, (m, d). */
static void add_third(const double *white, int64_t size, const int64_t index[3], double third,
                      double *slopes)
{
    const int64_t a = index[0], b = index[1], c = index[2];
    const double *of_a = white + a * size, *of_b = white + b * size, *of_c = white + c * size;
    if (a == b && b == c) {
        slopes[a] += 0.5 * third * mh_inner(of_a, of_a, size);
    } else if (a == b || b == c) {
        const int64_t twice = a == b ? a : b, once = a == b ? c : a;
        const double *of_twice = white + twice * size, *of_once = white + once * size;
        slopes[once] += 0.5 * third * mh_inner(of_twice, of_twice, size);
        slopes[twice] += third * mh_inner(of_twice, of_once, size);
    } else {
        slopes[a] += third * mh_inner(of_b, of_c, size);
        slopes[b] += third * mh_inner(of_a, of_c, size);
        slopes[c] += third * mh_inner(of_a, of_b, size);
    }
}

/* Write 0 (no value), then half of the sum of f_abc w_b.w_c for each predictor a, (1 + m,). */
static void skewness_of_row(int64_t m, const double *white, int64_t size, const double *thirds,
                            double *out)
{
    mh_fill(out, 1 + m, 0.0);
    for (int64_t a = 0; a < m; a++)
        for (int64_t b = a; b < m; b++)
            for (int64_t c = b; c < m; c++)
                add_third(white, size, (int64_t[3]){a, b, c}, *thirds++, out + 1);
}

static mh_status skewness_of_term(const mh_term *term, const double *position,
                                  const double *factor, int64_t size, const int64_t *numbers,
                                  int64_t n, double *sums, mh_arena *scratch)
{
    const int64_t m = term->n_arguments, n_thirds = m * (m + 1) * (m + 2) / 6;
    block read;
    sums_of_term to;
    MH_TRY(room_for_block(term, n, 1, n_thirds, &read, scratch));
    MH_TRY(room_for_sums(term, read.most, size, sums, NULL, &to, scratch));
    double *white = mh_take(scratch, m * size, double);
    double *slopes = mh_take(scratch, read.most * (1 + m), double);
    MH_NEED(white && slopes);
    for (int64_t start = 0; start < n; start += read.most) {
        const int64_t count = mh_min(read.most, n - start);
        mh_read_rows(term, numbers + start, count, position, 1, size, &read.forms, read.inputs);
        term->thirds(read.inputs, read.outputs, count);
        for (int64_t i = 0; i < count; i++) {
            mh_whiten_forms(term, &read.forms, i, factor, size, white);
            skewness_of_row(m, white, size, read.outputs + i * n_thirds, slopes + i * (1 + m));
        }
        add_gradient(&read, slopes, 1 + m, count, &to);
    }
    add_fixed(term, &to);
    return MH_OK;
}

mh_status mh_skewness_of_rows(const mh_rows *rows, const double *position, const double *factor,
                              const int64_t *numbers, const int64_t *ends, double *out,
                              mh_arena *scratch)
{
    MH_SCOPE(scratch);
    MH_VECTOR(double, sums, scratch, 1 + rows->size);
    mh_fill(sums, 1 + rows->size, 0.0);
    for (int64_t k = 0, start = 0; k < rows->n_terms; start = ends[k++])
        if (ends[k] > start)
            MH_TRY(skewness_of_term(rows->terms + k, position, factor, rows->size,
                                    numbers + start, ends[k] - start, sums, scratch));
    for (int64_t j = 0; j < rows->size; j++)
        out[j] += sums[1 + j];
    return MH_OK;
}
