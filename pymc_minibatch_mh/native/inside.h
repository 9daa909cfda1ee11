/* What the files of the library share and Python does not see: scratch memory and inlined functions.
 * The others are declared in functions.h. */
#ifndef MH_INSIDE_H
#define MH_INSIDE_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "functions.h"
#include "mh.h"

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

/* ---- Scratch (arena.c): what was taken after a mark is given back at once. ---- */

typedef struct mh_mark {
    void *block;
    int64_t used;
} mh_mark;

/* Room for `count` things of a type, aligned for vectors, with undefined contents; NULL if there is
 * no memory. Zero things have an address too. */
#define mh_take(arena, count, type) ((type *)mh_take_bytes(arena, count, sizeof(type)))
void *mh_take_bytes(mh_arena *arena, int64_t count, int64_t size);
mh_mark mh_mark_of(const mh_arena *arena);
void mh_give_back(mh_arena *arena, mh_mark mark);

/* ---- What can fail. ---- */

/* Leave a function with the status of a call unless that is MH_OK, or without room that it needs. */
#define MH_TRY(call)                                                                               \
    do {                                                                                           \
        const mh_status mh_found = (call);                                                         \
        if (mh_found != MH_OK)                                                                     \
            return mh_found;                                                                       \
    } while (0)
#define MH_NEED(room) MH_TRY((room) ? MH_OK : MH_NO_MEMORY)

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

static inline double mh_inner(const double *a, const double *b, int64_t n)
{
    mh_wide wide[8 / MH_WIDE] = {{0.0}};
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int k = 0; k < 8 / MH_WIDE; k++)
            wide[k] += ((const mh_wide *)(a + j))[k] * ((const mh_wide *)(b + j))[k];
    double lanes[8];
    memcpy(lanes, wide, sizeof lanes);
    double total = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
                   ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
    for (; j < n; j++)
        total += a[j] * b[j];
    return total;
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

/* ---- Memory that will be read, likely not in a cache: asked for without waiting. ---- */

static inline void mh_prefetch(const void *address) { __builtin_prefetch(address); }

/* ---- The posterior. ---- */

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
