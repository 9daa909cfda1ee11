/* The architecture of the compiled loops: every record, role and status code. Read this first.
 *
 *     chain = posterior (prior, rows, control variates, bounds) + proposal + test + generator + move
 *
 * An update (run.c) has the proposal write move.new, computes the part of the log ratio that needs
 * no row, and has the test decide. Proposals and tests are records behind a function each (a role):
 *
 *   to propose      a record and an mh_propose:  mixture.c, walk.c, langevin.c, custom_proposal.c
 *   to decide       a record and an mh_decide:   poisson_test.c, looks.c, confidence.c, ...
 *   by batches      a test of looks.c has two more functions, mh_sample_size and mh_decide_batch:
 *                   barker.c, austere.c, penalty.c, custom_test.c
 *
 * Functions of a model, its prior and its rows, are compiled by PyTensor and called by address.
 * They never fail. Whatever can fail returns an mh_status, and anything but MH_OK ends the run at
 * the position before the update.
 *
 * Rules of this header, which Python reads to lay records out (library.py): every field has eight
 * bytes (double, int64_t, a pointer) or is a record. Arrays are C-contiguous, have the shape in the
 * comment behind them, and are owned by Python, which keeps them alive. Records of Python have the
 * same names and fields. No function writes to what is const. */
#ifndef MH_H
#define MH_H

#include <stdint.h>

typedef enum {
    MH_OK,
    MH_BOUND_VIOLATED, /* a row exceeded its bound: counts and worst_move say which, and where */
    MH_NO_MEMORY,
    MH_NO_ROWS,     /* stored rows could not be had: Python has the exception */
    MH_MOVE_RAISED, /* a user's proposal has raised, or has edited its position */
    MH_MOVE_EDITED,
    MH_TEST_FAILED /* a user's test has raised, or has given no verdict */
} mh_status;

/* ---- Random numbers: NumPy's bit generator and distributions, so that streams are NumPy's. ---- */

typedef struct mh_bits { /* bitgen_t of numpy/random/bitgen.h */
    void *state;
    uint64_t (*next_uint64)(void *state);
    uint32_t (*next_uint32)(void *state);
    double (*next_double)(void *state);
    uint64_t (*next_raw)(void *state);
} mh_bits;

typedef struct mh_generator {
    mh_bits *bits;
    double (*standard_normal)(mh_bits *bits);
    double (*standard_exponential)(mh_bits *bits);
    double (*standard_gamma)(mh_bits *bits, double shape);
    int64_t (*poisson)(mh_bits *bits, double mean);
    uint64_t (*bounded_uint64)(mh_bits *bits, uint64_t offset, uint64_t range, uint64_t mask, _Bool use_masked);
} mh_generator;

/* ---- Rows: functions of a few linear forms of the position, whose coefficients are data; or, where
 *      rows are no such functions, graphs of all coordinates. ---- */

/* One number of each row: where row 0 has it, bytes from row to row, and its type. */
typedef struct mh_leaf {
    const char *address;
    int64_t stride, type; /* index in data/arrays.STORED_TYPES */
} mh_leaf;

enum { MH_RUN, MH_PRODUCT, MH_CHOICE };

/* Coefficients of a form: a run of numbers of a row, a product of leaves, or such a product for a
 * coordinate that the first leaf chooses. */
typedef struct mh_piece {
    int64_t kind, column; /* column: index among the fixed or the chosen coefficients */
    int64_t count, adds;  /* numbers of a run; whether others were there before */
    double factor;
    const mh_leaf *leaves; /* (n_leaves,) */
    int64_t n_leaves, entry_stride; /* bytes between the numbers of a run */
    int64_t first, step, choices;   /* coordinates to choose from: the first, the step, their number */
} mh_piece;

/* A function of n rows, one line of inputs and one of outputs for each. */
typedef void (*mh_row_function)(const double *inputs, double *outputs, int64_t n);

