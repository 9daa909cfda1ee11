/* Langevin proposals: a drift along the gradient, estimated from a minibatch.
 *
 * With v = L^T g(theta), the proposal is theta' = theta + h L (h v/2 + xi), xi standard normal; the
 * noise of the reverse proposal is -xi - h (v + v')/2. Without a preconditioner L is the identity.
 * With a minibatch this is stochastic gradient Langevin dynamics (Welling, Teh, 2011, ICML). The
 * density is known given the minibatch, which is drawn before any evaluation and serves both
 * directions: each minibatch has its own reversible kernel, independent of the rows of the test.
 *
 * A proposal with any drift is reversible if its density counts the drift in both directions:
 * errors of the gradient only lower the acceptance rate. */
#include "inside.h"

/* Step of the central differences of the log prior, in posterior standard deviations. Errors by
 * curvature and by rounding are both below 1e-5. */
static const double PRIOR_STEP = 1e-3;

mh_status mh_draw_batch(const mh_generator *rng, int64_t size, const mh_posterior *posterior,
                        mh_batch *out, mh_arena *scratch)
{
    const mh_rows *rows = &posterior->rows;
    const int64_t total = rows->term_starts[rows->n_terms];
    const int64_t n = 2 * size >= total ? total : size;
    const double beta = posterior->reference.inverse_temperature;
    mh_drawn drawn = {0};
    if (n < total) {
        MH_TRY(mh_reserve(&drawn, 0, n, total, scratch));
        mh_draw_more(rng, total, &drawn, 0, n);
    } else {
        drawn.rows = mh_take(scratch, total, int64_t);
        MH_NEED(drawn.rows);
        for (int64_t i = 0; i < total; i++)
            drawn.rows[i] = i;
    }
    *out = (mh_batch){n, drawn.rows, n > 0 ? beta * (double)total / (double)n : 0.0, rows};
    return MH_OK;
}

/* Write beta N/b times the sums of gradients and of values of a minibatch; zero if it is empty. */
mh_status mh_rows_gradient(const mh_batch *batch, const double *position, double *out,
                           double *value, mh_arena *scratch)
{
    const mh_rows *rows = batch->rows;
    MH_SCOPE(scratch);
    int64_t *numbers = mh_take(scratch, batch->n, int64_t);
    int64_t *ends = mh_take(scratch, rows->n_terms, int64_t);
    double *sums = mh_take(scratch, 1 + rows->size, double);
    MH_NEED(numbers && ends && sums);
    mh_fill(sums, 1 + rows->size, 0.0);
    if (batch->n > 0) {
        mh_arrange(rows, batch->drawn, batch->n, numbers, ends);
        MH_TRY(mh_derivatives_of_rows(rows, position, numbers, ends, 0, sums, NULL, scratch));
    }
    *value = batch->scale * sums[0];
    for (int64_t j = 0; j < rows->size; j++)
        out[j] = batch->scale * sums[1 + j];
    return MH_OK;
}

/* Gradient of the control variates, beta [G + H (theta - centre)]. */
static void expanded_gradient(const mh_reference *reference, const double *position, double *out)
{
    const int64_t size = reference->size;
    for (int64_t i = 0; i < size; i++) {
        double total = reference->gradient[i];
        for (int64_t j = 0; j < size; j++)
            total += reference->hessian[i * size + j] * (position[j] - reference->centre[j]);
        out[i] = reference->inverse_temperature * total;
    }
}

/* Add the gradient of the log prior, by central differences; `point` is a copy of the position. */
static void add_slopes_of_prior(const mh_posterior *posterior, double *point, double *out)
{
    const mh_reference *reference = &posterior->reference;
    for (int64_t i = reference->first; i < reference->size; i++) {
        const double *line = reference->factor + i * reference->size;
        const double here = point[i], step = PRIOR_STEP * sqrt(mh_inner(line, line, i + 1));
        point[i] = here + step;
        const double above = mh_prior_at(posterior, point);
        point[i] = here - step;
        const double slope = (above - mh_prior_at(posterior, point)) / (2.0 * step);
        point[i] = here;
        /* Skip differences that are not finite, at the boundary of the support. */
        if (isfinite(slope))
            out[i] += slope;
    }
}

