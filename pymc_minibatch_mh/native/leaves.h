/* Functions of leaves.c, compiled once per instruction set under separate names such as
 * mh_inner_by_avx2. The ordinary name calls the function of the instruction set that was chosen when
 * the library was loaded (instruction_sets.c).
 *
 * To add a function, add a line here and its body in leaves.c; without a line the linker finds
 * several definitions. A line has `return` if there is a result, then result type, name, parameters,
 * and arguments. Prototypes follow from the lines, here and in library.py. */
#ifndef MH_LEAVES_H
#define MH_LEAVES_H

#define MH_LEAVES(LEAF) \
LEAF(, void, mh_lower_times, (const double *matrix, const double *vector, int64_t first, int64_t size, double *out), (matrix, vector, first, size, out)) \
LEAF(return, double, mh_inner_by, (const double *matrix, const double *a, const double *b, int64_t size), (matrix, a, b, size)) \
LEAF(, void, mh_products_of_lines, (const int8_t *lines, int64_t width, const int64_t *rows, int64_t n, const float *middle, const float *half, int64_t size, float *out), (lines, width, rows, n, middle, half, size, out)) \
LEAF(, void, mh_add_lines, (const double *matrix, int64_t width, const double *weights, int64_t n, int64_t low, int64_t high, double *out), (matrix, width, weights, n, low, high, out)) \
LEAF(, void, mh_inner_of_lines, (const double *matrix, int64_t width, const double *vector, int64_t n, int64_t low, int64_t high, double *out), (matrix, width, vector, n, low, high, out)) \
LEAF(, void, mh_sum_cubes_within, (const double *weights, const double *radii, const double *here, const double *there, int64_t n, double *sums), (weights, radii, here, there, n, sums)) \
LEAF(, void, mh_bend_of, (const double *const values[3], const double *steps, const double *usual, int64_t n, double *slopes, double *precisions), (values, steps, usual, n, slopes, precisions)) \
LEAF(, void, mh_apply_fixed, (const double *fixed, int64_t n, int64_t n_fixed, const double *picked, const int64_t *ends, int64_t m, double *out, int64_t width), (fixed, n, n_fixed, picked, ends, m, out, width)) \
LEAF(, void, mh_whiten_form, (const double *weights, const int64_t *places, int64_t n, const double *factor, int64_t size, double *out), (weights, places, n, factor, size, out)) \
LEAF(, void, mh_add_products, (const double *fixed, int64_t n_fixed, const double *weights, int64_t n, int64_t first, int64_t last, int64_t start, int64_t stop, double *products), (fixed, n_fixed, weights, n, first, last, start, stop, products)) \
LEAF(, void, mh_multiply_intervals, (const double *a, const double *b, int64_t n_one, const double *c, const double *d, int64_t n_other, int64_t n, double *lo, double *hi), (a, b, n_one, c, d, n_other, n, lo, hi)) \
LEAF(, void, mh_add_intervals, (const double *a, const double *b, int64_t n_one, const double *c, const double *d, int64_t n_other, int64_t n, double *lo, double *hi), (a, b, n_one, c, d, n_other, n, lo, hi)) \
LEAF(, void, mh_ranges_over, (const double *from, const double *to, const double *at_from, const double *at_to, const double *slack, int64_t n_slack, int64_t n, const mh_shape *shape, double *lo, double *hi), (from, to, at_from, at_to, slack, n_slack, n, shape, lo, hi))

#define MH_PROTOTYPE(gives, result, name, parameters, arguments) result name parameters;
MH_LEAVES(MH_PROTOTYPE)

#endif
