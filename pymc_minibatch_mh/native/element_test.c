/* The test of a proposal of common or group effects: as in poisson_test.c, with kappa times the
 * thinning bound of a row (parts.c) in the place of c_i M (1 + chi C M). A larger kappa >= 1
 * evaluates more rows and accepts more proposals; warm-up tunes it for each type of proposal.
 *
 * If an effect is beyond its radius at either end, all of its rows are evaluated, and candidates
 * among them are dropped. All rows are evaluated if the common effects are beyond their radius, or
 * if the rate gives too many candidates. Both conditions use sums over effects, which do not change
 * if the ends of one effect are exchanged: the test of each effect is reversible by itself, given
 * the proposals of the others. */
#include "elements.h"

/* Maximum number of candidates, to limit memory; beyond it all rows are evaluated instead. */
static const double MOST_CANDIDATES = 1e8;

/* Second thinning of a candidate, by its actual change; if kept, it adds to the log ratio. */
static void add_thinned(const mh_iteration *on, int64_t kind, int64_t i, double *log_ratio,
                        mh_counts *counts)
{
    const int64_t row = on->read.rows[i];
    const double bound = mh_ceiling(on->parts, &on->ends, row), largest = counts->bound_ratio;
    const double difference = on->read.differences[i], raised = on->own->kappa[kind] - 1.0;
    const double ratio =
        mh_hold_against_bound(row, difference, on->read.scales[i], bound, on->beta, counts);
    mh_keep_worst_move(&on->own->chain, largest, counts);
    mh_tally_of(on, kind)->squares += ratio * ratio;
    const double change = mh_smaller(mh_larger(-on->beta * difference, -bound), bound);
    double keep, added;
    mh_thin(change, bound, raised, &on->own->test, &keep, &added);
    if (mh_uniform(on->rng) < keep)
        *log_ratio += added;
}

/* Add the contributions of n rows, each to the log ratio of the decision for its effect. */
static mh_status add_evidence(mh_iteration *on, int64_t kind, int64_t f, const int64_t *rows,
                              int64_t n, int in_full, double *log_ratio, mh_counts *counts)
{
    for (int64_t first = 0; first < n; first += MH_BLOCK) {
        const int64_t count = mh_min(MH_BLOCK, n - first);
        MH_TRY(mh_read_drawn(&on->read, rows + first, count));
        for (int64_t i = 0; i < count; i++) {
            const int64_t index = on->read.rows[i] * on->parts->n_factors + f;
            const int64_t label = f >= 0 ? on->parts->elements[index] : 0;
            if (label < 0)
                continue;
            if (!in_full) {
                add_thinned(on, kind, i, log_ratio + label, counts);
                continue;
            }
            log_ratio[label] += on->beta * on->read.differences[i];
            counts->invalid += !isfinite(on->read.differences[i]);
        }
    }
    return MH_OK;
}

/* List the rows of effects that are beyond their radii, each row once. */
static mh_status list_outside(const mh_iteration *on, int64_t **rows, int64_t *n)
{
    const mh_parts *parts = on->parts;
    const int64_t *outside = on->outside + 1, *starts = parts->starts;
    int64_t most = 0;
    for (int64_t k = 0; k < on->outside[0]; k++)
        most += starts[outside[k] + 1] - starts[outside[k]];
    *n = 0;
    *rows = mh_take(on->scratch, most, int64_t);
    MH_NEED(*rows);
    for (int64_t k = 0; k < on->outside[0]; k++)
        for (int64_t j = starts[outside[k]]; j < starts[outside[k] + 1]; j++)
            /* List a row with two such effects once, at the first of their factors. */
            if (mh_first_outside(parts, &on->ends, parts->rows[j]) == outside[k])
                (*rows)[(*n)++] = parts->rows[j];
    return MH_OK;
}

