"""Digests tell all that can happen to an array, whatever its layout, in bounded memory."""

import tracemalloc
import zlib

import numpy as np
import pytest

from every import every
from pymc_minibatch_mh import threads
from pymc_minibatch_mh.data import Contents, contents, digest

RNG = np.random.default_rng(4)
#: More than one block, and its last block is cut short.
TALL = RNG.normal(size=(70_001, 3))
#: Numbers that a cyclic redundancy check cannot tell from 0 where they are added without carry.
UNSEEN_BY_THE_CHECK = np.uint64(0xEDB88320 << 1 | 1)


def changed(array, place, value):
    other = array.copy()
    other[place] = value
    return other


@every("dtype", ["float64", "float32", "int64", "int16", "int8", "bool"])
@every("row", [0, 1, 131_071, 131_072, 140_000, 210_002])
def test_a_single_number_that_changed_is_told(dtype, row):
    values = (TALL.ravel() > 0.0).astype(dtype)
    assert digest(changed(values, row, 1 - int(values[row]))) != digest(values)


def test_a_number_that_the_check_alone_would_miss_is_told():
    values = TALL[:100, 0].copy()
    other = values.copy()
    other.view(np.uint64)[17] ^= UNSEEN_BY_THE_CHECK
    assert zlib.crc32(other) == zlib.crc32(values)
    assert digest(other) != digest(values)


@every(
    "edit",
    [
        lambda x: -x,
        lambda x: 0.5 * x,
        lambda x: x[::-1],
        lambda x: np.roll(x, 1, axis=0),
        lambda x: np.roll(x, 50_000, axis=0),
        lambda x: x[np.r_[1, 0, 2 : len(x)]],
        lambda x: x[:, [1, 0, 2]],
        lambda x: np.where(np.arange(len(x))[:, None] < 2, -x, x),
    ],
    ids=[
        "sign", "scale", "reversed", "moved", "moved by blocks", "two rows", "two columns",
        "two signs",
    ],
)  # fmt: skip
def test_all_numbers_that_changed_are_told(edit):
    assert digest(edit(TALL)) != digest(TALL)


@every(
    "layout",
    [
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: np.ascontiguousarray(x[::-1])[::-1],
        lambda x: np.frombuffer(b"\0" + x.tobytes(), offset=1).reshape(x.shape),
    ],
    ids=["fortran", "rows apart", "columns apart", "reversed", "not aligned"],
)
def test_the_layout_makes_no_difference(layout):
    assert digest(layout(TALL)) == digest(TALL)
    wide = TALL.reshape(1, -1)
    assert digest(layout(wide)) == digest(wide)


def test_shapes_and_types_are_told():
    zeros = np.zeros(6)
    alike = [
        zeros, zeros.reshape(6, 1), zeros.reshape(3, 2), zeros.astype("int64"), zeros[:5],
        zeros[:1], zeros[:1].reshape(()), zeros[:0], zeros[:0].reshape(0, 3), zeros.astype(">f8"),
    ]  # fmt: skip
    assert len({digest(values) for values in alike}) == len(alike)


def test_digests_are_the_same_in_every_process_and_version():
    numbers = np.arange(300_001, dtype="int32")
    assert digest(np.arange(7.0)) == "ce8bd962bbb59416c5cb84dabc39117f"
    assert digest(numbers.reshape(-1, 1)) == "b85e131c24786310b2306b795b64a591"


def test_what_is_not_contiguous_is_read_in_little_memory(monkeypatch):
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    columns = np.asfortranarray(RNG.normal(size=(500_000, 4)))
    tracemalloc.start()
    try:
        digest(columns)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * contents.BLOCK < columns.nbytes / 3


def test_objects_have_no_digest():
    with pytest.raises(TypeError):
        digest(np.array([1.0, None], dtype=object))


def test_contents_are_equal_and_hash_equally_where_all_arrays_are():
    x, y = TALL[:, 0], np.arange(3)
    one, other = (Contents.of({"x": x.copy(), "y": y.copy()}.items()) for _ in range(2))
    assert one == other
    assert {one: "known"}[other] == "known"
    assert one.difference(other) == ""


@every(
    ("arrays", "name"),
    [
        ({"x": TALL, "y": TALL[:3]}, "y"),
        ({"x": -TALL, "y": TALL[:2]}, "x"),
        ({"x": TALL}, "y"),
        ({"x": TALL, "y": TALL[:2], "z": TALL}, "z"),
    ],
)
def test_contents_name_the_first_array_that_differs(arrays, name):
    own, other = Contents.of([("x", TALL), ("y", TALL[:2])]), Contents.of(arrays.items())
    assert own != other
    assert own.difference(other) == name
