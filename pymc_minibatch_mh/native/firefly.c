/* Firefly Monte Carlo: updates evaluate the bright rows and a few others. Maclaurin, Adams (2014),
 * doi:10.48550/arXiv.1403.5693; the proof is in published/firefly.py.
 *
 * Every row has a lower bound B_i(theta) of its tempered likelihood L_i(theta), and is bright or
 * dark. The state of the chain is a position and a set of bright rows, with the density
 *
 *     prior Prod_dark B_i Prod_bright (L_i - B_i),
 *
 * whose sum over all sets is the posterior. Given theta, rows are bright independently, each with
 * the odds o_i = (L_i - B_i) / B_i. With r_i a row's remainder, T the sum of all expansions, c_i
 * its bound and m(theta) = M of the proposal from the centre to theta,
 *
 *     Sum log B_i = beta T(theta) - C m(theta) + const,
 *     log(L_i/B_i) = beta [r_i(theta) - r_i(centre)] + c_i m(theta) >= 0.
 *
 * The position theta alone determines the table of c_i and m. An update first updates the set of
 * bright rows. A dark row is proposed to become bright with probability q, accepted with
 * probability min(1, o_i/q); a bright row is proposed to become dark, accepted with min(1, q/o_i).
 * The log ratio of theta', with `cheap` its part that needs no observations, is then
 *
 *     cheap - C [m(theta') - m(theta)] + Sum_bright [log o_i(theta') - log o_i(theta)].
 *
 * If no bounds table covers both ends, all rows are evaluated, and the log ratio is marginal over
 * the bright rows; if theta' is accepted, these are drawn anew when they are next needed. */
#include "inside.h"

/* `BLOCK`: number of rows evaluated at a time; `UNKNOWN`: n_bright before bright rows are drawn. */
enum { BLOCK = 1024, UNKNOWN = -1 };

/* Evaluation of rows at one position, block by block; the arrays hold one block. */
typedef struct {
    const mh_brightness *own;
    const mh_place *place;
    const mh_generator *rng;
    mh_counts *counts;
    mh_read read;
    int64_t *drawn;
    double *odds;
} pass;

static mh_status begin(const mh_brightness *own, const mh_place *place,
                       const mh_posterior *posterior, mh_counts *counts, pass *out,
                       mh_arena *scratch)
{
    const int64_t room = mh_min(BLOCK, own->n_rows);
    *out = (pass){.own = own, .place = place, .counts = counts};
    out->drawn = mh_take(scratch, room, int64_t);
    out->odds = mh_take(scratch, room, double);
    MH_NEED(out->drawn && out->odds);
    return mh_take_read(posterior, &place->move, room, &out->read, scratch);
}

/* Log odds of brightness for an excess log(L/B); an excess below 0, by rounding, counts as 0. */
double mh_log_odds(double excess)
{
    if (!(excess > 0.0))
        return -INFINITY;
    if (excess > 1.0)
        return excess + log1p(-exp(-excess));
    return log(expm1(excess));
}

double mh_chance_to_be_bright(double odds, double q, int64_t kind)
{
    if (kind == MH_ANEW)
        return 1.0 / (1.0 + exp(-odds));
    if (kind == MH_DARK)
        return exp(mh_smaller(0.0, odds - log(q)));
    return -expm1(mh_smaller(0.0, log(q) - odds));
}

double mh_log_ratio_of_bright(double cheap, double size, double new_size, double odds,
                              double new_odds)
{
    return cheap - (new_size - size) + (new_odds - odds);
}

static void swap(int32_t *rows, int64_t i, int64_t j)
{
    const int32_t row = rows[i];
    rows[i] = rows[j];
    rows[j] = row;
}

/* Write the log odds of up to BLOCK rows at a position, and sort these rows by term. The counts
 * record the row with the largest ratio of its change to its bound. */
