/* Every function of the library that Python or its tests call, and those that files share, file by
 * file; leaf functions are in leaves.h. Shapes are behind the arguments. */
#ifndef MH_FUNCTIONS_H
#define MH_FUNCTIONS_H

#include "mh.h"

/* ---- library.c, arena.c, instruction_sets.c ---- */
typedef struct mh_layout {
    const char *name;
    int64_t size;
} mh_layout;
const mh_layout *mh_layouts(void); /* of all records, up to one without a name */
const char *mh_digest(void);       /* of the sources that the library was compiled from */
mh_arena *mh_arena_new(void);
void mh_arena_free(mh_arena *arena);
enum { MH_BASELINE, MH_AVX2 };
int64_t mh_widest_set(void); /* that this processor and its system have */
int64_t mh_use_set(int64_t set); /* select the set of leaf functions; whether the processor has it */

/* ---- draw.c ---- */
/* Alias table of non-negative weights with a positive sum: keep index i with probability
 * thresholds[i], else go to aliases[i]; (n,) each. */
mh_status mh_build_alias(int64_t n, const float *weights, double *thresholds, int32_t *aliases, mh_arena *scratch);
void mh_draw_alias(const mh_generator *rng, int64_t n, const double *thresholds, const int32_t *aliases, int64_t count, int64_t *out);
/* Put a row into an open-addressing set; whether it was new. */
int64_t mh_insert(int64_t *slots, int64_t n_slots, int64_t row);
/* Room for `target` rows of `total`, keeping the first n. */
mh_status mh_reserve(mh_drawn *drawn, int64_t n, int64_t target, int64_t total, mh_arena *scratch);
/* The first n of some rows, and after them, in order, the others of all `total`. */
mh_status mh_list_all(const int64_t *rows, int64_t n, int64_t total, int64_t *out, mh_arena *scratch);
void mh_draw_more(const mh_generator *rng, int64_t total, mh_drawn *drawn, int64_t n, int64_t target);
/* The numbers[i]-th row, from 0 on, of all but the skipped ones, which are in order. */
void mh_skip_rows(const int64_t *numbers, int64_t n, const int64_t *skipped, int64_t n_skipped, int64_t *rows);
/* Number rows within their terms, sorted by term, and back; `ends` of the terms, (n_terms,). */
void mh_arrange(const mh_rows *rows, const int64_t *drawn, int64_t n, int64_t *numbers, int64_t *ends);
void mh_arrange_block(const mh_rows *rows, int64_t first, int64_t last, int64_t *numbers, int64_t *ends);
void mh_number_through(const mh_rows *rows, int64_t *numbers, const int64_t *ends);
mh_status mh_ask(const mh_supply *supply, int64_t what); /* see mh_refill */
mh_status mh_take_rows(const mh_supply *supply, int64_t table, int64_t n, int64_t *rows);
/* Fetch stored rows; their numbers are replaced by their slots. */
mh_status mh_fetch_rows(const mh_supply *supply, int64_t n, int64_t *rows);
mh_status mh_ask_for_change(const mh_supply *supply, double *change);

/* ---- moves.c ---- */
/* L^-1 (end - start); `difference` is scratch, (d,). */
void mh_whiten(const double *whitener, const double *end, const double *start, int64_t size, double *difference, double *out);
mh_status mh_move_between(const mh_reference *reference, double *position, double *new_position, mh_move *out, mh_arena *scratch);
void mh_products_of_move(const mh_move *move, int64_t size, mh_products *out);
/* M for control variates of an order and a kind of table: symmetric in both ends, to the last bit. */
double mh_size_of_move(const mh_products *dots, int64_t order, int64_t kind);
/* |dU_i| / (c_i M), rounding errors of the difference taken off; `bound` is c_i M. The counts
 * remember the largest, and its row. */
double mh_ratio_to_bound(double difference, double scale, double bound, double inverse_temperature);
double mh_hold_against_bound(int64_t row, double difference, double scale, double bound, double inverse_temperature, mh_counts *counts);
double mh_whitened_norm(const double *whitener, const double *position, const double *origin, int64_t size);

