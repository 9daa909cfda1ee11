/* The architecture of the compiled loops: every record, role and status code. Read this first.
 *
 *     chain = posterior (prior, rows, control variates, bounds) + proposal + test + generator + move
 *
 * Words: row = observation; move = proposal with both ends (current and proposed position); form =
 * linear predictor; border = all common effects; element = group effect. In an update (run.c) the
 * proposal writes move.new; the test accepts or rejects. Each is a record with a function (a role):
 *
 *   to propose      a record and an mh_propose:  mixture.c, walk.c, langevin.c, custom_proposal.c
 *   to decide       a record and an mh_decide:   poisson_test.c, looks.c, confidence.c, ...
 *   by batches      a test of looks.c has two more functions, mh_sample_size and mh_decide_batch:
 *                   barker.c, austere.c, penalty.c, custom_test.c
 *
 * The functions of a model (prior and rows) are compiled by PyTensor, called by address, and never
 * fail. Functions that can fail return an mh_status. Any status but MH_OK ends the run at the
 * position before the update.
 *
 * Python lays records out by this header (library.py), under the same names: every field has eight
 * bytes (double, int64_t, a pointer) or is a record. Arrays are C-contiguous and have the shape in
 * the comment behind them; Python owns them. No function writes to const data. */
#ifndef MH_H
#define MH_H

#include <stdint.h>

typedef enum {
    MH_OK,
    MH_BOUND_VIOLATED, /* a row exceeded its bound: see bound_ratio, bound_row and worst_move */
    MH_NO_MEMORY,
    MH_NO_ROWS,     /* stored rows could not be fetched: Python holds the exception */
    MH_MOVE_RAISED, /* a user's proposal raised an exception */
    MH_MOVE_EDITED, /* a user's proposal changed the current position */
    MH_TEST_FAILED, /* a user's test raised, or returned no valid verdict */
    MH_NO_ENVELOPE  /* the density of a group's effect is not below a known envelope */
} mh_status;

/* ---- Random numbers: NumPy's bit generator and distributions, with NumPy's streams. ---- */

typedef struct mh_bits { /* bitgen_t of numpy/random/bitgen.h */
    void *state;
    uint64_t (*next_uint64)(void *state);
    uint32_t (*next_uint32)(void *state);
    double (*next_double)(void *state);
    uint64_t (*next_raw)(void *state);
} mh_bits;

typedef struct mh_generator { /* the bit generator of a chain, and NumPy's distributions */
    mh_bits *bits;
    double (*standard_normal)(mh_bits *bits);
    double (*standard_exponential)(mh_bits *bits);
    double (*standard_gamma)(mh_bits *bits, double shape);
    int64_t (*poisson)(mh_bits *bits, double mean);
    uint64_t (*bounded_uint64)(mh_bits *bits, uint64_t offset, uint64_t range, uint64_t mask, _Bool use_masked);
} mh_generator;

/* ---- Rows: functions of a few linear predictors (forms) of the position, with data as coefficients;
 *      rows of any other model are compiled graphs of all coordinates. ---- */

/* A data column: address of row 0's number, bytes between consecutive rows, and data type. */
typedef struct mh_leaf {
    const char *address;
    int64_t stride, type; /* type: index in data/arrays.STORED_TYPES */
} mh_leaf;

enum { MH_RUN, MH_PRODUCT, MH_CHOICE };

/* Source of coefficients of a linear predictor. MH_RUN: consecutive numbers of each row; MH_PRODUCT:
 * a product of leaves; MH_CHOICE: such a product, for the coordinate that the first leaf indexes. */
typedef struct mh_piece {
    int64_t kind, column; /* column: index among fixed or data-indexed (chosen) coefficients */
    int64_t count, adds;  /* count: length of a run; adds: whether to add to earlier pieces */
    double factor;
    const mh_leaf *leaves; /* (n_leaves,) */
    int64_t n_leaves, entry_stride; /* entry_stride: bytes between numbers of a run */
    int64_t first, step, choices;   /* coordinates that a leaf indexes: first, spacing, number */
} mh_piece;

/* A function of n observations: reads one row of inputs and writes one row of outputs for each. */
typedef void (*mh_row_function)(const double *inputs, double *outputs, int64_t n);

/* The rows of one observed variable, functions of m linear predictors. Fixed coefficients belong to
 * the same coordinates in every row, chosen ones to coordinates that data index, as in a[group]. */
