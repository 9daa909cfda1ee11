"""Interrupted and killed processes: no hang, no orphan, and the draws so far."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from endurance.signals import CORES, DRAWS, TUNE
from recording import record

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("signals.py")
SEED = 20_260_304
INTERRUPTS, KILLS = 200, 12
#: Seconds after which the whole script counts as hanging.
HANGS = 3_600
#: Functions that Python calls where an exception has nobody to go to.
FINALISERS = ("__del__", "__call__", "_releaseLock", "finalize")
TOO_EARLY = "ValueError: Not enough samples to build a trace."


def rounds_of(kind, rounds):
    command = [sys.executable, str(SCRIPT), kind, str(rounds), str(SEED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert len(results) == rounds
    return results


def test_interrupts_leave_draws_and_nothing_else():
    results = rounds_of("interrupt", INTERRUPTS)
    begun = [r for r in results if sum(r.get("recorded", [0])) > 0]
    kept = [r for r in begun if r["kept"]]
    lost = [r for r in begun if sum(r["recorded"]) == CORES * (TUNE + DRAWS)]
    record(
        "endurance",
        "interrupts (SIGINT)",
        asked=f"{INTERRUPTS} at random moments of sampling with {CORES} processes: no hang, no "
        "orphan, the draws kept",
        measured=f"{sum(r['hangs'] for r in results)} hangs, "
        f"{sum(r['orphans'] for r in results)} orphans; "
        f"{len(kept) - len(lost)} cut the draws, of which those kept are the uninterrupted run's "
        f"in {sum(r['alike'] for r in kept) - len(lost)}; {len(begun) - len(kept)} fell in "
        f"warm-up, {len(results) - len(begun)} before it; {len(lost)} lost in a finaliser",
        seed=SEED,
    )
    assert not any(r["hangs"] or r["orphans"] for r in results)
    assert len(kept) > INTERRUPTS // 4
    # Python drops what is raised in a finaliser; such a run goes on to its end.
    assert len(lost) <= INTERRUPTS // 20
    assert all(any(name in r["places"][0] for name in FINALISERS) for r in lost)
    for result in begun:
        assert result["workers"] == 0
        assert result["alike"]
        # The interrupt may fall between a draw's record and its count.
        assert abs((result["kept"] or 0) - (result["expected"] or 0)) <= CORES
        assert result["error"] == "" if result["kept"] else result["error"] == TOO_EARLY


def test_a_killed_worker_is_an_error():
    results = rounds_of("kill", KILLS)
    errors = sorted({r["error"].split(":")[0] for r in results})
    record(
        "endurance",
        "killed workers (SIGKILL)",
        asked=f"{KILLS} at random draws: an error, no hang, no orphan",
        measured=f"{sum(bool(r['error']) for r in results)} errors ({', '.join(errors)}), "
        f"{sum(r['hangs'] for r in results)} hangs, {sum(r['orphans'] for r in results)} orphans",
        seed=SEED,
    )
    assert not any(r["hangs"] or r["orphans"] or r["workers"] for r in results)
    assert all(r["error"] for r in results)
