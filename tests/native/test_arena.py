"""Scratch memory: pieces lie apart, and what was given back is taken again."""

import os

import numpy as np
import pytest
from cffi import FFI

from pymc_minibatch_mh.native import compiler

#: What inside.h declares beside functions.h, for cffi.
INSIDE = """
typedef struct mh_block { struct mh_block *before; char *memory; int64_t room, used; } mh_block;
typedef struct mh_arena { mh_block *last; } mh_arena;
void *mh_take_bytes(mh_arena *arena, int64_t count, int64_t size);
int64_t mh_list_all(const int64_t *rows, int64_t n, int64_t total, int64_t *out, mh_arena *arena);
mh_arena *mh_arena_new(void);
void mh_arena_free(mh_arena *arena);
"""


@pytest.fixture
def arena():
    """Return the functions of arena.c, and an arena."""
    ffi = FFI()
    ffi.cdef(INSIDE)
    loaded = ffi.dlopen(str(compiler.build()))
    made = loaded.mh_arena_new()
    yield loaded, ffi, made
    loaded.mh_arena_free(made)


def address(ffi, pointer):
    return int(ffi.cast("uintptr_t", pointer))


@pytest.mark.parametrize("most", [10, 20_000])
def test_pieces_are_apart(arena, most):
    loaded, ffi, at = arena
    rng = np.random.default_rng(1)
    sizes = rng.integers(0, most, size=200).tolist()
    starts = [address(ffi, loaded.mh_take_bytes(at, size, 8)) for size in sizes]
    assert all(start > 0 and start % 16 == 0 for start in starts)
    pieces = sorted(zip(starts, sizes, strict=True))
    ends = [start + 8 * size for start, size in pieces]
    assert all(end <= start for end, (start, _) in zip(ends, pieces[1:], strict=False))


@pytest.mark.skipif(
    "MH_CHECKED" in os.environ.get("MH_CC_OPTIONS", ""), reason="each piece has a block of its own"
)
def test_what_was_given_back_is_taken_again(arena):
    loaded, ffi, at = arena
    loaded.mh_take_bytes(at, 3, 8)
    before = at.last, at.last.used
    # With less and more than the first block has.
    for total in (5, 1 << 20):
        assert loaded.mh_list_all(ffi.NULL, 0, total, ffi.new("int64_t[]", total), at) == 0
        assert (at.last, at.last.used) == before
