/* Updates of hierarchical models that accept or reject each group effect separately.
 *
 * Rows depend on common effects (the *border*) and on at most one effect (*element*) per factor.
 * In coordinates (w, e) around a smoothed centre, the common effects are b = b^ + T w and the group
 * effects a = a^ + R w + e. An iteration makes updates of several types:
 *
 * - all common effects, from their conditional normal with e fixed (element_border.c). Effects that
 *   data index, as in b[x], are bounded separately; all others by their joint length |Q w|;
 * - the effects of a factor, each accepted or rejected separately (element_moves.c);
 * - a scale jointly with the effects of its factor;
 * - effects of several factors jointly, e' = e + c V, by the normal of c along directions V in which
 *   separate updates mix slowly because the factors explain the same differences;
 * - coordinates outside the likelihood, by slice updates without rows (slices.c).
 *
 * All other proposals are tested on rows in element_test.c. */
#include "elements.h"

/* Allocate n vectors of equal length from scratch memory; 0 if memory runs out. */
static int take_all(mh_arena *scratch, double **vectors[], int64_t n, int64_t size)
{
    for (int64_t k = 0; k < n; k++)
        if (!(*vectors[k] = mh_take(scratch, size, double)))
            return 0;
    return 1;
}

#define TAKE_ALL(scratch, vectors, size)                                                           \
    take_all(scratch, vectors, (int64_t)(sizeof vectors / sizeof *vectors), size)

/* Allocate the memory that all iterations of a run share. */
static mh_status take_room(mh_iteration *on)
{
    const int64_t n = on->geometry->n_border, size = on->geometry->n_elements;
    const int64_t ends = size + on->geometry->n_chosen, own = 2 * (on->parts->n_factors + 1);
    double **of_border[] = {&on->w,      &on->new_w,       &on->pull, &on->noise,
                            &on->slopes, &on->border_mean, &on->away};
    double **of_elements[] = {&on->moved,       &on->slope,           &on->mean,  &on->precision,
                              &on->prior_slope, &on->prior_precision, &on->zeros, &on->log_ratio,
                              &on->at[0],       &on->at[1],           &on->at[2]};
    double **of_ends[] = {&on->e, &on->new_e}, **of_matrix[] = {&on->matrix};
    double **of_rates[] = {&on->rates.chances, &on->rates.units};
    double **of_running[] = {&on->rates.running};
    MH_TRY(mh_take_read(on->posterior, on->move, MH_BLOCK, &on->read, on->scratch));
    on->outside = mh_take(on->scratch, ends + 1, int64_t);
    on->rates.kinds = mh_take(on->scratch, 2, int64_t);
    MH_NEED(on->outside && on->rates.kinds && TAKE_ALL(on->scratch, of_border, n) &&
            TAKE_ALL(on->scratch, of_elements, size) && TAKE_ALL(on->scratch, of_ends, ends) &&
            TAKE_ALL(on->scratch, of_matrix, n * n) && TAKE_ALL(on->scratch, of_rates, own) &&
            TAKE_ALL(on->scratch, of_running, 2 * ends));
    mh_fill(on->zeros, size, 0.0);
    on->ends = (mh_part_ends){on->e, on->new_e, {0.0}};
    return MH_OK;
}

/* Update the effects of a factor, then each of its scales. */
static mh_status move_factor(mh_iteration *on, int64_t f, mh_counts *counts)
{
    MH_TRY(mh_move_elements(on, f, counts));
    on->prior = mh_prior_at(on->posterior, on->move->position);
    /* on->slope is still valid, because it does not depend on effects of the same factor. */
    for (int64_t s = 0; s < on->geometry->n_scales; s++)
        if (on->geometry->scale_factors[s] == f)
            MH_TRY(mh_move_scale(on, s, counts));
    return MH_OK;
}

/* Update along directions in the null space of the likelihood, evaluating no rows. */
static mh_status move_the_rest(mh_iteration *on, mh_counts *counts)
{
    const mh_slices *slices = &on->own->chain.slices;
    int64_t evaluations = 0;
    if (!slices->moves)
        return MH_OK;
    MH_TRY(mh_move_without_rows(on->move->position, on->posterior->reference.size, slices,
                                on->posterior->prior, on->posterior->rows.context, on->rng,
                                &on->prior, &evaluations, on->scratch));
    counts->n_prior += (double)evaluations;
    return MH_OK;
}

/* Make one iteration: an update of every type. */
static mh_status iterate(mh_iteration *on, mh_counts *counts)
{
    const mh_geometry *geometry = on->geometry;
    const double passes = counts->full_pass;
    mh_find_coordinates(on);
    on->prior = mh_prior_at(on->posterior, on->move->position);
    MH_TRY(mh_move_border(on, counts));
    for (int64_t f = 0; f < geometry->n_factors; f++)
        MH_TRY(move_factor(on, f, counts));
    MH_TRY(mh_move_along_some(on, counts));
    MH_TRY(move_the_rest(on, counts));
    /* An iteration is one update, and counts at most one full-data evaluation. */
    counts->full_pass = mh_smaller(counts->full_pass, passes + 1.0);
    const double made = counts->accept_border + counts->accept_elements + counts->accept_scales;
    counts->accept = made / (1.0 + (geometry->n_factors > 0) + (geometry->n_scales > 0));
    return MH_OK;
}

mh_status mh_run_elements(mh_element_chain *own, int64_t updates, int64_t n_draws, double *draws,
                          mh_counts *counts, int64_t *made)
{
    mh_chain *chain = &own->chain;
    MH_SCOPE(chain->scratch);
    mh_iteration on = {.own = own,
                       .posterior = &chain->posterior,
                       .geometry = &own->geometry,
                       .parts = &own->parts,
                       .rng = &chain->generator,
                       .move = &chain->move,
                       .scratch = chain->scratch,
                       .beta = chain->posterior.reference.inverse_temperature};
    const int64_t size = on.posterior->reference.size;
    mh_status status = MH_OK;
    *made = 0;
    MH_TRY(take_room(&on));
    for (; *made < n_draws && status == MH_OK; *made += 1) {
        for (int64_t i = 0; i < updates && status == MH_OK; i++)
            status = iterate(&on, counts + *made);
        mh_copy_to(draws + *made * size, on.move->position, size);
    }
    return status;
}
