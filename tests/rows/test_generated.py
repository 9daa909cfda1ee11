"""Rows that exist nowhere as a whole are sampled in less memory than one number of each takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("generated.py")
#: Passes over all rows that a preparation makes at most, and rows that sampling reads.
PASSES, READ = 6, 1_000_000
#: What malloc keeps for each thread is not what the rows take.
ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}


@pytest.mark.parametrize(
    "n_rows",
    [8_000_000, pytest.param(1_000_000_000, marks=pytest.mark.slow)],
)
def test_rows_that_are_made_where_they_are_read(n_rows):
    command = [sys.executable, "-W", "ignore", SCRIPT, str(n_rows)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | ONE_ARENA
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert figures["limited"]
    # 20,000 draws, in posterior standard deviations.
    assert figures["off"] < 0.05
    assert figures["width"] == pytest.approx([1.0, 1.0], abs=0.05)
    assert figures["passes"] < PASSES
    assert figures["read"] < READ
