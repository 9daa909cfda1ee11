"""A change point of some width is measured as the page of benchmarks has it."""

import pytest

from benchmarks.change_point import line


@pytest.mark.slow
def test_a_smooth_change_point_is_measured():
    level, width, tau, sd, *_ = map(float, line(5.0, 1.5, rows=4_000, draws=500).split()[:5])
    assert (level, width) == (1.5, 5.0)
    assert 30.0 < tau < 50.0
    assert sd < 3.0
