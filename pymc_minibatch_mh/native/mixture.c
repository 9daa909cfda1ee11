/* Laplace proposals, random walks, and mixtures of both.
 *
 * A component is drawn independently of the position and accepted with its own density, which is
 * exact for any weights: the walk theta' = theta + s L xi, or one of the Laplace proposals theta' =
 * centre + rho (theta - centre) + sqrt(1 - rho^2) L xi, xi standard normal.
 *
 * Coordinates bounded by zero are drawn first, from their normal approximation truncated at zero,
 * and the others given them. The probability above zero depends on the position, and enters the log
 * ratio. The mean, which follows from the gradient at the centre, may be negative.
 *
 * Hierarchies are updated in coordinates that are standard normal if effects are normal given their
 * scales (scale_conditional.c), and skewed posteriors in those of a map of third order (skew_map.c),
 * with the Jacobians of these maps. A walk in them changes a scale with
 * the effects that the data do not determine: a partial non-centring (Papaspiliopoulos, Roberts,
 * Skold, 2007, doi:10.1214/088342307000000014).
 *
 * Along a direction u in which the posterior has a heavier tail than all of these, one more component
 * is the normal approximation with Cauchy's distribution of u.z in the place of the normal one:
 *
 *     log q(z) = -(z.z - (u.z)^2)/2 - log(1 + (u.z)^2) + constant.
 *
 * Posterior over proposal is bounded along u, and so is the length of a stay there (Mengersen and
 * Tweedie, 1996, doi:10.1214/aos/1033066201). */
#include "inside.h"

/* Lower bound above which exponential proposals are accepted more often than normal ones. */
static const double EXPONENTIAL_FROM = 0.5;
/* Argument above which the continued fraction of erfc converges in few terms. */
static const double FROM_TAIL = 5.0;
enum { TAIL_TERMS = 40 };
static const double ROOT_PI = 1.7724538509055159;
static const double LOG_HALF = -0.6931471805599453;
static const double ROOT_HALF = 0.7071067811865476;

/* Continued fraction of 1/(x sqrt(pi) exp(x^2) erfc(x)): Abramowitz and Stegun (1964), 7.1.14. */
static double tail_of_erfc(double x)
{
    double fraction = 1.0;
    for (int k = TAIL_TERMS; k > 0; k--)
        fraction = 1.0 + 0.5 * k / (x * x * fraction);
    return fraction;
}

static double log_erfc(double x)
{
    if (x < FROM_TAIL)
        return x < 0.5 ? log1p(-erf(x)) : log(erfc(x));
    return -x * x - log(x * ROOT_PI) - log(tail_of_erfc(x));
}

/* Log probability that a standard normal number exceeds a bound. */
double mh_log_share_above(double bound) { return LOG_HALF + log_erfc(ROOT_HALF * bound); }

/* Draw a standard normal number that exceeds a bound: Robert (1995), doi:10.1007/BF00143942. */
double mh_normal_above(double bound, const mh_generator *rng)
{
    if (!(bound > EXPONENTIAL_FROM)) {
        double draw = mh_normal(rng);
        while (!(draw > bound))
            draw = mh_normal(rng);
        return draw;
    }
    const double rate = 0.5 * (bound + sqrt(bound * bound + 4.0));
    for (;;) {
        const double draw = bound + rng->standard_exponential(rng->bits) / rate;
        if (mh_uniform(rng) <= exp(-0.5 * mh_square(draw - rate)))
            return draw;
    }
}

/* Draw a component, 0 for the walk (rho = 1), else a Laplace proposal; write rho and scale. */
static int64_t draw_component(const mh_mixture *mixture, const mh_generator *rng, double *rho,
                              double *scale)
{
    double left = mh_uniform(rng) - mixture->weights[0];
    int64_t component = 0;
    while (left >= 0.0 && component < mixture->n_components - 1)
        left -= mixture->weights[++component];
    *rho = component == 0 ? 1.0 : mixture->rho[component - 1];
    *scale = component == 0 ? mixture->scale : sqrt(1.0 - *rho * *rho);
    return component;
}

/* Write the proposal with whitened coordinates move.there, which are new from `first` on. */
static void place_white(const mh_reference *reference, const mh_move *move)
{
    mh_lower_times(reference->factor, move->there, 0, reference->size, move->step);
    mh_copy_to(move->new, move->position, reference->first);
    for (int64_t i = reference->first; i < reference->size; i++)
        move->new[i] = reference->centre[i] + move->step[i];
}