/* ---- bounds.c ---- */
/* The table with the smallest C M of those that hold for a move, -1 without one, and its M. */
mh_status mh_smallest_table(const mh_bounds *bounds, const mh_reference *reference, const mh_move *move, int64_t *table, double *m, mh_arena *scratch);
mh_status mh_table_of_move(const mh_bounds *bounds, const mh_reference *reference, double *position, double *new_position, int64_t *table, double *m, mh_arena *scratch);
/* C M of each of n moves, `ends` of shape (n, 2, d); infinity where none is bounded. */
mh_status mh_sizes_between(const mh_bounds *bounds, const mh_reference *reference, int64_t n, double *ends, double *sizes, mh_arena *scratch);
mh_status mh_draw_rows(const mh_generator *rng, const mh_bounds *bounds, int64_t table, int64_t n, int64_t *rows);
void mh_ask_for_bounds(const mh_table *table, const int64_t *drawn, int64_t n);

/* ---- forms.c ---- */
int64_t mh_rows_of_block(const mh_term *term, int64_t n); /* best read at a time, of n */
mh_status mh_room_for_forms(const mh_term *term, int64_t most, mh_forms *out, mh_arena *scratch);
/* Inputs of a row function: the forms applied to each vector, (n_vectors, d), and the leaves. */
void mh_read_rows(const mh_term *term, const int64_t *numbers, int64_t n, const double *vectors, int64_t n_vectors, int64_t size, const mh_forms *forms, double *inputs);
/* L^T times each form of a row of the block, (m, d). */
void mh_whiten_forms(const mh_term *term, const mh_forms *forms, int64_t row, const double *factor, int64_t size, double *out);
/* The m forms of n rows of a term: values and sums of absolute products, (n, m); lengths of L^T times
 * each, (n, m), and these themselves, (n, m, d), or NULL. */
mh_status mh_place_forms(const mh_term *term, const int64_t *numbers, int64_t n, const double *centre, const double *factor, int64_t size, double *values, double *sizes, double *norms, double *whitened, mh_arena *scratch);
/* Evenly spaced numbers of some rows, to columns of `out`, whose lines have `width`. */
void mh_read_numbers(const char *address, int64_t stride, int64_t entry_stride, int64_t type, const int64_t *rows, int64_t n, int64_t count, double *out, int64_t width);

/* ---- rows.c: rows by their numbers within terms, term after term, and where each term's end ---- */
mh_status mh_differences_of_rows(const mh_rows *rows, const double *position, const double *new_position, const double *centre, const int64_t *numbers, const int64_t *ends, double *differences, double *scales, mh_arena *scratch);
/* Add value and gradient to `sums`, (1 + d,), and the Hessian to `hessian`, (d, d), if asked for. */
mh_status mh_derivatives_of_rows(const mh_rows *rows, const double *position, const int64_t *numbers, const int64_t *ends, int64_t wants_hessian, double *sums, double *hessian, mh_arena *scratch);
/* Add half of the third derivatives, contracted with L L^T in two indices, to `out`, (d,). */
mh_status mh_skewness_of_rows(const mh_rows *rows, const double *position, const double *factor, const int64_t *numbers, const int64_t *ends, double *out, mh_arena *scratch);

/* ---- row_sums.c: rows by their numbers through all terms, `drawn`, (n,) ---- */
mh_status mh_add_derivatives(const mh_rows *rows, const double *theta, const int64_t *drawn, int64_t n, int64_t wants_hessian, double *sums, double *hessian, mh_arena *scratch);
mh_status mh_row_values(const mh_rows *rows, const double *theta, const int64_t *drawn, int64_t n, double *out, mh_arena *scratch);
mh_status mh_add_skewness(const mh_rows *rows, const double *theta, const double *factor, const int64_t *drawn, int64_t n, double *out, mh_arena *scratch);
mh_status mh_skewness_of_prior(mh_log_prior prior, const int64_t *context, const double *theta, const double *factor, int64_t size, double *out, mh_arena *scratch);
mh_status mh_differences_of(const mh_rows *rows, const double *position, const double *new_position, const double *centre, const int64_t *drawn, int64_t n, double *differences, double *scales, mh_arena *scratch);
mh_status mh_moments_of_move(const mh_rows *rows, const double *position, const double *new_position, const double *centre, const int64_t *drawn, int64_t n, double *differences, mh_moments *moments, double *absolute, mh_arena *scratch);
/* The largest |dU_i| / (c_i M) of some rows, and its index. */
double mh_largest_of(const double *differences, const double *scales, const double *c, int64_t n, double m, double inverse_temperature, int64_t *worst);