typedef struct mh_term {
    int64_t n_arguments, n_taken, n_fixed, n_chosen, n_pieces; /* m = n_arguments */
    const mh_leaf *taken;             /* leaves that the row functions read directly, (n_taken,) */
    const mh_piece *pieces;           /* (n_pieces,) */
    const int64_t *fixed_coordinates; /* (n_fixed,) */
    const int64_t *fixed_ends;        /* end of each predictor's fixed coefficients, (m,) */
    const int64_t *chosen_arguments;  /* predictor of each chosen coefficient, (n_chosen,) */
    mh_row_function difference; /* (m predictors: at the centre, at both ends relative to it; taken)
                                   -> r(new) - r(position), its rounding error in epsilons */
    mh_row_function slopes;     /* (predictors, taken) -> value, gradient (m), Hessian (m (m + 1)/2) */
    mh_row_function thirds;     /* (predictors, taken) -> f_abc for a <= b <= c, in this order */
    mh_row_function values;     /* (predictors, taken) -> value */
} mh_term;

/* Log-sum over states k of a row, factor * log sum_k exp(o_k + sum_j w_kj phi_j): see states.c. Factor and
 * offsets o are `numbers`, or leaves of the row where `leaves` is not -1, (1 + n_states,). */
typedef struct mh_states {
    int64_t n_states, n_features, first; /* first: number of phi_0 among all functions */
    const double *weights;               /* w, (n_states, n_features) */
    const double *numbers;
    const int64_t *leaves;
} mh_states;

/* Rows whose functions are loops over states: compiled functions of (predictors, the first `n_read`
 * leaves) write the entries that are not zero of the rest of the row and of all features, at `places` of
 * an array with a line (value, gradient, Hessian), or (third derivatives), for each function. */
typedef struct mh_state_rows {
    int64_t n_arguments, n_taken, n_read, n_functions, n_sums, order; /* order: of remainders */
    const mh_states *sums;
    mh_row_function values, slopes, thirds;
    int64_t n_slope_places, n_third_places;
    const int64_t *slope_places, *third_places;
} mh_state_rows;

/* Rows whose third derivatives are differences of Hessians: see hessian_differences.c. */
typedef struct mh_hessian_rows {
    int64_t n_arguments, n_taken;
    mh_row_function slopes;
} mh_hessian_rows;

/* Writes differences of remainders, and to `scales` the larger of each row's two log-likelihoods.
 * Rows are sorted by term and numbered within terms; `ends` has each term's end, (n_terms,). */
typedef void (*mh_graph_differences)(const double *position, const double *new_position, const double *centre, const int64_t *rows, const int64_t *ends, const int64_t *context, double *differences, double *scales);

/* Adds value and gradient to `sums`, (1 + d,), and the Hessian to `hessian`, (d, d), if wanted. */
typedef void (*mh_graph_derivatives)(const double *position, const int64_t *rows, const int64_t *ends, const int64_t *context, int64_t wants_hessian, double *sums, double *hessian);

/* Groups as observations: the effect of each is integrated out by Q frozen nodes z_gq,
 *
 *     l_g(theta) = log sum_q exp F_gq,   F_gq = log w_gq + sum over the group's rows of f_i,
 *
 * where row i is evaluated at theta with the effect alpha_gq = location.theta + offset + tau z_gq as
 * coordinate d, and tau = spread * theta_s^(1/root), s = `scale`. */
/* Entry of the lower triangular factor of the effects' covariance: spread times a coordinate, or times
 * its square root if `root` is 2. */
typedef struct mh_scale {
    int64_t row, column, coordinate, root;
    double spread;
} mh_scale;

/* Groups in memory, an mh_groups, whose k-th group is `numbers[k]` of stored ones; NULL on an error. */
typedef const void *(*mh_fetch)(const int64_t *numbers, int64_t n);

typedef struct mh_groups {
    int64_t size, order; /* number of coordinates d; order of the remainders: 0, 1 or 2 */
    int64_t n_groups, n_terms, n_nodes, n_rows;
    int64_t n_integrated; /* terms that read effects; groups with rows of later ones have one node */
    int64_t n_effects, n_scales; /* number q of effects of a group; entries of their factor */
    const mh_term *terms;  /* functions of d + q coordinates, (n_terms,) */
    const int64_t *rows;   /* numbers within their terms, sorted by term and group, (n_rows,) */
    const int64_t *starts; /* first of a group's `rows`, then an end, (n_terms, n_groups + 1) */
    const double *nodes, *log_weights; /* z, (n_groups, q, n_nodes); log w, (n_groups, n_nodes) */
    const double *location, *offsets;  /* (q, d) and (q,) */
    const mh_scale *scales;
    mh_fetch fetch; /* NULL unless rows are stored: then there are neither terms nor rows here */
} mh_groups;

enum { MH_NORMAL_LAW, MH_LOGISTIC_LAW, MH_STUDENT_LAW };

/* Tangents of groups' rows at K points z of their effect, 0 if there are none, and at a centre. */
typedef struct mh_tangents {
    int64_t n_points;
    const double *points, *values, *slopes; /* slopes in the effect alpha, (n_groups, K) */
    const double *gradients;                /* in theta, (n_groups, K, d) */
    const double *move;                     /* from the centre to the position, (d,) */
} mh_tangents;

