/* Declarations that C files share but Python does not use: scratch memory, inlined functions. Other
 * shared functions are declared in functions.h. */
#ifndef MH_INSIDE_H
#define MH_INSIDE_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "functions.h"
#include "leaves.h"

/* MH_BLOCK: rows evaluated at once in an update; MH_AHEAD: candidates whose memory is prefetched
 * before the first is used; MH_CACHE_LINE: bytes of a cache line. */
enum { MH_BLOCK = 2048, MH_AHEAD = 256, MH_CACHE_LINE = 64 };

static inline int64_t mh_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t mh_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* max(a, b) and min(a, b) as in Python, a if either is NaN; faster than calls of fmax and fmin. */
static inline double mh_larger(double a, double b) { return b > a ? b : a; }
static inline double mh_smaller(double a, double b) { return b < a ? b : a; }

static inline double mh_square(double x) { return x * x; }
static inline double mh_cube(double x) { return x * x * x; }

static inline void mh_copy_to(double *to, const double *from, int64_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

static inline void mh_add_times(double *to, double factor, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

static inline void mh_fill(double *to, int64_t n, double value)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = value;
}

/* Index of a second derivative in the outputs of a row: value, gradient, Hessian. */
static inline int64_t mh_second(int64_t m, int64_t a, int64_t b)
{
    const int64_t low = mh_min(a, b), high = mh_max(a, b);
    return 1 + m + low * m - low * (low - 1) / 2 + high - low;
}

/* Bisection: `low` becomes the last index before `high` at which the condition on `middle` holds; it
 * must hold at all indices before that. */
#define MH_BISECT(low, high, condition)                                                            \
    while (high - low > 1) {                                                                       \
        const int64_t middle = (low + high) / 2;                                                   \
        if (condition)                                                                             \
            low = middle;                                                                          \
        else                                                                                       \
            high = middle;                                                                         \
    }

/* ---- Scratch memory (arena.c): all allocations after a mark are freed together. ---- */

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

/* Allocate `count` objects of a type, aligned for vectors and uninitialised; NULL if memory runs
 * out. Zero objects also get a valid address. */
#define mh_take(arena, count, type) ((type *)mh_take_bytes(arena, count, sizeof(type)))
void *mh_take_bytes(mh_arena *arena, int64_t count, int64_t size);
void mh_free_down_to(mh_arena *arena, const mh_block *kept);
static inline void mh_give_back(const mh_mark *mark)
{
    if (mark->arena->last != mark->block)
        mh_free_down_to(mark->arena, mark->block);
    mark->block->used = mark->used;
}

/* Free all scratch memory that is allocated from here on at the end of the enclosing block. */
#define MH_SCOPE(arena) MH_SCOPE_OF(arena, __LINE__)
#define MH_SCOPE_OF(arena, line) MH_SCOPE_AT(arena, line)
#define MH_SCOPE_AT(arena, line)                                                                   \
    const mh_mark mh_scope_##line __attribute__((cleanup(mh_give_back))) = {                       \
        arena, (arena)->last, (arena)->last->used}

/* ---- Errors. ---- */

/* Return the status of a call if it is not MH_OK; return MH_NO_MEMORY if an allocation failed. */
#define MH_TRY(call)                                                                               \
    do {                                                                                           \
        const mh_status mh_result = (call);                                                         \
        if (mh_result != MH_OK)                                                                     \
            return mh_result;                                                                       \
    } while (0)
#define MH_NEED(room) MH_TRY((room) ? MH_OK : MH_NO_MEMORY)
/* Allocate a vector in scratch memory, or return MH_NO_MEMORY. */
#define MH_VECTOR(type, name, arena, count)                                                        \
    type *name = mh_take(arena, count, type);                                                      \
    MH_NEED(name)

/* ---- Sums in a fixed order: eight side by side, so that all compilers and processors round alike.
 *      Functions for long sums are in leaves.c. ---- */

