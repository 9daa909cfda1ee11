"""Millions of rows, and rows that are nowhere as a whole: the posterior, in little memory."""

from pathlib import Path

import pytest

from helpers.another_process import printed

HERE = Path(__file__).parent
#: Passes over all rows that a preparation makes at most, and rows that sampling reads.
PASSES, READ = 6, 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [8_000_000, 1_000_000_000])
def test_rows_that_are_made_where_they_are_read(n_rows):
    """They are sampled in less memory than one number of each takes."""
    # What malloc keeps for each thread is not what the rows take.
    figures = printed(HERE / "generated.py", n_rows, MALLOC_ARENA_MAX="1")
    assert figures["limited"]
    # 20,000 draws, in posterior standard deviations.
    assert figures["off"] < 0.05
    assert figures["width"] == pytest.approx([1.0, 1.0], abs=0.05)
    assert figures["passes"] < PASSES
    assert figures["read"] < READ