/* ---- posterior.c ---- */
/* beta [T(new) - T(position)] without the cancellation of two large values. */
mh_status mh_expansion_change(const mh_reference *reference, const double *position, const double *new_position, double *change, mh_arena *scratch);
/* Sum the differences of n chosen rows, or of the first n where `chosen` is NULL, and their squares
 * over c, which may be NULL. Of all rows that are stored the second sum is NaN. */
mh_status mh_read_chosen(const mh_posterior *posterior, const mh_move *move, const int64_t *chosen, int64_t n, const float *c, double *change, double *squares, mh_arena *scratch);
mh_status mh_read_all(const mh_posterior *posterior, const mh_move *move, const float *c, double *change, double *squares, mh_arena *scratch);
/* The tempered change of all rows, which is counted. */
mh_status mh_change_of_all_rows(const mh_posterior *posterior, const mh_move *move, mh_counts *counts, double *change, mh_arena *scratch);

/* ---- whitened_copy.c ---- */
/* Make a direction a unit vector orthogonal to the others and to those before it: 0, 1 or infinity. */
double mh_orthogonalize(double *directions, const double *others, int64_t n_others, int64_t k, int64_t size);
/* Lines of n rows; `whitened`, (n, own, d), is overwritten. */
void mh_pack_rows(double *whitened, int64_t n, int64_t own, int64_t size, const double *shared, int64_t n_shared, int8_t *lines, int64_t width);
mh_status mh_ends_of_move(const mh_copy *copy, const mh_move *move, int64_t order, int64_t size, double raised, mh_ends *out, mh_arena *scratch);
/* The own ceiling of a row over c_i M: symmetric in the two ends, to the last bit. By both ends alone
 * it is never smaller, and found in less time; infinite for several directions and orders below 2. */
double mh_own_share(const mh_copy *copy, const mh_ends *ends, int64_t row);
double mh_share_of_ends(const mh_copy *copy, const mh_ends *ends, int64_t row);
/* Draw n candidates by a table; how many are kept, put to the front of `rows`. */
int64_t mh_keep_candidates(const mh_copy *copy, const mh_ends *ends, const mh_table *table, int64_t n_drawn, const mh_generator *rng, int64_t n, int64_t *rows);

/* ---- run.c, elements.c ---- */
/* Make draws of `updates` updates each; positions are written to `draws`, (n_draws, d), counts added
 * to `counts`, (n_draws,). `made` is how many were begun when the run ended. */
mh_status mh_run(mh_chain *chain, int64_t updates, int64_t n_draws, double *draws, mh_counts *counts, int64_t *made);
mh_status mh_run_elements(mh_element_chain *chain, int64_t updates, int64_t n_draws, double *draws, mh_counts *counts, int64_t *made);
/* A proposal from a position, and the part of its log ratio that needs no row. */
mh_status mh_propose_once(mh_chain *chain, const double *position, double *new_position, double *cheap);
/* Decide on one move many times, on fresh rows, and add to `outcomes`, (4,): see run.c. */
mh_status mh_repeat_test(mh_chain *chain, const double *position, const double *new_position, double cheap, int64_t repetitions, int64_t by_verdict, double *outcomes);

/* ---- slices.c ---- */
/* Move a position along one direction, or some; `value` is the log-density before and after, and
 * evaluations are added. */
mh_status mh_move_by_slice(double *position, int64_t size, const double *step, int64_t first, int64_t last, mh_log_prior prior, const int64_t *context, const mh_generator *rng, double *value, int64_t *evaluations, mh_arena *scratch);
mh_status mh_move_without_rows(double *position, int64_t size, const mh_slices *slices, mh_log_prior prior, const int64_t *context, const mh_generator *rng, double *value, int64_t *evaluations, mh_arena *scratch);

/* ---- mixture.c, walk.c, langevin.c, custom_proposal.c ---- */
double mh_log_share_above(double bound);
double mh_normal_above(double bound, const mh_generator *rng);
mh_status mh_propose_mixture(const void *proposal, mh_chain *chain, mh_proposed *out);
mh_status mh_propose_bordered(const void *proposal, mh_chain *chain, mh_proposed *out);
mh_status mh_propose_by_scales(const void *proposal, mh_chain *chain, mh_proposed *out);
/* theta + s L xi to move.new, by coordinates from `first` on. */
void mh_walk_by(const double *factor, double scale, const mh_generator *rng, int64_t first, int64_t size, mh_move *move);
mh_status mh_propose_walk(const void *proposal, mh_chain *chain, mh_proposed *out);
/* A batch of rows, drawn evenly and without replacement; beta N/b times the sums of its gradients,
 * (d,), and values. */
