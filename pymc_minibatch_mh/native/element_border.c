/* Updates of the common effects: w -> w' from its conditional normal, with all e fixed.
 *
 * The normal combines the rows' expansion with slopes and precisions of the effects' prior at
 * w = 0: it depends on e alone, not on the current w. The log ratio has the exact change of the
 * prior and of the Taylor expansion. A fraction of the proposals are random walks instead. */
#include "elements.h"

/* Maximum ratio of the effects' prior precision, in a proposal, to that at the centre. */
static const double MOST = 20.0;

/* Overwrite a matrix by its Cholesky factor; squared pivots are >= 1e-6 max(diagonal). */
static void factorize(double *matrix, int64_t n)
{
    double largest = 0.0;
    for (int64_t j = 0; j < n; j++)
        largest = mh_larger(largest, matrix[j * n + j]);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j; i < n; i++)
            matrix[i * n + j] -= mh_inner(matrix + i * n, matrix + j * n, j);
        const double pivot = sqrt(mh_larger(matrix[j * n + j], 1e-6 * largest));
        matrix[j * n + j] = pivot;
        for (int64_t i = j + 1; i < n; i++)
            matrix[i * n + j] /= pivot;
    }
}

/* Overwrite a vector x by L^T x. */
static void multiply_back(const double *factor, int64_t n, double *x)
{
    for (int64_t i = 0; i < n; i++) {
        double total = 0.0;
        for (int64_t k = i; k < n; k++)
            total += factor[k * n + i] * x[k];
        x[i] = total;
    }
}

/* Overwrite a vector x by L^-T x. */
static void solve_back(const double *factor, int64_t n, double *x)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t k = i + 1; k < n; k++)
            x[i] -= factor[k * n + i] * x[k];
        x[i] /= factor[i * n + i];
    }
}

/* Overwrite a vector x by L^-1 x. */
static void solve(const double *factor, int64_t n, double *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - mh_inner(factor + i * n, x, i)) / factor[i * n + i];
}

/* Number of rows of the stored precision matrix of w: 0 without group effects, because the
 * precision is then always the identity. */
static int64_t size_of_precision(const mh_iteration *on)
{
    return on->geometry->n_factors ? on->geometry->n_border : 0;
}

/* Add the prior of a factor's effects to the slope in w and to the precision of w. */
static void add_prior_of(const mh_iteration *on, int64_t f, double *position)
{
    const mh_geometry *geometry = on->geometry;
    const int64_t n = geometry->n_border, low = on->parts->first[f], high = on->parts->first[f + 1];
    mh_expand_prior(on, f, on->e, position, on->mean, on->precision);
    double total = 0.0;
    for (int64_t g = low; g < high; g++)
        total += on->precision[g];
    mh_inner_of_lines(geometry->directions, geometry->n_elements, on->mean, n, low, high, on->away);
    for (int64_t j = 0; j < n; j++)
        on->slopes[j] += on->away[j];
    const double usual = geometry->total_precision[f];
    if (!(usual > 0.0))
        return;
    const double share = mh_smaller(mh_larger(total / usual, MH_LEAST_SHARE), MOST);
    for (int64_t i = 0; i < n * n; i++)
        on->matrix[i] += (share - 1.0) * geometry->stiffness[f * n * n + i];
}

/* Write the slope in w of rows and prior at w = 0, and the precision of w given all e. The common
 * and the group effects in `position` are overwritten. */
static void find_border_slopes(mh_iteration *on, double *position)
{
    const mh_geometry *geometry = on->geometry;
    const int64_t n = geometry->n_border, size = size_of_precision(on);
    for (int64_t j = 0; j < n; j++) {
        position[geometry->border[j]] = on->posterior->reference.centre[geometry->border[j]];
        on->slopes[j] = on->beta * (geometry->border_slope[j] + geometry->border_tilt[j]);
        on->slopes[j] += geometry->prior_slope[j];
    }
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j < size; j++)
            on->matrix[i * size + j] = i == j;
    mh_fill(on->moved, geometry->n_elements, 0.0);
    for (int64_t f = 0; f < geometry->n_factors; f++)
        mh_write_elements(on, on->e, f, position);
    for (int64_t f = 0; f < geometry->n_factors; f++)
        add_prior_of(on, f, position);
    const int64_t elements = geometry->n_elements;
    mh_inner_of_lines(geometry->between, elements, on->e, n, 0, elements, on->pull);
    for (int64_t j = 0; j < n; j++)
        on->slopes[j] += on->beta * on->pull[j];
}

/* Propose w' by an autoregressive step in its conditional normal, or by a random walk; return the
 * correction log q(w | w') - log q(w' | w). */