/* Propose coordinates from `first` on, given the earlier ones, which stay. The factor is lower
 * triangular, so that whitened values from `first` on are independent of the earlier ones. */
mh_status mh_propose_mixture(const void *proposal, mh_chain *chain, mh_proposed *out)
{
    const mh_reference *reference = &chain->posterior.reference;
    const mh_generator *rng = &chain->generator;
    const int64_t size = reference->size, first = reference->first;
    const mh_move *move = &chain->move;
    double rho, scale, log_q = 0.0;
    const int64_t component = draw_component(proposal, rng, &rho, &scale);
    if (component == 0) {
        mh_walk_by(reference->factor, scale, rng, first, size, &chain->move);
        *out = (mh_proposed){0.0, 0};
        return MH_OK;
    }
    double *white = move->there;
    mh_copy_to(white, move->here, first);
    for (int64_t i = first; i < size; i++) {
        white[i] = rho * move->here[i] + scale * mh_normal(rng);
        log_q += 0.5 * (white[i] * white[i] - move->here[i] * move->here[i]);
    }
    place_white(reference, move);
    *out = (mh_proposed){log_q, component};
    return MH_OK;
}

/* Whiten a position whose coordinates are in the order in which they are drawn. */
static mh_status whiten_in_order(const mh_bordered *numbers, const mh_chain *chain, double *out)
{
    const mh_reference *reference = &chain->posterior.reference;
    MH_VECTOR(double, difference, chain->scratch, reference->size);
    for (int64_t i = 0; i < reference->size; i++) {
        const int64_t j = numbers->order[i];
        difference[i] = chain->move.position[j] - reference->centre[j];
    }
    mh_lower_times(numbers->whitener, difference, 0, reference->size, out);
    return MH_OK;
}

/* Draw a whitened coordinate so that `before` + draw is positive; add the log probabilities of
 * this, forward and reverse, to log_q. `before` and `position` are divided by L_ii. */
static double draw_above_zero(double before, double x, double position, double tilt, double rho,
                              double scale, const mh_generator *rng, double *log_q)
{
    const double mean = tilt + rho * (x - tilt);
    const double low = -(before + mean) / scale;
    const double white = mean + scale * mh_normal_above(low, rng);
    const double back = tilt + rho * (white - tilt);
    const double behind = position - x;
    *log_q += mh_log_share_above(low) - mh_log_share_above(-(behind + back) / scale);
    return white;
}

mh_status mh_propose_bordered(const void *proposal, mh_chain *chain, mh_proposed *out)
{
    const mh_bordered *numbers = proposal;
    const mh_reference *reference = &chain->posterior.reference;
    const mh_generator *rng = &chain->generator;
    const mh_move *move = &chain->move;
    const int64_t size = reference->size, first = reference->first;
    double *x = move->step, *white = move->there;
    double rho, scale, log_q = 0.0;
    const int64_t component = draw_component(&numbers->mixture, rng, &rho, &scale);
    MH_TRY(whiten_in_order(numbers, chain, x));
    mh_copy_to(white, x, first);
    mh_copy_to(move->new, move->position, size);
    for (int64_t i = first; i < size; i++) {
        const int64_t j = numbers->order[i];
        const double tilt = numbers->tilt[i], diagonal = numbers->factor[i * size + i];
        const double before = reference->centre[j] + mh_inner(numbers->factor + i * size, white, i);
        if (i < first + numbers->n_ends)
            white[i] = draw_above_zero(before / diagonal, x[i], move->position[j] / diagonal,
                                       tilt, rho, scale, rng, &log_q);
        else
            white[i] = tilt + rho * (x[i] - tilt) + scale * mh_normal(rng);
        if (component > 0)
            log_q += 0.5 * (mh_square(white[i] - tilt) - mh_square(x[i] - tilt));
        move->new[j] = before + diagonal * white[i];
    }
    *out = (mh_proposed){log_q, component};
    return MH_OK;
}

/* Whiten a position by the tables and by the map, and write log |dw/d theta|. */
static mh_status whiten(const mh_transformed *numbers, const double *position, int64_t size,
                        double *white, double *log_volume, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    double inner = 0.0, outer = 0.0;
    if (!numbers->map)
        return mh_whiten_given_scales(numbers->tables, position, white, log_volume, scratch);
    MH_VECTOR(double, middle, scratch, size);
    if (numbers->tables)
        MH_TRY(mh_whiten_given_scales(numbers->tables, position, middle, &outer, scratch));
    const double *inside = numbers->tables ? middle : position;
    MH_TRY(mh_whiten_by_map(numbers->map, inside, white, &inner, scratch));
    *log_volume = outer + inner;
    return MH_OK;
}

