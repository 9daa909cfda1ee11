"""Ten million rows: the right posterior, in memory that the rows explain."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("memory.py")
MANY = 10_000_000
#: Largest growth of memory, in numbers of 8 bytes a row. The model's own copy of the counts is
#: one, and an array of one number a row in the model's own log-density is another.
NUMBERS = {"PenaltyMH": 10, "TunaMH": 10}


@pytest.mark.slow
@pytest.mark.parametrize("method", NUMBERS)
def test_ten_million_rows_in_order(method):
    run = subprocess.run(
        [sys.executable, "-W", "ignore", SCRIPT, method, str(MANY)],
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(run.stdout)
    assert figures["seen"]
    assert figures["small"]
    assert not figures["half_small"]
    assert figures["mib"] < NUMBERS[method] * 8 * MANY / 2**20
