/* Bounds of derivatives of l = log sum_q exp F_q in a ball, whatever the nodes q are: points of a
 * quadrature, classes, states. Along a line,
 *
 *     l'''  = E F''' + 3 Cov(F', F'') + kappa_3(F'),
 *     l'''' = E F'''' + 4 Cov(F', F''') + 3 Var F'' + 6 kappa(F', F', F'') + kappa_4(F'),
 *
 * with moments over nodes of weights p_q, proportional to exp F_q; at the centre they are the
 * shares s_q. Let k_q and C_q be gradient and Hessian of F_q at the centre less their means by
 * shares, R the radius, b_2q, b_3q, b_4q the suprema in the ball, a_q that of the second derivative
 * upwards, and a, b_2, b_3 their means by shares. Then, in Euclidean and Frobenius norms:
 *
 *   weights    log sum_t s_t exp dF_t >= sum_t s_t dF_t by Jensen's inequality: log p_q rises by at
 *              most R |k_q| + min{R^2/2 (a_q + b_2), R^2/2 |C_q| + R^3/6 (b_3q + b_3)};
 *   gradients  k_q moves by at most R min{max(b_2q + a, b_2 + a_q), |C_q| + R/2 (b_3q + b_3)}.
 *
 * The same holds for the product of the weights of a pair of nodes, by k_q + k_t and C_q + C_t, and
 * for the difference of their gradients, by k_q - k_t and C_q - C_t. Moments are those about a
 * common value, or of pairs: Var X = E(X - X')^2/2 and mu_4(X) <= E(X - X')^4/2 for independent X
 * and X'. Minkowski's inequality joins what is known at the centre with moves from there. Symmetric
 * forms are largest where their directions coincide (Banach): one direction is enough. */
#include "inside.h"

/* Exceeds 1 by far more than rounding errors. Results are sums of products of non-negative numbers,
 * with relative errors of 1e-16 times the number of terms, below 1e-12; exponents add 1e-16 |F_q|,
 * and means that are subtracted 1e-16 times the ratio of gradients to their differences. Both are
 * below 1e-9 for |F_q| and ratios below 1e6; beyond, F_q and its gradients are not better known. */
static const double ABOVE_ROUNDING = 1.0 + 1e-9;
/* Pairs with a smaller product of weights are bounded by the lengths of gradients alone. */
static const double NEGLIGIBLE = 1e-9;

/* Nodes at the centre. Impossible ones, F_q = -inf, have zeros, and no weight anywhere. */
typedef struct centred_nodes {
    int64_t count, size, n_entries; /* d, and number d (d + 1)/2 of entries of a lower triangle */
    double *gradients, *hessians;   /* k_q, (count, d); C_q, (count, n_entries) */
} centred_nodes;

/* Bounds of a node, or means of them by shares. */
typedef struct node_bounds {
    double length, norm;                  /* |k_q|, |C_q| */
    double second, upward, third, fourth; /* b_2q, a_q, b_3q, b_4q */
    double log_share, limit;              /* at the centre, and bound of p_q */
} node_bounds;

/* ---- Lower triangles of symmetric matrices, line by line. ---- */

static int64_t start_of_line(int64_t line) { return line * (line + 1) / 2; }

static double norm_of_triangle(const double *lower, int64_t size)
{
    double square = 2.0 * mh_inner(lower, lower, start_of_line(size));
    for (int64_t i = 0; i < size; i++)
        square -= mh_square(lower[start_of_line(i) + i]);
    return sqrt(square);
}

/* Add v v', multiplied by a weight, to one matrix, and by another one to the other. */
static void add_squares(const double *v, int64_t size, double weight, double *lower,
                        double other_weight, double *other)
{
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j <= i; j++) {
            const double product = v[i] * v[j];
            *lower++ += weight * product;
            *other++ += other_weight * product;
        }
}

/* ---- Nodes at the centre. ---- */

/* Subtract from lines of n numbers their mean by shares; `mean` is scratch, (n,). */
static void centre_lines(const double *shares, int64_t count, int64_t n, double *lines,
                         double *mean)
{
    mh_fill(mean, n, 0.0);
    for (int64_t q = 0; q < count; q++)
        for (int64_t j = 0; j < n; j++)
            mean[j] += shares[q] * lines[q * n + j];
    for (int64_t q = 0; q < count; q++)
        for (int64_t j = 0; j < n; j++)
            lines[q * n + j] -= mean[j];
}