/* The rows of one observed variable. Fixed coefficients belong to the same coordinates in every
 * row, chosen ones to coordinates that the data choose, as in a[group]. */
typedef struct mh_term {
    int64_t n_arguments, n_taken, n_fixed, n_chosen, n_pieces; /* arguments: linear forms m */
    const mh_leaf *taken;             /* leaves that the row functions take, (n_taken,) */
    const mh_piece *pieces;           /* (n_pieces,) */
    const int64_t *fixed_coordinates; /* (n_fixed,) */
    const int64_t *fixed_ends;        /* where each form's fixed coefficients end, (m,) */
    const int64_t *chosen_arguments;  /* the form of each choice, (n_chosen,) */
    mh_row_function difference; /* (m forms of the centre and of both ends from there, taken) ->
                                   r(new) - r(position), its rounding error in units of epsilon */
    mh_row_function slopes;     /* (forms, taken) -> value, gradient (m), Hessian (m (m + 1)/2) */
    mh_row_function thirds;     /* (forms, taken) -> f_abc for a <= b <= c, in this order */
} mh_term;

/* Differences of remainders, and the larger of the log-likelihoods that are differenced, of rows
 * numbered within their terms, term after term; `ends` is where each term's end, (n_terms,). */
typedef void (*mh_graph_differences)(const double *position, const double *new_position, const double *centre, const int64_t *rows, const int64_t *ends, const int64_t *context, double *differences, double *scales);

/* Adds value and gradient to `sums`, (1 + d,), and the Hessian to `hessian`, (d, d), if asked. */
typedef void (*mh_graph_derivatives)(const double *position, const int64_t *rows, const int64_t *ends, const int64_t *context, int64_t wants_hessian, double *sums, double *hessian);

typedef struct mh_rows {
    int64_t size, n_terms;      /* coordinates d; observed variables */
    const int64_t *term_starts; /* first row of each term, and the number of all, (n_terms + 1,) */
    const int64_t *context;     /* addresses that functions of the model take */
    const mh_term *terms;       /* (n_terms,); NULL where rows are graphs */
    mh_graph_differences differences;
    mh_graph_derivatives derivatives;
} mh_rows;

/* ---- Control variates, bounds of what they leave, and rows drawn ahead. ---- */

/* The expansion around a centre, and the scale of moves; frozen while a chain runs. */
typedef struct mh_reference {
    int64_t size, first, order; /* d; coordinates before `first` belong to other steps; 0, 1 or 2 */
    double inverse_temperature, relative;         /* beta, and it over the beta of the bounds */
    const double *centre, *factor, *whitener;     /* (d,); L, lower triangular, its inverse, (d, d) */
    const double *gradient, *hessian;             /* sums over all rows, (d,) and (d, d) */
} mh_reference;

/* Kinds of tables: see moves.c. */
enum { MH_DIRECTIONAL, MH_JOINT, MH_SHARP, MH_GIVEN, MH_CONSTANT };

/* Bounds |dU_i| <= c_i M of all rows while a move stays within a radius. */
typedef struct mh_table {
    double radius;
    int64_t kind;
    double total;   /* sum of the c_i of rows that are drawn */
    const float *c; /* (n_rows,) */
    const double *thresholds; /* alias table, to draw rows in proportion to the c_i, (n_drawn,) */
    const int32_t *aliases;
} mh_table;

/* M of a move of d coordinates, in units of the bounds that a user gave. */
typedef double (*mh_metric)(const double *position, const double *new_position, int64_t size);

/* Asks Python for more rows of a table (0, 1, ...), the change of all rows (-1), or n rows by the
 * numbers in supply.rows (-1 - n); returns whether it has answered. */
typedef int64_t (*mh_refill)(int64_t what);