static mh_status read_rows(const pass *self, int32_t *rows, int64_t n)
{
    const mh_posterior *posterior = self->read.posterior;
    const mh_table *table = posterior->bounds.tables + self->place->table;
    const double beta = posterior->reference.inverse_temperature;
    for (int64_t i = 0; i < n; i++)
        self->drawn[i] = rows[i];
    mh_ask_for_bounds(table, self->drawn, n);
    MH_TRY(mh_read_drawn(&self->read, self->drawn, n));
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = self->read.rows[i];
        const double bound = (double)table->c[row] * self->place->m;
        const double change = self->read.differences[i];
        /* Bounds limit decreases only, so an increase counts as no change. */
        const double fall = change > 0.0 ? 0.0 : change;
        mh_hold_against_bound(row, fall, self->read.scales[i], bound, beta, self->counts);
        rows[i] = (int32_t)row;
        self->odds[i] = mh_log_odds(beta * change + bound);
    }
    return MH_OK;
}

/* Update the brightness of rows `first` to `last`, all of one `kind` (such as MH_DARK). Bright rows
 * are moved to the front, up to `end`, and their log odds are added to `total`. */
static mh_status partition(const pass *self, int64_t first, int64_t last, int64_t kind,
                           int64_t *end, double *total)
{
    int32_t *rows = self->own->rows;
    double sum = 0.0;
    *end = first;
    for (int64_t start = first; start < last; start += BLOCK) {
        const int64_t n = mh_min(BLOCK, last - start);
        MH_TRY(read_rows(self, rows + start, n));
        for (int64_t i = 0; i < n; i++) {
            const double chance = mh_chance_to_be_bright(self->odds[i], self->own->q, kind);
            if (!(mh_uniform(self->rng) < chance))
                continue;
            swap(rows, start + i, *end);
            sum += self->odds[i];
            *end += 1;
        }
    }
    *total += sum;
    return MH_OK;
}

/* Propose dark rows to become bright, each with probability q; move these behind the bright rows,
 * and return their end. Gaps between them are geometric draws, so that other rows are skipped. */
static int64_t propose_dark(const mh_brightness *own, int64_t n_bright, const mh_generator *rng)
{
    const double log_left = own->q < 1.0 ? log1p(-own->q) : -INFINITY;
    int64_t end = n_bright, place = n_bright;
    for (;;) {
        const double gap = floor(log1p(-mh_uniform(rng)) / log_left);
        if (!(gap < (double)(own->n_rows - place)))
            return end;
        place += (int64_t)gap;
        swap(own->rows, end, place);
        end += 1;
        place += 1;
    }
}

/* Update a known set of bright rows; after an error n_bright remains UNKNOWN. */
static mh_status update_known(const pass *self, int64_t n_bright, double *odds, int64_t *n_read)
{
    int64_t lit, left;
    double stayed = 0.0, became = 0.0;
    *n_read = propose_dark(self->own, n_bright, self->rng);
    MH_TRY(partition(self, n_bright, *n_read, MH_DARK, &lit, &became));
    MH_TRY(partition(self, 0, n_bright, MH_BRIGHT, &left, &stayed));
    /* Rows that became dark lie between rows that stayed and rows that became bright: swap them. */
    for (int64_t k = 0; k < lit - n_bright; k++)
        swap(self->own->rows, left + k, n_bright + k);
    *self->own->n_bright = left + lit - n_bright;
    *odds = stayed + became;
    return MH_OK;
}

mh_status mh_update_brightness(const mh_brightness *own, const mh_place *place,
                               const mh_posterior *posterior, const mh_generator *rng,
                               mh_counts *counts, double *odds, int64_t *n_read, mh_arena *scratch)
{
    const int64_t n_bright = *own->n_bright;
    pass self;
    int64_t end;
    MH_TRY(begin(own, place, posterior, counts, &self, scratch));
    self.rng = rng;
    *own->n_bright = UNKNOWN;
    *odds = 0.0;
    *n_read = own->n_rows;
    if (n_bright >= 0)
        return update_known(&self, n_bright, odds, n_read);
    MH_TRY(partition(&self, 0, own->n_rows, MH_ANEW, &end, odds));
    *own->n_bright = end;
    counts->full_pass += 1.0;
    return MH_OK;
}

mh_status mh_odds_of_bright(const mh_brightness *own, const mh_place *place,
                            const mh_posterior *posterior, mh_counts *counts, double *odds,
                            mh_arena *scratch)
{
    pass self;
    MH_TRY(begin(own, place, posterior, counts, &self, scratch));
    *odds = 0.0;
    for (int64_t first = 0; first < *own->n_bright; first += BLOCK) {
        const int64_t n = mh_min(BLOCK, *own->n_bright - first);
        MH_TRY(read_rows(&self, own->rows + first, n));
        for (int64_t i = 0; i < n; i++)
            *odds += self.odds[i];
    }
    return MH_OK;
}

