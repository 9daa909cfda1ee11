/* Linear predictors of rows: linear forms of the position whose coefficients are data.
 *
 * Coefficients are of two kinds. Fixed ones belong to the same coordinates of the position in every
 * row, indexed ones (`chosen`) to data-indexed coordinates, as in a[group]. Predictor a of row i:
 *
 *     sum_j fixed[i, j] theta[fixed_coordinates[j]]   over the j from ends[a - 1] to ends[a]
 *   + sum_g chosen[i, g] theta[places[i, g]]          over the g with chosen_arguments[g] = a.
 *
 * Sampled rows are rarely in a cache: their memory is prefetched before it is read. */
#include "inside.h"

/* `CACHED`: block size in numbers, which fits a core's own cache; `FEWEST_ROWS`, `MOST_ROWS`:
 * limits of its number of rows; `AHEAD`: number of rows prefetched before the first is read. */
enum { CACHED = 16384, FEWEST_ROWS = 8, MOST_ROWS = 512, AHEAD = 12 };

static double read_number(const char *address, int64_t type)
{
#define READ(T) { T value; memcpy(&value, address, sizeof value); return (double)value; }
    switch (type) { /* index in data/arrays.STORED_TYPES */
    case 0: READ(double)
    case 1: READ(float)
    case 2: READ(int8_t)
    case 3: READ(int16_t)
    case 4: READ(int32_t)
    case 5: READ(int64_t)
    case 6: READ(uint8_t)
    case 7: READ(uint16_t)
    case 8: READ(uint32_t)
    case 9: READ(uint64_t)
    default: return *address != 0 ? 1.0 : 0.0;
    }
#undef READ
}

static double read_leaf(const mh_leaf *leaf, int64_t row)
{
    return read_number(leaf->address + row * leaf->stride, leaf->type);
}

static double product_of(const mh_leaf *leaves, int64_t n, double factor, int64_t row)
{
    for (int64_t k = 0; k < n; k++)
        factor *= read_leaf(leaves + k, row);
    return factor;
}

/* Prefetch `count` numbers, and separately the last one, which may be in a further cache line. */
static void ask_for(const char *start, int64_t entry_stride, int64_t count)
{
    const int64_t bytes = entry_stride < 0 ? -entry_stride : entry_stride;
    const int64_t step = mh_max(MH_CACHE_LINE / mh_max(bytes, 1), 1);
    for (int64_t j = 0; j < count; j += step)
        mh_prefetch(start + j * entry_stride);
    mh_prefetch(start + (count - 1) * entry_stride);
}

void mh_read_numbers(const char *address, int64_t stride, int64_t entry_stride, int64_t type,
                     const int64_t *rows, int64_t n, int64_t count, double *out, int64_t width)
{
    for (int64_t i = 0; i < mh_min(AHEAD, n); i++)
        ask_for(address + rows[i] * stride, entry_stride, count);
    for (int64_t i = 0; i < n; i++, out += width) {
        if (i + AHEAD < n)
            ask_for(address + rows[i + AHEAD] * stride, entry_stride, count);
        const char *start = address + rows[i] * stride;
        if (type == 0 && entry_stride == sizeof(double))
            memcpy(out, start, (size_t)count * sizeof(double));
        else
            for (int64_t j = 0; j < count; j++)
                out[j] = read_number(start + j * entry_stride, type);
    }
}

int64_t mh_rows_of_block(const mh_term *term, int64_t n)
{
    const int64_t width =
        term->n_fixed + term->n_chosen + term->n_taken + 3 * term->n_arguments;
    return mh_min(mh_min(mh_max(CACHED / mh_max(width, 1), FEWEST_ROWS), MOST_ROWS), n);
}

mh_status mh_room_for_forms(const mh_term *term, int64_t most, mh_forms *out, mh_arena *scratch)
{
    *out = (mh_forms){
        mh_take(scratch, most * term->n_fixed, double),
        mh_take(scratch, most * term->n_chosen, int64_t),
        mh_take(scratch, most * term->n_chosen, double),
        mh_take(scratch, term->n_fixed, double),
    };
    MH_NEED(out->fixed && out->places && out->chosen && out->picked);
    return MH_OK;
}

static void read_run(const mh_piece *run, const int64_t *numbers, int64_t n, double *out,
                     int64_t width)
{
    const mh_leaf *leaf = run->leaves;
    mh_read_numbers(leaf->address, leaf->stride, run->entry_stride, leaf->type, numbers, n,
                    run->count, out, width);
    if (run->factor != 1.0)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < run->count; j++)
                out[i * width + j] *= run->factor;
}

static void read_product(const mh_piece *piece, const int64_t *numbers, int64_t n, double *out,
                         int64_t width)
{
    for (int64_t i = 0; i < n; i++, out += width) {
        const double before = piece->adds ? *out : 0.0;
        *out = before + product_of(piece->leaves, piece->n_leaves, piece->factor, numbers[i]);
    }
}

static void read_choice(const mh_piece *piece, const int64_t *numbers, int64_t n, int64_t *places,
                        double *chosen, int64_t width)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t index = (int64_t)read_leaf(piece->leaves, numbers[i]);
        index += index < 0 ? piece->choices : 0;
        places[i * width] = piece->first + piece->step * index;
        chosen[i * width] =
            product_of(piece->leaves + 1, piece->n_leaves - 1, piece->factor, numbers[i]);
    }
}