mh_status mh_draw_batch(const mh_generator *rng, int64_t size, const mh_posterior *posterior, mh_batch *out, mh_arena *scratch);
mh_status mh_rows_gradient(const mh_batch *batch, const double *position, double *out, double *value, mh_arena *scratch);
mh_status mh_propose_langevin(const void *proposal, mh_chain *chain, mh_proposed *out);
mh_status mh_propose_custom(const void *proposal, mh_chain *chain, mh_proposed *out);
/* Rows that are Gaussian: see mh_graph_derivatives, and custom_proposal.c for their context. */
void mh_derivatives_of_gaussian(const double *position, const int64_t *rows, const int64_t *ends, const int64_t *context, int64_t wants_hessian, double *sums, double *hessian);
/* Move n positions, (n, d), each by updates of a user's move that preserve a Gaussian; `used` is how
 * many log-ratios were not zero. They are multiplied by `sign`. */
mh_status mh_walk_on_gaussian(mh_chain *chain, const double *mean, const double *whitener, int64_t n, double *positions, int64_t updates, double sign, int64_t *used);

/* ---- scale_conditional.c ---- */
/* u, then w of a position to `white`, (d,), or back; log |d(u, w)/d theta| up to a constant. */
mh_status mh_whiten_given_scales(const mh_scale_conditional *tables, const double *position, double *white, double *log_volume, mh_arena *scratch);
mh_status mh_place_given_scales(const mh_scale_conditional *tables, const double *white, double *position, double *log_volume, mh_arena *scratch);

/* ---- poisson_test.c ---- */
/* Thin a drawn row of `change` dU_i, within its bound, in a move of `size` C M: the probability of
 * keeping it, and what a kept row adds to the log ratio. */
void mh_thin(double change, double bound, double size, const mh_poisson_test *test, double *keep, double *added);
mh_status mh_decide_poisson(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);

/* ---- looks.c ---- */
void mh_merge_moments(mh_moments *moments, const mh_moments *others);
void mh_add_moments(mh_moments *moments, const double *values, int64_t n);
double mh_skewness(const mh_moments *moments);
/* Mean, variance with divisor N, and largest absolute value of the differences of all rows. */
mh_status mh_scan_rows(const mh_posterior *posterior, const mh_move *move, double *mean, double *variance, double *largest, mh_arena *scratch);
/* Extend a batch of n rows by the next unused ones of a supply, `room` of them at most: those that
 * the batch has count. `slots` begins with those of the new rows. */
mh_status mh_take_new(const mh_supply *supply, mh_drawn *batch, int64_t *n, int64_t target, int64_t room, int64_t *slots);
double mh_predicted_noise(const mh_move *move, const mh_reference *reference, double kappa);
mh_status mh_unit_noise(const mh_reference *reference, double *position, double *new_position, double *noise, mh_arena *scratch);
mh_status mh_decide_by_batches(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);
/* For how many of n moves, whitened ends of shape (n, 2, d), a test would read all rows. */
mh_status mh_full_passes_of(const mh_batch_test *test, const mh_reference *reference, int64_t n, double *moves, int64_t total, double limit, const mh_generator *rng, int64_t *passes, mh_arena *scratch);

/* ---- tails.c ---- */
double mh_normal_cdf(double x);
double mh_logistic(double x);
double mh_student_tail(double t, double degrees); /* P(T > t) of Student's t, t >= 0 */
/* The smallest b with noise (1/b - 1/total) <= variance, or `total`. */
int64_t mh_rows_for_variance(double noise, int64_t total, double variance);

