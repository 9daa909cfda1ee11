/* Poisson-minibatch tests: Metropolis-Hastings that evaluates a Poisson number of rows.
 *
 * Rows have remainders r_i with changes dU_i = -beta [r_i(theta') - r_i(theta)] and bounds |dU_i|
 * <= c_i M(theta, theta'), M symmetric, C = sum of the c_i. Every row has an intensity phi_i(theta
 * -> theta') >= 0 below a bound p_i, with phi_i forward - phi_i reverse = dU_i:
 *
 *     form         phi_i(theta -> theta')                  p_i
 *     best         p_i + min(0, dU_i)                      c_i M (1 + chi C M)
 *     paper        chi c_i C M^2 + (dU_i + c_i M)/2        c_i M (1 + chi C M)
 *     factorized   max(0, dU_i)                            c_i M                  (chi = 0)
 *
 * B ~ Poisson(R) rows, R = C M (1 + chi C M), are drawn with repetition, row i with probability
 * c_i/C, and kept with probability phi_i/p_i: row i is kept s_i ~ Poisson(phi_i) times. With
 * `cheap` the part of the log ratio without observations, the test accepts with
 *
 *     min(1, exp(cheap) prod_i [phi_i reverse/phi_i forward]^s_i)
 *
 * or, with delayed acceptance, min(1, exp(cheap)) before any evaluation, times min(1, prod_i...).
 * The proof of exactness is in steps/tuna.py.
 *
 * With a copy of whitened directions, drawn rows are candidates, kept with probability (thinning
 * bound)/(c_i M) before they are evaluated. The thinning bound then replaces c_i M: see
 * whitened_copy.c. Every update evaluates the influential rows. */
#include "inside.h"

/* Maximum number of rows evaluated at a time, MOST_READ, and expected per proposal, MOST_RATE. */
static const int64_t MOST_READ = 65536;
static const double MOST_RATE = 1e15;

/* A proposal to accept or reject: its bounds table, M, C M, and vectors for the whitened copy. If rows
 * have groups with rates of their own, these replace c_i M, and C M is their total. */
typedef struct poisson_pair {
    const mh_poisson_test *test;
    mh_chain *chain;
    mh_counts *counts;
    const mh_table *table;
    double m, size;
    mh_group_rates rates;
    mh_ends ends;
} poisson_pair;

static int by_groups(const poisson_pair *pair)
{
    return pair->chain->posterior.bounds.labels != NULL;
}

/* Write a row's probability of being kept, and its addition to the log ratio then. One quotient,
 * odd in `change`, gives both: its rounding moves the target by an ulp and keeps reversibility. */
void mh_thin(double change, double bound, double size, const mh_poisson_test *test, double *keep,
             double *added)
{
    *keep = *added = 0.0;
    if (!(bound > 0.0) || (test->form == MH_FACTORIZED && !(change > 0.0)))
        return;
    if (test->form == MH_FACTORIZED) {
        *keep = change / bound;
        *added = -INFINITY;
        return;
    }
    const double raised = test->chi * size;
    double there, back;
    if (test->form == MH_PAPER) {
        const double share = change / (bound * (1.0 + 2.0 * raised));
        *keep = mh_smaller(1.0, (1.0 + share) * (0.5 + raised) / (1.0 + raised));
        there = share;
        back = -share;
    } else {
        const double share = change / (bound * (1.0 + raised));
        *keep = 1.0 + mh_smaller(0.0, share);
        there = mh_smaller(0.0, share);
        back = -mh_larger(0.0, share);
    }
    if (*keep != 0.0)
        *added = log1p(back) - log1p(there);
}

/* Factor kappa of thinning bounds, for their temperature. */
static double factor_of_ceilings(const poisson_pair *pair)
{
    return pair->test->ceiling_factor * pair->chain->posterior.reference.relative;
}

/* Thin an evaluated row; return its addition to the log ratio. A change beyond its bound is clipped
 * on both sides alike; the counts record the row with the largest ratio. */
static double thin_read(const poisson_pair *pair, int64_t row, double difference, double scale)
{
    const mh_bounds *bounds = &pair->chain->posterior.bounds;
    const double beta = pair->chain->posterior.reference.inverse_temperature;
    const double raised = pair->test->ceiling_factor;
    const int64_t number = mh_number_of(&bounds->supply, row);
    const double m = by_groups(pair) ? mh_size_in_group(&pair->rates, row) : pair->m;
    const mh_table *table = by_groups(pair) ? mh_table_of_row(&pair->rates, row) : pair->table;
    double bound = (double)table->c[row] * m;
    if (bounds->copy.n_lines > 0) {
        mh_ends ends = pair->ends;
        ends.raised = factor_of_ceilings(pair) / m;
        bound *= mh_own_share(&bounds->copy, &ends, number);
    }
    const double ratio =
        mh_hold_against_bound(number, difference, scale, bound, beta, pair->counts);
    /* Scale the statistics as if kappa were 1. */
    pair->counts->squared_ratios += ratio * ratio * raised;
    pair->counts->n_ratios += 1.0 / raised;
    double keep, added;
    const double change = mh_smaller(mh_larger(-beta * difference, -bound), bound);
    mh_thin(change, bound, pair->size, pair->test, &keep, &added);
    return mh_uniform(&pair->chain->generator) < keep ? added : 0.0;
}

