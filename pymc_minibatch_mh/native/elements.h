/* What the moves of border and elements share: elements.c has their description. */
#ifndef MH_ELEMENTS_H
#define MH_ELEMENTS_H

#include "inside.h"

/* Least share of the precision at the centre that a proposal has. */
static const double MH_LEAST_SHARE = 0.05;
/* Share of moves of border and elements that are random walks, and the length of these, in
 * conditional standard deviations. Where rows say little, as far out in a logistic regression, a
 * posterior has heavier tails than its expansion: independent proposals alone would stay there. */
static const double MH_WALKS = 0.1, MH_STRIDE = 1.0;
/* Autoregressive coefficient of moves that are no walks. It is antithetic: means gain as much as
 * rejections cost, and squares lose a tenth of it. And the square of the share of new noise. */
static const double MH_RHO = -0.25, MH_NEW_SQUARED = 1.0 - 0.25 * 0.25;

/* An iteration of a chain: short names for what it reads, and scratch, which nothing outlives. */
typedef struct mh_iteration {
    mh_element_chain *own;
    const mh_posterior *posterior;
    const mh_geometry *geometry;
    const mh_parts *parts;
    const mh_generator *rng;
    mh_move *move;
    mh_arena *scratch;
    double beta;
    /* w and w', the slope of the rows' expansion in w that is due to e, (n,) each. */
    double *w, *new_w, *pull;
    double *slopes, *border_mean, *noise, *away; /* of the border, (n,) each; away: a vector */
    double *matrix;                              /* (n, n) */
    double *e, *new_e; /* e and e', and the choices off the centre, (L + K,) each */
    /* R w; the slope of each e, its conditional mean and precision, the log ratio of each element's
     * test, (L,) each. */
    double *moved, *slope, *mean, *precision, *log_ratio;
    double *prior_slope, *prior_precision, *zeros; /* of each element at e = 0, (L,) */
    int64_t expanded; /* whether these are the position's, for the factor that moves */
    double *at[3];    /* log-densities of elements at three points, (L,) each */
    double prior;     /* prior part at the position */
    mh_part_ends ends; /* e, e', |Q w|, |Q w'| and |Q w' - Q w| */
    int64_t *outside;  /* elements and choices beyond radii, after their number, (L + K + 1,) */
    mh_rates rates;
    mh_read read; /* (MH_BLOCK,) */
} mh_iteration;

static inline mh_kind_tally *mh_tally_of(const mh_iteration *on, int64_t kind)
{
    return (mh_kind_tally *)on->own->chain.tallies + kind;
}

/* Whether a move goes on to its rows: delayed acceptance has the cheap part decide. */
static inline int mh_passes_first_stage(const mh_iteration *on, double cheap)
{
    return !on->own->test.delayed || mh_uniform(on->rng) < mh_chance_of(cheap);
}

/* ---- element_normals.c: coordinates, and conditional normals of elements. ---- */

void mh_find_coordinates(mh_iteration *on);
/* Have a move begin at the position; and end at the proposal, where the prior part is known. */
void mh_begin_move(mh_iteration *on);
void mh_accept_move(mh_iteration *on, double new_prior);
void mh_find_chosen(const mh_iteration *on, const double *position, double *e);
/* Write R w, by which elements move with the border. */
void mh_follow_border(const mh_iteration *on, const double *w);
/* Write the elements of a factor for given R w and e. */
void mh_write_elements(const mh_iteration *on, const double *e, int64_t f, double *position);
/* Have the border stay where it is in the next move. */
void mh_stay_on_border(mh_iteration *on);
double mh_length_of_border(const mh_iteration *on, const double *w);
/* Write the prior's log-density of each element of a factor to its part of `out`, (L,). */
void mh_densities_of(const mh_iteration *on, int64_t f, const double *position, double *out);
/* Write slope and precision of the prior of each element of a factor, at some e; the elements of
 * `position` become those of these e. */
void mh_expand_prior(const mh_iteration *on, int64_t f, const double *e, double *position,
                     double *slopes, double *precisions);
/* Write the slope of the rows' expansion along each element of a factor, but for its own e. */
void mh_find_slopes(const mh_iteration *on, int64_t f);
/* Write the conditional means and precisions of elements, given the rows' slopes. */
void mh_condition(const mh_iteration *on, int64_t f, const double *prior_slopes,
                  const double *prior_precisions);
/* Write the same at the position of the chain, of which move.new is a copy. */
void mh_condition_here(mh_iteration *on, int64_t f);

/* ---- element_test.c ---- */

/* Add to each decision's log ratio what rows say. Decisions are those of a factor's elements, or at
 * f = -1 a single one. */
mh_status mh_test_elements(mh_iteration *on, int64_t kind, int64_t f, double *log_ratio,
                           mh_counts *counts);

/* ---- element_border.c, element_moves.c ---- */

mh_status mh_move_border(mh_iteration *on, mh_counts *counts);
mh_status mh_move_elements(mh_iteration *on, int64_t f, mh_counts *counts);
/* Move a scale and its factor's elements by partial non-centring. */
mh_status mh_move_scale(mh_iteration *on, int64_t s, mh_counts *counts);
/* Walk along directions of elements of several factors, each drawn at random. */
mh_status mh_move_along_some(mh_iteration *on, mh_counts *counts);

#endif
