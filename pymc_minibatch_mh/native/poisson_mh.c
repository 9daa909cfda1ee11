/* PoissonMH: a Poisson number of rows, at rates by ranges of their log-likelihoods. Zhang, De Sa
 * (2019), Advances in Neural Information Processing Systems 32; proof: published/poisson.py.
 *
 * Table 0 holds the widths M_i of the ranges of log-likelihoods relative to the centre, and table 1
 * their maximum decreases m_i:
 *
 *     -m_i <= beta [l_i(theta) - l_i(centre)] <= M_i - m_i    for every theta,    L = Sum M_i.
 *
 * At a position every row has the intensity
 *
 *     phi_i(theta) = lambda M_i / L + m_i + beta [l_i(theta) - l_i(centre)]
 *                 <= (1 + lambda/L) M_i.
 *
 * B ~ Poisson(lambda + L) rows are drawn in proportion to the M_i. Each is kept with probability
 * phi_i(theta) over its upper bound, and kept rows add log[phi_i(theta')/phi_i(theta)] to the log
 * ratio. If lambda + L is above the limit on drawn rows, all rows are evaluated instead. */
#include "inside.h"

enum { WIDTHS, BELOW };

/* Drawn rows, in the order of their evaluation. */
typedef struct {
    mh_read read;
    double *shares; /* relative positions of the log-likelihoods in their ranges, [0, 1] */
} levels;

double mh_keep_by_level(double share, double raised) { return (raised + share) / (raised + 1.0); }

double mh_growth_of_level(double share, double new_share, double raised)
{
    return log1p((new_share - share) / (raised + share));
}

/* Evaluate n rows at the second position of a proposal from the centre. The counts record the row
 * that is furthest outside of its range. */
static mh_status read_levels(mh_chain *chain, const mh_move *from_centre, const int64_t *drawn,
                             int64_t n, mh_counts *counts, levels *out)
{
    const mh_posterior *posterior = &chain->posterior;
    const float *widths = posterior->bounds.tables[WIDTHS].c;
    const float *below = posterior->bounds.tables[BELOW].c;
    const double beta = posterior->reference.inverse_temperature;
    out->shares = mh_take(chain->scratch, n, double);
    MH_NEED(out->shares);
    MH_TRY(mh_take_read(posterior, from_centre, n, &out->read, chain->scratch));
    MH_TRY(mh_read_drawn(&out->read, drawn, n));
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = out->read.rows[i];
        const double difference = out->read.differences[i];
        const double width = (double)widths[row], half = 0.5 * width, low = (double)below[row];
        const double from_middle = difference + (low - half) / beta;
        mh_hold_against_bound(row, from_middle, out->read.scales[i], half, beta, counts);
        const double share = width > 0.0 ? (low + beta * difference) / width : 0.0;
        out->shares[i] = mh_smaller(mh_larger(share, 0.0), 1.0);
    }
    return MH_OK;
}

/* Thin rows by their levels (mh_keep_by_level); move kept rows to the front, return how many. */
static int64_t thin_levels(levels *self, int64_t n, double raised, const mh_generator *rng)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(mh_uniform(rng) < mh_keep_by_level(self->shares[i], raised)))
            continue;
        self->read.rows[kept] = self->read.rows[i];
        self->shares[kept] = self->shares[i];
        kept += 1;
    }
    return kept;
}

/* Draw `count` rows, evaluate and thin them at the position, and evaluate the kept ones at the
 * proposed position. Add the kept rows' log ratio to `product`; write the number of evaluations. */
static mh_status weigh_drawn(mh_chain *chain, int64_t count, double raised, mh_counts *counts,
                             double *product, double *n_obs)
{
    const mh_posterior *posterior = &chain->posterior;
    const mh_table *table = posterior->bounds.tables + WIDTHS;
    const int64_t size = posterior->reference.size;
    int64_t *drawn = mh_take(chain->scratch, count, int64_t);
    double *centre = mh_take(chain->scratch, size, double);
    levels here, there;
    MH_NEED(drawn && centre);
    mh_copy_to(centre, posterior->reference.centre, size);
    mh_draw_alias(&chain->generator, posterior->bounds.n_drawn, table->thresholds, table->aliases,
                  count, drawn);
    const mh_move back = {centre, chain->move.position, centre, centre, centre};
    MH_TRY(read_levels(chain, &back, drawn, count, counts, &here));
    const int64_t kept = thin_levels(&here, count, raised, &chain->generator);
    *n_obs = (double)(count + kept);
    if (kept == 0)
        return MH_OK;
    /* The first evaluation sorted the rows by term, so the second one keeps their order. */
    const mh_move forth = {centre, chain->move.new, centre, centre, centre};
    MH_TRY(read_levels(chain, &forth, here.read.rows, kept, counts, &there));
    for (int64_t i = 0; i < kept; i++)
        *product += mh_growth_of_level(here.shares[i], there.shares[i], raised);
    return MH_OK;
}

mh_status mh_decide_by_levels(const void *record, mh_chain *chain, double cheap, mh_counts *counts,
                              mh_decision *out)
{
    const mh_levels_test *test = record;
    const mh_posterior *posterior = &chain->posterior;
    const mh_generator *rng = &chain->generator;
    const double size = posterior->bounds.tables[WIDTHS].total;
    const double expected = test->lam + size;
    double product = 0.0;
    *out = (mh_decision){0, 0.0, 0.0};
    if (expected <= test->max_rate) {
        const int64_t count = size > 0.0 ? rng->poisson(rng->bits, expected) : 0;
        if (count > 0)
            MH_TRY(weigh_drawn(chain, count, test->lam / size, counts, &product, &out->n_obs));
        if (count > 0 && !(counts->bound_ratio <= 1.0 || test->tolerates))
            return MH_BOUND_VIOLATED;
    } else {
        out->n_obs = (double)mh_number_of_rows(posterior);
        MH_TRY(mh_change_of_all_rows(posterior, &chain->move, counts, &product, chain->scratch));
    }
    counts->n_looks += 1.0;
    counts->log_ratio = cheap + product;
    counts->log_ratio_std = 0.0;
    out->probability = mh_chance_of(counts->log_ratio);
    out->accepted = mh_uniform(rng) < out->probability;
    return MH_OK;
}
