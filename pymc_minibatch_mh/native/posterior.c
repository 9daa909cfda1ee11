/* The posterior as updates know it, and how they read rows of it. */
#include "inside.h"

mh_status mh_expansion_change(const mh_reference *reference, const double *position,
                              const double *new_position, double *change, mh_arena *scratch)
{
    const mh_mark mark = mh_mark_of(scratch);
    const int64_t size = reference->size;
    double *middle = mh_take(scratch, size, double), *step = mh_take(scratch, size, double);
    MH_NEED(middle && step);
    double total = 0.0;
    for (int64_t j = 0; j < size; j++) {
        const double centre = reference->centre[j];
        middle[j] = 0.5 * ((position[j] - centre) + (new_position[j] - centre));
        step[j] = new_position[j] - position[j];
        total += reference->gradient[j] * step[j];
    }
    total += mh_inner_by(reference->hessian, step, middle, size);
    *change = reference->inverse_temperature * total;
    mh_give_back(scratch, mark);
    return MH_OK;
}

/* ---- Rows as they are read: numbered within terms, and through all of them again. ---- */

/* Write the differences of rows that are arranged, and number them through all terms. */
static mh_status read_arranged(const mh_posterior *posterior, const mh_move *move, int64_t *numbers,
                               const int64_t *ends, double *differences, double *scales,
                               mh_arena *scratch)
{
    MH_TRY(mh_differences_of_rows(&posterior->rows, move->position, move->new,
                                  posterior->reference.centre, numbers, ends, differences, scales,
                                  scratch));
    mh_number_through(&posterior->rows, numbers, ends);
    return MH_OK;
}

mh_status mh_read_drawn(const mh_posterior *posterior, const mh_move *move, const int64_t *drawn,
                        int64_t n, int64_t *rows, double *differences, double *scales,
                        mh_arena *scratch)
{
    const mh_mark mark = mh_mark_of(scratch);
    int64_t *ends = mh_take(scratch, posterior->rows.n_terms, int64_t);
    MH_NEED(ends);
    mh_arrange(&posterior->rows, drawn, n, rows, ends);
    MH_TRY(read_arranged(posterior, move, rows, ends, differences, scales, scratch));
    mh_give_back(scratch, mark);
    return MH_OK;
}

mh_status mh_read_block(const mh_posterior *posterior, const mh_move *move, int64_t first,
                        int64_t *rows, double *differences, double *scales, int64_t *count,
                        mh_arena *scratch)
{
    const mh_mark mark = mh_mark_of(scratch);
    const mh_rows *all = &posterior->rows;
    int64_t *ends = mh_take(scratch, all->n_terms, int64_t);
    MH_NEED(ends);
    const int64_t last = mh_min(first + MH_BLOCK, all->term_starts[all->n_terms]);
    mh_arrange_block(all, first, last, rows, ends);
    *count = last - first;
    MH_TRY(read_arranged(posterior, move, rows, ends, differences, scales, scratch));
    mh_give_back(scratch, mark);
    return MH_OK;
}

/* ---- Sums over many rows, in bounded memory. ---- */

/* Rows of a block as they were read, and the sums that they are added to. */
typedef struct {
    int64_t *rows;
    double *differences;
    double *scales;
    double change;
    double squares;
} sums;

static mh_status new_sums(sums *out, mh_arena *scratch)
{
    *out = (sums){mh_take(scratch, MH_BLOCK, int64_t), mh_take(scratch, MH_BLOCK, double),
                  mh_take(scratch, MH_BLOCK, double), 0.0, 0.0};
    return out->rows && out->differences && out->scales ? MH_OK : MH_NO_MEMORY;
}

/* Add the differences of n rows, and their squares over c of those that can change. */
static void add_block(sums *to, int64_t n, const float *c)
{
    for (int64_t i = 0; i < n; i++) {
        const double difference = to->differences[i];
        to->change += difference;
        if (c && c[to->rows[i]] > 0.0f)
            to->squares += difference * difference / (double)c[to->rows[i]];
    }
}

/* Read n chosen rows, or all n where none are chosen. */
static mh_status sum_rows(const mh_posterior *posterior, const mh_move *move,
                          const int64_t *chosen, int64_t n, const float *c, sums *found,
                          mh_arena *scratch)
{
    for (int64_t first = 0; first < n; first += MH_BLOCK) {
        int64_t count = mh_min(MH_BLOCK, n - first);
        MH_TRY(chosen ? mh_read_drawn(posterior, move, chosen + first, count, found->rows,
                                      found->differences, found->scales, scratch)
                      : mh_read_block(posterior, move, first, found->rows, found->differences,
                                      found->scales, &count, scratch));
        add_block(found, count, c);
    }
    return MH_OK;
}

mh_status mh_read_chosen(const mh_posterior *posterior, const mh_move *move, const int64_t *chosen,
                         int64_t n, const float *c, double *change, double *squares,
                         mh_arena *scratch)
{
    const mh_mark mark = mh_mark_of(scratch);
    sums found;
    MH_TRY(new_sums(&found, scratch));
    MH_TRY(sum_rows(posterior, move, chosen, n, c, &found, scratch));
    *change = found.change;
    *squares = found.squares;
    mh_give_back(scratch, mark);
    return MH_OK;
}

mh_status mh_read_all(const mh_posterior *posterior, const mh_move *move, const float *c,
                      double *change, double *squares, mh_arena *scratch)
{
    const mh_supply *supply = &posterior->bounds.supply;
    if (supply->room > 0) {
        *squares = NAN;
        return mh_ask_for_change(supply, change);
    }
    const int64_t total = posterior->rows.term_starts[posterior->rows.n_terms];
    return mh_read_chosen(posterior, move, NULL, total, c, change, squares, scratch);
}

mh_status mh_change_of_all_rows(const mh_posterior *posterior, const mh_move *move,
                                mh_counts *counts, double *change, mh_arena *scratch)
{
    double untempered = NAN, squares;
    MH_TRY(mh_read_all(posterior, move, NULL, &untempered, &squares, scratch));
    counts->full_pass += 1.0;
    counts->invalid += isfinite(untempered) ? 0.0 : 1.0;
    *change = posterior->reference.inverse_temperature * untempered;
    return MH_OK;
}