static mh_status place(const mh_transformed *numbers, const double *white, int64_t size,
                       double *position, double *log_volume, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    double inner = 0.0, outer = 0.0;
    if (!numbers->map)
        return mh_place_given_scales(numbers->tables, white, position, log_volume, scratch);
    MH_VECTOR(double, middle, scratch, size);
    double *inside = numbers->tables ? middle : position;
    MH_TRY(mh_place_by_map(numbers->map, white, inside, &inner, scratch));
    if (numbers->tables)
        MH_TRY(mh_place_given_scales(numbers->tables, middle, position, &outer, scratch));
    *log_volume = outer + inner;
    return MH_OK;
}

/* Draw the numbers of truncated coordinates, given those before, and return the log ratio. */
static double draw_truncated(const mh_truncated *truncated, const double *position, const double *x,
                             double rho, double scale, int64_t component,
                             const mh_generator *rng, double *white)
{
    const int64_t count = truncated->n_places;
    double log_q = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double *line = truncated->factor + i * count, tilt = truncated->tilt[i];
        const double before = truncated->centre[i] + mh_inner(line, white, i);
        white[i] = draw_above_zero(before / line[i], x[i], position[truncated->places[i]] / line[i],
                                   tilt, rho, scale, rng, &log_q);
        if (component > 0)
            log_q += 0.5 * (mh_square(white[i] - tilt) - mh_square(x[i] - tilt));
    }
    return log_q;
}

mh_status mh_propose_transformed(const void *proposal, mh_chain *chain, mh_proposed *out)
{
    const mh_transformed *numbers = proposal;
    const mh_truncated *truncated = numbers->tables ? numbers->tables->truncated : NULL;
    const int64_t size = chain->posterior.reference.size;
    const int64_t normal = size - (truncated ? truncated->n_places : 0);
    const mh_move *move = &chain->move;
    double *x = move->step, *white = move->there;
    double rho, scale, log_q, volume;
    const int64_t component = draw_component(&numbers->mixture, &chain->generator, &rho, &scale);
    MH_TRY(whiten(numbers, move->position, size, x, &log_q, chain->scratch));
    for (int64_t i = 0; i < normal; i++) {
        white[i] = rho * x[i] + scale * mh_normal(&chain->generator);
        if (component > 0)
            log_q += 0.5 * (white[i] * white[i] - x[i] * x[i]);
    }
    if (truncated)
        log_q += draw_truncated(truncated, move->position, x + normal, rho, scale, component,
                                &chain->generator, white + normal);
    MH_TRY(place(numbers, white, size, move->new, &volume, chain->scratch));
    *out = (mh_proposed){log_q - volume, component};
    return MH_OK;
}

/* Cauchy's distribution along one of the directions, and the normal one across. */
static mh_status propose_in_tail(const mh_tailed *numbers, mh_chain *chain, mh_proposed *out)
{
    const mh_reference *reference = &chain->posterior.reference;
    const mh_generator *rng = &chain->generator;
    const int64_t size = reference->size, first = reference->first;
    const mh_move *move = &chain->move;
    double *white = move->there;
    const int64_t k = mh_integer_below(rng, numbers->n_directions);
    const double *u = numbers->directions + k * size + first;
    mh_copy_to(white, move->here, first);
    for (int64_t i = first; i < size; i++)
        white[i] = mh_normal(rng);
    const double *here = move->here + first;
    const double before = mh_inner(u, here, size - first);
    const double drawn = mh_inner(u, white + first, size - first);
    const double after = mh_normal(rng) / mh_normal(rng);
    double across = mh_square(before) - mh_square(drawn);
    for (int64_t i = first; i < size; i++) {
        across += white[i] * white[i] - move->here[i] * move->here[i];
        white[i] += (after - drawn) * u[i - first];
    }
    place_white(reference, move);
    const double log_q = 0.5 * across + log1p(mh_square(after)) - log1p(mh_square(before));
    *out = (mh_proposed){log_q, MH_UNTALLIED};
    return MH_OK;
}

mh_status mh_propose_tailed(const void *proposal, mh_chain *chain, mh_proposed *out)
{
    const mh_tailed *numbers = proposal;
    if (mh_uniform(&chain->generator) < numbers->weight)
        return propose_in_tail(numbers, chain, out);
    return numbers->propose_others(numbers->others, chain, out);
}
