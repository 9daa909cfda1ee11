/* Posterior changes in updates: of the control variates, and of evaluated rows. */
#include "inside.h"

/* Value of the cubic terms of the expansion at a position relative to the centre. */
static double cubic_terms(const mh_reference *reference, const double *x)
{
    const double *thirds = reference->thirds;
    const int64_t *line = reference->lines;
    double total = 0.0;
    for (int64_t k = 0; k < reference->n_lines; k++, line += 4) {
        const int64_t n = line[3] - line[2];
        total += x[line[0]] * x[line[1]] * mh_inner(thirds, x + line[2], n);
        thirds += n;
    }
    return total;
}

/* Change of the cubic terms in a proposal. */
static mh_status cubic_change(const mh_reference *reference, const double *position,
                              const double *new_position, double *change, mh_arena *scratch)
{
    const int64_t size = reference->size;
    double *here = mh_take(scratch, size, double), *there = mh_take(scratch, size, double);
    MH_NEED(here && there);
    for (int64_t j = 0; j < size; j++) {
        here[j] = position[j] - reference->centre[j];
        there[j] = new_position[j] - reference->centre[j];
    }
    *change = cubic_terms(reference, there) - cubic_terms(reference, here);
    return MH_OK;
}

mh_status mh_expansion_change(const mh_reference *reference, const double *position,
                              const double *new_position, double *change, mh_arena *scratch)
{
    MH_SCOPE(scratch);
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
    double cubic = 0.0;
    if (reference->n_lines > 0)
        MH_TRY(cubic_change(reference, position, new_position, &cubic, scratch));
    total += cubic;
    *change = reference->inverse_temperature * total;
    return MH_OK;
}

/* ---- Evaluation of rows, sorted by term; the results' row numbers are over all terms. ---- */

mh_status mh_take_read(const mh_posterior *posterior, const mh_move *move, int64_t room,
                       mh_read *out, mh_arena *scratch)
{
    *out = (mh_read){posterior, move, scratch, mh_take(scratch, room, int64_t),
                     mh_take(scratch, room, double), mh_take(scratch, room, double)};
    return out->rows && out->differences && out->scales ? MH_OK : MH_NO_MEMORY;
}

/* Count the rows of the groups that a read evaluates, if observations are groups. */
static void count_group_rows(const mh_read *read, int64_t n)
{
    const mh_groups *groups = read->posterior->rows.groups;
    double *counted = read->posterior->group_rows;
    if (!groups || !counted)
        return;
    for (int64_t k = 0; k < groups->n_terms; k++) {
        const int64_t *starts = groups->starts + k * (groups->n_groups + 1);
        for (int64_t i = 0; i < n; i++)
            *counted += (double)(starts[read->rows[i] + 1] - starts[read->rows[i]]);
    }
}

static mh_status read_arranged(const mh_read *read, const int64_t *ends)
{
    const mh_posterior *posterior = read->posterior;
    MH_TRY(mh_differences_of_rows(&posterior->rows, read->move->position, read->move->new,
                                  posterior->reference.centre, read->rows, ends,
                                  read->differences, read->scales, read->scratch));
    count_group_rows(read, ends[0]);
    mh_number_through(&posterior->rows, read->rows, ends);
    return MH_OK;
}

mh_status mh_read_drawn(const mh_read *read, const int64_t *drawn, int64_t n)
{
    MH_SCOPE(read->scratch);
    MH_VECTOR(int64_t, ends, read->scratch, read->posterior->rows.n_terms);
    mh_arrange(&read->posterior->rows, drawn, n, read->rows, ends);
    return read_arranged(read, ends);
}

mh_status mh_read_block(const mh_read *read, int64_t first, int64_t last)
{
    MH_SCOPE(read->scratch);
    MH_VECTOR(int64_t, ends, read->scratch, read->posterior->rows.n_terms);
    mh_arrange_block(&read->posterior->rows, first, last, read->rows, ends);
    return read_arranged(read, ends);
}

/* ---- Sums over many rows, in bounded memory. ---- */

/* Add differences of n rows to `change`, and difference^2/c to `squares` for rows with c > 0. */
static void add_block(const mh_read *read, int64_t n, const float *c, double *change,
                      double *squares)
{
    for (int64_t i = 0; i < n; i++) {
        const double difference = read->differences[i];
        *change += difference;
        if (c && c[read->rows[i]] > 0.0f)
            *squares += difference * difference / (double)c[read->rows[i]];
    }
}

mh_status mh_read_chosen(const mh_posterior *posterior, const mh_move *move, const int64_t *chosen,
                         int64_t n, const float *c, double *change, double *squares,
                         mh_arena *scratch)
{
    MH_SCOPE(scratch);
    mh_read read;
    MH_TRY(mh_take_read(posterior, move, MH_BLOCK, &read, scratch));
    *change = *squares = 0.0;
    for (int64_t first = 0; first < n; first += MH_BLOCK) {
        const int64_t last = mh_min(first + MH_BLOCK, n);
        MH_TRY(chosen ? mh_read_drawn(&read, chosen + first, last - first)
                      : mh_read_block(&read, first, last));
        add_block(&read, last - first, c, change, squares);
    }
    return MH_OK;
}

mh_status mh_read_all(const mh_posterior *posterior, const mh_move *move, const float *c,
                      double *change, double *squares, mh_arena *scratch)
{
    const int64_t total = mh_number_of_rows(posterior);
    if (!posterior->bounds.supply.room)
        return mh_read_chosen(posterior, move, NULL, total, c, change, squares, scratch);
    *squares = NAN;
    return mh_ask_for_change(&posterior->bounds.supply, change);
}

mh_status mh_change_of_all_rows(const mh_posterior *posterior, const mh_move *move,
                                mh_counts *counts, double *change, mh_arena *scratch)
{
    double untempered = NAN, squares;
    MH_TRY(mh_read_all(posterior, move, NULL, &untempered, &squares, scratch));
    counts->full_pass += 1.0;
    counts->invalid += !isfinite(untempered);
    *change = posterior->reference.inverse_temperature * untempered;
    return MH_OK;
}
