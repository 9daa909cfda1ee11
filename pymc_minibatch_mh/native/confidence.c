/* The confidence sampler: concentration bounds decide on growing batches.
 *
 * The uniform u is drawn first. With l_i = beta [r_i(theta') - r_i(theta)], Metropolis accepts iff
 * the mean of all l_i exceeds mu_0 = (log u - cheap)/N. Look k has n rows, drawn without
 * replacement; it decides if the mean of their l_i is further from mu_0 than
 *
 *     c_n = s sqrt(2 log(3/delta_k)/n) + 3 R log(3/delta_k)/n,
 *     delta_k = (p - 1) delta/(p k^p),
 *
 * an empirical Bernstein bound (Audibert, Munos, Szepesvari 2009, doi:10.1016/j.tcs.2009.01.016). s
 * is a standard deviation with divisor n, and R is at least the range of the l_i. An undecided look
 * is followed by one with gamma times as many rows, up to all rows. Looks are numbered from k = 2.
 *
 * With bounds, s is computed from the batch and R = 2 M max c_i from the table of the proposal; all
 * rows are evaluated if no table holds. With a scan, s and R = 2 max |l_i| come from all rows. */
#include "inside.h"

/* Number k of the first look in the formula for delta_k. */
enum { FIRST_LOOK = 2 };

/* Quantities of a proposal known before its batches: table (NULL if none holds), M and R; after a
 * scan also the mean difference of all rows and the standard deviation of the l_i. */
typedef struct known_before {
    const mh_table *table;
    double m, reach, mean, deviation;
} known_before;

/* Estimates at a look: log ratio, N c_n and the standard error of the mean (0 with all rows). */
typedef struct estimate {
    double log_ratio, width, error;
} estimate;

int64_t mh_confidence_rows(int64_t n, int64_t total, double most_drawn,
                           const mh_confidence_test *test)
{
    int64_t target = test->batch_size;
    if (n > 0)
        target = mh_max(n + 1, (int64_t)ceil(test->gamma * (double)n));
    const double limit = test->scans ? (double)total : mh_smaller(most_drawn, (double)total);
    return (double)target >= limit ? total : target;
}

double mh_confidence_level(int64_t look, const mh_confidence_test *test)
{
    return (test->p - 1.0) * test->delta / (test->p * pow((double)look, test->p));
}

double mh_half_width(double deviation, double reach, int64_t n, double level)
{
    const double bits = log(3.0 / level), count = (double)n;
    return deviation * sqrt(2.0 * bits / count) + 3.0 * reach * bits / count;
}

void mh_confidence_decide(double log_ratio, double width, double uniform, mh_verdict *out)
{
    const double threshold = log(uniform);
    const int sure = !(width > 0.0) || fabs(log_ratio - threshold) > width;
    out->error = 0.0;
    out->probability = mh_chance_of(log_ratio);
    out->verdict = log_ratio > threshold ? MH_ACCEPT : MH_REJECT;
    if (!sure && log_ratio > -INFINITY)
        out->verdict = MH_READ_MORE;
}

static mh_status know_before(const mh_confidence_test *test, mh_chain *chain, known_before *known)
{
    const mh_posterior *posterior = &chain->posterior;
    const double beta = posterior->reference.inverse_temperature;
    int64_t table;
    *known = (known_before){NULL, INFINITY, INFINITY, 0.0, 0.0};
    if (!test->scans) {
        MH_TRY(mh_smallest_table(&posterior->bounds, &posterior->reference, &chain->move, &table,
                                 &known->m, chain->scratch));
        if (table >= 0) {
            known->table = posterior->bounds.tables + table;
            known->reach = 2.0 * known->m * test->largest[table];
        }
        return MH_OK;
    }
    double variance, largest;
    MH_TRY(mh_scan_rows(posterior, &chain->move, &known->mean, &variance, &largest,
                        chain->scratch));
    if (isfinite(known->mean))
        known->reach = 2.0 * beta * largest;
    known->deviation = beta * sqrt(variance);
    return MH_OK;
}

