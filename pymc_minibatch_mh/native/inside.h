/* What the files of the library share and Python does not see: scratch memory and inlined functions.
 * The others are declared in functions.h. */
#ifndef MH_INSIDE_H
#define MH_INSIDE_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "functions.h"
#include "leaves.h"

/* Rows that are read at a time in a full pass within an update; candidates whose memory is asked
 * for before the first of them is looked at. */
enum { MH_BLOCK = 2048, MH_AHEAD = 256, MH_CACHE_LINE = 64 };

static inline int64_t mh_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t mh_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* As Python's max(a, b) and min(a, b): a where either is NaN. fmax and fmin would be calls. */
static inline double mh_larger(double a, double b) { return b > a ? b : a; }
static inline double mh_smaller(double a, double b) { return b < a ? b : a; }

static inline double mh_square(double x) { return x * x; }
static inline double mh_cube(double x) { return x * x * x; }

static inline void mh_copy_to(double *to, const double *from, int64_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

static inline void mh_fill(double *to, int64_t n, double value)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = value;
}

/* Bisection: `low` becomes the last index before `high` for which a condition on `middle` holds, as it
 * does for those before it. */
#define MH_BISECT(low, high, condition)                                                            \
    while (high - low > 1) {                                                                       \
        const int64_t middle = (low + high) / 2;                                                   \
        if (condition)                                                                             \
            low = middle;                                                                          \
        else                                                                                       \
            high = middle;                                                                         \
    }

/* ---- Scratch (arena.c): what was taken after a mark is given back at once. ---- */

typedef struct mh_block {
    struct mh_block *before;
    char *memory;
    int64_t room, used;
} mh_block;

struct mh_arena {
    mh_block *last;
};

typedef struct mh_mark {
    mh_arena *arena;
    mh_block *block;
    int64_t used;
} mh_mark;

/* Room for `count` things of a type, aligned for vectors, with undefined contents; NULL if there is
 * no memory. Zero things have an address too. */
#define mh_take(arena, count, type) ((type *)mh_take_bytes(arena, count, sizeof(type)))
void *mh_take_bytes(mh_arena *arena, int64_t count, int64_t size);
void mh_free_down_to(mh_arena *arena, const mh_block *kept);
static inline void mh_give_back(const mh_mark *mark)
{
    if (mark->arena->last != mark->block)
        mh_free_down_to(mark->arena, mark->block);
    mark->block->used = mark->used;
}

/* Scratch that is taken from here on is given back where this block ends. */
#define MH_SCOPE(arena) MH_SCOPE_OF(arena, __LINE__)
#define MH_SCOPE_OF(arena, line) MH_SCOPE_AT(arena, line)
#define MH_SCOPE_AT(arena, line)                                                                   \
    const mh_mark mh_scope_##line __attribute__((cleanup(mh_give_back))) = {                       \
        arena, (arena)->last, (arena)->last->used}

/* ---- What can fail. ---- */

/* Leave a function with the status of a call unless that is MH_OK, or without room that it needs. */
#define MH_TRY(call)                                                                               \
    do {                                                                                           \
        const mh_status mh_result = (call);                                                         \
        if (mh_result != MH_OK)                                                                     \
            return mh_result;                                                                       \
    } while (0)
#define MH_NEED(room) MH_TRY((room) ? MH_OK : MH_NO_MEMORY)
/* Declare a vector in scratch. */
#define MH_VECTOR(type, name, arena, count)                                                        \
    type *name = mh_take(arena, count, type);                                                      \
    MH_NEED(name)

/* ---- Sums in a fixed order: eight side by side, so that every compiler and processor rounds alike.
 *      Longer ones are in leaves.c. ---- */

/* As many of the eight as a register holds. Compilers find them in plain loops too, but not all of
 * them, and not always. */
#ifdef __AVX__
enum { MH_WIDE = 4 };
#else
enum { MH_WIDE = 2 };
#endif
typedef double mh_wide __attribute__((vector_size(8 * MH_WIDE), aligned(8), may_alias));

static inline double mh_total_of(const double lanes[8])
{
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static inline double mh_inner(const double *a, const double *b, int64_t n)
{
    mh_wide wide[8 / MH_WIDE] = {{0.0}};
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int k = 0; k < 8 / MH_WIDE; k++)
            wide[k] += ((const mh_wide *)(a + j))[k] * ((const mh_wide *)(b + j))[k];
    double lanes[8];
    memcpy(lanes, wide, sizeof lanes);
    double total = mh_total_of(lanes);
    for (; j < n; j++)
        total += a[j] * b[j];
    return total;
}

