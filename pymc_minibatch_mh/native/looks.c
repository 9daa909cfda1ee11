/* Sequential tests on growing minibatches.
 *
 * With d_i = r_i(theta') - r_i(theta), the log ratio is estimated from a minibatch of n of the N
 * rows by cheap + beta N mean(d), cheap the part without observations. The variance of this
 * estimate is (beta N)^2 s^2 (1 - n/N)/n, with s^2 the variance of d in the minibatch.
 *
 * The proposal alone determines the size of the first minibatch. All influential rows are evaluated
 * before it, and minibatches are drawn from the others, uniformly and without replacement.
 *
 * Rows in memory are drawn by the chain's generator. Stored rows come from a supply, drawn in
 * advance with replacement. Rows that the minibatch has already are skipped, so that it is drawn
 * without replacement. The order of the supply is independent of the chain. */
#include "inside.h"

/* `NEXT`, `END`: columns of supply.places; `EVENLY`: its row for uniformly drawn data rows. */
enum { NEXT, END, EVENLY = 0 };

/* Merge the moments of two samples: Pebay (2008), doi:10.2172/1028931. */
void mh_merge_moments(mh_moments *moments, const mh_moments *others)
{
    const double n = (double)moments->n, m = (double)others->n;
    const double total = (double)(moments->n + others->n);
    const double shift = others->mean - moments->mean;
    const double cross = shift * shift * n * m / total;
    moments->third = moments->third + others->third + shift * cross * (n - m) / total +
                     3.0 * shift * (n * others->second - m * moments->second) / total;
    moments->n += others->n;
    moments->mean += shift * m / total;
    moments->second = moments->second + others->second + cross;
}

void mh_add_moments(mh_moments *moments, const double *values, int64_t n)
{
    mh_moments added = {.n = n};
    for (int64_t i = 0; i < n; i++)
        added.mean += values[i];
    added.mean /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double gap = values[i] - added.mean;
        added.second += gap * gap;
        added.third += gap * gap * gap;
    }
    mh_merge_moments(moments, &added);
}

/* Sample skewness; 0 for fewer than three values or for equal values. */
double mh_skewness(const mh_moments *moments)
{
    if (moments->n < 3 || moments->second <= 0.0)
        return 0.0;
    return sqrt((double)moments->n) * moments->third / pow(moments->second, 1.5);
}

mh_status mh_scan_rows(const mh_posterior *posterior, const mh_move *move, double *mean,
                       double *variance, double *largest, mh_arena *scratch)
{
    const int64_t total = mh_number_of_rows(posterior);
    MH_SCOPE(scratch);
    mh_read read;
    MH_TRY(mh_take_read(posterior, move, MH_BLOCK, &read, scratch));
    mh_moments moments = {0};
    *largest = 0.0;
    for (int64_t first = 0; first < total; first += MH_BLOCK) {
        const int64_t last = mh_min(first + MH_BLOCK, total);
        MH_TRY(mh_read_block(&read, first, last));
        mh_add_moments(&moments, read.differences, last - first);
        for (int64_t i = 0; i < last - first; i++)
            *largest = mh_larger(*largest, fabs(read.differences[i]));
    }
    *mean = moments.mean;
    *variance = moments.second / (double)total;
    return MH_OK;
}

/* Number of rows from which minibatches are drawn: all but the influential ones. */
static int64_t number_of_drawn(const mh_posterior *posterior)
{
    return mh_number_of_rows(posterior) - posterior->bounds.n_heavy;
}

mh_status mh_take_new(const mh_supply *supply, mh_drawn *batch, int64_t *n, int64_t target,
                      int64_t room, int64_t *slots)
{
    const int64_t first = *n;
    for (int64_t k = 0; k < room && *n < target; k++) {
        if (supply->places[NEXT] == supply->places[END]) {
            MH_TRY(mh_ask(supply, EVENLY));
        }
        const int64_t slot = supply->places[NEXT]++;
        const int64_t row = supply->rows[slot];
        if (mh_insert(batch->places, batch->n_places, row)) {
            slots[*n - first] = slot;
            batch->rows[(*n)++] = row;
        }
    }
    return MH_OK;
}

/* Extend a minibatch to `target` rows (from a supply, by at most `room`); write slots of new rows.
 * Rows in memory are numbered in the minibatch as if there were no influential ones. */
static mh_status draw_next(const mh_posterior *posterior, const mh_generator *rng, mh_drawn *batch,
                           int64_t *n, int64_t target, int64_t room, int64_t *slots)
{
    const mh_bounds *bounds = &posterior->bounds;
    if (bounds->supply.room > 0)
        return mh_take_new(&bounds->supply, batch, n, target, room, slots);
    const int64_t *drawn = batch->rows + *n;
    const int64_t count = target - *n;
    mh_draw_more(rng, number_of_drawn(posterior), batch, *n, target);
    for (int64_t i = 0; i < count; i++)
        slots[i] = drawn[i];
    if (bounds->n_heavy > 0)
        mh_skip_rows(drawn, count, bounds->heavy, bounds->n_heavy, slots);
    *n = target;
    return MH_OK;
}