/* Law of standardised effects z of groups, with bounds at a position: see effects.c. Without cells,
 * the law and all rows are log-concave in z. */
typedef struct mh_effect_law {
    int64_t kind;
    double shape; /* degrees of freedom of Student's t */
    int64_t n_cells;
    const double *ends;       /* of the cells, ascending, (n_groups, n_cells + 1) */
    const double *curvatures; /* largest g'' in each cell, (n_groups, n_cells) */
    const double *slopes;     /* largest outward slope of the rows below and above, (n_groups, 2) */
    const double *ceilings;   /* largest value of the rows there, (n_groups, 2) */
    mh_tangents tangents;
} mh_effect_law;

/* A group at the centre: its nodes, with derivatives in whitened coordinates. */
typedef struct mh_nodes {
    int64_t n_nodes, size;
    double *values, *shares;       /* F_q, and exp F_q over their sum, (n_nodes,) */
    double *gradients, *hessians;  /* of F_q, (n_nodes, d) and (n_nodes, d, d) */
    double *third;                 /* mean of the third derivatives by shares, (d, d, d) */
} mh_nodes;

/* Bounds over a ball around the centre of derivatives of each node's F_q along any unit direction. */
typedef struct mh_suprema {
    const double *second, *third, *fourth; /* of the absolute derivatives, (n_nodes,) */
    const double *upward;                  /* of the second derivative, 0 if F_q is concave */
} mh_suprema;

/* Balls of ascending radii in coordinates w of theta + factor w; in the last `n_kinds` derivatives are
 * bounded, also by pairs of nodes if these are at most `most_paired`. */
typedef struct mh_region {
    int64_t n_radii, n_kinds, most_paired;
    const double *theta, *factor, *radii; /* (d,), (d, d) and (n_radii,) */
} mh_region;

typedef struct mh_rows { /* all rows of a model: terms (linear predictors), graphs, or groups */
    int64_t size, n_terms;      /* number of coordinates d; number of observed variables */
    const int64_t *term_starts; /* first row of each term, then number of all rows, (n_terms + 1,) */
    const int64_t *context;     /* addresses of data, passed to the model's functions */
    const mh_term *terms;       /* (n_terms,); NULL if rows are graphs or groups */
    mh_graph_differences differences;
    mh_graph_derivatives derivatives;
    const mh_groups *groups; /* NULL unless rows are groups */
} mh_rows;

/* ---- Control variates, bounds on their remainders, and rows drawn in advance. ---- */

/* Control variates: expansion around a centre; L also scales proposals. Fixed during a run. */
typedef struct mh_reference {
    int64_t size, first, order; /* d; first coordinate of this step; order 0 to 3 */
    double inverse_temperature, relative;         /* beta, and its ratio to the beta of the bounds */
    const double *centre, *factor, *whitener;     /* (d,); lower triangular L, its inverse, (d, d) */
    const double *gradient, *hessian;             /* of all rows at the centre, (d,) and (d, d) */
    /* At order 3: coordinates a <= b, and c from the first to before the last, of third derivatives,
     * (n_lines, 4); these, divided by the number of equal terms, one line after the other. */
    int64_t n_lines;
    const int64_t *lines;
    const double *thirds;
} mh_reference;

/* Kinds of tables of bounds: see moves.c. */
enum { MH_DIRECTIONAL, MH_JOINT, MH_SHARP, MH_GIVEN, MH_CONSTANT, MH_ENDS, MH_KINKED };

/* Bounds |dU_i| <= c_i M of all rows, for proposals with both ends within a radius, and within an
 * interval of their products with the vector `along` of all tables. */
typedef struct mh_table {
    double radius, low, high;
    int64_t kind;
    double total;   /* sum of the c_i over rows that can be drawn */
    const float *c; /* (n_rows,) */
    const double *thresholds; /* alias table to draw rows in proportion to the c_i, (n_drawn,) */
    const int32_t *aliases;
    /* By groups: sums of c_i times either share over a group's rows, and their roots, (n_groups, 4).
     * There are then two alias tables of each group, (2, n_drawn), whose aliases are rows. */
    const double *sums;
} mh_table;

/* Size M of a proposal by a user's metric, in units of the user's bounds. */
typedef double (*mh_metric)(const double *position, const double *new_position, int64_t size);

/* Asks Python for more rows of table `what` (0, 1, ...), for the total change of all rows (-1), or
 * for the n rows numbered in supply.rows (-1 - n). Returns whether Python succeeded. */
typedef int64_t (*mh_refill)(int64_t what);

/* Supply of stored rows: rows are drawn in advance for each table, and used once, in order. */
typedef struct mh_supply {
    int64_t room, n_rows; /* rows per supply, 0 for data in memory; number of all rows */
    int64_t *places; /* next unused slot, end of filled slots, number of supplies, (n_tables, 3) */
    mh_refill refill;
    const double *change; /* total change of all rows in the proposal, on request, (1,) */
    int64_t *rows;        /* row number in each slot */
} mh_supply;

