import numpy as np
import pytest

from data.stored_rows import REQUESTS, N
from every import every
from pymc_minibatch_mh.data.arrays import common_length, native_type
from pymc_minibatch_mh.data.files import SourceFile
from pymc_minibatch_mh.data.parts import DecodedParts, gather
from pymc_minibatch_mh.errors import SettingError, SourceError


def test_rows_are_gathered_from_their_parts():
    edges = np.array([0, 1, 700, 701, 9_000, N])
    for rows in REQUESTS.values():
        asked = []

        def part(number, asked=asked):
            asked.append(number)
            return np.arange(edges[number], edges[number + 1])

        found = gather(rows, edges, np.empty(0, dtype=np.int64), part)
        np.testing.assert_array_equal(found, np.arange(N)[rows], strict=True)
        assert len(set(asked)) == len(asked)


@every("rows", [[-1], [N], [0, N + 5]])
def test_rows_that_are_not_there_are_not_read(rows):
    with pytest.raises(IndexError, match=f"are asked for among {N}"):
        gather(np.array(rows), np.array([0, 5, N]), np.empty(0), np.zeros)


def test_decoded_parts_are_dropped_when_there_is_no_room():
    parts, decoded = DecodedParts(3 * 80), []

    def part(key):
        decoded.append(key)
        return np.full(10, float(key))

    for key in [0, 1, 2, 0, 3, 0, 1]:
        assert parts.get(key, lambda key=key: part(key))[0] == key
        assert parts.nbytes <= 240
    # 1 was used longest ago when 3 came.
    assert decoded == [0, 1, 2, 3, 1]


def test_a_part_that_cannot_be_decoded_is_tried_again():
    parts = DecodedParts(1_000)
    with pytest.raises(ZeroDivisionError):
        parts.get(0, lambda: 1 / 0)
    assert parts.get(0, lambda: np.ones(2)).sum() == 2.0


def test_a_file_that_is_another_is_named():
    file = SourceFile("rows.npy", 100, 7)
    file.require_same(SourceFile("rows.npy", 100, 7))
    for found, message in [
        (None, "is no more"),
        (SourceFile("rows.npy", 1_050, 7), "has 1,050 bytes and had 100"),
        (SourceFile("rows.npy", 100, 8), "was written to"),
    ]:
        with pytest.raises(SourceError, match=rf"rows.npy {message}"):
            file.require_same(found)


def test_types_that_compiled_code_reads_are_told_from_others():
    for name in ("f4", "f8", ">f8", "i1", "u8", "?"):
        assert native_type("X", np.dtype(name)) == np.dtype(name).newbyteorder("=")
    for name in ("f2", "g", "c8", "M8[s]", "U1", "O"):
        with pytest.raises(SettingError, match="X has type"):
            native_type("X", np.dtype(name))


def test_lengths_have_to_be_one():
    assert common_length({"X": 3, "y": 3}) == 3
    for lengths in ({"X": 3, "y": 2}, {"X": 0}, {"X": 2, "y": 0}):
        with pytest.raises(SettingError):
            common_length(lengths)