static inline double mh_length_of(const double *vector, int64_t n)
{
    return sqrt(mh_inner(vector, vector, n));
}

/* ---- Random numbers. ---- */

static inline double mh_uniform(const mh_generator *rng)
{
    return rng->bits->next_double(rng->bits->state);
}

static inline double mh_normal(const mh_generator *rng) { return rng->standard_normal(rng->bits); }

/* As Generator.integers(0, size): Lemire (2019), doi:10.1145/3230636. */
static inline int64_t mh_integer_below(const mh_generator *rng, int64_t size)
{
    if (size <= 1)
        return 0;
    if (size > UINT32_MAX)
        return (int64_t)rng->bounded_uint64(rng->bits, 0, (uint64_t)size - 1, 0, 0);
    const uint32_t below = (uint32_t)size;
    uint64_t product = (uint64_t)rng->bits->next_uint32(rng->bits->state) * below;
    if ((uint32_t)product < below) {
        const uint32_t least = (uint32_t)(-below) % below;
        while ((uint32_t)product < least)
            product = (uint64_t)rng->bits->next_uint32(rng->bits->state) * below;
    }
    return (int64_t)(product >> 32);
}

/* Whether an element is within its radius at both ends of a move: parts.c, candidates.c. */
static inline int mh_is_within(const mh_parts *parts, const mh_part_ends *ends, int64_t g)
{
    return mh_larger(fabs(ends->here[g]), fabs(ends->there[g])) <= parts->radii[g];
}

/* Have memory fetched that will be read and is likely not in a cache. */
static inline void mh_prefetch(const void *address) { __builtin_prefetch(address); }
static inline void mh_prefetch_line(const int8_t *line, int64_t size)
{
    for (int64_t j = 0; j < size; j += MH_CACHE_LINE)
        mh_prefetch(line + j);
}

/* Add those of one coordinate, or direction, of a move: a, a' and b. */
static inline void mh_add_products_of(double a, double other, double b, mh_products *out)
{
    out->here += a * a;
    out->there += other * other;
    out->step += b * b;
    out->along_here += a * b;
    out->along_there += other * b;
}

/* ---- The posterior, and rows that are read of it: posterior.c. ---- */

/* Rows evaluated in a move: their numbers, differences, and units of rounding errors. */
typedef struct mh_read {
    const mh_posterior *posterior;
    const mh_move *move;
    mh_arena *scratch;
    int64_t *rows;
    double *differences, *scales;
} mh_read;

mh_status mh_take_read(const mh_posterior *posterior, const mh_move *move, int64_t room,
                       mh_read *out, mh_arena *scratch);
/* Read drawn rows, which come term by term then; and the rows from `first` to `last`. */
mh_status mh_read_drawn(const mh_read *read, const int64_t *drawn, int64_t n);
mh_status mh_read_block(const mh_read *read, int64_t first, int64_t last);

/* A batch under way (looks.c): rows, moments of their differences, the heavy rows' change, and the
 * rows read in all. */
typedef struct mh_batch_so_far {
    mh_drawn drawn;
    mh_moments moments;
    double known;
    int64_t read;
} mh_batch_so_far;

/* Draw rows until the batch has `target` of them, read them, and compare them with the bounds of a
 * table, if there is one. */
mh_status mh_extend_batch(mh_chain *chain, mh_batch_so_far *batch, int64_t target,
                          const mh_table *table, double m, mh_counts *counts);
/* Change of all rows, of which those that the batch lacks are read; stored rows are all read anew. */
mh_status mh_read_rest(mh_chain *chain, mh_batch_so_far *batch, double *change);
/* Keep the ends of a move in which a row exceeded its bound by more than the largest before. */
void mh_keep_worst_move(mh_chain *chain, double largest, const mh_counts *counts);

/* min(1, exp(log_ratio)); a log ratio of NaN or -inf rejects. */
static inline double mh_chance_of(double log_ratio)
{
    return log_ratio > -INFINITY ? exp(mh_smaller(0.0, log_ratio)) : 0.0;
}

static inline double mh_prior_at(const mh_posterior *posterior, const double *position)
{
    return posterior->prior(position, posterior->rows.context);
}

/* Number of all rows, in memory or not. */
static inline int64_t mh_number_of_rows(const mh_posterior *posterior)
{
    const mh_supply *supply = &posterior->bounds.supply;
    return supply->room > 0 ? supply->n_rows : posterior->rows.term_starts[posterior->rows.n_terms];
}

/* Number of the row that lies in a place: in memory they are the same. */
static inline int64_t mh_number_of(const mh_supply *supply, int64_t place)
{
    return supply->room > 0 ? supply->rows[place] : place;
}

#endif