/* Whitened directions of rows as 8-bit integers: see whitened_copy.c. */
typedef struct mh_copy {
    int64_t n_lines, width; /* number of rows, 0 without a copy; bytes per row */
    const int8_t *lines; /* scales and residuals (float) of directions, directions, (n_lines, width) */
    const double *shared;  /* directions that every row may depend on, (n_shared, d) */
    int64_t n_shared, own; /* own: number of further directions per row */
    int64_t kinked;        /* whether the direction of each row leads to its kink */
} mh_copy;

typedef struct mh_bounds { /* bounds on rows, influential rows, and directions of the likelihood */
    int64_t n_tables, n_drawn; /* n_drawn: length of the alias tables */
    const mh_table *tables;    /* smallest radius first */
    mh_metric metric;
    int64_t n_heavy;
    const int64_t *heavy; /* influential rows, evaluated in every update, ascending, (n_heavy,) */
    int64_t n_unread;
    const double *unread; /* whitened null space of the likelihood, orthonormal, (n_unread, d) */
    int64_t n_shared;
    const double *shared; /* directions that all rows may depend on, if others belong to groups */
    int64_t n_groups, each;
    const double *own; /* `each` further directions of every group, (n_groups * each, d) */
    /* Group of each row, (n_drawn,), if candidates are drawn by groups; shares of its c_i due to shared
     * and to own directions, (n_drawn, 2); rows by group, (n_drawn,), and their starts, (n_groups + 1,). */
    const int32_t *labels;
    const float *shares;
    const int32_t *members;
    const int64_t *starts;
    /* Unit vector along which tables have intervals, (d,), or NULL: radii are then those of the rest. */
    const double *along;
    mh_supply supply;
    mh_copy copy;
} mh_bounds;

/* Log-density of everything that is not subsampled, mainly the prior. */
typedef double (*mh_log_prior)(const double *position, const int64_t *context);

typedef struct mh_posterior { /* density of a prepared model, with control variates and bounds */
    mh_log_prior prior;
    mh_rows rows;
    mh_reference reference;
    mh_bounds bounds;
    double most_drawn; /* maximum batch size; a look at more rows evaluates all */
    double *group_rows; /* rows of evaluated groups so far, (1,); NULL if they are not counted */
} mh_posterior;

/* A proposal: both positions, both whitened (here, there), and the whitened step, (d,) each. */
typedef struct mh_move {
    double *position, *new, *here, *there, *step;
} mh_move;

/* Directions in the null space of the likelihood: slice updates need no rows, see slices.c. */
typedef struct mh_slices {
    int64_t n_steps;
    const double *steps; /* directions, each as long as one step of stepping out, (n_steps, d) */
    const int64_t *ends; /* start and end of each direction's non-zero entries, (n_steps, 2) */
    int64_t moves;       /* number of slice updates after each update */
} mh_slices;

/* ---- Statistics of a draw; NumPy has them as a structured array of the same names. ---- */

typedef struct mh_counts {
    double accept, accepted, n_obs, n_looks, full_pass; /* sums over the updates of a draw */
    double invalid, error, underestimated;
    double log_ratio, log_ratio_std; /* of the last update */
    double bound_ratio, bound_row; /* largest |dU_i| / (c_i M), and its row */
    /* To tune chi: sum and number of values of C M, then of squared ratios |dU_i| / (c_i M). */
    double sizes, n_sizes, squared_ratios, n_ratios;
    double n_bright; /* of the last update */
    double n_prior;  /* prior evaluations by slice updates */
    double accept_border, accept_elements, accept_scales, accept_directions;
    double n_candidates, n_groups_in_full;
    double n_rows, n_at_nodes; /* rows of evaluated groups, and these times nodes */
} mh_counts;

/* Efficiency of one component of a proposal: accepted squared jumps, of positions and their squares,
 * in posterior standard deviations. */
typedef struct mh_tally {
    double tried, accept, jump, square_jump, rows;
} mh_tally;

/* ---- A chain, and the roles (function types) that it calls. ---- */

typedef struct mh_chain mh_chain;
typedef struct mh_arena mh_arena;

/* In the place of a component that warm-up does not adapt. */
enum { MH_UNTALLIED = -1 };

typedef struct mh_proposed { /* result of proposing, in addition to move.new */
    double log_q;      /* log q(position | new) - log q(new | position) */
    int64_t component; /* index of the component that was drawn, or MH_UNTALLIED */
} mh_proposed;

typedef struct mh_decision { /* result of a test */
    int64_t accepted;
    double probability; /* of accepting the proposal */
    double n_obs;       /* number of rows that were evaluated */
} mh_decision;

/* Writes a proposal to move.new; move.there and move.step are scratch. Coordinates before
 * reference.first are copied. */
