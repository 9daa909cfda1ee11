/* Slice sampling along directions in the null space of the likelihood.
 *
 * Rows of a hierarchy depend on the effects of groups, and not on their location and scale. Along a
 * direction that changes no row the posterior is the prior part, whose evaluation needs no rows. An
 * update along it leaves the posterior invariant, whatever the test of the other updates is. A
 * slice is stepped out and shrunk, which is exact for any width: Neal (2003), figures 3 and 5,
 * doi:10.1214/aos/1056562461. */
#include "inside.h"

/* Maximum number of steps by which a slice is stepped out; any number is exact. */
enum { MOST_STEPS = 32 };

/* Line through `start` on which a position is updated, and the log-density. */
typedef struct line {
    double *position;
    const double *start, *step;
    int64_t first, last;
    mh_log_prior prior;
    const int64_t *context;
} line;

/* Go to start + t step; return the log-density there. */
static double value_at(const line *along, double t)
{
    for (int64_t i = along->first; i < along->last; i++)
        along->position[i] = along->start[i] + t * along->step[i];
    return along->prior(along->position, along->context);
}

/* Whether a log-density is in the slice; infinite and NaN values never are. */
static int is_inside(double value, double level) { return level <= value && value < INFINITY; }

/* Step an end out until it leaves the slice, at most `most` times; count the evaluations. */
static int64_t step_out(const line *along, double level, int64_t most, double way, double *end)
{
    for (int64_t k = 0; k < most; k++) {
        if (!is_inside(value_at(along, *end), level))
            return k + 1;
        *end += way;
    }
    return most;
}

/* Draw from the slice between two ends; a draw outside the slice replaces the end on its side. */
static double shrink(const line *along, double level, double low, double high,
                     const mh_generator *rng, int64_t *evaluations)
{
    for (;;) {
        const double t = low + (high - low) * mh_uniform(rng);
        const double value = value_at(along, t);
        ++*evaluations;
        /* At t = 0 the slice has shrunk to its start, which may be outside of it by rounding. */
        if (is_inside(value, level) || t == 0.0)
            return value;
        if (t < 0.0)
            low = t;
        else
            high = t;
    }
}

mh_status mh_move_by_slice(double *position, int64_t size, const double *step, int64_t first,
                           int64_t last, mh_log_prior prior, const int64_t *context,
                           const mh_generator *rng, double *value, int64_t *evaluations,
                           mh_arena *scratch)
{
    if (!isfinite(*value))
        return MH_OK;
    MH_VECTOR(double, start, scratch, size);
    mh_copy_to(start, position, size);
    const line along = {position, start, step, first, last, prior, context};
    const double level = *value + log1p(-mh_uniform(rng));
    double low = -mh_uniform(rng), high = low + 1.0;
    /* The number of steps to the left is random: otherwise the limit would break reversibility. */
    const int64_t left = (int64_t)((double)MOST_STEPS * mh_uniform(rng));
    *evaluations += step_out(&along, level, left, -1.0, &low);
    *evaluations += step_out(&along, level, MOST_STEPS - 1 - left, 1.0, &high);
    *value = shrink(&along, level, low, high, rng, evaluations);
    return MH_OK;
}

/* Update along the directions in turn. Unless the number of updates is a multiple of the number of
 * directions, the first one is drawn, so that all are equally frequent. */
mh_status mh_move_without_rows(double *position, int64_t size, const mh_slices *slices,
                               mh_log_prior prior, const int64_t *context,
                               const mh_generator *rng, double *value, int64_t *evaluations,
                               mh_arena *scratch)
{
    const int64_t n = slices->n_steps;
    const int64_t begin = slices->moves % n ? mh_integer_below(rng, n) : 0;
    for (int64_t k = 0; k < slices->moves; k++) {
        const int64_t j = (begin + k) % n;
        const int64_t *ends = slices->ends + 2 * j;
        MH_SCOPE(scratch);
        MH_TRY(mh_move_by_slice(position, size, slices->steps + j * size, ends[0], ends[1], prior,
                                context, rng, value, evaluations, scratch));
    }
    return MH_OK;
}