static int is_possible(const mh_nodes *nodes, int64_t q) { return nodes->values[q] != -INFINITY; }

static mh_status centre_nodes(const mh_nodes *nodes, centred_nodes *out, mh_arena *scratch)
{
    const int64_t n = nodes->n_nodes, d = nodes->size, n_entries = start_of_line(d);
    *out = (centred_nodes){n, d, n_entries, mh_take(scratch, n * d, double),
                           mh_take(scratch, n * n_entries, double)};
    MH_VECTOR(double, mean, scratch, n_entries);
    MH_NEED(out->gradients && out->hessians);
    mh_fill(out->gradients, n * d, 0.0);
    mh_fill(out->hessians, n * n_entries, 0.0);
    for (int64_t q = 0; q < n; q++)
        for (int64_t i = 0; is_possible(nodes, q) && i < d; i++) {
            out->gradients[q * d + i] = nodes->gradients[q * d + i];
            mh_copy_to(out->hessians + q * n_entries + start_of_line(i),
                       nodes->hessians + (q * d + i) * d, i + 1);
        }
    centre_lines(nodes->shares, n, d, out->gradients, mean);
    centre_lines(nodes->shares, n, n_entries, out->hessians, mean);
    return MH_OK;
}

/* ---- Third derivative at the centre. ---- */

/* Add a share of k k k + k C + C k + ... to entries (i, j, l), i >= j >= l. */
static void add_node(double share, const double *k, const double *lower, int64_t size,
                     double *tensor)
{
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j <= i; j++) {
            const double *line_i = lower + start_of_line(i), *line_j = lower + start_of_line(j);
            double *out = tensor + (i * size + j) * size;
            for (int64_t l = 0; l <= j; l++)
                out[l] += share * ((k[i] * k[j] + line_i[j]) * k[l] + k[i] * line_j[l] +
                                   k[j] * line_i[l]);
        }
}

mh_status mh_tensor_of_nodes(const mh_nodes *nodes, double *tensor, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    const int64_t d = nodes->size;
    centred_nodes at;
    MH_TRY(centre_nodes(nodes, &at, scratch));
    mh_copy_to(tensor, nodes->third, d * d * d);
    for (int64_t q = 0; q < at.count; q++)
        add_node(nodes->shares[q], at.gradients + q * d, at.hessians + q * at.n_entries, d, tensor);
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j <= i; j++)
            for (int64_t l = 0; l <= j; l++) {
                const double entry = tensor[(i * d + j) * d + l];
                tensor[(i * d + l) * d + j] = tensor[(j * d + i) * d + l] = entry;
                tensor[(j * d + l) * d + i] = tensor[(l * d + i) * d + j] = entry;
                tensor[(l * d + j) * d + i] = entry;
            }
    return MH_OK;
}

/* Bound above rounding errors, infinite if it is unknown. */
static double above_rounding(double bound)
{
    return bound < INFINITY ? bound * ABOVE_ROUNDING : INFINITY;
}

mh_status mh_norm_of_tensor(const double *tensor, int64_t size, double *norm, mh_arena *scratch)
{
    MH_SCOPE(scratch);
    const int64_t width = size * size;
    MH_VECTOR(double, products, scratch, start_of_line(size));
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j <= i; j++)
            products[start_of_line(i) + j] =
                mh_inner(tensor + i * width, tensor + j * width, width);
    *norm = above_rounding(sqrt(norm_of_triangle(products, size)));
    return MH_OK;
}

/* ---- Weights and moves in the ball. ---- */

static double rise_of_weight(double radius, double length, double norm, double upward,
                             double third)
{
    const double half = 0.5 * radius * radius;
    return radius * length + mh_smaller(half * upward, half * norm + mh_cube(radius) / 6.0 * third);
}

/* Bound of the difference of second derivatives within a radius; Hessians at the centre differ by
 * `norm`. Gradients move by the mean on the way, so by what is bounded with half the radius. */
static double curvature_apart(const node_bounds *a, const node_bounds *b, double norm,
                              double radius)
{
    return mh_smaller(mh_larger(a->second + b->upward, b->second + a->upward),
                      norm + radius * (a->third + b->third));
}