typedef mh_status (*mh_propose)(const void *proposal, mh_chain *chain, mh_proposed *out);

/* Accepts or rejects; `cheap` is the part of the log ratio that needs no rows: prior, expansion and
 * log_q. Adds to counts: n_looks, full_pass, invalid, error; sets log_ratio and log_ratio_std. */
typedef mh_status (*mh_decide)(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);

struct mh_chain { /* state of a chain, with the records of its proposal and its test */
    mh_posterior posterior;
    mh_move move;
    mh_generator generator;
    mh_propose propose;
    const void *proposal;
    mh_decide decide;
    const void *test;
    mh_slices slices;
    mh_tally *tallies;  /* one per component of the proposal */
    double *worst_move; /* proposal with the largest ratio to a bound above 1, (2, d) */
    mh_arena *scratch;
};

/* ---- Records of one update, in scratch memory that is freed after it. ---- */

/* A proposal, prepared for products with the packed rows of the whitened copy: middle = (a + a')/2
 * and half = (a' - a)/2 in single precision, (d,), padded with zeros to a packed row's layout;
 * lengths of a, a' and a' - a, and their squared lengths along shared directions; slack: rounding
 * errors of products with an end and with the step; raised = kappa over M. */
typedef struct mh_ends {
    float *middle, *half;
    double lengths[3], along[3], slack[2], raised;
    int64_t order, size;
    const mh_table *table; /* table of the proposal and its number, for rows with kinks */
    int64_t number;
} mh_ends;

/* Rates of candidates by groups of rows: table of each group, -1 where none holds, (n_groups,); rate of
 * a row per unit of c_i times either share, (n_groups, 2); running sums of the groups' rates. */
typedef struct mh_group_rates {
    const mh_bounds *bounds;
    int64_t *tables, widest; /* widest: the table of the largest region */
    double *units, *running; /* running: (n_groups,) */
    double total;
} mh_group_rates;

/* Coefficients of the linear predictors of n rows of a term; `picked` has the entries of a vector
 * at the fixed coordinates, (n_fixed,). */
typedef struct mh_forms {
    double *fixed;   /* (n, n_fixed) */
    int64_t *places; /* coordinates that data index, then their coefficients, (n, n_chosen) */
    double *chosen;
    double *picked;
} mh_forms;

/* Number and mean of values, and sums of squared and of cubed deviations from the mean. */
typedef struct mh_moments {
    int64_t n;
    double mean, second, third;
} mh_moments;

/* Rows drawn without replacement: a list, and a hash set of its members (open addressing, -1 in empty
 * slots). The set has no slots once the list holds all rows. */
typedef struct mh_drawn {
    int64_t room, *rows, n_places, *places;
} mh_drawn;

/* Inner products of a whitened step from a to a' = a + b: |a|^2, |a'|^2, |b|^2, a.b and a'.b. */
typedef struct mh_products {
    double here, there, step, along_here, along_there;
} mh_products;

/* ---- Proposals. ---- */

/* Mixture of a random walk and Laplace proposals (by the normal approximation): mixture.c. */
typedef struct mh_mixture {
    double scale; /* of the random walk */
    int64_t n_components;
    const double *weights; /* probabilities of the walk and of Laplace components, (n_components,) */
    const double *rho;     /* autoregression of Laplace components, (n_components - 1,) */
} mh_mixture;

/* The same mixture for models with coordinates bounded by zero, which are drawn first. */
typedef struct mh_bordered {
    mh_mixture mixture;
    const int64_t *order; /* coordinates: of other steps, n_ends bounded by zero, all others, (d,) */
    int64_t n_ends;
    const double *factor, *whitener; /* L and its inverse, in that order of coordinates, (d, d) */
    const double *tilt; /* whitened mean of the normal approximation, (d,) */
} mh_bordered;

/* Shape of a function that is monotone between its valleys and peaks, pairs of argument and value; all
 * values lie between both `limits`. */
typedef struct mh_shape {
    int64_t n_valleys, n_peaks;
    const double *valleys, *peaks; /* (n, 2) */
    const double *limits;          /* (2,) */
} mh_shape;

/* The normal distribution of e coordinates bounded by zero, which is truncated there, and how all other
 * coordinates follow their whitened numbers v: scale_conditional.c. */
typedef struct mh_truncated {
    int64_t n_places;
    const int64_t *places;         /* indices of coordinates, (e,) */
    const double *centre, *factor; /* where v = 0, (e,); lower triangular, (e, e) */
    const double *tilt;            /* mean of v, (e,) */
    const double *shifts;          /* change of each coordinate per v, 0 for bounded ones, (d, e) */
} mh_truncated;

/* A distribution of p scales, tabulated at J knots, and a normal distribution of n other coordinates
 * given the scales, tabulated at K knots: scale_conditional.c explains phi_0, A, z, m, D and U. */
