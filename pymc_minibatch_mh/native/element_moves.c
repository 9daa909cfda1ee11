/* Updates of group effects: one by one in a factor, with a scale, or of several factors jointly.
 *
 * Each e' is drawn from its conditional normal. Given the common effects and the other factors,
 * the effects of a factor are independent, since no row depends on two of them. All are proposed
 * at once, and each is accepted or rejected separately.
 *
 * A scale phi is updated with the effects of its factor by partial non-centring,
 *
 *     e' = m(phi') + (P/P')^(1/2) (e - m(phi)),
 *
 * where m and P are mean and precision of the conditional normals; the log Jacobian is the sum of
 * log(P/P')/2. Papaspiliopoulos, Roberts & Skoeld (2007), doi:10.1214/088342307000000014. */
#include "elements.h"

/* STEPS: multiples of a scale's step, one drawn for each random walk; ANEW: fraction of scales
 * proposed from a t distribution around the centre instead, with FREEDOM degrees of freedom. */
static const double STEPS[] = {0.3, 1.0, 3.0, 10.0};
static const double ANEW = 0.8, FREEDOM = 4.0;
enum { N_STEPS = sizeof STEPS / sizeof *STEPS };
/* WIDE: fraction of proposals from wider normals; WIDTH: factor of their width. Of 10,000 effects,
 * some are in the long tail of a skewed posterior, which random walks leave too slowly. */
static const double WIDE = 0.1, WIDTH = 1.4;
/* MOST_ALONG: maximum number of updates along directions; STRIDE_ALONG: sd of their random walks. */
enum { MOST_ALONG = 4 };
static const double STRIDE_ALONG = 2.4;

/* ---- Effects of a factor, each accepted or rejected separately. ---- */

/* Propose e' of all effects of a factor, from their conditional normals or by random walks. */
static void draw_elements(mh_iteration *on, int64_t f, int walks, double width)
{
    const double new_share = sqrt(MH_NEW_SQUARED);
    for (int64_t g = on->parts->first[f]; g < on->parts->first[f + 1]; g++) {
        const double noise = mh_normal(on->rng) / sqrt(on->precision[g]);
        const double away = on->e[g] - on->mean[g];
        on->new_e[g] = walks ? on->e[g] + MH_STRIDE * noise
                             : on->mean[g] + MH_RHO * away + new_share * width * noise;
    }
}

/* Part of one effect's log ratio that needs no rows: prior, expansion and proposal density. */
static double cheap_of_element(const mh_iteration *on, int64_t g, int walks, double width)
{
    const double x = on->e[g], x_new = on->new_e[g];
    const double away = x - on->mean[g], new_away = x_new - on->mean[g];
    double cheap = on->at[1][g] - on->at[0][g] + on->slope[g] * (x_new - x);
    cheap += 0.5 * on->beta * on->geometry->hessian[g] * (x_new * x_new - x * x);
    if (walks)
        return cheap;
    const double narrow = on->precision[g] / (width * width);
    return cheap + 0.5 * narrow * (new_away * new_away - away * away);
}

/* Propose all effects of a factor; write each one's log ratio before rows are evaluated. Effects
 * that are rejected at this stage keep their values and change no row. */
static void propose_elements(mh_iteration *on, int64_t f)
{
    mh_move *move = on->move;
    const int64_t *places = on->geometry->places;
    mh_begin_move(on);
    mh_find_slopes(on, f);
    on->expanded = 0;
    mh_condition_here(on, f);
    const double kind = mh_uniform(on->rng), width = kind < 1.0 - WIDE ? 1.0 : WIDTH;
    const int walks = kind < MH_WALKS;
    draw_elements(on, f, walks, width);
    mh_write_elements(on, on->new_e, f, move->new);
    mh_densities_of(on, f, move->position, on->at[0]);
    mh_densities_of(on, f, move->new, on->at[1]);
    for (int64_t g = on->parts->first[f]; g < on->parts->first[f + 1]; g++) {
        const double cheap = cheap_of_element(on, g, walks, width);
        if (isfinite(cheap) && mh_passes_first_stage(on, cheap)) {
            on->log_ratio[g] = on->own->test.delayed ? 0.0 : cheap;
            continue;
        }
        on->log_ratio[g] = -INFINITY;
        on->new_e[g] = on->e[g];
        move->new[places[g]] = move->position[places[g]];
    }
}