/* Evaluate drawn rows, thin them, and add the kept ones to the log ratio. */
static mh_status add_drawn(const poisson_pair *pair, const int64_t *drawn, int64_t n,
                           double *product)
{
    mh_arena *scratch = pair->chain->scratch;
    MH_SCOPE(scratch);
    mh_read read;
    MH_TRY(mh_take_read(&pair->chain->posterior, &pair->chain->move, n, &read, scratch));
    mh_ask_for_bounds(pair->table, drawn, n);
    MH_TRY(mh_read_drawn(&read, drawn, n));
    double total = 0.0;
    for (int64_t i = 0; i < n; i++)
        total += thin_read(pair, read.rows[i], read.differences[i], read.scales[i]);
    *product += total;
    return MH_OK;
}

/* Draw n rows at the rates of groups, in batches. */
static mh_status draw_of_groups(const poisson_pair *pair, int64_t n, int64_t *rows)
{
    double sizes[MH_AHEAD], chances[MH_AHEAD];
    for (int64_t first = 0; first < n; first += MH_AHEAD)
        mh_draw_of_groups(&pair->rates, &pair->chain->generator, mh_min(MH_AHEAD, n - first),
                          rows + first, sizes, chances);
    return MH_OK;
}

/* Draw n rows, or n candidates to thin by the copy; `kept` is the number of rows to evaluate. */
static mh_status draw_some(const poisson_pair *pair, int64_t n, int64_t *rows, int64_t *kept)
{
    const mh_bounds *bounds = &pair->chain->posterior.bounds;
    const mh_generator *rng = &pair->chain->generator;
    *kept = n;
    if (bounds->copy.n_lines == 0 && by_groups(pair))
        return draw_of_groups(pair, n, rows);
    if (bounds->copy.n_lines == 0)
        return mh_draw_rows(rng, bounds, pair->table - bounds->tables, n, rows);
    pair->counts->n_candidates += (double)n;
    if (by_groups(pair)) {
        *kept = mh_keep_of_groups(&bounds->copy, &pair->ends, &pair->rates, rng, n, rows);
        return MH_OK;
    }
    *kept = mh_keep_candidates(&bounds->copy, &pair->ends, pair->table, bounds->n_drawn, rng, n,
                               rows);
    return mh_fetch_rows(&bounds->supply, *kept, rows);
}

/* Number of rows or candidates, out of `left`, to draw before the next evaluation. */
static int64_t most_at_once(const poisson_pair *pair, int64_t left)
{
    const mh_bounds *bounds = &pair->chain->posterior.bounds;
    /* A single row can reject the proposal: rows drawn after it need no evaluation. */
    if (pair->test->form == MH_FACTORIZED)
        return bounds->copy.n_lines > 0 ? MH_AHEAD : 1;
    return mh_min(left, bounds->supply.room > 0 ? bounds->supply.room : MOST_READ);
}

/* Write the tempered change of the influential rows, which every update evaluates. */
static mh_status change_of_heavy(const poisson_pair *pair, double *product)
{
    const mh_posterior *posterior = &pair->chain->posterior;
    const mh_bounds *bounds = &posterior->bounds;
    double change, squares;
    *product = 0.0;
    if (bounds->n_heavy == 0)
        return MH_OK;
    MH_TRY(mh_read_chosen(posterior, &pair->chain->move, bounds->heavy, bounds->n_heavy, NULL,
                          &change, &squares, pair->chain->scratch));
    pair->counts->invalid += !isfinite(change);
    *product = posterior->reference.inverse_temperature * change;
    return MH_OK;
}

/* Evaluate a Poisson number of rows, and the influential ones; write their part of the log ratio
 * and the number of evaluated rows. */
static mh_status read_some(const poisson_pair *pair, double expected, double *product,
                           int64_t *count)
{
    mh_arena *scratch = pair->chain->scratch;
    const mh_generator *rng = &pair->chain->generator;
    int64_t left = rng->poisson(rng->bits, expected);
    *count = pair->chain->posterior.bounds.n_heavy;
    MH_TRY(change_of_heavy(pair, product));
    const int64_t most = most_at_once(pair, left);
    MH_VECTOR(int64_t, rows, scratch, most);
    while (left > 0 && *product > -INFINITY) {
        const int64_t n = mh_min(left, most);
        int64_t kept;
        left -= n;
        MH_TRY(draw_some(pair, n, rows, &kept));
        if (kept > 0)
            MH_TRY(add_drawn(pair, rows, kept, product));
        *count += kept;
        if (!(pair->counts->bound_ratio <= 1.0 || pair->test->tolerates))
            return MH_BOUND_VIOLATED;
    }
    return MH_OK;
}