typedef struct mh_scale_conditional {
    int64_t n_scales, n_rest, n_normal_knots, n_knots;
    const int64_t *scales, *rest;           /* indices of coordinates, (p,) and (n,) */
    const double *middle, *spread, *narrow; /* phi_0, (p,); A and its inverse, (p, p) */
    double first_normal, normal_gap;
    const double *points, *slopes; /* (p, J) */
    double first_knot, knot_gap;
    const double *mean;      /* (n,) */
    const double *whitener;  /* U, packed by rows, with D on the diagonal, (n (n + 1)/2,) */
    const double *means;     /* (p, K, n) */
    const double *whiteners; /* (p, K, n (n + 1)/2) */
    const mh_truncated *truncated; /* coordinates that are no scales and in no table; or NULL */
} mh_scale_conditional;

/* A triangular map of third order around m with the factor T, in an order of the coordinates, in which
 * numbers of an earlier coordinate change later ones: skew_map.c explains k, S, c and e. */
typedef struct mh_skew_map {
    int64_t size;
    const int64_t *order;             /* coordinates, (d,) */
    const double *centre;             /* m, in this order, (d,) */
    const double *factor, *whitener;  /* lower triangular T, its inverse, (d, d) */
    const double *shifts, *bends;     /* k and c, (d,) */
    const double *exponents;          /* S_aab/2 at (a, b), strictly lower triangular, (d, d) */
    const int64_t *starts;            /* monomials of each coordinate, (d + 1,) */
    const int32_t *firsts, *seconds;  /* earlier coordinates of monomials, (n_values,) */
    int64_t n_values;
    const double *values;             /* their coefficients, (n_values,) */
} mh_skew_map;

typedef struct mh_transformed { /* the mixture in coordinates that are nearly standard normal */
    mh_mixture mixture;
    const mh_scale_conditional *tables; /* from (u, w) to positions; NULL for the identity */
    const mh_skew_map *map;             /* from w to these (u, w); NULL for the identity */
} mh_transformed;

/* A mixture with a component whose tail along each of some directions is that of Cauchy's
 * distribution. */
typedef struct mh_tailed {
    double weight; /* probability of this component */
    int64_t n_directions;
    const double *directions;  /* whitened, of length 1, (n_directions, d) */
    mh_propose propose_others; /* the other components, with their record */
    const void *others;
} mh_tailed;

enum { MH_LAPLACE, MH_IDENTITY, MH_GIVEN_SHAPE };

/* A random walk with the shape of the posterior, the identity, or a user's factor: walk.c. */
typedef struct mh_walk {
    double scale;
    int64_t shape;
    const double *factor; /* lower triangular, (d, d); NULL unless a user gives it */
} mh_walk;

/* A Langevin proposal: drift along a gradient that is estimated from a batch: langevin.c. */
typedef struct mh_langevin {
    double step;
    int64_t preconditioner; /* MH_LAPLACE or MH_IDENTITY */
    int64_t batch_size;
} mh_langevin;

/* A minibatch drawn before proposing, shared by the forward and the reverse proposal. */
typedef struct mh_batch {
    int64_t n;
    const int64_t *drawn; /* (n,) */
    double scale;         /* factor of sums over the batch: beta N/n, or 0 if n = 0 */
    const mh_rows *rows;
} mh_batch;

typedef mh_status (*mh_gradient_of_rows)(const mh_batch *batch, const double *position, double *out, double *value, mh_arena *scratch);

/* Arguments of a user's proposal function. */
typedef struct mh_handed {
    int64_t size;
    const double *position; /* (d,) */
    double *new_position;
    mh_bits bits;
    int64_t n_state;
    double *state; /* (n_state,) */
    const double *centre, *factor, *whitener; /* (d,), (d, d) */
    int64_t n_drawn;
    const int64_t *drawn; /* rows of the batch; scale: factor of sums over them */
    double scale;
    const mh_batch *batch; /* first argument of `gradient`, which is mh_rows_gradient */
    mh_arena *scratch;
    mh_gradient_of_rows gradient;
    int64_t function; /* address of the user's function; a shim calls it and keeps its exception */
    int64_t *kept;
} mh_handed;

/* Calls a user's proposal function and writes log_q; returns whether the function raised. */
typedef int64_t (*mh_users_move)(const mh_handed *handed, double *log_q);

typedef struct mh_custom_proposal { /* a user's proposal: custom_proposal.c */
    mh_users_move call;
    int64_t function;
    int64_t *kept; /* exception that the function raised, (1,) */
    int64_t batch_size, n_state;
    double *state;    /* (n_state,) */
    double *position; /* copy of the position for the function, (d,) */
} mh_custom_proposal;

/* ---- Tests. ---- */

enum { MH_BEST, MH_PAPER, MH_FACTORIZED };