mh_status mh_move_elements(mh_iteration *on, int64_t f, mh_counts *counts)
{
    const int64_t low = on->parts->first[f], high = on->parts->first[f + 1];
    const int64_t *places = on->geometry->places;
    propose_elements(on, f);
    mh_stay_on_border(on);
    MH_TRY(mh_test_elements(on, 1 + f, f, on->log_ratio, counts));
    double total = 0.0;
    for (int64_t g = low; g < high; g++) {
        const double probability = mh_chance_of(on->log_ratio[g]);
        total += probability;
        if (!(mh_uniform(on->rng) < probability))
            continue;
        on->move->position[places[g]] = on->move->new[places[g]];
        on->e[g] = on->new_e[g];
    }
    const double count = (double)(high - low);
    mh_tally_of(on, 1 + f)->decisions += count;
    counts->accept_elements += total / count / (double)on->geometry->n_factors;
    return MH_OK;
}

/* ---- Joint proposals, accepted or rejected as one. ---- */

/* Accept or reject a joint proposal of effects; `cheap` is its log ratio without rows and prior.
 *
 * A first stage always decides without rows, to reject scales so far off that effects are beyond
 * their radii. It adds the `expected` change of rows, which the second stage subtracts. */
static mh_status decide_as_one(mh_iteration *on, int64_t kind, double cheap, double expected,
                               double *probability, mh_counts *counts)
{
    const double new_prior = mh_prior_at(on->posterior, on->move->new);
    double log_ratio = -expected;
    *probability = 0.0;
    mh_tally_of(on, kind)->decisions += 1.0;
    if (mh_uniform(on->rng) < mh_chance_of(cheap + expected + (new_prior - on->prior))) {
        mh_stay_on_border(on);
        MH_TRY(mh_test_elements(on, kind, -1, &log_ratio, counts));
        *probability = mh_chance_of(log_ratio);
    }
    if (mh_uniform(on->rng) < *probability) {
        mh_accept_move(on, new_prior);
        on->expanded = 0;
    }
    return MH_OK;
}

/* Log-density of a t distribution, without its constant, times `sign`. */
static double log_t(double away, double sign)
{
    return -0.5 * sign * (FREEDOM + 1.0) * log1p(away * away / FREEDOM);
}

/* Sum of logarithms: a product of eight values needs one logarithm, unless it is out of range. */
double mh_sum_of_logs(const double *values, int64_t n)
{
    double total = 0.0;
    for (int64_t first = 0; first < n; first += 8) {
        const int64_t last = mh_min(first + 8, n);
        double product = 1.0;
        for (int64_t j = first; j < last; j++)
            product *= values[j];
        if (1e-290 < product && product < 1e290) {
            total += log(product);
            continue;
        }
        for (int64_t j = first; j < last; j++)
            total += log(values[j]);
    }
    return total;
}

/* Propose a scale in its coordinate of move.new; return log_ratio + log q(phi) - log q(phi'). */
static double draw_scale(const mh_iteration *on, int64_t s, double log_ratio)
{
    const int64_t i = on->geometry->scales[s];
    const double middle = on->posterior->reference.centre[i], x = on->move->position[i];
    const double size = on->geometry->scale_steps[s];
    double *x_new = on->move->new + i;
    if (mh_uniform(on->rng) < ANEW) {
        const double gamma = on->rng->standard_gamma(on->rng->bits, 0.5 * FREEDOM);
        const double spread = sqrt(0.5 * FREEDOM / gamma);
        *x_new = middle + size * spread * mh_normal(on->rng);
        log_ratio += log_t((*x_new - middle) / size, -1.0);
        return log_ratio + log_t((x - middle) / size, 1.0);
    }
    const double step = size * STEPS[mh_integer_below(on->rng, N_STEPS)];
    *x_new = x + step * mh_normal(on->rng);
    return log_ratio;
}

/* Propose a scale and its factor's effects; return log Jacobian + log q(phi) - log q(phi'). */
static double propose_scale(mh_iteration *on, int64_t s)
{
    const int64_t f = on->geometry->scale_factors[s];
    const int64_t low = on->parts->first[f], high = on->parts->first[f + 1];
    mh_begin_move(on);
    mh_condition_here(on, f);
    for (int64_t g = low; g < high; g++)
        on->new_e[g] = sqrt(on->precision[g]) * (on->e[g] - on->mean[g]);
    double log_ratio = 0.5 * mh_sum_of_logs(on->precision + low, high - low);
    log_ratio = draw_scale(on, s, log_ratio);
    mh_expand_prior(on, f, on->zeros, on->move->new, on->mean, on->precision);
    mh_condition(on, f, on->mean, on->precision);
    for (int64_t g = low; g < high; g++)
        on->new_e[g] = on->mean[g] + on->new_e[g] / sqrt(on->precision[g]);
    log_ratio -= 0.5 * mh_sum_of_logs(on->precision + low, high - low);
    mh_write_elements(on, on->new_e, f, on->move->new);
    return log_ratio;
}