static void bound_nodes(const mh_nodes *nodes, const centred_nodes *at, const mh_suprema *suprema,
                        double radius, node_bounds *each, node_bounds *mean)
{
    int64_t heaviest = 0;
    *mean = (node_bounds){0};
    for (int64_t q = 0; q < at->count; q++) {
        each[q] = (node_bounds){0};
        if (!is_possible(nodes, q))
            continue;
        each[q] = (node_bounds){mh_length_of(at->gradients + q * at->size, at->size),
                                norm_of_triangle(at->hessians + q * at->n_entries, at->size),
                                suprema->second[q], suprema->upward[q], suprema->third[q],
                                suprema->fourth[q], 0.0, 0.0};
        mean->second += nodes->shares[q] * each[q].second;
        mean->upward += nodes->shares[q] * each[q].upward;
        mean->third += nodes->shares[q] * each[q].third;
        heaviest = nodes->values[q] > nodes->values[heaviest] ? q : heaviest;
    }
    /* Shares may underflow to zero, values do not. */
    const double log_sum = nodes->values[heaviest] - log(nodes->shares[heaviest]);
    for (int64_t q = 0; q < at->count; q++) {
        node_bounds *a = each + q;
        const double rise = rise_of_weight(radius, a->length, a->norm, a->upward + mean->second,
                                           a->third + mean->third);
        a->log_share = nodes->values[q] - log_sum;
        a->limit = mh_smaller(1.0, exp(a->log_share + rise));
    }
}

/* ---- Moments over nodes. ---- */

/* Bounds of Var F', mu_4(F') and Var F'' in the ball. */
typedef struct node_moments {
    double second, fourth, curvature;
} node_moments;

/* Sums over nodes or pairs: of x x' and |x|^2 x x', x their gradient at the centre; of powers of
 * the bound of its move; and of squares of second derivatives. */
typedef struct moment_sums {
    double *square, *quartic; /* lower triangles */
    double turn, turn_square, turn_quartic, curvature;
} moment_sums;

static mh_status room_for_sums(int64_t n_entries, moment_sums *out, mh_arena *scratch)
{
    MH_VECTOR(double, triangles, scratch, 2 * n_entries);
    mh_fill(triangles, 2 * n_entries, 0.0);
    *out = (moment_sums){triangles, triangles + n_entries, 0.0, 0.0, 0.0, 0.0};
    return MH_OK;
}

static void add_move(moment_sums *sums, double weight, double turn, double curvature)
{
    sums->turn += weight * turn;
    sums->turn_square += weight * turn * turn;
    sums->turn_quartic += weight * mh_square(turn * turn);
    sums->curvature += weight * curvature * curvature;
}

static node_moments join_moments(const moment_sums *sums, int64_t size)
{
    const double second = norm_of_triangle(sums->square, size);
    const double fourth = norm_of_triangle(sums->quartic, size);
    return (node_moments){
        mh_square(sqrt(second) + sqrt(sums->turn_square)),
        mh_square(mh_square(sqrt(sqrt(fourth)) + sqrt(sqrt(sums->turn_quartic)))),
        sums->curvature};
}

/* Moments about the mean of gradients by shares. Their mean by weights is at most `shift` from it:
 * 0 at the centre, and within the radius R it moves by their moves and by R Var F'. */
static mh_status moments_of_nodes(const centred_nodes *at, const node_bounds *each,
                                  const node_bounds *mean, double radius, node_moments *out,
                                  mh_arena *scratch)
{
    moment_sums sums;
    MH_TRY(room_for_sums(at->n_entries, &sums, scratch));
    for (int64_t q = 0; q < at->count; q++) {
        const node_bounds *a = each + q;
        add_squares(at->gradients + q * at->size, at->size, a->limit, sums.square,
                    a->limit * a->length * a->length, sums.quartic);
        add_move(&sums, a->limit, radius * curvature_apart(a, mean, a->norm, 0.5 * radius),
                 curvature_apart(a, mean, a->norm, radius));
    }
    *out = join_moments(&sums, at->size);
    const double shift = radius * out->second + sums.turn;
    out->fourth += 4.0 * shift * sqrt(out->second * out->fourth) +
                   6.0 * shift * shift * out->second;
    return MH_OK;
}

