/* Rows drawn with and without replacement, in memory of the size of the batch; and rows that are
 * stored.
 *
 * Which rows a test draws, by their bounds or evenly, does not depend on the position: of rows
 * that are stored, some of each table of bounds are drawn and fetched ahead. Each is used once, in
 * order; when the last of a table is used, Python is asked for more. Rows that are kept of
 * candidates by a copy in memory depend on the move: Python is asked for them by their numbers. */
#include "inside.h"

/* ---- With replacement, in proportion to weights. ---- */

/* Move the excess of large entries to small ones; return how many are left of each. */
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

/* Vose (1991), doi:10.1109/32.92917. */
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
    /* The rest differs from 1 by rounding. */
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
        /* Both are read at once: neither is likely to be in a cache. */
        const double threshold = thresholds[index];
        const int64_t alias = aliases[index];
        out[k] = mh_uniform(rng) < threshold ? index : alias;
    }
}

/* ---- Without replacement. ---- */

int64_t mh_insert(int64_t *places, int64_t n_places, int64_t row)
{
    const int64_t mask = n_places - 1; /* of a power of two */
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

/* Move n drawn rows to a list and a set with more room. */
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

/* Room at least doubles, so that a test that looks often still does work in proportion to what it
 * reads. From half of the total on, the list has all rows, and the set is empty. */
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

/* Extend a uniform draw of n distinct rows to `target` of them. Drawing on is the same as having
 * drawn more at once. */
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
        /* How many skipped rows lie before: the m-th does if as many others lie before it. */
        int64_t low = -1, high = n_skipped;
        MH_BISECT(low, high, skipped[middle] - middle <= numbers[i])
        rows[i] = numbers[i] + high;
    }
}

/* ---- Numbers within terms, and through all of them. ---- */

static int64_t term_of(const mh_rows *rows, int64_t row)
{
    int64_t low = 0, high = rows->n_terms; /* the last term that begins at the row or before it */
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
        ends[k] = total - ends[k]; /* where the next row of the term goes */
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t term = term_of(rows, drawn[i]);
        numbers[ends[term]++] = drawn[i] - rows->term_starts[term];
    }
}

/* Number the consecutive rows from `first` to `last` within their terms. */
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

/* Number rows that are arranged by term through all terms again. */
void mh_number_through(const mh_rows *rows, int64_t *numbers, const int64_t *ends)
{
    for (int64_t term = 1; term < rows->n_terms; term++)
        for (int64_t i = ends[term - 1]; i < ends[term]; i++)
            numbers[i] += rows->term_starts[term];
}

/* ---- Rows that are stored. ---- */

mh_status mh_ask(const mh_supply *supply, int64_t what)
{
    return supply->refill(what) ? MH_OK : MH_NO_ROWS;
}

/* Write the next n unused rows of a table. */
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

/* Rows in memory lie at their numbers. */
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

/* Have all rows read outside of the library, and write their change in the move. */
mh_status mh_ask_for_change(const mh_supply *supply, double *change)
{
    MH_TRY(mh_ask(supply, -1));
    *change = supply->change[0];
    return MH_OK;
}