/* Set n_bright to UNKNOWN if the bright rows belong to another position or are always redrawn. */
static void follow(const mh_firefly_test *test, const double *position, int64_t size)
{
    int same = !test->forgets;
    for (int64_t j = 0; j < size; j++)
        same = same && test->brightness.at[j] == position[j];
    if (same)
        return;
    *test->brightness.n_bright = UNKNOWN;
    mh_copy_to(test->brightness.at, position, size);
}

/* Find the bounds table and M of each position, as of a proposal from the centre to it. */
static mh_status find_places(mh_chain *chain, mh_place *here, mh_place *there)
{
    const mh_posterior *posterior = &chain->posterior;
    const mh_reference *reference = &posterior->reference;
    const mh_move *move = &chain->move;
    double *centre = mh_take(chain->scratch, reference->size, double);
    double *zero = mh_take(chain->scratch, reference->size, double);
    MH_NEED(centre && zero);
    mh_copy_to(centre, reference->centre, reference->size);
    mh_fill(zero, reference->size, 0.0);
    here->move = (mh_move){centre, move->position, zero, move->here, move->here};
    there->move = (mh_move){centre, move->new, zero, move->there, move->there};
    MH_TRY(mh_smallest_table(&posterior->bounds, reference, &here->move, &here->table, &here->m,
                             chain->scratch));
    return mh_smallest_table(&posterior->bounds, reference, &there->move, &there->table, &there->m,
                             chain->scratch);
}

/* Update the set of bright rows, and write the log ratio of the proposal given this set. */
static mh_status weigh_bright_rows(const mh_firefly_test *test, mh_chain *chain,
                                   const mh_place *here, const mh_place *there, double cheap,
                                   mh_counts *counts, double *log_ratio, double *n_obs)
{
    const mh_posterior *posterior = &chain->posterior;
    const mh_brightness *own = &test->brightness;
    double odds, new_odds;
    int64_t n_read;
    MH_TRY(mh_update_brightness(own, here, posterior, &chain->generator, counts, &odds, &n_read,
                                chain->scratch));
    MH_TRY(mh_odds_of_bright(own, there, posterior, counts, &new_odds, chain->scratch));
    const mh_table *tables = posterior->bounds.tables;
    const double size = tables[here->table].total * here->m;
    const double new_size = tables[there->table].total * there->m;
    *log_ratio = mh_log_ratio_of_bright(cheap, size, new_size, odds, new_odds);
    *n_obs = (double)(n_read + *own->n_bright);
    if (!(counts->bound_ratio <= 1.0 || test->tolerates))
        return MH_BOUND_VIOLATED;
    counts->n_bright = (double)*own->n_bright;
    return MH_OK;
}

mh_status mh_decide_by_bright_rows(const void *record, mh_chain *chain, double cheap,
                                   mh_counts *counts, mh_decision *out)
{
    const mh_firefly_test *test = record;
    const mh_brightness *own = &test->brightness;
    const mh_move *move = &chain->move;
    const int64_t size = chain->posterior.reference.size;
    mh_place here, there;
    double log_ratio = cheap;
    *out = (mh_decision){0, 0.0, (double)own->n_rows};
    MH_TRY(find_places(chain, &here, &there));
    counts->n_looks += 1.0;
    counts->log_ratio_std = 0.0;
    follow(test, move->position, size);
    const int bounded = here.table >= 0 && there.table >= 0;
    if (bounded) {
        MH_TRY(weigh_bright_rows(test, chain, &here, &there, cheap, counts, &log_ratio,
                                 &out->n_obs));
    } else {
        double change;
        counts->n_bright = out->n_obs;
        MH_TRY(mh_change_of_all_rows(&chain->posterior, move, counts, &change, chain->scratch));
        log_ratio = cheap + change;
    }
    counts->log_ratio = log_ratio;
    out->probability = mh_chance_of(log_ratio);
    out->accepted = mh_uniform(&chain->generator) < out->probability;
    if (out->accepted && !bounded)
        *own->n_bright = UNKNOWN;
    if (out->accepted)
        mh_copy_to(own->at, move->new, size);
    return MH_OK;
}