/* Rows that are stored: some of each table are drawn ahead, each used once, in order. */
typedef struct mh_supply {
    int64_t room, n_rows; /* rows of one supply, 0 where all rows are in memory; all rows */
    int64_t *places; /* next unused row, end of those that are there, supplies made, (n_tables, 3) */
    mh_refill refill;
    const double *change; /* of all rows in the move, after it was asked for, (1,) */
    int64_t *rows;        /* row in each slot */
} mh_supply;

/* Whitened directions of rows in integers of 8 bits: see whitened_copy.c. */
typedef struct mh_copy {
    int64_t n_lines, width; /* rows, 0 without a copy; bytes of one */
    const int8_t *lines; /* a float scale and residual per direction, the directions: (n_lines, width) */
    const double *shared;  /* directions that every row may read, (n_shared, d) */
    int64_t n_shared, own; /* own: directions of a row beside these */
} mh_copy;

typedef struct mh_bounds {
    int64_t n_tables, n_drawn; /* n_drawn: entries of the alias tables */
    const mh_table *tables;    /* smallest radius first */
    mh_metric metric;
    int64_t n_heavy;
    const int64_t *heavy; /* rows that every update reads, ascending, (n_heavy,) */
    int64_t n_unread;
    const double *unread; /* whitened directions along which no row changes, (n_unread, d) */
    int64_t n_shared;
    const double *shared; /* those that all rows may read, where they are known by groups of rows */
    int64_t n_groups, each;
    const double *own; /* `each` of every group beside them, (n_groups * each, d) */
    mh_supply supply;
    mh_copy copy;
} mh_bounds;

/* The log-density of everything that is not subsampled. */
typedef double (*mh_log_prior)(const double *position, const int64_t *context);

typedef struct mh_posterior {
    mh_log_prior prior;
    mh_rows rows;
    mh_reference reference;
    mh_bounds bounds;
    double most_drawn; /* batch size above which a look reads all rows */
} mh_posterior;

/* A proposed move, the whitened coordinates of its ends and of its step, (d,) each. */
typedef struct mh_move {
    double *position, *new, *here, *there, *step;
} mh_move;

/* Directions along which no row changes, for slice moves between updates: see slices.c. */
typedef struct mh_slices {
    int64_t n_steps;
    const double *steps; /* as long as slices are stepped out by, (n_steps, d) */
    const int64_t *ends; /* first entry that is not zero, and the one behind the last, (n_steps, 2) */
    int64_t moves;       /* after each update */
} mh_slices;

/* ---- What a draw counts. NumPy sees an array of these by the same names. ---- */

typedef struct mh_counts {
    double accept, accepted, n_obs, n_looks, full_pass; /* sums over the updates of a draw */
    double invalid, error, underestimated;
    double log_ratio, log_ratio_std; /* of the last update */
    double bound_ratio, bound_row; /* largest |dU_i| / (c_i M), and its row */
    /* For the choice of chi: sums and numbers of C M, and of squared ratios. */
    double sizes, n_sizes, squared_ratios, n_ratios;
    double n_bright; /* of the last update */
    double n_prior;  /* evaluations of the prior by slice moves */
    double accept_border, accept_elements, accept_scales, accept_directions;
    double n_candidates, n_groups_in_full;
} mh_counts;

/* Efficiency of a component of a proposal; accepted squared jumps, of positions and of their squares,
 * in posterior standard deviations. */
typedef struct mh_tally {
    double tried, accept, jump, square_jump, rows;
} mh_tally;

/* ---- A chain, and the roles that it calls. ---- */

typedef struct mh_chain mh_chain;
typedef struct mh_arena mh_arena;

typedef struct mh_proposed {
    double log_q;      /* log q(position | new) - log q(new | position) */
    int64_t component; /* which was drawn */
} mh_proposed;

typedef struct mh_decision {
    int64_t accepted;
    double probability; /* of acceptance */
    double n_obs;       /* rows that were read */
} mh_decision;

/* Writes a proposal to move.new; move.there and move.step are scratch. Coordinates before
 * reference.first are copied. */
