/* Scratch memory of a chain: a stack of blocks; the first block is never freed.
 *
 * With MH_CHECKED every allocation has its own block, so that AddressSanitizer detects overruns. */
#include <stdlib.h>

#include "inside.h"

#ifdef MH_CHECKED
enum { FIRST = 0, ALIGNMENT = 16, GROWTH = 0 };
#else
enum { FIRST = 1 << 16, ALIGNMENT = 64, GROWTH = 2 };
#endif

static mh_block *new_block(mh_block *before, int64_t room)
{
    const int64_t start = (int64_t)(sizeof(mh_block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    mh_block *made = malloc((size_t)(start + room) + (GROWTH ? ALIGNMENT : 0));
    if (!made)
        return NULL;
    char *memory = (char *)made + start;
    if (GROWTH)
        memory += -(uintptr_t)memory % ALIGNMENT;
    *made = (mh_block){before, memory, room, 0};
    return made;
}

void mh_free_down_to(mh_arena *arena, const mh_block *kept)
{
    while (arena->last != kept) {
        mh_block *before = arena->last->before;
        free(arena->last);
        arena->last = before;
    }
}

mh_arena *mh_arena_new(void)
{
    mh_arena *arena = malloc(sizeof *arena);
    if (arena && !(arena->last = new_block(NULL, FIRST))) {
        free(arena);
        return NULL;
    }
    return arena;
}

void mh_arena_free(mh_arena *arena)
{
    if (arena)
        mh_free_down_to(arena, NULL);
    free(arena);
}

void *mh_take_bytes(mh_arena *arena, int64_t count, int64_t size)
{
    const int64_t bytes =
        GROWTH ? (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : count * size;
    mh_block *last = arena->last;
    if (last->used + bytes > last->room || !GROWTH) {
        const int64_t more = GROWTH * last->room;
        last = new_block(last, bytes > more ? bytes : more);
        if (!last)
            return NULL;
        arena->last = last;
    }
    void *taken = last->memory + last->used;
    last->used += bytes;
    return taken;
}
