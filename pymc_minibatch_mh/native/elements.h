/* Declarations shared by updates of common effects (border) and group effects (elements). */
#ifndef MH_ELEMENTS_H
#define MH_ELEMENTS_H

#include "inside.h"

/* Minimum precision of a proposal, as a fraction of the precision at the centre. */
static const double MH_LEAST_SHARE = 0.05;
/* MH_WALKS: fraction of effects' proposals that are random walks; MH_STRIDE: their step, in
 * conditional standard deviations. Where a posterior has heavier tails than its expansion (as far
 * out in a logistic regression), a chain with independent proposals alone would be stuck. */
static const double MH_WALKS = 0.1, MH_STRIDE = 1.0;
/* MH_RHO: autoregressive coefficient rho of other proposals; MH_NEW_SQUARED: 1 - rho^2. A negative
 * (antithetic) rho makes estimates of means more efficient; those of squares lose a tenth. */
static const double MH_RHO = -0.25, MH_NEW_SQUARED = 1.0 - 0.25 * 0.25;

/* State of one iteration: short names for its inputs, and scratch that is valid only within it. */
typedef struct mh_iteration {
    mh_element_chain *own;
    const mh_posterior *posterior;
    const mh_geometry *geometry;
    const mh_parts *parts;
    const mh_generator *rng;
    mh_move *move;
    mh_arena *scratch;
    double beta;
    /* w, w', and the slope in w of the rows' expansion that is due to e, (n,) each */
    double *w, *new_w, *pull;
    double *slopes, *border_mean, *noise, *away; /* of common effects; away: scratch, (n,) */
    double *matrix;                              /* precision of w, or its Cholesky factor, (n, n) */
    double *e, *new_e; /* e and e', then K data-indexed common effects off the centre, (L + K,) */
    /* moved: R w. For each group effect: slope of the rows' expansion without its own e;
     * conditional mean and precision; log ratio of its test, (L,) each. */
    double *moved, *slope, *mean, *precision, *log_ratio;
    double *prior_slope, *prior_precision, *zeros; /* of effects' prior at e = 0; zeros, (L,) */
    int64_t expanded; /* whether prior_slope and prior_precision are up to date for this factor */
    double *at[3];    /* prior log-densities of effects at three points, (L,) each */
    double prior;     /* log-prior at the position */
    mh_part_ends ends; /* e, e', |Q w|, |Q w'| and |Q w' - Q w| */
    int64_t *outside;  /* number of levels beyond their radii, and these levels, (L + K + 1,) */
    mh_rates rates;
    mh_read read; /* room for MH_BLOCK rows */
} mh_iteration;

static inline mh_kind_tally *mh_tally_of(const mh_iteration *on, int64_t kind)
{
    return (mh_kind_tally *)on->own->chain.tallies + kind;
}

/* Whether a proposal passes its first stage: delayed acceptance first tests `cheap` alone. */
static inline int mh_passes_first_stage(const mh_iteration *on, double cheap)
{
    return !on->own->test.delayed || mh_uniform(on->rng) < mh_chance_of(cheap);
}

/* ---- element_normals.c: coordinates (w, e), and conditional normals of group effects. ---- */

void mh_find_coordinates(mh_iteration *on);
/* Start a proposal at the position; or accept the proposal, whose log-prior is `new_prior`. */
void mh_begin_move(mh_iteration *on);
void mh_accept_move(mh_iteration *on, double new_prior);
void mh_find_chosen(const mh_iteration *on, const double *position, double *e);
/* Write R w, the shift of group effects that follows the common effects w. */
void mh_follow_border(const mh_iteration *on, const double *w);
/* Write the effects of a factor, centre + R w + e, from the R w that was last written and e. */
void mh_write_elements(const mh_iteration *on, const double *e, int64_t f, double *position);
/* Write |Q w| for a proposal that leaves the common effects fixed. */
void mh_stay_on_border(mh_iteration *on);
double mh_length_of_border(const mh_iteration *on, const double *w);
/* Write the prior log-density of each effect of a factor to its part of `out`, (L,). */
void mh_densities_of(const mh_iteration *on, int64_t f, const double *position, double *out);
/* Write slope and precision of the prior of each effect of a factor at given e; `position` receives
 * the effects for these e. */
void mh_expand_prior(const mh_iteration *on, int64_t f, const double *e, double *position,
                     double *slopes, double *precisions);
/* Write the slope of the rows' expansion in each effect of a factor, without its own e. */
void mh_find_slopes(const mh_iteration *on, int64_t f);
/* Write the conditional means and precisions of a factor's effects, from rows and given priors. */
void mh_condition(const mh_iteration *on, int64_t f, const double *prior_slopes,
                  const double *prior_precisions);
/* Write conditional means and precisions at the chain's position, of which move.new is a copy. */
void mh_condition_here(mh_iteration *on, int64_t f);

/* ---- element_test.c ---- */

/* Evaluate rows, and add their contributions to the log ratios of decisions: one decision for each
 * effect of factor f, or a single one if f = -1. */
mh_status mh_test_elements(mh_iteration *on, int64_t kind, int64_t f, double *log_ratio,
                           mh_counts *counts);

/* ---- element_border.c, element_moves.c ---- */

mh_status mh_move_border(mh_iteration *on, mh_counts *counts);
mh_status mh_move_elements(mh_iteration *on, int64_t f, mh_counts *counts);
/* Update a scale jointly with its factor's effects by partial non-centring. */
mh_status mh_move_scale(mh_iteration *on, int64_t s, mh_counts *counts);
/* Update effects of several factors jointly, along a few directions drawn at random. */
mh_status mh_move_along_some(mh_iteration *on, mh_counts *counts);

#endif