/* Evaluate all rows instead. If `informs`, add them to the counts that tune chi as C M drawn rows:
 * otherwise warm-up could not detect a chi so large that every proposal needs all rows. */
static mh_status read_whole(const poisson_pair *pair, int informs, double *product, int64_t *count)
{
    const mh_posterior *posterior = &pair->chain->posterior;
    const mh_bounds *bounds = &posterior->bounds;
    const float *c = informs ? pair->table->c : NULL;
    const double beta = posterior->reference.inverse_temperature;
    double change, squares, unused, heavy = 0.0;
    MH_TRY(mh_read_all(posterior, &pair->chain->move, c, &change, &squares, pair->chain->scratch));
    *count = mh_number_of_rows(posterior);
    if (informs && bounds->n_heavy > 0) {
        MH_TRY(mh_read_chosen(posterior, &pair->chain->move, bounds->heavy, bounds->n_heavy, c,
                              &unused, &heavy, pair->chain->scratch));
        *count += bounds->n_heavy;
    }
    squares -= heavy;
    if (informs && isfinite(squares)) {
        pair->counts->squared_ratios += beta * beta * squares / pair->m;
        pair->counts->n_ratios += pair->size;
    }
    pair->counts->full_pass += 1.0;
    pair->counts->invalid += !isfinite(change);
    *product = beta * change;
    return MH_OK;
}

/* Find the table for the proposal, its M and C M; without a table C M is infinite. */
static mh_status find_table(poisson_pair *pair)
{
    const mh_posterior *posterior = &pair->chain->posterior;
    int64_t table;
    if (by_groups(pair)) {
        MH_TRY(mh_find_group_rates(&posterior->bounds, &posterior->reference, &pair->chain->move,
                                   pair->test->rate_factor, &pair->rates, pair->chain->scratch));
        if (!(pair->rates.total < INFINITY))
            return MH_OK;
        /* Elsewhere the bounds of rows are on average c_i M of the widest table. */
        pair->table = posterior->bounds.tables + pair->rates.widest;
        pair->size = pair->rates.total;
        pair->m = pair->size / pair->table->total;
        return MH_OK;
    }
    MH_TRY(mh_smallest_table(&posterior->bounds, &posterior->reference, &pair->chain->move, &table,
                             &pair->m, pair->chain->scratch));
    if (table < 0)
        return MH_OK;
    pair->table = posterior->bounds.tables + table;
    pair->size = pair->table->total * pair->m;
    return MH_OK;
}

/* Evaluate a random subset of rows, or all rows if the expected number exceeds the limit. */
static mh_status read_rows(poisson_pair *pair, double *product, int64_t *count)
{
    const mh_posterior *posterior = &pair->chain->posterior;
    const mh_bounds *bounds = &posterior->bounds;
    const mh_poisson_test *test = pair->test;
    const int bounded = pair->size < INFINITY;
    const double expected = bounded ? pair->size * (1.0 + test->chi * pair->size) : INFINITY;
    /* Do not tune chi on larger proposals, which need all rows at any chi. */
    const int informs = bounded && pair->size <= test->max_rate;
    if (informs) {
        pair->counts->sizes += pair->size;
        pair->counts->n_sizes += 1.0;
    }
    if (!(expected + (double)bounds->n_heavy <= mh_smaller(test->max_rate, MOST_RATE)))
        return read_whole(pair, informs && pair->size > 0.0, product, count);
    if (bounds->copy.n_lines > 0) {
        const double raised = factor_of_ceilings(pair) / (by_groups(pair) ? 1.0 : pair->m);
        MH_TRY(mh_ends_of_move(&bounds->copy, &pair->chain->move, posterior->reference.order,
                               posterior->reference.size, raised, &pair->ends,
                               pair->chain->scratch));
        pair->ends.table = pair->table;
        pair->ends.number = pair->table - bounds->tables;
    }
    return read_some(pair, expected, product, count);
}

mh_status mh_decide_poisson(const void *test, mh_chain *chain, double cheap, mh_counts *counts,
                            mh_decision *out)
{
    const mh_generator *rng = &chain->generator;
    poisson_pair pair = {.test = test, .chain = chain, .counts = counts, .size = INFINITY};
    const int64_t delayed = pair.test->delayed;
    *out = (mh_decision){0};
    counts->log_ratio_std = 0.0;
    if (delayed && !(mh_uniform(rng) < exp(mh_smaller(cheap, 0.0)))) {
        counts->log_ratio = cheap;
        return MH_OK;
    }
    double product = 0.0;
    int64_t count = 0;
    MH_TRY(find_table(&pair));
    MH_TRY(read_rows(&pair, &product, &count));
    out->n_obs = (double)count;
    counts->n_looks += 1.0;
    counts->log_ratio = cheap + product;
    /* In the second stage of delayed acceptance, only rows count: the first one used `cheap`. */
    out->probability = mh_chance_of(delayed ? product : cheap + product);
    out->accepted = mh_uniform(rng) < out->probability;
    return MH_OK;
}
