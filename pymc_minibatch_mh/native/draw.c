/* Rows drawn with and without replacement, in memory proportional to the batch; and stored rows.
 *
 * A test draws rows by their bounds or uniformly, independently of the position. Stored rows are
 * therefore drawn and fetched in advance, some for each table of bounds. Each is used once, in
 * order; Python is asked for more when all rows of a table are used. If a copy in memory thins the
 * candidates, the remaining rows depend on the proposal: Python is asked for them by number. */
#include "inside.h"

/* ---- Sampling with replacement, in proportion to weights. ---- */

/* Fill entries below 1 with the excess of entries above 1; update the counts of both kinds. */
static void share_out(double *thresholds, int32_t *aliases, int32_t *small, int64_t *n_small,
                      const int32_t *large, int64_t *n_large)
{
    while (*n_small > 0 && *n_large > 0) {
        const int32_t low = small[--*n_small], high = large[*n_large - 1];
        aliases[low] = high;
        thresholds[high] -= 1.0 - thresholds[low];
        if (thresholds[high] < 1.0) {
            --*n_large;
            small[(*n_small)++] = high;
        }
    }
}

/* Build an alias table in linear time: Vose (1991), doi:10.1109/32.92917. */
mh_status mh_build_alias(int64_t n, const float *weights, double *thresholds, int32_t *aliases,
                         mh_arena *scratch)
{
    MH_SCOPE(scratch);
    int32_t *small = mh_take(scratch, n, int32_t), *large = mh_take(scratch, n, int32_t);
    MH_NEED(small && large);
    double total = 0.0;
    for (int64_t i = 0; i < n; i++)
        total += (double)weights[i];
    int64_t n_small = 0, n_large = 0;
    for (int64_t i = 0; i < n; i++) {
        thresholds[i] = (double)n * ((double)weights[i] / total);
        aliases[i] = (int32_t)i;
        if (thresholds[i] < 1.0)
            small[n_small++] = (int32_t)i;
        else
            large[n_large++] = (int32_t)i;
    }
    share_out(thresholds, aliases, small, &n_small, large, &n_large);
    /* The remaining entries differ from 1 by rounding only: set them to 1. */
    for (int64_t k = 0; k < n_large; k++)
        thresholds[large[k]] = 1.0;
    for (int64_t k = 0; k < n_small; k++)
        thresholds[small[k]] = 1.0;
    return MH_OK;
}

void mh_draw_alias(const mh_generator *rng, int64_t n, const double *thresholds,
                   const int32_t *aliases, int64_t count, int64_t *out)
{
    for (int64_t k = 0; k < count; k++) {
        const int64_t index = mh_integer_below(rng, n);
        /* Load both before the comparison, so that their cache misses overlap. */
        const double threshold = thresholds[index];
        const int64_t alias = aliases[index];
        out[k] = mh_uniform(rng) < threshold ? index : alias;
    }
}

/* ---- Sampling without replacement. ---- */

int64_t mh_insert(int64_t *places, int64_t n_places, int64_t row)
{
    const int64_t mask = n_places - 1; /* n_places is a power of two */
    int64_t index = (int64_t)(((uint64_t)row * 0x9E3779B97F4A7C15u) >> 32) & mask;
    while (places[index] >= 0) {
        if (places[index] == row)
            return 0;
        index = (index + 1) & mask;
    }
    places[index] = row;
    return 1;
}

mh_status mh_list_all(const int64_t *rows, int64_t n, int64_t total, int64_t *out,
                      mh_arena *scratch)
{
    MH_SCOPE(scratch);
    MH_VECTOR(char, drawn, scratch, total);
    memset(drawn, 0, (size_t)total);
    for (int64_t i = 0; i < n; i++) {
        drawn[rows[i]] = 1;
        out[i] = rows[i];
    }
    for (int64_t row = 0; row < total; row++)
        if (!drawn[row])
            out[n++] = row;
    return MH_OK;
}

/* Copy n drawn rows to a longer list and a larger hash set. */
static mh_status grow(mh_drawn *drawn, int64_t n, int64_t target, mh_arena *scratch)
{
    int64_t room = 16;
    while (room < target)
        room *= 2;
    int64_t *rows = mh_take(scratch, room, int64_t), *places = mh_take(scratch, 2 * room, int64_t);
    MH_NEED(rows && places);
    for (int64_t i = 0; i < 2 * room; i++)
        places[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        rows[i] = drawn->rows[i];
        mh_insert(places, 2 * room, rows[i]);
    }
    *drawn = (mh_drawn){room, rows, 2 * room, places};
    return MH_OK;
}

/* Make room for `target` rows. Room at least doubles, so that the work of many looks stays
 * proportional to their rows. Beyond half of all rows, the list holds all rows, and no set. */
