/* Declarations, file by file, of all functions that Python, tests or several C files call; leaf
 * functions are in leaves.h. Comments give the shapes of arrays. */
#ifndef MH_FUNCTIONS_H
#define MH_FUNCTIONS_H

#include "mh.h"

/* ---- library.c, arena.c, instruction_sets.c ---- */
typedef struct mh_layout {
    const char *name;
    int64_t size;
} mh_layout;
const mh_layout *mh_layouts(void); /* names and sizes of all records, ended by a NULL name */
const char *mh_digest(void);       /* digest of the sources of this library */
mh_arena *mh_arena_new(void);
void mh_arena_free(mh_arena *arena);
enum { MH_BASELINE, MH_AVX2 };
int64_t mh_widest_set(void); /* widest instruction set of this processor and system */
int64_t mh_use_set(int64_t set); /* select leaf functions; returns whether the set is supported */

/* ---- draw.c ---- */
/* Build an alias table of non-negative weights with a positive sum: index i is kept with
 * probability thresholds[i], else replaced by aliases[i]; (n,) each. */
mh_status mh_build_alias(int64_t n, const float *weights, double *thresholds, int32_t *aliases, mh_arena *scratch);
void mh_draw_alias(const mh_generator *rng, int64_t n, const double *thresholds, const int32_t *aliases, int64_t count, int64_t *out);
/* Insert a row into an open-addressing hash set; returns whether it was new. */
int64_t mh_insert(int64_t *slots, int64_t n_slots, int64_t row);
/* Make room for `target` of `total` rows, keeping the first n. */
mh_status mh_reserve(mh_drawn *drawn, int64_t n, int64_t target, int64_t total, mh_arena *scratch);
/* List all `total` rows: the n given rows first, then all other rows in order. */
mh_status mh_list_all(const int64_t *rows, int64_t n, int64_t total, int64_t *out, mh_arena *scratch);
void mh_draw_more(const mh_generator *rng, int64_t total, mh_drawn *drawn, int64_t n, int64_t target);
/* Convert numbers[i], which do not count the (ascending) skipped rows, to row numbers. */
void mh_skip_rows(const int64_t *numbers, int64_t n, const int64_t *skipped, int64_t n_skipped, int64_t *rows);
/* Sort rows by term, numbered within terms, and write each term's end, (n_terms,); convert back. */
void mh_arrange(const mh_rows *rows, const int64_t *drawn, int64_t n, int64_t *numbers, int64_t *ends);
void mh_arrange_block(const mh_rows *rows, int64_t first, int64_t last, int64_t *numbers, int64_t *ends);
void mh_number_through(const mh_rows *rows, int64_t *numbers, const int64_t *ends);
mh_status mh_ask(const mh_supply *supply, int64_t what); /* see mh_refill */
mh_status mh_take_rows(const mh_supply *supply, int64_t table, int64_t n, int64_t *rows);
/* Fetch stored rows, and replace their numbers by buffer slots. */
mh_status mh_fetch_rows(const mh_supply *supply, int64_t n, int64_t *rows);
mh_status mh_ask_for_change(const mh_supply *supply, double *change);

/* ---- moves.c ---- */
/* Write L^-1 (end - start); `difference` is scratch, (d,). */
void mh_whiten(const double *whitener, const double *end, const double *start, int64_t size, double *difference, double *out);
mh_status mh_move_between(const mh_reference *reference, double *position, double *new_position, mh_move *out, mh_arena *scratch);
void mh_products_of_move(const mh_move *move, int64_t size, mh_products *out);
/* Size M of a move, by control-variate order and kind of table; bitwise symmetric in the ends. */
double mh_size_of_move(const mh_products *dots, int64_t order, int64_t kind);
/* Ratio |dU_i| / (c_i M) of a row, reduced by rounding errors of the difference; `bound` is c_i M.
 * The second function also updates the largest ratio, and its row, in the counts. */
double mh_ratio_to_bound(double difference, double scale, double bound, double inverse_temperature);
double mh_hold_against_bound(int64_t row, double difference, double scale, double bound, double inverse_temperature, mh_counts *counts);
double mh_whitened_norm(const double *whitener, const double *position, const double *origin, int64_t size);