typedef mh_status (*mh_propose)(const void *proposal, mh_chain *chain, mh_proposed *out);

/* Decides on the move; `cheap` is the part of its log ratio that needs no row. Adds to n_looks,
 * full_pass, invalid and error of the counts, and sets log_ratio and log_ratio_std. */
typedef mh_status (*mh_decide)(const void *test, mh_chain *chain, double cheap, mh_counts *counts, mh_decision *out);

struct mh_chain {
    mh_posterior posterior;
    mh_move move;
    mh_generator generator;
    mh_propose propose;
    const void *proposal;
    mh_decide decide;
    const void *test;
    mh_slices slices;
    mh_tally *tallies;  /* of each component */
    double *worst_move; /* the move in which a row exceeded its bound most, (2, d) */
    mh_arena *scratch;
};

/* ---- Records of one update: scratch, which nothing outlives. ---- */

/* A move as lines of the 8-bit copy are multiplied by it: (a + a')/2 and (a' - a)/2 in single
 * precision, (d,), between zeros where a line of one direction has none of it; lengths of a, a' and
 * a' - a and the squares of their shared parts; errors of products at an end and of the step; kappa
 * over M. */
typedef struct mh_ends {
    float *middle, *half;
    double lengths[3], along[3], slack[2], raised;
    int64_t order, size;
} mh_ends;

/* Coefficients of the linear forms of n rows of a term, and of a vector those entries that belong to
 * fixed ones, (n_fixed,). */
typedef struct mh_forms {
    double *fixed;   /* (n, n_fixed) */
    int64_t *places; /* coordinates that the data choose, and their coefficients, (n, n_chosen) */
    double *chosen;
    double *picked; /* of the vector */
} mh_forms;

/* Number, mean, and sums of the squares and of the cubes of deviations from it. */
typedef struct mh_moments {
    int64_t n;
    double mean, second, third;
} mh_moments;

/* Rows drawn without replacement: a list, and a set of those that it has (open addressing, -1 where
 * it is empty), which is empty itself once the list has all rows. */
typedef struct mh_drawn {
    int64_t room, *rows, n_places, *places;
} mh_drawn;

/* Inner products of a move in whitened coordinates: |a|^2, |a'|^2, |b|^2, a.b and a'.b. */
typedef struct mh_products {
    double here, there, step, along_here, along_there;
} mh_products;

/* ---- Proposals. ---- */

/* Random walk and Laplace moves, of the posterior's normal approximation: mixture.c. */
typedef struct mh_mixture {
    double scale; /* of the walk */
    int64_t n_components;
    const double *weights; /* of the walk, then of each Laplace move, (n_components,) */
    const double *rho;     /* autoregressive coefficients of Laplace moves, (n_components - 1,) */
} mh_mixture;

/* The same where coordinates end at zero, which are drawn first. */
typedef struct mh_bordered {
    mh_mixture mixture;
    const int64_t *order; /* those of other steps, n_ends that end at zero, the rest, (d,) */
    int64_t n_ends;
    const double *factor, *whitener; /* in that order, (d, d) */
    const double *tilt; /* mean of the normal approximation, whitened, (d,) */
} mh_bordered;

/* A normal distribution given scales, and of these a distribution of their own, as tables between
 * knots: scale_conditional.c. p scales of J and K knots, n other coordinates. */
typedef struct mh_scale_conditional {
    int64_t n_scales, n_rest, n_normal_knots, n_knots;
    const int64_t *scales, *rest;           /* (p,), (n,) */
    const double *middle, *spread, *narrow; /* (p,); (p, p), and its inverse */
    double first_normal, normal_gap;
    const double *points, *slopes; /* (p, J) */
    double first_knot, knot_gap;
    const double *mean;      /* (n,) */
    const double *whitener;  /* line by line, logarithms on the diagonal, (n (n + 1)/2,) */
    const double *means;     /* (p, K, n) */
    const double *whiteners; /* (p, K, n (n + 1)/2) */
} mh_scale_conditional;

