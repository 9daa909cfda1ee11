/* Scratch memory of a chain: a stack of blocks, the first of which is kept.
 *
 * With MH_CHECKED everything has a block of its own, so that AddressSanitizer sees its end. */
#include <stdlib.h>

#include "inside.h"

#ifdef MH_CHECKED
enum { FIRST = 0, ALIGNMENT = 16, GROWTH = 0 };
#else
enum { FIRST = 1 << 16, ALIGNMENT = 64, GROWTH = 2 };
#endif

typedef struct block {
    struct block *before;
    char *memory;
    int64_t room;
    int64_t used;
} block;

struct mh_arena {
    block *last;
};

static block *new_block(block *before, int64_t room)
{
    const int64_t start = (int64_t)(sizeof(block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    block *made = malloc((size_t)(start + room) + (GROWTH ? ALIGNMENT : 0));
    if (!made)
        return NULL;
    char *memory = (char *)made + start;
    if (GROWTH)
        memory += -(uintptr_t)memory % ALIGNMENT;
    *made = (block){before, memory, room, 0};
    return made;
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
    if (!arena)
        return;
    while (arena->last) {
        block *before = arena->last->before;
        free(arena->last);
        arena->last = before;
    }
    free(arena);
}

void *mh_take_bytes(mh_arena *arena, int64_t count, int64_t size)
{
    const int64_t bytes =
        GROWTH ? (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : count * size;
    block *last = arena->last;
    if (last->used + bytes > last->room || !GROWTH) {
        const int64_t more = GROWTH * last->room;
        last = new_block(last, bytes > more ? bytes : more);
        if (!last)
            return NULL;
        arena->last = last;
    }
    void *found = last->memory + last->used;
    last->used += bytes;
    return found;
}

mh_mark mh_mark_of(const mh_arena *arena) { return (mh_mark){arena->last, arena->last->used}; }

void mh_give_back(mh_arena *arena, mh_mark mark)
{
    while (arena->last != mark.block) {
        block *before = arena->last->before;
        free(arena->last);
        arena->last = before;
    }
    arena->last->used = mark.used;
}
