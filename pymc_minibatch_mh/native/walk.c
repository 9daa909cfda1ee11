/* A random walk theta' = theta + s L xi, xi standard normal: of the posterior's shape, of none, or of
 * a given one. */
#include "inside.h"

/* L is lower triangular: these are steps of the conditional distribution given that coordinates
 * before `first` stay. */
void mh_walk_by(const double *factor, double scale, const mh_generator *rng, int64_t first,
                int64_t size, mh_move *move)
{
    mh_copy_to(move->new, move->position, first);
    for (int64_t i = first; i < size; i++)
        move->there[i] = scale * mh_normal(rng);
    mh_lower_times(factor, move->there, first, size, move->step);
    for (int64_t i = first; i < size; i++)
        move->new[i] = move->position[i] + move->step[i];
}

mh_status mh_propose_walk(const void *proposal, mh_chain *chain, mh_proposed *out)
{
    const mh_walk *walk = proposal;
    const mh_reference *reference = &chain->posterior.reference;
    const int64_t size = reference->size, first = reference->first;
    mh_move *move = &chain->move;
    *out = (mh_proposed){0.0, 0};
    if (walk->shape != MH_IDENTITY) {
        const double *factor = walk->shape == MH_LAPLACE ? reference->factor : walk->factor;
        mh_walk_by(factor, walk->scale, &chain->generator, first, size, move);
        return MH_OK;
    }
    mh_copy_to(move->new, move->position, first);
    for (int64_t i = first; i < size; i++)
        move->new[i] = move->position[i] + walk->scale * mh_normal(&chain->generator);
    return MH_OK;
}