/* ---- bounds.c ---- */
/* Find the table with the smallest C M for a move, and its M; the table is -1 if none holds. */
mh_status mh_smallest_table(const mh_bounds *bounds, const mh_reference *reference, const mh_move *move, int64_t *table, double *m, mh_arena *scratch);
mh_status mh_table_of_move(const mh_bounds *bounds, const mh_reference *reference, double *position, double *new_position, int64_t *table, double *m, mh_arena *scratch);
/* Write C M of each of n moves, with `ends` of shape (n, 2, d); infinity if no table holds. */
mh_status mh_sizes_between(const mh_bounds *bounds, const mh_reference *reference, int64_t n, double *ends, double *sizes, mh_arena *scratch);
mh_status mh_draw_rows(const mh_generator *rng, const mh_bounds *bounds, int64_t table, int64_t n, int64_t *rows);
void mh_ask_for_bounds(const mh_table *table, const int64_t *drawn, int64_t n);

/* ---- forms.c ---- */
int64_t mh_rows_of_block(const mh_term *term, int64_t n); /* best block size to evaluate n rows */
mh_status mh_room_for_forms(const mh_term *term, int64_t most, mh_forms *out, mh_arena *scratch);
/* Write inputs of a row function: linear predictors at each of n_vectors vectors, and leaves. */
void mh_read_rows(const mh_term *term, const int64_t *numbers, int64_t n, const double *vectors, int64_t n_vectors, int64_t size, const mh_forms *forms, double *inputs);
/* Write L^T times the coefficients of each linear predictor of one row of the block, (m, d). */
void mh_whiten_forms(const mh_term *term, const mh_forms *forms, int64_t row, const double *factor, int64_t size, double *out);
/* For the m linear predictors of n rows of a term, write values, sums of absolute products and
 * lengths of L^T times the coefficients, (n, m) each; and, unless NULL, these vectors, (n, m, d). */
mh_status mh_place_forms(const mh_term *term, const int64_t *numbers, int64_t n, const double *centre, const double *factor, int64_t size, double *values, double *sizes, double *norms, double *whitened, mh_arena *scratch);
/* Read `count` evenly spaced numbers of each row into columns of `out`, with row stride `width`. */
void mh_read_numbers(const char *address, int64_t stride, int64_t entry_stride, int64_t type, const int64_t *rows, int64_t n, int64_t count, double *out, int64_t width);

/* ---- rows.c: rows are sorted by term and numbered within terms; `ends` has each term's end ---- */
mh_status mh_differences_of_rows(const mh_rows *rows, const double *position, const double *new_position, const double *centre, const int64_t *numbers, const int64_t *ends, double *differences, double *scales, mh_arena *scratch);
/* Add value and gradient to `sums`, (1 + d,), and the Hessian to `hessian`, (d, d), if wanted. */
mh_status mh_derivatives_of_rows(const mh_rows *rows, const double *position, const int64_t *numbers, const int64_t *ends, int64_t wants_hessian, double *sums, double *hessian, mh_arena *scratch);
/* Add half of the third derivatives, contracted with L L^T in two indices, to `out`, (d,). */
mh_status mh_skewness_of_rows(const mh_rows *rows, const double *position, const double *factor, const int64_t *numbers, const int64_t *ends, double *out, mh_arena *scratch);

/* Add third derivatives in coordinates a <= b <= c to `out`, (d, d, d); one linear predictor a row. */
mh_status mh_thirds_of_rows(const mh_rows *rows, const double *position, const int64_t *numbers, const int64_t *ends, double *out, mh_arena *scratch);

/* ---- groups.c, group_nodes.c: groups as observations; coordinates w have theta = centre + factor w,
 *      factor (d, d) ---- */