/* Write an estimate of the gradient of the tempered log-density. Entries before reference.first,
 * which are not proposed, lack the log prior's part. */
static mh_status estimate_gradient(const mh_posterior *posterior, const mh_batch *batch,
                                   const double *position, double *out, mh_arena *scratch)
{
    const int64_t size = posterior->reference.size;
    double value, *point = mh_take(scratch, size, double);
    MH_NEED(point);
    if (batch->n > 0) {
        MH_TRY(mh_rows_gradient(batch, position, out, &value, scratch));
    } else {
        expanded_gradient(&posterior->reference, position, out);
    }
    mh_copy_to(point, position, size);
    add_slopes_of_prior(posterior, point, out);
    return MH_OK;
}

/* Write v = L^T g for the proposed coordinates, or g itself without a preconditioner. */
static mh_status whitened_rise(const mh_langevin *settings, mh_chain *chain, const mh_batch *batch,
                               const double *position, double *out)
{
    const mh_reference *reference = &chain->posterior.reference;
    const int64_t size = reference->size, first = reference->first;
    MH_VECTOR(double, gradient, chain->scratch, size);
    MH_TRY(estimate_gradient(&chain->posterior, batch, position, gradient, chain->scratch));
    if (settings->preconditioner != MH_LAPLACE) {
        mh_copy_to(out, gradient, size);
        return MH_OK;
    }
    mh_fill(out, size, 0.0);
    for (int64_t i = first; i < size; i++)
        for (int64_t j = first; j <= i; j++)
            out[j] += reference->factor[i * size + j] * gradient[i];
    return MH_OK;
}

/* Write theta + h L (h v/2 + xi) to move.new. */
static void drift(const mh_langevin *settings, const mh_reference *reference, const double *rise,
                  const double *noise, const mh_move *move)
{
    const int64_t size = reference->size, first = reference->first;
    double *change = move->there;
    for (int64_t j = first; j < size; j++)
        change[j] = 0.5 * settings->step * rise[j] + noise[j];
    if (settings->preconditioner == MH_LAPLACE) {
        mh_lower_times(reference->factor, change, first, size, move->step);
        change = move->step;
    }
    mh_copy_to(move->new, move->position, first);
    for (int64_t i = first; i < size; i++)
        move->new[i] = move->position[i] + settings->step * change[i];
}

mh_status mh_propose_langevin(const void *proposal, mh_chain *chain, mh_proposed *out)
{
    const mh_langevin *settings = proposal;
    const mh_reference *reference = &chain->posterior.reference;
    const mh_generator *rng = &chain->generator;
    const mh_move *move = &chain->move;
    const int64_t size = reference->size;
    mh_batch batch;
    MH_VECTOR(double, noise, chain->scratch, 3 * size);
    double *here = noise + size, *there = here + size;
    /* Draw the minibatch before any evaluation, so that it is independent of the positions. */
    MH_TRY(mh_draw_batch(rng, settings->batch_size, &chain->posterior, &batch, chain->scratch));
    MH_TRY(whitened_rise(settings, chain, &batch, move->position, here));
    for (int64_t i = reference->first; i < size; i++)
        noise[i] = mh_normal(rng);
    drift(settings, reference, here, noise, move);
    MH_TRY(whitened_rise(settings, chain, &batch, move->new, there));
    *out = (mh_proposed){0.0, 0};
    for (int64_t i = reference->first; i < size; i++) {
        const double back = noise[i] + 0.5 * settings->step * (here[i] + there[i]);
        out->log_q += 0.5 * (noise[i] * noise[i] - back * back);
    }
    return MH_OK;
}