mh_status mh_reserve(mh_drawn *drawn, int64_t n, int64_t target, int64_t total, mh_arena *scratch)
{
    if (drawn->room >= target)
        return MH_OK;
    if (2 * target <= total)
        return grow(drawn, n, target, scratch);
    MH_VECTOR(int64_t, rows, scratch, total);
    MH_TRY(mh_list_all(drawn->rows, n, total, rows, scratch));
    *drawn = (mh_drawn){total, rows, 0, drawn->places};
    return MH_OK;
}

/* Extend a uniform sample of n distinct rows to `target`; the result is distributed as a sample of
 * `target` rows drawn at once. */
void mh_draw_more(const mh_generator *rng, int64_t total, mh_drawn *drawn, int64_t n,
                  int64_t target)
{
    int64_t *rows = drawn->rows;
    if (!drawn->n_places) {
        for (; n < target; n++) {
            const int64_t chosen = n + mh_integer_below(rng, total - n), row = rows[n];
            rows[n] = rows[chosen];
            rows[chosen] = row;
        }
        return;
    }
    while (n < target) {
        const int64_t row = mh_integer_below(rng, total);
        if (mh_insert(drawn->places, drawn->n_places, row))
            rows[n++] = row;
    }
}

void mh_skip_rows(const int64_t *numbers, int64_t n, const int64_t *skipped, int64_t n_skipped,
                  int64_t *rows)
{
    for (int64_t i = 0; i < n; i++) {
        /* Skipped row `middle` precedes the result iff at most numbers[i] kept rows precede it. */
        int64_t low = -1, high = n_skipped;
        MH_BISECT(low, high, skipped[middle] - middle <= numbers[i])
        rows[i] = numbers[i] + high;
    }
}

/* ---- Row numbers within terms and over all terms. ---- */

static int64_t term_of(const mh_rows *rows, int64_t row)
{
    int64_t low = 0, high = rows->n_terms; /* last term that begins at or before the row */
    MH_BISECT(low, high, rows->term_starts[middle] <= row)
    return low;
}

void mh_arrange(const mh_rows *rows, const int64_t *drawn, int64_t n, int64_t *numbers,
                int64_t *ends)
{
    if (rows->n_terms == 1) {
        for (int64_t i = 0; i < n; i++)
            numbers[i] = drawn[i];
        ends[0] = n;
        return;
    }
    for (int64_t k = 0; k < rows->n_terms; k++)
        ends[k] = 0;
    for (int64_t i = 0; i < n; i++)
        ends[term_of(rows, drawn[i])]++;
    int64_t total = 0;
    for (int64_t k = 0; k < rows->n_terms; k++) {
        total += ends[k];
        ends[k] = total - ends[k]; /* index for the next row of the term */
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t term = term_of(rows, drawn[i]);
        numbers[ends[term]++] = drawn[i] - rows->term_starts[term];
    }
}

/* Convert the consecutive rows first, ..., last - 1 to row numbers within their terms. */
void mh_arrange_block(const mh_rows *rows, int64_t first, int64_t last, int64_t *numbers,
                      int64_t *ends)
{
    int64_t index = 0;
    for (int64_t k = 0; k < rows->n_terms; k++) {
        const int64_t start = rows->term_starts[k];
        const int64_t stop = mh_min(last, rows->term_starts[k + 1]);
        for (int64_t row = mh_max(first, start); row < stop; row++)
            numbers[index++] = row - start;
        ends[k] = index;
    }
}

/* Convert row numbers within terms back to row numbers over all terms. */
void mh_number_through(const mh_rows *rows, int64_t *numbers, const int64_t *ends)
{
    for (int64_t term = 1; term < rows->n_terms; term++)
        for (int64_t i = ends[term - 1]; i < ends[term]; i++)
            numbers[i] += rows->term_starts[term];
}

/* ---- Stored rows. ---- */

mh_status mh_ask(const mh_supply *supply, int64_t what)
{
    return supply->refill(what) ? MH_OK : MH_NO_ROWS;
}

/* Write the buffer slots of the next n unused rows of a table; ask Python for more as needed. */
mh_status mh_take_rows(const mh_supply *supply, int64_t table, int64_t n, int64_t *rows)
{
    int64_t *next = supply->places + 3 * table;
    const int64_t *end = next + 1;
    for (int64_t k = 0; k < n; k++) {
        if (*next == *end) {
            MH_TRY(mh_ask(supply, table));
        }
        rows[k] = (*next)++;
    }
    return MH_OK;
}

/* Fetch stored rows, replace their numbers by buffer slots; rows in memory keep their numbers. */
mh_status mh_fetch_rows(const mh_supply *supply, int64_t n, int64_t *rows)
{
    if (!supply->room || !n)
        return MH_OK;
    for (int64_t k = 0; k < n; k++) {
        supply->rows[k] = rows[k];
        rows[k] = k;
    }
    return mh_ask(supply, -1 - n);
}

/* Ask Python to evaluate all stored rows; write their total change in the proposal. */
mh_status mh_ask_for_change(const mh_supply *supply, double *change)
{
    MH_TRY(mh_ask(supply, -1));
    *change = supply->change[0];
    return MH_OK;
}