/* Write differences of remainders of n groups; `ends`, (3, d): centre, both positions relative to it. */
mh_status mh_differences_of_groups(const mh_groups *groups, const double *ends, const int64_t *numbers, int64_t n, double *differences, double *scales, mh_arena *scratch);
/* Add value and gradient to `sums`, (1 + d,), and the Hessian to `hessian`, (d, d), if wanted. */
mh_status mh_derivatives_of_groups(const mh_groups *groups, const double *theta, const int64_t *numbers, int64_t n, int64_t wants_hessian, double *sums, double *hessian, mh_arena *scratch);
/* Write F_q of n groups, (n, n_nodes). */
mh_status mh_values_of_nodes(const mh_groups *groups, const double *theta, const int64_t *numbers, int64_t n, double *values, mh_arena *scratch);
/* Write sums over the rows of the groups from `first` to `last` - 1 at their nodes: values and slopes in
 * the effect, (groups, n_nodes), and gradients, (groups, n_nodes, d). */
mh_status mh_tangents_at_nodes(const mh_groups *groups, const double *theta, int64_t first, int64_t last, double *values, double *gradients, double *slopes, mh_arena *scratch);
/* Write predictors of these groups' rows at all nodes and norms of their derivatives in w, with entries
 * (row, node, predictor) of each term from entry `begins` on, (n_terms,). */
mh_status mh_place_nodes(const mh_groups *groups, const double *theta, const double *factor, int64_t first, int64_t last, const int64_t *begins, double *values, double *norms, mh_arena *scratch);
/* Write norms of the sums of weights v v', with v these derivatives, (n_kinds, n, n_nodes); `weights`,
 * (n_kinds, n_entries). */
mh_status mh_norms_of_nodes(const mh_groups *groups, const double *theta, const double *factor, int64_t first, int64_t last, const int64_t *begins, int64_t n_entries, int64_t n_kinds, const double *weights, double *norms, mh_arena *scratch);
/* Write bounds c, (n_radii, n), with |r(w)| <= c |w|^3 / 6 in each ball; radii ascend, and `suprema`,
 * (n_radii, 4, n, n_nodes), are those of mh_suprema. With `unit`,
 * the whitened coordinates of a unit of the scale, control variates are quadratic in its square, but
 * bounds and w belong to the scale itself. */
mh_status mh_bound_groups(const mh_groups *groups, int64_t first, int64_t last, const mh_region *region, const double *suprema, const mh_groups *own, const double *centre, int64_t squared, double *bounds, mh_arena *scratch);

/* ---- effects.c ---- */
/* Draw the effects z of the groups from `first` to `last` - 1 given a position, (last - first,).
 * Added to `counts`: numbers of effects that are drawn, and of proposals, (2,). */
mh_status mh_draw_effects(const mh_groups *groups, const mh_effect_law *law, const double *theta, int64_t first, int64_t last, const mh_generator *rng, double *effects, int64_t *counts, mh_arena *scratch);

/* ---- row_sums.c: rows in `drawn`, (n,), are numbered over all terms ---- */
mh_status mh_add_derivatives(const mh_rows *rows, const double *theta, const int64_t *drawn, int64_t n, int64_t wants_hessian, double *sums, double *hessian, mh_arena *scratch);
mh_status mh_row_values(const mh_rows *rows, const double *theta, const int64_t *drawn, int64_t n, double *out, mh_arena *scratch);
mh_status mh_add_skewness(const mh_rows *rows, const double *theta, const double *factor, const int64_t *drawn, int64_t n, double *out, mh_arena *scratch);
mh_status mh_add_thirds(const mh_rows *rows, const double *theta, const int64_t *drawn, int64_t n, double *out, mh_arena *scratch);
mh_status mh_skewness_of_prior(mh_log_prior prior, const int64_t *context, const double *theta, const double *factor, int64_t size, double *out, mh_arena *scratch);
mh_status mh_differences_of(const mh_rows *rows, const double *position, const double *new_position, const double *centre, const int64_t *drawn, int64_t n, double *differences, double *scales, mh_arena *scratch);
mh_status mh_moments_of_move(const mh_rows *rows, const double *position, const double *new_position, const double *centre, const int64_t *drawn, int64_t n, double *differences, mh_moments *moments, double *absolute, mh_arena *scratch);
/* Largest ratio |dU_i| / (c_i M) of n rows; `worst` is its index. */
double mh_largest_of(const double *differences, const double *scales, const double *c, int64_t n, double m, double inverse_temperature, int64_t *worst);

