"""What every storage has to do, asked of each in its own file."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np

N = 20_000
#: Rows as passes and draws ask for them, and as nobody does but may.
REQUESTS = {
    "all": slice(None),
    "a block": slice(3_000, 11_500),
    "one": slice(7, 8),
    "the last": slice(N - 1, N),
    "none": slice(5, 5),
    "beyond the end": slice(N - 3, N + 10),
    "every third": slice(10, 9_000, 3),
    "one number": np.array([12_345]),
    "no numbers": np.array([], dtype=np.int64),
    "sorted": np.sort(np.random.default_rng(1).choice(N, 900, replace=False)),
    "unsorted with repeats": np.random.default_rng(2).integers(0, N, 3_000),
}


def arrays(n_rows=N):
    """Return arrays of several types, with numbers that float64 would change if it were cast."""
    rng = np.random.default_rng(3)
    return {
        "X": rng.standard_normal((n_rows, 3)).astype(np.float32),
        "t": rng.standard_normal(n_rows),
        "y": rng.integers(-5, 5, n_rows).astype(np.int16),
        "on": rng.random(n_rows) < 0.3,
    }


def assert_same(storage, expected):
    """Ask for rows in every way, of the storage and of its pickle."""
    for one in (storage, pickle.loads(pickle.dumps(storage))):
        assert one.n_rows == len(expected["X"])
        assert one.stamp == storage.stamp
        assert {name: (f.dtype, f.shape) for name, f in one.fields.items()} == {
            name: (x.dtype, x.shape[1:]) for name, x in expected.items()
        }
        for rows in REQUESTS.values():
            _assert_read(one, expected, rows)


def _assert_read(storage, expected, rows):
    found = storage.read(list(expected), rows)
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values[rows], strict=True)


def assert_same_from_two_threads(storage, expected):
    """Ask for rows in two threads at once, as passes do."""
    rng = np.random.default_rng(4)
    asked = [slice(first, first + 1_500) for first in range(0, len(expected["X"]), 700)]
    asked += [np.sort(rng.integers(0, len(expected["X"]), 400)) for _ in range(20)]
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(lambda rows: _assert_read(storage, expected, rows), asked):
            pass