/* Add a pair of nodes; `sum` and `difference` are scratch, (n_entries,). */
static void add_pair(const centred_nodes *at, const node_bounds *each, const node_bounds *mean,
                     double radius, int64_t q, int64_t t, double *sum, double *difference,
                     moment_sums *sums)
{
    const node_bounds *a = each + q, *b = each + t;
    const int64_t d = at->size, n_entries = at->n_entries;
    double weight = mh_smaller(0.25, a->limit * b->limit), turn = 0.0, norm = a->norm + b->norm;
    if (weight < NEGLIGIBLE) {
        turn = a->length + b->length;
    } else {
        for (int64_t j = 0; j < n_entries; j++) {
            const double x = at->hessians[q * n_entries + j], y = at->hessians[t * n_entries + j];
            sum[j] = x + y;
            difference[j] = x - y;
        }
        norm = norm_of_triangle(difference, d);
        const double norm_of_sum = norm_of_triangle(sum, d);
        for (int64_t j = 0; j < d; j++) {
            const double x = at->gradients[q * d + j], y = at->gradients[t * d + j];
            sum[j] = x + y;
            difference[j] = x - y;
        }
        const double rise = rise_of_weight(radius, mh_length_of(sum, d), norm_of_sum,
                                           a->upward + b->upward + 2.0 * mean->second,
                                           a->third + b->third + 2.0 * mean->third);
        weight = mh_smaller(weight, exp(a->log_share + b->log_share + rise));
        add_squares(difference, d, weight, sums->square,
                    weight * mh_inner(difference, difference, d), sums->quartic);
    }
    add_move(sums, weight, turn + radius * curvature_apart(a, b, norm, 0.5 * radius),
             curvature_apart(a, b, norm, radius));
}

static mh_status moments_of_pairs(const centred_nodes *at, const node_bounds *each,
                                  const node_bounds *mean, double radius, node_moments *out,
                                  mh_arena *scratch)
{
    moment_sums sums;
    MH_TRY(room_for_sums(at->n_entries, &sums, scratch));
    MH_VECTOR(double, lines, scratch, 2 * at->n_entries);
    for (int64_t q = 0; q < at->count; q++)
        for (int64_t t = 0; t < q; t++)
            add_pair(at, each, mean, radius, q, t, lines, lines + at->n_entries, &sums);
    *out = join_moments(&sums, at->size);
    return MH_OK;
}

mh_status mh_bound_over_nodes(const mh_nodes *nodes, const mh_suprema *suprema, double radius,
                              int64_t most_paired, double *third, double *fourth,
                              mh_arena *scratch)
{
    MH_SCOPE(scratch);
    centred_nodes at;
    node_bounds mean;
    node_moments of_nodes, of_pairs;
    MH_TRY(centre_nodes(nodes, &at, scratch));
    MH_VECTOR(node_bounds, each, scratch, at.count);
    bound_nodes(nodes, &at, suprema, radius, each, &mean);
    MH_TRY(moments_of_nodes(&at, each, &mean, radius, &of_nodes, scratch));
    of_pairs = of_nodes;
    if (at.count <= most_paired)
        MH_TRY(moments_of_pairs(&at, each, &mean, radius, &of_pairs, scratch));
    const double second = mh_smaller(of_nodes.second, of_pairs.second);
    const double quartic = mh_smaller(of_nodes.fourth, of_pairs.fourth);
    const double curvature = mh_smaller(of_nodes.curvature, of_pairs.curvature);
    double mean_third = 0.0, mean_square = 0.0, mean_fourth = 0.0;
    for (int64_t q = 0; q < at.count; q++) {
        mean_third += each[q].limit * each[q].third;
        mean_square += each[q].limit * mh_square(each[q].third);
        mean_fourth += each[q].limit * each[q].fourth;
    }
    *third = above_rounding(mean_third + 3.0 * sqrt(second * curvature) + sqrt(second * quartic));
    *fourth = above_rounding(mean_fourth + 4.0 * sqrt(second * mean_square) + 3.0 * curvature +
                             6.0 * sqrt(quartic * curvature) +
                             mh_larger(quartic, 2.0 * second * second));
    return MH_OK;
}