/* Compare the changes of n rows with their bounds c_i M; the counts record the largest ratio. */
static void compare_with_bounds(const mh_read *read, int64_t n, const mh_table *table, double m,
                                mh_counts *counts)
{
    const double beta = read->posterior->reference.inverse_temperature;
    for (int64_t i = 0; table && i < n; i++) {
        const int64_t row = read->rows[i];
        mh_hold_against_bound(row, read->differences[i], read->scales[i],
                              (double)table->c[row] * m, beta, counts);
    }
}

mh_status mh_extend_batch(mh_chain *chain, mh_batch_so_far *batch, int64_t target,
                          const mh_table *table, double m, mh_counts *counts)
{
    const mh_posterior *posterior = &chain->posterior;
    const int stored = posterior->bounds.supply.room > 0;
    int64_t n = batch->moments.n;
    /* A minibatch of stored rows needs a hash set, hence 2 * target. It is evaluated in small
     * blocks, because each supply is overwritten by the second one after it. */
    const int64_t most = stored ? 2 * target : number_of_drawn(posterior);
    const int64_t room = stored ? mh_min(target - n, MH_BLOCK) : target - n;
    MH_TRY(mh_reserve(&batch->drawn, n, target, most, chain->scratch));
    MH_SCOPE(chain->scratch);
    int64_t *slots = mh_take(chain->scratch, room, int64_t);
    mh_read read;
    MH_NEED(slots);
    MH_TRY(mh_take_read(posterior, &chain->move, room, &read, chain->scratch));
    while (n < target) {
        MH_TRY(draw_next(posterior, &chain->generator, &batch->drawn, &n, target, room, slots));
        const int64_t count = n - batch->moments.n;
        if (count == 0) /* every new row was in the minibatch already */
            continue;
        MH_TRY(mh_read_drawn(&read, slots, count));
        compare_with_bounds(&read, count, table, m, counts);
        mh_add_moments(&batch->moments, read.differences, count);
    }
    return MH_OK;
}

mh_status mh_read_rest(mh_chain *chain, mh_batch_so_far *batch, double *change)
{
    const mh_posterior *posterior = &chain->posterior;
    const mh_bounds *bounds = &posterior->bounds;
    const int64_t n = batch->moments.n, total = number_of_drawn(posterior), count = total - n;
    double unused;
    if (n == 0 || bounds->supply.room > 0) {
        batch->read += mh_number_of_rows(posterior);
        return mh_read_all(posterior, &chain->move, NULL, change, &unused, chain->scratch);
    }
    int64_t *all = batch->drawn.rows;
    if (batch->drawn.n_places > 0) { /* without a hash set, the list already has all rows */
        all = mh_take(chain->scratch, total, int64_t);
        MH_NEED(all);
        MH_TRY(mh_list_all(batch->drawn.rows, n, total, all, chain->scratch));
    }
    batch->read += count;
    if (bounds->n_heavy > 0)
        mh_skip_rows(all + n, count, bounds->heavy, bounds->n_heavy, all + n);
    MH_TRY(mh_read_chosen(posterior, &chain->move, all + n, count, NULL, change, &unused,
                          chain->scratch));
    *change = (double)n * batch->moments.mean + batch->known + *change;
    return MH_OK;
}

/* V = kappa M^2: predicted variance of beta N d_i, with d_i the difference of one random row. */
double mh_predicted_noise(const mh_move *move, const mh_reference *reference, double kappa)
{
    mh_products dots;
    mh_products_of_move(move, reference->size, &dots);
    const double size = reference->relative * mh_size_of_move(&dots, reference->order, MH_JOINT);
    return kappa * mh_square(size);
}

mh_status mh_unit_noise(const mh_reference *reference, double *position, double *new_position,
                        double *noise, mh_arena *scratch)
{
    mh_move move;
    MH_TRY(mh_move_between(reference, position, new_position, &move, scratch));
    *noise = mh_predicted_noise(&move, reference, 1.0);
    return MH_OK;
}

static mh_status read_heavy(mh_chain *chain, mh_batch_so_far *batch)
{
    const mh_bounds *bounds = &chain->posterior.bounds;
    double unused;
    if (batch->moments.n > 0 || bounds->n_heavy == 0)
        return MH_OK;
    return mh_read_chosen(&chain->posterior, &chain->move, bounds->heavy, bounds->n_heavy, NULL,
                          &batch->known, &unused, chain->scratch);
}

/* Extend the minibatch to `target` rows, and write the statistics that the test uses. */
static mh_status look_at_batch(mh_chain *chain, double cheap, int64_t target,
                               mh_batch_so_far *batch, mh_look *look)
{
    const double beta = chain->posterior.reference.inverse_temperature;
    const double total = (double)look->total;
    const mh_moments *moments = &batch->moments;
    MH_TRY(read_heavy(chain, batch));
    MH_TRY(mh_extend_batch(chain, batch, target, NULL, 0.0, NULL));
    const double n = (double)moments->n;
    batch->read = moments->n + chain->posterior.bounds.n_heavy;
    look->n = moments->n;
    look->log_ratio = cheap + beta * total * moments->mean + beta * batch->known;
    look->variance = mh_square(beta * total) * moments->second / (n - 1.0) / n * (1.0 - n / total);
    look->skewness = mh_skewness(moments);
    return MH_OK;
}

