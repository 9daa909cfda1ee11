/* A random walk theta' = theta + s L xi, xi standard normal, with L from the posterior, the
 * identity, or the user. */
#include "inside.h"

/* Add s L xi from coordinate `first` on. L is lower triangular: this is the conditional
 * distribution given that the coordinates before it stay. Without a factor L is the identity. */
void mh_walk_by(const double *factor, double scale, const mh_generator *rng, int64_t first,
                int64_t size, mh_move *move)
{
    double *step = factor ? move->there : move->step;
    for (int64_t i = first; i < size; i++)
        step[i] = scale * mh_normal(rng);
    if (factor)
        mh_lower_times(factor, step, first, size, move->step);
    mh_copy_to(move->new, move->position, first);
    for (int64_t i = first; i < size; i++)
        move->new[i] = move->position[i] + move->step[i];
}

mh_status mh_propose_walk(const void *proposal, mh_chain *chain, mh_proposed *out)
{
    const mh_walk *walk = proposal;
    const mh_reference *reference = &chain->posterior.reference;
    const double *other = walk->shape == MH_GIVEN_SHAPE ? walk->factor : NULL;
    const double *factor = walk->shape == MH_LAPLACE ? reference->factor : other;
    *out = (mh_proposed){0.0, 0};
    mh_walk_by(factor, walk->scale, &chain->generator, reference->first, reference->size,
               &chain->move);
    return MH_OK;
}
