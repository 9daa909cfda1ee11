/* Custom proposals of users, and chains on a Gaussian that check the log-ratios they return. */
#include "inside.h"

mh_status mh_propose_custom(const void *proposal, mh_chain *chain, mh_proposed *out)
{
    const mh_custom_proposal *custom = proposal;
    const mh_reference *reference = &chain->posterior.reference;
    const mh_move *move = &chain->move;
    const int64_t size = reference->size;
    mh_batch batch;
    /* Draw the batch before evaluating any position: it has to be independent of the proposal. */
    MH_TRY(mh_draw_batch(&chain->generator, custom->batch_size, &chain->posterior, &batch,
                         chain->scratch));
    mh_copy_to(custom->position, move->position, size);
    /* NaN marks coordinates that the function leaves unwritten: such proposals are invalid. */
    mh_fill(move->new, size, NAN);
    const mh_handed handed = {
        .size = size,
        .position = custom->position,
        .new_position = move->new,
        .bits = *chain->generator.bits,
        .n_state = custom->n_state,
        .state = custom->state,
        .centre = reference->centre,
        .factor = reference->factor,
        .whitener = reference->whitener,
        .n_drawn = batch.n,
        .drawn = batch.drawn,
        .scale = batch.scale,
        .batch = &batch,
        .scratch = chain->scratch,
        .gradient = mh_rows_gradient,
        .function = custom->function,
        .kept = custom->kept,
    };
    *out = (mh_proposed){0.0, 0};
    if (custom->call(&handed, &out->log_q))
        return MH_MOVE_RAISED;
    /* Compare bytes, because NaN is not equal to itself. */
    const size_t bytes = (size_t)size * sizeof(double);
    return memcmp(custom->position, move->position, bytes) == 0 ? MH_OK : MH_MOVE_EDITED;
}

/* Add up the log-densities -(theta - m_i)^T P (theta - m_i)/2 of rows, and their gradients. The
 * context holds the addresses of the m_i, (N, d), and of P, (d, d), and then d. */
void mh_derivatives_of_gaussian(const double *position, const int64_t *rows, const int64_t *ends,
                                const int64_t *context, int64_t wants_hessian, double *sums,
                                double *hessian)
{
    const double *centres = (const double *)(uintptr_t)context[0];
    const double *precision = (const double *)(uintptr_t)context[1];
    const int64_t size = context[2];
    (void)wants_hessian, (void)hessian;
    for (int64_t i = 0; i < ends[0]; i++) {
        const double *centre = centres + rows[i] * size;
        for (int64_t j = 0; j < size; j++) {
            double slope = 0.0;
            for (int64_t k = 0; k < size; k++)
                slope -= precision[j * size + k] * (position[k] - centre[k]);
            sums[0] += 0.5 * slope * (position[j] - centre[j]);
            sums[1 + j] += slope;
        }
    }
}

/* Make one Metropolis update of move.position with the Gaussian as the target. */
static mh_status update(mh_chain *chain, const double *mean, const double *whitener, double sign,
                        int64_t *used)
{
    const int64_t size = chain->posterior.reference.size;
    const mh_move *move = &chain->move;
    mh_proposed proposed;
    MH_SCOPE(chain->scratch);
    MH_TRY(chain->propose(chain->proposal, chain, &proposed));
    *used += proposed.log_q != 0.0;
    const double norm = mh_whitened_norm(whitener, move->position, mean, size);
    const double new_norm = mh_whitened_norm(whitener, move->new, mean, size);
    const double log_ratio = 0.5 * (norm * norm - new_norm * new_norm) + sign * proposed.log_q;
    if (log(mh_uniform(&chain->generator)) < log_ratio)
        mh_copy_to(move->position, move->new, size);
    return MH_OK;
}

/* Update n positions on a Gaussian; each starts from the same state of the proposal. */
mh_status mh_walk_on_gaussian(mh_chain *chain, const double *mean, const double *whitener,
                              int64_t n, double *positions, int64_t updates, double sign,
                              int64_t *used)
{
    const mh_custom_proposal *custom = chain->proposal;
    const int64_t size = chain->posterior.reference.size;
    MH_SCOPE(chain->scratch);
    MH_VECTOR(double, state, chain->scratch, custom->n_state);
    mh_copy_to(state, custom->state, custom->n_state);
    mh_status status = MH_OK;
    *used = 0;
    for (int64_t k = 0; k < n && status == MH_OK; k++) {
        chain->move.position = positions + k * size;
        mh_copy_to(custom->state, state, custom->n_state);
        for (int64_t i = 0; i < updates && status == MH_OK; i++)
            status = update(chain, mean, whitener, sign, used);
    }
    mh_copy_to(custom->state, state, custom->n_state);
    return status;
}