/* Number of sums, out of eight, per SIMD register. Vector types are explicit, because compilers do
 * not vectorise every plain loop. */
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

/* Generator.integers(0, size) of NumPy: Lemire (2019), doi:10.1145/3230636. */
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

/* Whether a level is within its radius at both ends of a move: parts.c, candidates.c. */
static inline int mh_is_within(const mh_parts *parts, const mh_part_ends *ends, int64_t g)
{
    return mh_larger(fabs(ends->here[g]), fabs(ends->there[g])) <= parts->radii[g];
}

/* Prefetch memory that is probably in no cache yet. */
static inline void mh_prefetch(const void *address) { __builtin_prefetch(address); }
static inline void mh_prefetch_line(const int8_t *line, int64_t size)
{
    for (int64_t j = 0; j < size; j += MH_CACHE_LINE)
        mh_prefetch(line + j);
}

/* Add squares and products of a, a' and b = a' - a, a proposal's components along a direction. */
static inline void mh_add_products_of(double a, double other, double b, mh_products *out)
{
    out->here += a * a;
    out->there += other * other;
    out->step += b * b;
    out->along_here += a * b;
    out->along_there += other * b;
}

/* ---- The posterior, and evaluation of its rows: posterior.c. ---- */

/* Rows evaluated in a proposal: row numbers, differences, and scales of their rounding errors. */
typedef struct mh_read {
    const mh_posterior *posterior;
    const mh_move *move;
    mh_arena *scratch;
    int64_t *rows;
    double *differences, *scales;
} mh_read;

mh_status mh_take_read(const mh_posterior *posterior, const mh_move *move, int64_t room,
                       mh_read *out, mh_arena *scratch);
/* Evaluate drawn rows, sorted by term; or the rows from `first` up to, but excluding, `last`. */
mh_status mh_read_drawn(const mh_read *read, const int64_t *drawn, int64_t n);
mh_status mh_read_block(const mh_read *read, int64_t first, int64_t last);

/* A growing batch (looks.c): its rows and the moments of their differences; `known`: change of the
 * influential rows; `read`: number of all rows evaluated so far. */
typedef struct mh_batch_so_far {
    mh_drawn drawn;
    mh_moments moments;
    double known;
    int64_t read;
} mh_batch_so_far;

/* Extend a batch to `target` rows, evaluate these, and compare them with the bounds of a table, if
 * one is given. */
mh_status mh_extend_batch(mh_chain *chain, mh_batch_so_far *batch, int64_t target,
                          const mh_table *table, double m, mh_counts *counts);
/* Write the change of all rows; evaluate rows outside the batch or, for stored data, all rows. */
mh_status mh_read_rest(mh_chain *chain, mh_batch_so_far *batch, double *change);
/* Store the proposal in worst_move if its ratio to a bound is above 1 and above `largest`. */
void mh_keep_worst_move(mh_chain *chain, double largest, const mh_counts *counts);

/* min(1, exp(log_ratio)); 0 if the log ratio is NaN or -inf */
static inline double mh_chance_of(double log_ratio)
{
    return log_ratio > -INFINITY ? exp(mh_smaller(0.0, log_ratio)) : 0.0;
}

static inline double mh_prior_at(const mh_posterior *posterior, const double *position)
{
    return posterior->prior(position, posterior->rows.context);
}

/* Number of all rows, in memory or stored. */
static inline int64_t mh_number_of_rows(const mh_posterior *posterior)
{
    const mh_supply *supply = &posterior->bounds.supply;
    return supply->room > 0 ? supply->n_rows : posterior->rows.term_starts[posterior->rows.n_terms];
}

/* Row number of a buffer slot; for data in memory the slot is the row number. */
static inline int64_t mh_number_of(const mh_supply *supply, int64_t place)
{
    return supply->room > 0 ? supply->rows[place] : place;
}

#endif
