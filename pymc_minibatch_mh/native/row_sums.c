/* Sums over many rows, block by block, for full-data evaluations. Rows are numbered over all terms,
 * in any order unless stated otherwise. */
#include "inside.h"

/* Number of rows in a block: its temporaries fit a core's own cache. */
enum { BLOCK = 4096 };

/* A block of drawn rows, numbered within their terms. */
typedef struct arranged {
    int64_t *numbers; /* (min(n, BLOCK),) */
    int64_t *ends;    /* (n_terms,) */
} arranged;

static mh_status room_for(const mh_rows *rows, int64_t n, arranged *out, mh_arena *scratch)
{
    out->numbers = mh_take(scratch, mh_min(BLOCK, n), int64_t);
    out->ends = mh_take(scratch, rows->n_terms, int64_t);
    return out->numbers && out->ends ? MH_OK : MH_NO_MEMORY;
}

mh_status mh_add_derivatives(const mh_rows *rows, const double *theta, const int64_t *drawn,
                             int64_t n, int64_t wants_hessian, double *sums, double *hessian,
                             mh_arena *scratch)
{
    arranged some;
    MH_SCOPE(scratch);
    MH_TRY(room_for(rows, n, &some, scratch));
    for (int64_t start = 0; start < n; start += BLOCK) {
        mh_arrange(rows, drawn + start, mh_min(BLOCK, n - start), some.numbers, some.ends);
        MH_TRY(mh_derivatives_of_rows(rows, theta, some.numbers, some.ends, wants_hessian, sums,
                                      hessian, scratch));
    }
    return MH_OK;
}

/* Write the log-likelihood of every drawn row. */
mh_status mh_row_values(const mh_rows *rows, const double *theta, const int64_t *drawn, int64_t n,
                        double *out, mh_arena *scratch)
{
    MH_VECTOR(double, sums, scratch, 1 + rows->size);
    mh_fill(sums, 1 + rows->size, 0.0);
    for (int64_t i = 0; i < n; i++) {
        sums[0] = 0.0;
        MH_TRY(mh_add_derivatives(rows, theta, drawn + i, 1, 0, sums, NULL, scratch));
        out[i] = sums[0];
    }
    return MH_OK;
}

mh_status mh_add_skewness(const mh_rows *rows, const double *theta, const double *factor,
                          const int64_t *drawn, int64_t n, double *out, mh_arena *scratch)
{
    arranged some;
    MH_TRY(room_for(rows, n, &some, scratch));
    for (int64_t start = 0; start < n; start += BLOCK) {
        mh_arrange(rows, drawn + start, mh_min(BLOCK, n - start), some.numbers, some.ends);
        MH_TRY(mh_skewness_of_rows(rows, theta, factor, some.numbers, some.ends, out, scratch));
    }
    return MH_OK;
}

mh_status mh_add_thirds(const mh_rows *rows, const double *theta, const int64_t *drawn, int64_t n,
                        double *out, mh_arena *scratch)
{
    arranged some;
    MH_TRY(room_for(rows, n, &some, scratch));
    for (int64_t start = 0; start < n; start += BLOCK) {
        mh_arrange(rows, drawn + start, mh_min(BLOCK, n - start), some.numbers, some.ends);
        MH_TRY(mh_thirds_of_rows(rows, theta, some.numbers, some.ends, out, scratch));
    }
    return MH_OK;
}

/* Write the differences in a proposal, and units of their rounding; terms have consecutive rows. */
mh_status mh_differences_of(const mh_rows *rows, const double *position,
                            const double *new_position, const double *centre,
                            const int64_t *drawn, int64_t n, double *differences, double *scales,
                            mh_arena *scratch)
{
    arranged some;
    MH_TRY(room_for(rows, n, &some, scratch));
    for (int64_t start = 0; start < n; start += BLOCK) {
        mh_arrange(rows, drawn + start, mh_min(BLOCK, n - start), some.numbers, some.ends);
        MH_TRY(mh_differences_of_rows(rows, position, new_position, centre, some.numbers,
                                      some.ends, differences + start, scales + start, scratch));
    }
    return MH_OK;
}

/* Write the differences d in a proposal, their number, mean and central sums, and sum |d|^3. */
mh_status mh_moments_of_move(const mh_rows *rows, const double *position,
                             const double *new_position, const double *centre,
                             const int64_t *drawn, int64_t n, double *differences,
                             mh_moments *moments, double *absolute, mh_arena *scratch)
{
    MH_VECTOR(double, scales, scratch, n);
    *moments = (mh_moments){0, 0.0, 0.0, 0.0};
    *absolute = 0.0;
    MH_TRY(mh_differences_of(rows, position, new_position, centre, drawn, n, differences, scales,
                             scratch));
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t count = mh_min(BLOCK, n - start);
        mh_add_moments(moments, differences + start, count);
        for (int64_t i = start; i < start + count; i++)
            *absolute += mh_cube(fabs(differences[i]));
    }
    return MH_OK;
}

double mh_largest_of(const double *differences, const double *scales, const double *c, int64_t n,
                     double m, double inverse_temperature, int64_t *worst)
{
    double largest = -1.0;
    *worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double ratio = mh_ratio_to_bound(differences[i], scales[i], c[i] * m,
                                               inverse_temperature);
        if (ratio > largest) {
            largest = ratio;
            *worst = i;
        }
    }
    return largest;
}

/* ---- The prior's part of the skewness: L^T times the third-order correction of the gradient of
 * the log prior, averaged over N(theta, L L^T). ---- */

/* Write theta + `times` * (a column of the factor). */
static void shifted(const double *theta, const double *factor, int64_t column, double times,
                    int64_t size, double *out)
{
    for (int64_t j = 0; j < size; j++)
        out[j] = theta[j] + times * factor[j * size + column];
}

/* Half the sum of the log prior's second differences along a factor's columns. */
static double curvature(mh_log_prior prior, const int64_t *context, const double *theta,
                        const double *factor, int64_t size, double *point)
{
    const double value = prior(theta, context);
    double total = 0.0;
    for (int64_t k = 0; k < size; k++) {
        shifted(theta, factor, k, 1.0, size, point);
        const double forth = prior(point, context);
        shifted(theta, factor, k, -1.0, size, point);
        total += 0.5 * (forth + prior(point, context)) - value;
    }
    return total;
}

mh_status mh_skewness_of_prior(mh_log_prior prior, const int64_t *context, const double *theta,
                               const double *factor, int64_t size, double *out, mh_arena *scratch)
{
    double *from = mh_take(scratch, size, double), *point = mh_take(scratch, size, double);
    MH_NEED(from && point);
    for (int64_t k = 0; k < size; k++) {
        shifted(theta, factor, k, 1.0, size, from);
        const double forth = curvature(prior, context, from, factor, size, point);
        shifted(theta, factor, k, -1.0, size, from);
        const double back = curvature(prior, context, from, factor, size, point);
        out[k] = 0.5 * (forth - back);
    }
    return MH_OK;
}
