/* Declarations that the files on groups share: rows of a group at its nodes. */
#ifndef MH_GROUPS_H
#define MH_GROUPS_H

#include "inside.h"

/* Rows of a term in a group, with their predictors at several vectors of d + q coordinates. */
typedef struct mh_row_block {
    const mh_term *term;
    int64_t most, n, n_vectors, n_nodes, n_effects;
    mh_forms forms;
    double *lines; /* predictors at each vector, then leaves, (n, n_vectors * m + n_taken) */
    double *inputs, *outputs; /* of the row functions, (n * n_nodes, ...) */
} mh_row_block;

typedef void (*mh_visit)(mh_row_block *block, void *state);

/* Number of nodes of a group: one, without a weight, if its rows read no effect. */
int64_t mh_nodes_of(const mh_groups *groups, int64_t g);
/* Write the logarithms of the weights of a group's nodes. */
void mh_write_weights(const mh_groups *groups, int64_t g, double *log_weights);
/* Call `visit` for all rows of a group, block by block; `vectors`: (n_vectors, d + q). */
mh_status mh_visit_group(const mh_groups *groups, int64_t g, const double *vectors,
                         int64_t n_vectors, mh_visit visit, void *state, mh_arena *scratch);
/* Write inputs of a row function at all nodes: predictors at vector 0, plus those at vector `at` if
 * it is not 0, plus `effects`, (q, n_nodes), times those of unit effects, which are the last vectors. */
void mh_write_inputs(const mh_row_block *block, int64_t at, const double *effects);
/* Logarithm of a sum of exponentials; `shares` are the exponentials over their sum. */
double mh_log_of_sum(const double *values, int64_t n, double *shares);

/* An entry of the effects' factor at its coordinate, with two derivatives. */
typedef struct mh_scale_value {
    double value, first, second;
} mh_scale_value;
mh_scale_value mh_scale_at(const mh_scale *scale, double x);
/* Write the effects at all nodes of a group at a position, (q, mh_nodes_of). */
void mh_effects_at(const mh_groups *groups, int64_t g, const double *theta, double *effects);

static inline const double *mh_line(const mh_row_block *block, int64_t i)
{
    return block->lines + i * (block->n_vectors * block->term->n_arguments + block->term->n_taken);
}

/* Predictors of unit effects, (q, m). */
static inline const double *mh_units(const mh_row_block *block, const double *line)
{
    return line + (block->n_vectors - block->n_effects) * block->term->n_arguments;
}

static inline int64_t mh_width_of_slopes(int64_t m) { return 1 + m + m * (m + 1) / 2; }
#endif