mh_status mh_move_scale(mh_iteration *on, int64_t s, mh_counts *counts)
{
    const mh_geometry *geometry = on->geometry;
    const int64_t f = geometry->scale_factors[s];
    double cheap = propose_scale(on, s), expected = 0.0, probability;
    for (int64_t g = on->parts->first[f]; g < on->parts->first[f + 1]; g++) {
        const double x = on->e[g], x_new = on->new_e[g];
        cheap += on->slope[g] * (x_new - x);
        cheap += 0.5 * on->beta * geometry->hessian[g] * (x_new * x_new - x * x);
        expected += on->beta * geometry->tilts[g] * (x_new - x);
    }
    MH_TRY(decide_as_one(on, 1 + geometry->n_factors + s, cheap, expected, &probability, counts));
    counts->accept_scales += probability / (double)geometry->n_scales;
    return MH_OK;
}

/* Propose the effects e + step V, of which the prior reads `new`. */
static void write_along(mh_iteration *on, const double *along, double step)
{
    const mh_geometry *geometry = on->geometry;
    for (int64_t g = 0; g < geometry->n_elements; g++)
        on->new_e[g] = on->e[g] + step * along[g];
    for (int64_t f = 0; f < geometry->n_factors; f++)
        mh_write_elements(on, on->new_e, f, on->move->new);
}

/* Mean and precision of the normal of c along e = e0 + c V, V the k-th direction: `slope` and `bent`
 * are derivatives of the rows' expansion at e0 = e - `at` V. The prior is expanded by differences
 * there, which are the same for the proposal in reverse. */
static void condition_along(mh_iteration *on, const double *along, double at, double slope,
                            double bent, double *mean, double *precision)
{
    const double one = 1.0, usual = 1.0 + on->beta * bent;
    double densities[3], prior_slope;
    const double *values[3] = {densities, densities + 1, densities + 2};
    for (int64_t i = 0; i < 3; i++) {
        write_along(on, along, (double)(i - 1) - at);
        densities[i] = mh_prior_at(on->posterior, on->move->new);
    }
    mh_bend_of(values, &one, &usual, 1, &prior_slope, precision);
    *precision = mh_larger(*precision - on->beta * bent, MH_LEAST_SHARE);
    *mean = (prior_slope + on->beta * slope) / *precision;
}

/* Update effects of several factors along V, the k-th direction, by an autoregressive step in its
 * conditional normal or by a random walk. */
static mh_status move_along(mh_iteration *on, int64_t k, mh_counts *counts)
{
    const mh_geometry *geometry = on->geometry;
    const int64_t n = geometry->n_border, size = geometry->n_elements;
    const double *along = geometry->along + k * size, bent = geometry->along_own[k];
    const double at = mh_inner(along, on->e, size) / mh_inner(along, along, size);
    double slope = geometry->along_slope[k], mean, precision, probability;
    slope += mh_inner(geometry->along_border + k * n, on->w, n);
    slope += mh_inner(geometry->along_elements + k * size, on->e, size);
    mh_begin_move(on);
    condition_along(on, along, at, slope - at * bent, bent, &mean, &precision);
    const double away = at - mean, noise = mh_normal(on->rng);
    const int walks = mh_uniform(on->rng) < MH_WALKS;
    const double new_away = walks ? away + STRIDE_ALONG * noise
                                  : MH_RHO * away + sqrt(MH_NEW_SQUARED / precision) * noise;
    const double step = new_away - away;
    double cheap = on->beta * step * (slope + 0.5 * step * bent);
    if (!walks)
        cheap += 0.5 * precision * (new_away * new_away - away * away);
    write_along(on, along, step);
    const int64_t kind = 1 + geometry->n_factors + geometry->n_scales;
    MH_TRY(decide_as_one(on, kind, cheap, 0.0, &probability, counts));
    counts->accept_directions += probability / (double)mh_min(geometry->n_along, MOST_ALONG);
    return MH_OK;
}

mh_status mh_move_along_some(mh_iteration *on, mh_counts *counts)
{
    const int64_t directions = on->geometry->n_along;
    for (int64_t i = 0; i < mh_min(directions, MOST_ALONG); i++) {
        MH_TRY(move_along(on, mh_integer_below(on->rng, directions), counts));
    }
    return MH_OK;
}