/* ---- barker.c, austere.c, penalty.c, custom_test.c ---- */
double mh_barker_probability(double log_ratio, double variance, const mh_barker_test *test);
double mh_barker_skew_shift(const mh_look *look, const mh_barker_test *test);
double mh_barker_error(double variance, double skewness, int64_t n, int64_t total, const mh_barker_test *test);
int64_t mh_barker_sample_size(const void *settings, double noise, int64_t n, int64_t total);
mh_status mh_barker_decide(const void *settings, const mh_look *look, mh_verdict *out);
int64_t mh_austere_sample_size(const void *settings, double noise, int64_t n, int64_t total);
mh_status mh_austere_decide(const void *settings, const mh_look *look, mh_verdict *out);
double mh_penalty(double variance, int64_t n);
double mh_penalty_error(const mh_look *look, const mh_penalty_test *test);
int64_t mh_penalty_sample_size(const void *settings, double noise, int64_t n, int64_t total);
mh_status mh_penalty_decide(const void *settings, const mh_look *look, mh_verdict *out);
int64_t mh_own_sample_size(const void *settings, double noise, int64_t n, int64_t total);
mh_status mh_own_decide(const void *settings, const mh_look *look, mh_verdict *out);

/* ---- confidence.c ---- */
/* Rows that the look after one at n rows must have read, `total` at most: from `most_drawn` on all
 * are read, but after a scan, where looks are as published. */
int64_t mh_confidence_rows(int64_t n, int64_t total, double most_drawn, const mh_confidence_test *test);
double mh_confidence_level(int64_t look, const mh_confidence_test *test); /* delta_k */
/* c_n: `deviation` is that of the l_i, with divisor n, and `reach` no less than their range. */
double mh_half_width(double deviation, double reach, int64_t n, double level);
/* Verdict and min(1, exp(log ratio)); `width` is N c_n, 0 with all rows read. */
void mh_confidence_decide(double log_ratio, double width, double uniform, mh_verdict *out);
mh_status mh_decide_by_confidence(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);

/* ---- firefly.c ---- */
double mh_log_odds(double excess); /* log o_i of a row with log(L_i/B_i) = excess */
double mh_chance_to_be_bright(double odds, double q, int64_t kind); /* of a row of a kind, afterwards */
/* Log ratio by C m and the sum of the bright rows' log o_i, at both ends. */
double mh_log_ratio_of_bright(double cheap, double size, double new_size, double odds, double new_odds);
/* Update which rows are bright at a place, or draw it where it is not known: the sum of the log
 * odds of the bright rows, and how many rows were read. */
mh_status mh_update_brightness(const mh_brightness *own, const mh_place *place, const mh_posterior *posterior, const mh_generator *rng, mh_counts *counts, double *odds, int64_t *n_read, mh_arena *scratch);
mh_status mh_odds_of_bright(const mh_brightness *own, const mh_place *place, const mh_posterior *posterior, mh_counts *counts, double *odds, mh_arena *scratch);
mh_status mh_decide_by_bright_rows(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);

/* ---- poisson_mh.c ---- */
/* phi_i(theta) over its ceiling, at a share of the range in [0, 1] with lambda/L raised; the log of
 * phi_i(theta')/phi_i(theta) of a kept row, which is finite as lambda > 0. */
double mh_keep_by_level(double share, double raised);
double mh_growth_of_level(double share, double new_share, double raised);
mh_status mh_decide_by_levels(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);

/* ---- element_moves.c, parts.c, candidates.c ---- */
double mh_sum_of_logs(const double *values, int64_t n);
/* The ceiling of a row, or of all: symmetric in the two ends, to the last bit. */
double mh_ceiling(const mh_parts *parts, const mh_part_ends *ends, int64_t row);
void mh_ceilings_of(const mh_parts *parts, const mh_part_ends *ends, double *out);
/* The first element of a row that is beyond its radius at either end; -1 for none. */
int64_t mh_first_outside(const mh_parts *parts, const mh_part_ends *ends, int64_t row);
/* Overwrite the values of each of n elements' rows by their running sums, and write their totals. */
void mh_fill_running(int64_t n, const int64_t *starts, double *values, double *totals);
/* Rates at which rows are candidates of a move, and their total; `outside`, (L + 1,), becomes the
 * number of elements beyond their radii, and these. */
mh_status mh_find_rates(const mh_parts *parts, const mh_part_ends *ends, mh_rates *rates, int64_t *outside, double *limit, mh_arena *scratch);
/* Draw n rows, MH_AHEAD at most, at these rates, and a uniform number for each. */
void mh_draw_candidates(const mh_parts *parts, const mh_rates *rates, const mh_generator *rng, int64_t n, int64_t *rows, double *chances);
/* The ceiling of a row over the rate at which it is drawn; `limit` is the rate of all. */
double mh_share_of_candidates(const mh_parts *parts, const mh_part_ends *ends, const mh_rates *rates, double limit, int64_t row);

#endif