/* ---- over_nodes.c: groups as observations, in whitened coordinates ---- */
/* Write the third derivative of a group's log-likelihood at the centre, (d, d, d). */
mh_status mh_tensor_of_nodes(const mh_nodes *nodes, double *tensor, mh_arena *scratch);
/* A bound of |T[v, v, v]| over unit vectors v: the root of the Frobenius norm of T1 T1', T1 the
 * unfolding of T, (d, d^2). */
mh_status mh_norm_of_tensor(const double *tensor, int64_t size, double *norm, mh_arena *scratch);
/* Bounds of the absolute third and fourth derivative along any unit direction over the ball, infinite
 * where suprema are not finite. Pairs of up to `most_paired` nodes are bounded as well. */
mh_status mh_bound_over_nodes(const mh_nodes *nodes, const mh_suprema *suprema, double radius, int64_t most_paired, double *third, double *fourth, mh_arena *scratch);

/* ---- states.c: an mh_row_function of each role; `scratch`: mh_room_of_states numbers ---- */
int64_t mh_room_of_states(const mh_state_rows *rows);
void mh_values_of_states(const mh_state_rows *rows, const double *inputs, double *outputs, int64_t n, double *scratch);
void mh_slopes_of_states(const mh_state_rows *rows, const double *inputs, double *outputs, int64_t n, double *scratch);
void mh_thirds_of_states(const mh_state_rows *rows, const double *inputs, double *outputs, int64_t n, double *scratch);
void mh_difference_of_states(const mh_state_rows *rows, const double *inputs, double *outputs, int64_t n, double *scratch);

/* ---- hessian_differences.c: an mh_row_function; `scratch`: mh_room_of_hessians numbers ---- */
int64_t mh_room_of_hessians(const mh_hessian_rows *rows);
void mh_thirds_by_differences(const mh_hessian_rows *rows, const double *inputs, double *outputs, int64_t n, double *scratch);

/* ---- over_states.c ---- */
/* Bounds of the derivative of an order (1, 2 or 3) of n rows in the ball of a radius, averaged over the
 * way from the centre as moves.c needs it, (n,). Of each function at the centre: value, gradient and
 * Hessian in the predictors, (n, n_functions, ...), third derivatives; suprema in the ball of the
 * second, third and fourth along any unit direction, (n, n_functions, 3). `factors`: predictors are
 * factor z for unit z, (n, m, m); `numbers`: factor and offsets of each sum in turn. */
mh_status mh_bound_states(const mh_state_rows *rows, int64_t n, const double *slopes, const double *thirds, const double *suprema, const double *factors, const double *numbers, double radius, int64_t order, double *bounds, mh_arena *scratch);

/* ---- posterior.c ---- */
/* Write beta [T(new) - T(position)], T the expansion, without cancellation of two large values. */
mh_status mh_expansion_change(const mh_reference *reference, const double *position, const double *new_position, double *change, mh_arena *scratch);
/* Sum differences, and their squares over c (unless NULL), of n chosen rows, or of the first n rows
 * if `chosen` is NULL. mh_read_all sums over all rows; its squares are NaN for stored data. */
mh_status mh_read_chosen(const mh_posterior *posterior, const mh_move *move, const int64_t *chosen, int64_t n, const float *c, double *change, double *squares, mh_arena *scratch);
mh_status mh_read_all(const mh_posterior *posterior, const mh_move *move, const float *c, double *change, double *squares, mh_arena *scratch);
/* Write the tempered change of all rows, and count a full-data evaluation. */
mh_status mh_change_of_all_rows(const mh_posterior *posterior, const mh_move *move, mh_counts *counts, double *change, mh_arena *scratch);

/* ---- whitened_copy.c ---- */
/* Orthonormalise direction k to `others` and earlier ones; return 1, 0 if zero, inf if dependent. */
double mh_orthogonalize(double *directions, const double *others, int64_t n_others, int64_t k, int64_t size);
/* Pack n rows, given by whitened directions (n, own, d), which are overwritten, into `lines`. */
void mh_pack_rows(double *whitened, int64_t n, int64_t own, int64_t size, const double *shared, int64_t n_shared, int8_t *lines, int64_t width);
mh_status mh_ends_of_move(const mh_copy *copy, const mh_move *move, int64_t order, int64_t size, double raised, mh_ends *out, mh_arena *scratch);
/* Share of a row: its thinning bound from the copy over c_i M; bitwise symmetric in the ends. The
 * second, faster function ignores the step, and is infinite unless order is 2 with one direction. */
