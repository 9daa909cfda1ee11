"""Draws, statistics and public names are those that were recorded."""

import json

import numpy as np
import pytest

from law.golden.combinations import COMBINATIONS
from law.golden.record import SURFACE, drawn, stored, surface


def assert_same(found, expected, rounding=1e-9):
    """Compare up to the rounding of another processor."""
    assert expected.keys() <= found.keys()
    # Statistics may be newer than the record: they are on the surface.
    assert all(name.startswith("statistic.") for name in found.keys() - expected.keys())
    for name, values in expected.items():
        close = {"rtol": rounding, "atol": rounding, "err_msg": name}
        np.testing.assert_allclose(found[name], values, **close)


#: Ways that differ from another one in a driver, a family of rows or a storage alone: nightly.
LATER = (
    "tuna in PyMC", "firefly in PyMC", "firefly, untuned", "penalty in PyMC",
    "austere of raw differences", "hierarchy, barker", "shape near infinity", "softmax", "mixture",
    "zero-inflated", "ordered", "kinks", "influential rows, batches", "laplace",
    "noncentred hierarchy in its own coordinates", "rows in files, batches", "rows in chunks",
    "rows in a table", "rows of a cluster", "slopes by elements", "scalable",
)  # fmt: skip
#: Methods with the kernels of another.
SAME_KERNELS = {"ScalableSubsamplingMH": "TunaMH", "FactorizedMH": "TunaMH"}
#: The kernels of one method are compiled by one worker.
WAYS = [
    pytest.param(
        name,
        marks=[
            pytest.mark.xdist_group(f"golden {SAME_KERNELS.get(way.method, way.method)}"),
            *[pytest.mark.slow] * (name in LATER),
        ],
    )
    for name, way in COMBINATIONS.items()
]


@pytest.mark.parametrize("name", WAYS)
def test_draws_are_those_that_were_recorded(name, tmp_path):
    way = COMBINATIONS[name]
    assert_same(drawn(way, tmp_path), stored(name), way.rounding)


def test_names_settings_and_statistics_are_those_that_were_recorded():
    words = "PYTHONPATH=.:tests:examples python -m law.golden.record surface writes what is new"
    assert surface() == json.loads(SURFACE.read_text(encoding="utf-8")), words


def test_a_draw_that_changed_is_noticed():
    expected = stored("tuna")
    for name, values in expected.items():
        if values.dtype == np.float64:
            other = values.copy()
            other.flat[-1] += 1e-8 * max(1.0, abs(other.flat[-1]))
            with pytest.raises(AssertionError, match=name):
                assert_same(expected | {name: other}, expected)