/* A test on a Poisson number of rows: poisson_test.c. */
typedef struct mh_poisson_test {
    int64_t form;
    double chi;
    int64_t delayed;       /* delayed acceptance: whether a first stage decides by `cheap` alone */
    double max_rate;       /* expected number of rows above which all are evaluated */
    int64_t tolerates;     /* whether changes beyond bounds are clipped; otherwise they end the run */
    double ceiling_factor; /* kappa, the factor of thinning bounds from the whitened copy */
    double rate_factor;    /* of the rates of groups, at which candidates are drawn */
} mh_poisson_test;

/* Number of rows at the next look, after n rows. V(1/b - 1/total), with V the noise, is the
 * predicted variance of the log ratio from b rows. */
typedef int64_t (*mh_sample_size)(const void *settings, double noise, int64_t n, int64_t total);

/* Input of a look: the estimates of a test on batches at n rows. */
typedef struct mh_look {
    double log_ratio, variance; /* estimate; its variance, 0 with all rows */
    double skewness;            /* of the rows' differences */
    int64_t n, total;           /* rows drawn, and rows that can be drawn */
    double uniform;             /* uniform number, the same at every look */
} mh_look;

enum { MH_REJECT, MH_ACCEPT, MH_READ_MORE };

typedef struct mh_verdict { /* result of a look */
    int64_t verdict;
    double probability, error; /* error: estimated error of the probability */
} mh_verdict;

typedef mh_status (*mh_decide_batch)(const void *settings, const mh_look *look, mh_verdict *out);

/* A test on growing batches: looks.c. */
typedef struct mh_batch_test {
    mh_sample_size sample_size;
    mh_decide_batch decide_batch;
    double kappa; /* predicted noise V = kappa M^2 */
    const void *settings;
} mh_batch_test;

typedef struct mh_barker_test { /* Barker's test: barker.c */
    int64_t batch_size;
    double skewness, third_moment, kappa, sigma;
    int64_t grow, novak, skewed;
    double max_error, table_error;
    int64_t n_atoms; /* atoms of C_sigma, ascending; tails: mass of each atom and later ones */
    const double *atoms, *masses, *tails;
} mh_barker_test;

typedef struct mh_austere_test { /* the austere test: austere.c */
    int64_t batch_size;
    double skewness, third_moment, kappa, epsilon, boundary, limit;
} mh_austere_test;

typedef struct mh_penalty_test { /* the penalty test: penalty.c */
    int64_t batch_size;
    double skewness, third_moment, kappa;
} mh_penalty_test;

/* A user's functions, called by shims that return a negative number if they raise. `said` receives
 * the verdict (1, 0 or -1 for more rows), the probability and its error, (3,). */
typedef int64_t (*mh_users_sample_size)(double noise, int64_t n, int64_t total, const double *numbers, int64_t n_numbers);
typedef int64_t (*mh_users_decide_batch)(double log_ratio, double variance, double skewness, int64_t n, int64_t total, double uniform, const double *numbers, int64_t n_numbers, double *said);

typedef struct mh_custom_test { /* a user's test on batches: custom_test.c */
    mh_users_sample_size sample_size;
    mh_users_decide_batch decide_batch;
    int64_t n_numbers;
    const double *numbers; /* (n_numbers,) */
} mh_custom_test;

/* The confidence sampler: concentration bounds on growing batches, confidence.c. */
typedef struct mh_confidence_test {
    int64_t batch_size;
    double gamma, p, delta;
    int64_t scans;
    const double *largest; /* largest c_i of every table, (n_tables,); NULL with a scan */
} mh_confidence_test;

/* Bright rows of Firefly Monte Carlo: firefly.c. */
typedef struct mh_brightness {
    double q; /* probability that a dark row is proposed to become bright */
    int64_t n_rows;
    int32_t *rows;     /* all rows, the bright ones first, (n_rows,) */
    int64_t *n_bright; /* (1,); -1 before bright rows are drawn */
    double *at;        /* position at which these rows are bright, (d,) */
} mh_brightness;

/* A position, as a proposal from the centre: the index of its table of bounds, negative if none
 * holds, and the size M of this proposal. */
typedef struct mh_place {
    mh_move move;
    int64_t table;
    double m;
} mh_place;

/* Cases of a row in an update of brightness. MH_ANEW: brightness is drawn anew; MH_DARK: a dark row
 * is proposed to become bright; MH_BRIGHT: a bright row is proposed to become dark. */
enum { MH_ANEW, MH_DARK, MH_BRIGHT };

typedef struct mh_firefly_test { /* the test of Firefly Monte Carlo: firefly.c */
    mh_brightness brightness;
    int64_t forgets; /* whether bright rows are drawn anew for each decision */
    int64_t tolerates;
} mh_firefly_test;

/* PoissonMH: rows kept with probabilities that grow with their log-likelihoods, poisson_mh.c. */
typedef struct mh_levels_test {
    double lam, max_rate;
    int64_t tolerates;
} mh_levels_test;