/* Read the coefficients of n rows of a term; `numbers` are row numbers within the term. */
static void read_forms(const mh_term *term, const int64_t *numbers, int64_t n, const mh_forms *out)
{
    for (const mh_piece *piece = term->pieces; piece < term->pieces + term->n_pieces; piece++) {
        double *fixed = out->fixed + piece->column;
        if (piece->kind == MH_RUN)
            read_run(piece, numbers, n, fixed, term->n_fixed);
        else if (piece->kind == MH_PRODUCT)
            read_product(piece, numbers, n, fixed, term->n_fixed);
        else
            read_choice(piece, numbers, n, out->places + piece->column,
                        out->chosen + piece->column, term->n_chosen);
    }
}

/* Apply n rows' linear predictors to a vector; write columns of `out`, with row stride `width`. */
static void apply_forms(const mh_term *term, const mh_forms *forms, int64_t n,
                        const double *vector, double *out, int64_t width)
{
    for (int64_t j = 0; j < term->n_fixed; j++)
        forms->picked[j] = vector[term->fixed_coordinates[j]];
    mh_apply_fixed(forms->fixed, n, term->n_fixed, forms->picked, term->fixed_ends,
                   term->n_arguments, out, width);
    const int64_t n_chosen = term->n_chosen;
    for (int64_t i = 0, entry = 0; n_chosen && i < n; i++, out += width)
        for (int64_t g = 0; g < n_chosen; g++, entry++)
            out[term->chosen_arguments[g]] += forms->chosen[entry] * vector[forms->places[entry]];
}

void mh_read_rows(const mh_term *term, const int64_t *numbers, int64_t n, const double *vectors,
                  int64_t n_vectors, int64_t size, const mh_forms *forms, double *inputs)
{
    const int64_t first = n_vectors * term->n_arguments, width = first + term->n_taken;
    for (const mh_leaf *leaf = term->taken; leaf < term->taken + term->n_taken; leaf++)
        for (int64_t i = 0; i < n; i++)
            mh_prefetch(leaf->address + numbers[i] * leaf->stride);
    read_forms(term, numbers, n, forms);
    for (int64_t k = 0; k < n_vectors; k++)
        apply_forms(term, forms, n, vectors + k * size, inputs + k * term->n_arguments, width);
    for (int64_t k = 0; k < term->n_taken; k++)
        for (int64_t i = 0; i < n; i++)
            inputs[i * width + first + k] = read_leaf(term->taken + k, numbers[i]);
}

void mh_whiten_forms(const mh_term *term, const mh_forms *forms, int64_t row, const double *factor,
                     int64_t size, double *out)
{
    const double *fixed = forms->fixed + row * term->n_fixed;
    mh_fill(out, term->n_arguments * size, 0.0);
    for (int64_t a = 0, start = 0; a < term->n_arguments; start = term->fixed_ends[a++])
        mh_whiten_form(fixed + start, term->fixed_coordinates + start,
                       term->fixed_ends[a] - start, factor, size, out + a * size);
    for (int64_t g = 0; g < term->n_chosen; g++) {
        const int64_t entry = row * term->n_chosen + g;
        mh_whiten_form(forms->chosen + entry, forms->places + entry, 1, factor, size,
                       out + term->chosen_arguments[g] * size);
    }
}

/* Write the sum of |coefficient * entry| over each of a row's linear predictors. */
static void write_sizes(const mh_term *term, const mh_forms *forms, const double *vector,
                        int64_t row, double *out)
{
    const double *fixed = forms->fixed + row * term->n_fixed;
    for (int64_t a = 0, start = 0; a < term->n_arguments; start = term->fixed_ends[a++]) {
        out[a] = 0.0;
        for (int64_t j = start; j < term->fixed_ends[a]; j++)
            out[a] += fabs(fixed[j] * forms->picked[j]);
    }
    for (int64_t g = 0; g < term->n_chosen; g++) {
        const int64_t entry = row * term->n_chosen + g;
        out[term->chosen_arguments[g]] += fabs(forms->chosen[entry] * vector[forms->places[entry]]);
    }
}

mh_status mh_place_forms(const mh_term *term, const int64_t *numbers, int64_t n,
                         const double *centre, const double *factor, int64_t size, double *values,
                         double *sizes, double *norms, double *whitened, mh_arena *scratch)
{
    const int64_t m = term->n_arguments, most = mh_rows_of_block(term, n);
    MH_SCOPE(scratch);
    mh_forms forms;
    MH_VECTOR(double, unkept, scratch, m * size);
    MH_TRY(mh_room_for_forms(term, most, &forms, scratch));
    for (int64_t start = 0; start < n; start += most) {
        const int64_t count = mh_min(most, n - start);
        read_forms(term, numbers + start, count, &forms);
        apply_forms(term, &forms, count, centre, values + start * m, m);
        for (int64_t i = 0; i < count; i++) {
            const int64_t row = (start + i) * m;
            double *white = whitened ? whitened + row * size : unkept;
            write_sizes(term, &forms, centre, i, sizes + row);
            mh_whiten_forms(term, &forms, i, factor, size, white);
            for (int64_t a = 0; a < m; a++) {
                const double *form = white + a * size;
                norms[row + a] = sqrt(mh_inner(form, form, size));
            }
        }
    }
    return MH_OK;
}