typedef struct mh_by_scales {
    mh_mixture mixture;
    mh_scale_conditional tables;
} mh_by_scales;

enum { MH_LAPLACE, MH_IDENTITY, MH_GIVEN_SHAPE };

/* A random walk of the posterior's shape, of none, or of a given one: walk.c. */
typedef struct mh_walk {
    double scale;
    int64_t shape;
    const double *factor; /* lower triangular, (d, d); NULL where no shape is given */
} mh_walk;

/* A drift along a gradient, estimated from a batch of rows: langevin.c. */
typedef struct mh_langevin {
    double step;
    int64_t preconditioner; /* MH_LAPLACE or MH_IDENTITY */
    int64_t batch_size;
} mh_langevin;

/* Rows drawn before a move looks at any position, for both of its directions. */
typedef struct mh_batch {
    int64_t n;
    const int64_t *drawn; /* (n,) */
    double scale;         /* beta N/n, or 0 without rows */
    const mh_rows *rows;
} mh_batch;

typedef mh_status (*mh_gradient_of_rows)(const mh_batch *batch, const double *position, double *out, double *value, mh_arena *scratch);

/* What a user's move is handed. */
typedef struct mh_handed {
    int64_t size;
    const double *position; /* (d,) */
    double *new_position;
    mh_bits bits;
    int64_t n_state;
    double *state; /* (n_state,) */
    const double *centre, *factor, *whitener; /* (d,), (d, d) */
    int64_t n_drawn;
    const int64_t *drawn; /* rows of the batch, and the factor of sums over them */
    double scale;
    const mh_batch *batch; /* for the gradient, which is mh_rows_gradient */
    mh_arena *scratch;
    mh_gradient_of_rows gradient;
    int64_t function; /* address of the move: a shim calls it, and keeps its exception in `kept` */
    int64_t *kept;
} mh_handed;

/* Calls a user's move; returns whether it has raised, and writes log_q. */
typedef int64_t (*mh_users_move)(const mh_handed *handed, double *log_q);

typedef struct mh_custom_proposal {
    mh_users_move call;
    int64_t function;
    int64_t *kept; /* exception that it has raised, (1,) */
    int64_t batch_size, n_state;
    double *state;    /* (n_state,) */
    double *position; /* handed to the function, (d,) */
} mh_custom_proposal;

/* ---- Tests. ---- */

enum { MH_BEST, MH_PAPER, MH_FACTORIZED };

/* A Poisson number of rows: poisson_test.c. */
typedef struct mh_poisson_test {
    int64_t form;
    double chi;
    int64_t delayed;       /* whether the cheap part decides first */
    double max_rate;       /* expected rows above which all rows decide */
    int64_t tolerates;     /* whether a violated bound is clipped and marked, or ends the run */
    double ceiling_factor; /* by which own ceilings are raised where candidates are dropped */
} mh_poisson_test;

/* Rows to have read at the next look, of which n were; V(1/b - 1/total), V the noise, is the
 * predicted variance of the log ratio from b rows. */
typedef int64_t (*mh_sample_size)(const void *settings, double noise, int64_t n, int64_t total);

/* A look of a test on batches: what it sees, and what it says. */
typedef struct mh_look {
    double log_ratio, variance; /* the variance, estimated, is 0 with all rows read */
    double skewness;            /* of the rows' differences */
    int64_t n, total;           /* rows drawn, of all that are drawn from */
    double uniform;             /* the same at every look */
} mh_look;

enum { MH_REJECT, MH_ACCEPT, MH_READ_MORE };

typedef struct mh_verdict {
    int64_t verdict;
    double probability, error; /* the error is an estimate */
} mh_verdict;

typedef mh_status (*mh_decide_batch)(const void *settings, const mh_look *look, mh_verdict *out);