/* ---- Hierarchies: group effects (elements) accepted separately, elements.c, parts.c. ---- */

/* Tables of all N rows for thinning bounds. Here F counts grouping factors and also sets of common
 * effects that data index, and L all of their levels; a row has at most one level of each factor. */
typedef struct mh_parts {
    int64_t n_rows, n_factors;
    const double *border;    /* s_i, (N,) */
    const double *weights;   /* z_if, (N, F) */
    int64_t is_signed;       /* whether bounds use the signs of weights */
    const int32_t *elements; /* level of each row, numbered over all factors; -1 for none */
    const int64_t *first, *starts; /* start of factors' levels, (F + 1,), and of levels' rows, (L + 1,) */
    const int64_t *rows;     /* rows of each level; running: running sums of their |z|^3 */
    const double *running;
    const double *cubes; /* C_g, the sum of the cubes |z|^3 of level g's rows, (L,) */
    double border_cubes; /* sum of the s_i^3; next, their alias table, (N,) */
    const double *thresholds;
    const int32_t *aliases;
    double border_radius; /* bounds hold for |w| up to this; |e| up to radii, (L,) */
    const double *radii;
} mh_parts;

/* Both ends of a proposal: values of levels, (L,) each, and |w|, |w'| and |w' - w|. */
typedef struct mh_part_ends {
    const double *here, *there;
    double border[3];
} mh_part_ends;

/* Rates of candidates, from one or two Poisson processes; parts: common effects and F factors. */
typedef struct mh_rates {
    int64_t *kinds;  /* kind of cubes of each process, -1 for none, (2,) */
    double *chances; /* probability that a candidate is from each part, (2, F + 1) */
    double *units;   /* probability of a row per unit of its cube, for each part, (2, F + 1) */
    double *running; /* running sums over the levels of each factor, (2, L) */
} mh_rates;

/* Writes the prior log-density of every effect of a factor. */
typedef void (*mh_element_density)(const double *position, const int64_t *context, double *out);

/* Coordinates (w, e), and expansions in them: n common effects (border), L effects of F factors. */
typedef struct mh_geometry {
    int64_t n_border, n_elements, n_factors, n_scales, n_along, n_chosen, n_read;
    const int64_t *border, *places; /* indices of common and group effects, (n,) and (L,) */
    const double *factor, *whitener, *response; /* T and its inverse, (n, n), and R, (n, L) */
    const double *sd;           /* conditional standard deviation of each e given w, (L,) */
    const double *border_slope, *slopes; /* expansion of all rows: slopes in w, (n,), in e, (L,) */
    const double *border_hessian, *between, *hessian; /* its second derivatives: (n, n), (n, L), (L,) */
    const int64_t *cell_starts; /* second derivatives between factors, sparse rows, (L + 1,) */
    const int32_t *cell_elements;
    const double *cells;
    /* Gradient corrections from the average over the posterior, (n,) and (L,): they shift the
     * centre of proposals, not the expansion. */
    const double *border_tilt, *tilts;
    const double *prior_slope; /* of the prior in w at the centre, without the effects' prior, (n,) */
    const double *directions;  /* shifts of effects off prior locations per unit of w, (n, L) */
    const double *precisions, *total_precision; /* of effects' prior, (L,), and sums by factor, (F,) */
    const double *stiffness;   /* precision of w from each factor's prior, (F, n, n) */
    const mh_element_density *densities; /* (F,) */
    const int64_t *scales; /* scales updated with their factor's effects, (n_scales,) */
    const double *scale_steps;
    const int64_t *scale_factors;
    /* Directions V in e, one standard deviation long, (n_along, L); slopes of the rows' expansion
     * along them, (n_along,); second derivatives with w, (n_along, n), e, (n_along, L), and V. */
    const double *along, *along_slope, *along_border, *along_elements, *along_own;
    const int64_t *chosen; /* common effects that data index, (n_chosen,) */
    const double *read;    /* Q, for the length |Q w| of the other common effects, (n_read, n) */
} mh_geometry;

/* Statistics to tune one type of update of a hierarchy, in the place of an mh_tally. */
typedef struct mh_kind_tally {
    double decisions, candidates; /* candidates: their expected number over kappa */
    double squares;               /* sum of squared ratios of kept rows to their bounds */
    double size, kept;            /* size: number of kept rows over kappa; kept: their number */
} mh_kind_tally;

/* A chain of a hierarchical model. Its Poisson test has chi = 1, and kappa - 1 instead of chi C M.
 * Its tallies are records mh_kind_tally, one for each type of update. */
typedef struct mh_element_chain {
    mh_chain chain;
    mh_poisson_test test;
    mh_geometry geometry;
    mh_parts parts;
    const double *kappa; /* per type of update: common effects, factors, scales, directions */
} mh_element_chain;

#endif