static double propose_border(mh_iteration *on)
{
    const int64_t n = on->geometry->n_border, size = size_of_precision(on);
    double *mean = on->border_mean, *noise = on->noise, *away = on->away, log_q = 0.0;
    mh_copy_to(mean, on->slopes, n);
    factorize(on->matrix, size);
    solve(on->matrix, size, mean);
    solve_back(on->matrix, size, mean);
    for (int64_t j = 0; j < n; j++)
        noise[j] = mh_normal(on->rng);
    if (mh_uniform(on->rng) < MH_WALKS) {
        solve_back(on->matrix, size, noise);
        for (int64_t i = 0; i < n; i++)
            on->new_w[i] = on->w[i] + MH_STRIDE / sqrt((double)n) * noise[i];
        return 0.0;
    }
    for (int64_t i = 0; i < n; i++)
        away[i] = on->w[i] - mean[i];
    multiply_back(on->matrix, size, away);
    for (int64_t i = 0; i < n; i++) {
        noise[i] = MH_RHO * away[i] + sqrt(MH_NEW_SQUARED) * noise[i];
        log_q += 0.5 * (noise[i] * noise[i] - away[i] * away[i]);
    }
    solve_back(on->matrix, size, noise);
    for (int64_t i = 0; i < n; i++)
        on->new_w[i] = mean[i] + noise[i];
    return log_q;
}

/* Change of the tempered log-likelihood expansion from w to w', with e fixed. */
static double change_of_border(mh_iteration *on)
{
    const mh_geometry *geometry = on->geometry;
    const int64_t n = geometry->n_border;
    double *middle = on->away, *bent = on->noise, total = 0.0;
    for (int64_t j = 0; j < n; j++)
        middle[j] = 0.5 * (on->w[j] + on->new_w[j]);
    mh_inner_of_lines(geometry->border_hessian, n, middle, n, 0, n, bent);
    for (int64_t j = 0; j < n; j++) {
        const double slope = geometry->border_slope[j] + (on->pull[j] + bent[j]);
        total += slope * (on->new_w[j] - on->w[j]);
    }
    return on->beta * total;
}

/* Write the common and the group effects of a position for w' and e; effects shift by R w'. */
static void write_border(mh_iteration *on, double *position)
{
    const mh_geometry *geometry = on->geometry;
    const double *centre = on->posterior->reference.centre;
    const int64_t n = geometry->n_border;
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = geometry->border[i];
        position[j] = centre[j] + mh_inner(geometry->factor + i * n, on->new_w, n);
    }
    mh_follow_border(on, on->new_w);
    for (int64_t f = 0; f < geometry->n_factors; f++)
        mh_write_elements(on, on->e, f, position);
}

/* Evaluate rows, and write the log acceptance ratio of the proposal. */
static mh_status ask_rows(mh_iteration *on, double cheap, double *log_ratio, mh_counts *counts)
{
    const mh_geometry *geometry = on->geometry;
    double *border = on->ends.border;
    *log_ratio = on->own->test.delayed ? 0.0 : cheap;
    for (int64_t i = 0; i < geometry->n_border; i++)
        on->away[i] = on->new_w[i] - on->w[i];
    border[0] = mh_length_of_border(on, on->w);
    border[1] = mh_length_of_border(on, on->new_w);
    border[2] = mh_length_of_border(on, on->away);
    mh_find_chosen(on, on->move->new, on->new_e);
    MH_TRY(mh_test_elements(on, 0, -1, log_ratio, counts));
    counts->log_ratio = *log_ratio;
    return MH_OK;
}

mh_status mh_move_border(mh_iteration *on, mh_counts *counts)
{
    double *new_position = on->move->new, log_ratio, probability = 0.0;
    mh_begin_move(on);
    find_border_slopes(on, new_position);
    const double log_q = propose_border(on);
    write_border(on, new_position);
    const double new_prior = mh_prior_at(on->posterior, new_position);
    const double cheap = new_prior - on->prior + log_q + change_of_border(on);
    mh_tally_of(on, 0)->decisions += 1.0;
    counts->invalid += !isfinite(cheap);
    if (isfinite(cheap) && mh_passes_first_stage(on, cheap)) {
        MH_TRY(ask_rows(on, cheap, &log_ratio, counts));
        probability = mh_chance_of(log_ratio);
    }
    counts->accept_border += probability;
    if (!(mh_uniform(on->rng) < probability)) {
        mh_follow_border(on, on->w);
        return MH_OK;
    }
    mh_accept_move(on, new_prior);
    mh_copy_to(on->w, on->new_w, on->geometry->n_border);
    counts->accepted += 1.0;
    return MH_OK;
}