/* A test on growing batches: looks.c. */
typedef struct mh_batch_test {
    mh_sample_size sample_size;
    mh_decide_batch decide_batch;
    double kappa; /* V = kappa M^2 */
    const void *settings;
} mh_batch_test;

typedef struct mh_barker_test {
    int64_t batch_size;
    double skewness, third_moment, kappa, sigma;
    int64_t grow, novak, skewed;
    double max_error, table_error;
    int64_t n_atoms; /* ascending, their masses, and the mass of each and all later ones: */
    const double *atoms, *masses, *tails;
} mh_barker_test;

typedef struct mh_austere_test {
    int64_t batch_size;
    double skewness, third_moment, kappa, epsilon, boundary, limit;
} mh_austere_test;

typedef struct mh_penalty_test {
    int64_t batch_size;
    double skewness, third_moment, kappa;
} mh_penalty_test;

/* A user's functions, behind shims that return a negative number where they raise; `said` are the
 * verdict (1, 0 or -1 for more rows), the probability and the error, (3,). */
typedef int64_t (*mh_users_sample_size)(double noise, int64_t n, int64_t total, const double *numbers, int64_t n_numbers);
typedef int64_t (*mh_users_decide_batch)(double log_ratio, double variance, double skewness, int64_t n, int64_t total, double uniform, const double *numbers, int64_t n_numbers, double *said);

typedef struct mh_custom_test {
    mh_users_sample_size sample_size;
    mh_users_decide_batch decide_batch;
    int64_t n_numbers;
    const double *numbers; /* (n_numbers,) */
} mh_custom_test;

/* Concentration bounds on growing batches: confidence.c. */
typedef struct mh_confidence_test {
    int64_t batch_size;
    double gamma, p, delta;
    int64_t scans;
    const double *largest; /* largest c_i of every table, (n_tables,); NULL with a scan */
} mh_confidence_test;

/* Firefly Monte Carlo: which rows are bright, firefly.c. */
typedef struct mh_brightness {
    double q; /* probability that a dark row is proposed to become bright */
    int64_t n_rows;
    int32_t *rows;     /* all rows, the bright ones first, (n_rows,) */
    int64_t *n_bright; /* (1,); -1 where they have yet to be drawn */
    double *at;        /* position that they belong to, (d,) */
} mh_brightness;

/* A position as the end of a move from the centre: the table that serves it, below 0 for none, and
 * the M of that move. */
typedef struct mh_place {
    mh_move move;
    int64_t table;
    double m;
} mh_place;

/* A row in an update of brightness: drawn anew; dark, and proposed to become bright; bright, and
 * proposed to become dark. */
enum { MH_ANEW, MH_DARK, MH_BRIGHT };

typedef struct mh_firefly_test {
    mh_brightness brightness;
    int64_t forgets; /* whether bright rows are drawn anew for every decision */
    int64_t tolerates;
} mh_firefly_test;

/* PoissonMH: rows drawn by how large their log-likelihoods are, poisson_mh.c. */
typedef struct mh_levels_test {
    double lam, max_rate;
    int64_t tolerates;
} mh_levels_test;

/* ---- Hierarchies: moves with an accept of their own for every element, elements.c, parts.c. ---- */

/* Look-ups of all N rows. Factors and choices of the border are one list here, F of them, with L
 * elements in all, of which a row reads one each at most. */
typedef struct mh_parts {
    int64_t n_rows, n_factors;
    const double *border;    /* s_i, (N,) */
    const double *weights;   /* z_if, (N, F) */
    int64_t is_signed;       /* whether the signs of weights matter */
    const int32_t *elements; /* that a row reads, numbered through all factors; -1 for none */
    const int64_t *first, *starts; /* start of each factor's elements, (F + 1,); of their rows, (L + 1,) */
    const int64_t *rows;     /* of each element, and running sums of their |z|^3 */
    const double *running;
    const double *cubes; /* C_g, (L,) */
    double border_cubes; /* sum of the s_i^3, and an alias table of these, (N,) */
    const double *thresholds;
    const int32_t *aliases;
    double border_radius; /* radii up to which ceilings hold, (L,) of elements */
    const double *radii;
} mh_parts;