double mh_own_share(const mh_copy *copy, const mh_ends *ends, int64_t row);
double mh_share_of_ends(const mh_copy *copy, const mh_ends *ends, int64_t row);
/* Draw n candidates from a table; write the kept ones to `rows`, and return their number. */
int64_t mh_keep_candidates(const mh_copy *copy, const mh_ends *ends, const mh_table *table, int64_t n_drawn, const mh_generator *rng, int64_t n, int64_t *rows);
/* The same by groups, whose rates are in units of c_i: `ends` then has kappa for kappa over M. */
int64_t mh_keep_of_groups(const mh_copy *copy, const mh_ends *ends, const mh_group_rates *rates, const mh_generator *rng, int64_t n, int64_t *rows);

/* ---- group_rates.c ---- */
/* Find rates of candidates of all groups in a move, `factor` times as high as they have to be; their
 * total is infinite if a group has no table. */
mh_status mh_find_group_rates(const mh_bounds *bounds, const mh_reference *reference, const mh_move *move, double factor, mh_group_rates *out, mh_arena *scratch);
/* Draw n <= MH_AHEAD candidates at these rates, each with its rate over c_i and a uniform number. */
void mh_draw_of_groups(const mh_group_rates *rates, const mh_generator *rng, int64_t n, int64_t *rows, double *sizes, double *chances);
const mh_table *mh_table_of_row(const mh_group_rates *rates, int64_t row);
double mh_size_in_group(const mh_group_rates *rates, int64_t row); /* rate of a row over its c_i */

/* ---- run.c, elements.c ---- */
/* Make draws of `updates` updates each. Positions are written to `draws`, (n_draws, d), statistics
 * added to `counts`, (n_draws,). `made` is the number of draws begun, including a failed one. */
mh_status mh_run(mh_chain *chain, int64_t updates, int64_t n_draws, double *draws, mh_counts *counts, int64_t *made);
mh_status mh_run_elements(mh_element_chain *chain, int64_t updates, int64_t n_draws, double *draws, mh_counts *counts, int64_t *made);
/* Make one proposal; `cheap` is the part of its log ratio that needs no rows: see mh_decide. */
mh_status mh_propose_once(mh_chain *chain, const double *position, double *new_position, double *cheap);
/* Test one proposal many times on fresh rows, and add sums to `outcomes`, (4,): see run.c. */
mh_status mh_repeat_test(mh_chain *chain, const double *position, const double *new_position, double cheap, int64_t repetitions, int64_t by_verdict, double *outcomes);

/* ---- slices.c ---- */
/* Slice update of a position along one direction, or along several. `value` is the log-density before
 * and after; `evaluations` counts prior evaluations. */
mh_status mh_move_by_slice(double *position, int64_t size, const double *step, int64_t first, int64_t last, mh_log_prior prior, const int64_t *context, const mh_generator *rng, double *value, int64_t *evaluations, mh_arena *scratch);
mh_status mh_move_without_rows(double *position, int64_t size, const mh_slices *slices, mh_log_prior prior, const int64_t *context, const mh_generator *rng, double *value, int64_t *evaluations, mh_arena *scratch);

/* ---- mixture.c, walk.c, langevin.c, custom_proposal.c ---- */
double mh_log_share_above(double bound);
double mh_normal_above(double bound, const mh_generator *rng);
mh_status mh_propose_mixture(const void *proposal, mh_chain *chain, mh_proposed *out);
mh_status mh_propose_bordered(const void *proposal, mh_chain *chain, mh_proposed *out);
mh_status mh_propose_transformed(const void *proposal, mh_chain *chain, mh_proposed *out);
mh_status mh_propose_tailed(const void *proposal, mh_chain *chain, mh_proposed *out);
/* Write theta + s L xi to move.new, in coordinates from `first` on. */
void mh_walk_by(const double *factor, double scale, const mh_generator *rng, int64_t first, int64_t size, mh_move *move);
mh_status mh_propose_walk(const void *proposal, mh_chain *chain, mh_proposed *out);
/* mh_draw_batch draws b rows uniformly without replacement; mh_rows_gradient writes beta N/b times
 * the sums of their gradients, (d,), and of their values. */