/* Extend the batch to `target` rows; write its log ratio and the half width N c_n around it. */
static mh_status look_at_batch(const mh_confidence_test *test, mh_chain *chain, int64_t look,
                               int64_t target, const known_before *known, mh_batch_so_far *batch,
                               mh_counts *counts, estimate *out)
{
    const int64_t before = batch->moments.n;
    const double beta = chain->posterior.reference.inverse_temperature;
    const double total = (double)mh_number_of_rows(&chain->posterior);
    MH_TRY(mh_extend_batch(chain, batch, target, known->table, known->m, counts));
    batch->read += target - before;
    if (!(counts->bound_ratio <= 1.0))
        return MH_BOUND_VIOLATED;
    const double level = mh_confidence_level(look, test), second = batch->moments.second;
    const double deviation =
        test->scans ? known->deviation : beta * sqrt(second / (double)target);
    counts->error += level;
    out->error = sqrt(second) / (double)target;
    out->width = total * mh_half_width(deviation, known->reach, target, level);
    out->log_ratio = beta * total * batch->moments.mean;
    return MH_OK;
}

/* Write the log ratio from all rows, without a new evaluation if a scan has evaluated them. */
static mh_status look_at_all(const mh_confidence_test *test, mh_chain *chain,
                             const known_before *known, mh_batch_so_far *batch, estimate *out)
{
    const mh_posterior *posterior = &chain->posterior;
    const double total = (double)mh_number_of_rows(posterior);
    double mean = known->mean, change;
    if (!test->scans) {
        MH_TRY(mh_read_rest(chain, batch, &change));
        mean = change / total;
    }
    *out = (estimate){posterior->reference.inverse_temperature * total * mean, 0.0, 0.0};
    return MH_OK;
}

/* Extend the batch until the test accepts or rejects; write its final number of rows to `n`. */
static mh_status look_until_sure(const mh_confidence_test *test, mh_chain *chain, double cheap,
                                 mh_counts *counts, mh_batch_so_far *batch, int64_t *n,
                                 mh_verdict *said, estimate *last)
{
    const mh_posterior *posterior = &chain->posterior;
    const int64_t total = mh_number_of_rows(posterior);
    const double uniform = mh_uniform(&chain->generator);
    int64_t look = FIRST_LOOK;
    known_before known;
    MH_TRY(know_before(test, chain, &known));
    do {
        *n = known.reach < INFINITY
                 ? mh_confidence_rows(*n, total, posterior->most_drawn, test)
                 : total;
        counts->n_looks += 1.0;
        MH_TRY(*n == total ? look_at_all(test, chain, &known, batch, last)
                           : look_at_batch(test, chain, look, *n, &known, batch, counts, last));
        last->log_ratio = cheap + last->log_ratio;
        mh_confidence_decide(last->log_ratio, last->width, uniform, said);
        look++;
    } while (said->verdict == MH_READ_MORE);
    return MH_OK;
}

mh_status mh_decide_by_confidence(const void *test, mh_chain *chain, double cheap,
                                  mh_counts *counts, mh_decision *out)
{
    const mh_confidence_test *by = test;
    const int64_t total = mh_number_of_rows(&chain->posterior);
    const double beta = chain->posterior.reference.inverse_temperature;
    mh_batch_so_far batch = {.read = by->scans ? total : 0};
    mh_verdict said;
    estimate last;
    int64_t n = 0;
    *out = (mh_decision){0};
    MH_TRY(look_until_sure(by, chain, cheap, counts, &batch, &n, &said, &last));
    out->n_obs = (double)batch.read;
    counts->full_pass += batch.read >= total;
    counts->invalid += !isfinite(last.log_ratio);
    counts->log_ratio = last.log_ratio;
    counts->log_ratio_std =
        beta * (double)total * last.error * sqrt(1.0 - (double)n / (double)total);
    out->accepted = said.verdict == MH_ACCEPT;
    out->probability = said.probability;
    return MH_OK;
}