static mh_status add_evidence_of_outside(mh_iteration *on, int64_t kind, int64_t f,
                                         double *log_ratio, mh_counts *counts)
{
    int64_t *rows, n;
    MH_TRY(list_outside(on, &rows, &n));
    counts->n_obs += (double)n;
    counts->n_groups_in_full += (double)on->outside[0];
    return add_evidence(on, kind, f, rows, n, 1, log_ratio, counts);
}

/* Draw candidates, and list those that pass their thinning bound, with repetition. */
static mh_status keep_candidates(const mh_iteration *on, double kappa, double limit,
                                 int64_t **kept, int64_t *n)
{
    const int64_t total = on->rng->poisson(on->rng->bits, kappa * limit);
    int64_t rows[MH_AHEAD];
    double chances[MH_AHEAD];
    *n = 0;
    *kept = mh_take(on->scratch, total, int64_t);
    MH_NEED(*kept);
    for (int64_t first = 0; first < total; first += MH_AHEAD) {
        const int64_t count = mh_min(MH_AHEAD, total - first);
        mh_draw_candidates(on->parts, &on->rates, on->rng, count, rows, chances);
        for (int64_t k = 0; k < count; k++) {
            if (on->outside[0] && mh_first_outside(on->parts, &on->ends, rows[k]) >= 0)
                continue;
            if (chances[k] <
                mh_share_of_candidates(on->parts, &on->ends, &on->rates, limit, rows[k]))
                (*kept)[(*n)++] = rows[k];
        }
    }
    return MH_OK;
}

static mh_status add_evidence_of_candidates(mh_iteration *on, int64_t kind, int64_t f,
                                            double limit, double *log_ratio, mh_counts *counts)
{
    const double kappa = on->own->kappa[kind];
    mh_kind_tally *tally = mh_tally_of(on, kind);
    int64_t *kept, n;
    MH_TRY(keep_candidates(on, kappa, limit, &kept, &n));
    counts->n_candidates += kappa * limit;
    counts->n_obs += (double)n;
    tally->candidates += limit;
    tally->kept += (double)n;
    tally->size += (double)n / kappa;
    MH_TRY(add_evidence(on, kind, f, kept, n, 0, log_ratio, counts));
    const int holds = counts->bound_ratio <= 1.0 || on->own->test.tolerates;
    return holds ? MH_OK : MH_BOUND_VIOLATED;
}

static mh_status add_evidence_of_all(mh_iteration *on, int64_t kind, int64_t f, double *log_ratio,
                                     mh_counts *counts)
{
    const int64_t total = on->parts->n_rows;
    int64_t rows[MH_BLOCK];
    for (int64_t first = 0; first < total; first += MH_BLOCK) {
        const int64_t count = mh_min(MH_BLOCK, total - first);
        for (int64_t i = 0; i < count; i++)
            rows[i] = first + i;
        MH_TRY(add_evidence(on, kind, f, rows, count, 1, log_ratio, counts));
    }
    counts->full_pass += 1.0;
    counts->n_obs += (double)total;
    return MH_OK;
}

mh_status mh_test_elements(mh_iteration *on, int64_t kind, int64_t f, double *log_ratio,
                           mh_counts *counts)
{
    const double kappa = on->own->kappa[kind], *border = on->ends.border;
    double limit;
    MH_SCOPE(on->scratch);
    MH_TRY(mh_find_rates(on->parts, &on->ends, &on->rates, on->outside, &limit, on->scratch));
    counts->n_looks += 1.0;
    const int within = mh_larger(border[0], border[1]) <= on->parts->border_radius;
    if (!within || !(kappa * limit <= mh_smaller(on->own->test.max_rate, MOST_CANDIDATES)))
        return add_evidence_of_all(on, kind, f, log_ratio, counts);
    if (on->outside[0])
        MH_TRY(add_evidence_of_outside(on, kind, f, log_ratio, counts));
    return add_evidence_of_candidates(on, kind, f, limit, log_ratio, counts);
}