mh_status mh_draw_batch(const mh_generator *rng, int64_t size, const mh_posterior *posterior, mh_batch *out, mh_arena *scratch);
mh_status mh_rows_gradient(const mh_batch *batch, const double *position, double *out, double *value, mh_arena *scratch);
mh_status mh_propose_langevin(const void *proposal, mh_chain *chain, mh_proposed *out);
mh_status mh_propose_custom(const void *proposal, mh_chain *chain, mh_proposed *out);
/* Derivatives of Gaussian rows, to check proposals: custom_proposal.c explains `context`. */
void mh_derivatives_of_gaussian(const double *position, const int64_t *rows, const int64_t *ends, const int64_t *context, int64_t wants_hessian, double *sums, double *hessian);
/* Update n positions, (n, d), by a user's proposal and exact tests for a Gaussian. Log-ratios of the
 * proposal are multiplied by `sign`; `used` counts log-ratios other than 0. */
mh_status mh_walk_on_gaussian(mh_chain *chain, const double *mean, const double *whitener, int64_t n, double *positions, int64_t updates, double sign, int64_t *used);

/* ---- scale_conditional.c ---- */
/* Whiten a position to (u, w), (d,), or invert this; and log |d(u, w)/d theta| up to a constant. */
mh_status mh_whiten_given_scales(const mh_scale_conditional *tables, const double *position, double *white, double *log_volume, mh_arena *scratch);
mh_status mh_place_given_scales(const mh_scale_conditional *tables, const double *white, double *position, double *log_volume, mh_arena *scratch);

/* ---- skew_map.c ---- */
/* Whiten a position to w, (d,), or invert this; and log |dw/d theta| up to a constant. */
mh_status mh_whiten_by_map(const mh_skew_map *map, const double *position, double *white, double *log_volume, mh_arena *scratch);
mh_status mh_place_by_map(const mh_skew_map *map, const double *white, double *position, double *log_volume, mh_arena *scratch);

/* ---- poisson_test.c ---- */
/* Thin a drawn row whose `change` dU_i is within its bound, in a proposal of `size` C M: write the
 * probability of keeping the row, and its contribution to the log ratio if kept. */
void mh_thin(double change, double bound, double size, const mh_poisson_test *test, double *keep, double *added);
mh_status mh_decide_poisson(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);

/* ---- looks.c ---- */
void mh_merge_moments(mh_moments *moments, const mh_moments *others);
void mh_add_moments(mh_moments *moments, const double *values, int64_t n);
double mh_skewness(const mh_moments *moments);
/* Mean, variance with divisor N, and largest absolute value of the differences of all rows. */
mh_status mh_scan_rows(const mh_posterior *posterior, const mh_move *move, double *mean, double *variance, double *largest, mh_arena *scratch);
/* Extend a batch of n rows to `target` by the next rows of a supply. At most `room` rows are taken,
 * and rows of the batch are skipped; `slots` begins with the slots of the new rows. */
mh_status mh_take_new(const mh_supply *supply, mh_drawn *batch, int64_t *n, int64_t target, int64_t room, int64_t *slots);
double mh_predicted_noise(const mh_move *move, const mh_reference *reference, double kappa);
mh_status mh_unit_noise(const mh_reference *reference, double *position, double *new_position, double *noise, mh_arena *scratch);
mh_status mh_decide_by_batches(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);
/* Count proposals whose test would evaluate all rows, among n with whitened ends (n, 2, d). */
mh_status mh_full_passes_of(const mh_batch_test *test, const mh_reference *reference, int64_t n, double *moves, int64_t total, double limit, const mh_generator *rng, int64_t *passes, mh_arena *scratch);