/* Both ends of a move: elements and choices, (L,) each, and |w|, |w'| and |w' - w|. */
typedef struct mh_part_ends {
    const double *here, *there;
    double border[3];
} mh_part_ends;

/* Rates at which rows are candidates of a move: two processes at most, of F + 1 parts each. */
typedef struct mh_rates {
    int64_t *kinds;  /* which cubes the processes draw by, -1 for none, (2,) */
    double *chances; /* of a candidate to come from each part, (2, F + 1) */
    double *units;   /* a row does with this probability times its own cube, (2, F + 1) */
    double *running; /* running sums over the elements of each factor, (2, L) */
} mh_rates;

/* Writes the log-density that the prior part has of every element of a factor. */
typedef void (*mh_element_density)(const double *position, const int64_t *context, double *out);

/* Coordinates (w, e) and expansions in them; L elements of F factors, a border of n. */
typedef struct mh_geometry {
    int64_t n_border, n_elements, n_factors, n_scales, n_along, n_chosen, n_read;
    const int64_t *border, *places; /* coordinates of the position, (n,) and (L,) */
    const double *factor, *whitener, *response; /* T, its inverse, (n, n), and R, (n, L) */
    const double *sd;           /* of each e given w, (L,) */
    const double *border_slope, *slopes; /* the expansion of all rows: slopes in w, (n,), and e, (L,) */
    const double *border_hessian, *between, *hessian; /* its second derivatives: (n, n), (n, L), (L,) */
    const int64_t *cell_starts; /* and of pairs of elements of different factors, (L + 1,) */
    const int32_t *cell_elements;
    const double *cells;
    /* Changes of the slopes by the average over the posterior, (n,), (L,): they centre proposals, not
     * the expansion. */
    const double *border_tilt, *tilts;
    const double *prior_slope; /* at the centre: in w, without the elements' part, (n,) */
    const double *directions;  /* of the elements' locations in w, (n, L) */
    const double *precisions, *total_precision; /* of the elements, (L,), and their sums, (F,) */
    const double *stiffness;   /* sums of precisions times products of directions, (F, n, n) */
    const mh_element_density *densities; /* (F,) */
    const int64_t *scales; /* that move with the elements of a factor, (n_scales,) */
    const double *scale_steps;
    const int64_t *scale_factors;
    /* Directions V in e, of a standard deviation each, (n_along, L); slopes of the rows' expansion
     * along them, (n_along,), and second derivatives with w, (n_along, n), e, (n_along, L), and V. */
    const double *along, *along_slope, *along_border, *along_elements, *along_own;
    const int64_t *chosen; /* coordinates of the border that rows choose, (n_chosen,) */
    const double *read;    /* Q, of the rest of it, (n_read, n) */
} mh_geometry;

/* Efficiency of a kind of move of elements, in the place of a tally of the same size. */
typedef struct mh_kind_tally {
    double decisions, candidates; /* candidates over kappa */
    double squares;               /* of ratios of kept rows to their ceilings */
    double size, kept;            /* kept rows over kappa, and their number */
} mh_kind_tally;

/* A chain of elements: its decisions are those of a Poisson test with chi = 1, and rates are raised
 * by kappa - 1 in the place of chi C M. Its tallies are mh_kind_tally, one for each kind of move. */
typedef struct mh_element_chain {
    mh_chain chain;
    mh_poisson_test test;
    mh_geometry geometry;
    mh_parts parts;
    const double *kappa; /* of each kind of move: border, factors' elements, scales, directions */
} mh_element_chain;

#endif