/* Evaluate all remaining rows, and write the exact log ratio for the test. */
static mh_status look_at_all(mh_chain *chain, double cheap, mh_batch_so_far *batch, mh_look *look)
{
    double change;
    MH_TRY(mh_read_rest(chain, batch, &change));
    look->n = look->total;
    look->log_ratio = cheap + chain->posterior.reference.inverse_temperature * change;
    look->variance = look->skewness = 0.0;
    return MH_OK;
}

/* Add the statistics of a decision's last look to the counts. */
static void count_decision(const mh_look *look, const mh_verdict *said, double noise,
                           mh_counts *counts)
{
    const double predicted = noise * (1.0 / (double)look->n - 1.0 / (double)look->total);
    counts->error += said->error;
    counts->underestimated +=
        look->n < look->total && look->variance > mh_larger(0.5, 1.5 * predicted);
    counts->full_pass += look->n == look->total;
    counts->invalid += !isfinite(look->log_ratio);
    counts->log_ratio = look->log_ratio;
    counts->log_ratio_std = sqrt(look->variance);
}

/* Evaluate growing minibatches, up to all rows, until the test accepts or rejects. */
mh_status mh_decide_by_batches(const void *test, mh_chain *chain, double cheap, mh_counts *counts,
                               mh_decision *out)
{
    const mh_batch_test *by = test;
    const mh_posterior *posterior = &chain->posterior;
    const int64_t total = number_of_drawn(posterior);
    const double limit = mh_smaller(posterior->most_drawn - (double)posterior->bounds.n_heavy,
                                    (double)total);
    const double noise = mh_predicted_noise(&chain->move, &posterior->reference, by->kappa);
    mh_look look = {.total = total, .uniform = mh_uniform(&chain->generator)};
    mh_verdict said;
    mh_batch_so_far batch = {0};
    *out = (mh_decision){0};
    do {
        const int64_t target = by->sample_size(by->settings, noise, look.n, total);
        counts->n_looks += 1.0;
        MH_TRY((double)target >= limit ? look_at_all(chain, cheap, &batch, &look)
                                       : look_at_batch(chain, cheap, target, &batch, &look));
        MH_TRY(by->decide_batch(by->settings, &look, &said));
    } while (said.verdict == MH_READ_MORE);
    out->n_obs = (double)batch.read;
    count_decision(&look, &said, noise, counts);
    out->accepted = said.verdict == MH_ACCEPT;
    out->probability = said.probability;
    return MH_OK;
}

/* Whether a test would evaluate all rows for a proposal between two whitened positions. Minibatches
 * are simulated: normal noise with the predicted variance around the log ratio of the Gaussian
 * approximation. A look at `limit` rows or more evaluates all rows. */
static int64_t reads_all(const mh_batch_test *test, const mh_reference *reference,
                         const mh_move *move, int64_t total, double limit, const mh_generator *rng)
{
    const int64_t d = reference->size;
    const double noise = mh_predicted_noise(move, reference, test->kappa);
    const double exact =
        0.5 * (mh_inner(move->here, move->here, d) - mh_inner(move->there, move->there, d));
    mh_look look = {.total = total, .uniform = mh_uniform(rng)};
    mh_verdict said;
    double away = 0.0;
    do {
        const int64_t target = test->sample_size(test->settings, noise, look.n, total);
        if ((double)target >= limit)
            return 1;
        if (!(noise < INFINITY))
            return 0;
        away += sqrt(noise * (double)(target - look.n)) * mh_normal(rng);
        look.n = target;
        look.log_ratio = exact + away / (double)target;
        look.variance = noise * (1.0 / (double)target - 1.0 / (double)total);
        if (test->decide_batch(test->settings, &look, &said) != MH_OK)
            return 0; /* errors of custom tests are raised by the run itself */
    } while (said.verdict == MH_READ_MORE);
    return 0;
}

mh_status mh_full_passes_of(const mh_batch_test *test, const mh_reference *reference, int64_t n,
                            double *moves, int64_t total, double limit, const mh_generator *rng,
                            int64_t *passes, mh_arena *scratch)
{
    const int64_t d = reference->size;
    MH_VECTOR(double, step, scratch, d);
    *passes = 0;
    for (int64_t k = 0; k < n; k++) {
        double *here = moves + 2 * k * d, *there = here + d;
        for (int64_t i = 0; i < d; i++)
            step[i] = there[i] - here[i];
        const mh_move move = {here, there, here, there, step};
        *passes += reads_all(test, reference, &move, total, limit, rng);
    }
    return MH_OK;
}