/* ---- tails.c ---- */
double mh_normal_cdf(double x);
double mh_logistic(double x);
double mh_student_tail(double t, double degrees); /* P(T > t) of Student's t, t >= 0 */
/* Smallest number of rows b <= `total` with noise (1/b - 1/total) <= variance. */
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
int64_t mh_rows_of_penalty(double noise, int64_t total, int64_t least);
int64_t mh_penalty_sample_size(const void *settings, double noise, int64_t n, int64_t total);
mh_status mh_penalty_decide(const void *settings, const mh_look *look, mh_verdict *out);
int64_t mh_own_sample_size(const void *settings, double noise, int64_t n, int64_t total);
mh_status mh_own_decide(const void *settings, const mh_look *look, mh_verdict *out);

/* ---- confidence.c ---- */
/* Number of rows at the next look, after n rows, at most `total`. From `most_drawn` on it is
 * `total`, except after a scan, where looks are as published. */
int64_t mh_confidence_rows(int64_t n, int64_t total, double most_drawn, const mh_confidence_test *test);
double mh_confidence_level(int64_t look, const mh_confidence_test *test); /* delta_k */
/* Half width c_n, from the standard deviation of the l_i and a `reach` of at least their range. */
double mh_half_width(double deviation, double reach, int64_t n, double level);
/* Write a verdict, with probability min(1, exp(log ratio)); `width` is N c_n, 0 with all rows. */
void mh_confidence_decide(double log_ratio, double width, double uniform, mh_verdict *out);
mh_status mh_decide_by_confidence(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);

/* ---- firefly.c ---- */
double mh_log_odds(double excess); /* log o_i of a row with log(L_i/B_i) = excess */
double mh_chance_to_be_bright(double odds, double q, int64_t kind); /* P(bright) after an update */
/* Log ratio of a move, from C m and the summed log odds (log o_i) of bright rows at both ends. */
double mh_log_ratio_of_bright(double cheap, double size, double new_size, double odds, double new_odds);
/* Update which rows are bright at a position, or draw them anew if unknown; write the sum of the
 * log odds of bright rows, and the number of rows evaluated. */
mh_status mh_update_brightness(const mh_brightness *own, const mh_place *place, const mh_posterior *posterior, const mh_generator *rng, mh_counts *counts, double *odds, int64_t *n_read, mh_arena *scratch);
mh_status mh_odds_of_bright(const mh_brightness *own, const mh_place *place, const mh_posterior *posterior, mh_counts *counts, double *odds, mh_arena *scratch);
mh_status mh_decide_by_bright_rows(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);

/* ---- poisson_mh.c ---- */
/* Probability phi_i(theta)/(upper bound of phi_i) of keeping a row; `share` is the fraction of its
 * range below its log-likelihood; raised = lambda/L; and log(phi_i(theta')/phi_i(theta)). */
double mh_keep_by_level(double share, double raised);
double mh_growth_of_level(double share, double new_share, double raised);
mh_status mh_decide_by_levels(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);

/* ---- element_moves.c, parts.c, candidates.c ---- */
double mh_sum_of_logs(const double *values, int64_t n);
/* Thinning bound of one row, or of all rows; bitwise symmetric in the ends. */
double mh_ceiling(const mh_parts *parts, const mh_part_ends *ends, int64_t row);
void mh_ceilings_of(const mh_parts *parts, const mh_part_ends *ends, double *out);
/* First of a row's levels whose effect is beyond its radius at either end; -1 if none is. */
int64_t mh_first_outside(const mh_parts *parts, const mh_part_ends *ends, int64_t row);
/* Overwrite the values of each level's rows by running sums, and write the level's total. */
void mh_fill_running(int64_t n, const int64_t *starts, double *values, double *totals);
/* Write the rates of candidates in a move, and their total; `outside`, (L + 1,), receives the
 * number of levels beyond their radii, then these levels. */
mh_status mh_find_rates(const mh_parts *parts, const mh_part_ends *ends, mh_rates *rates, int64_t *outside, double *limit, mh_arena *scratch);
/* Draw n <= MH_AHEAD candidates at these rates, each with a uniform number for its thinning. */
void mh_draw_candidates(const mh_parts *parts, const mh_rates *rates, const mh_generator *rng, int64_t n, int64_t *rows, double *chances);
/* Ratio of a row's thinning bound to its rate as a candidate; `limit` is the total rate. */
double mh_share_of_candidates(const mh_parts *parts, const mh_part_ends *ends, const mh_rates *rates, double limit, int64_t row);

#endif
