"""Interrupted and killed processes: no hang, no orphan, and the draws so far."""

from pathlib import Path

import pytest

from helpers.another_process import printed
from helpers.recording import record
from robustness.endurance.signals import CORES, DRAWS, TUNE

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("signals.py")
SEED = 20_260_304
INTERRUPTS = 200
#: Seconds after which the whole script counts as hanging.
HANGS = 3_600
#: Functions that Python calls where an exception has nobody to go to.
FINALISERS = ("__del__", "__call__", "_releaseLock", "on_disposal")


def test_interrupts_leave_draws_and_nothing_else():
    results = printed(SCRIPT, INTERRUPTS, SEED, timeout=HANGS)
    assert len(results) == INTERRUPTS
    begun = [r for r in results if sum(r.get("recorded", [0])) > 0]
    whole = [r for r in begun if sum(r["recorded"]) == CORES * (TUNE + DRAWS)]
    cut = [r for r in begun if r["expected"] and r not in whole]
    # A quick machine may be done before the interrupt comes.
    late = [r for r in whole if not r["places"]]
    dropped = [r for r in whole if r["places"]]
    broken = [r for r in cut if r["error"]]
    kept = [r for r in cut if not r["error"] and r["alike"]]
    # PyMC ends its workers where it is done with them, but not yet where it creates them: those
    # then wait until the program ends, as its daemons.
    waiting = [r for r in results if r.get("workers") and r["creating"]]
    record(
        "robustness/endurance",
        "interrupts (SIGINT)",
        asked=f"{INTERRUPTS} at random moments of sampling with {CORES} processes: no hang, no "
        "orphan, the draws kept",
        measured=f"{sum(r['hangs'] for r in results)} hangs, "
        f"{sum(r['orphans'] for r in results)} orphans ({len(waiting)} fell where PyMC creates its "
        "workers, which wait for the program to end); draws kept, as those of an uninterrupted "
        f"run, in {len(kept)} of {len(cut)} that fell among draws ({len(broken)} broke PyMC's own "
        f"record of a draw); {len(begun) - len(cut) - len(whole)} fell in warm-up, "
        f"{len(results) - len(begun)} before it, {len(late)} after the last draw, and Python "
        f"dropped {len(dropped)} in a finaliser",
        seed=SEED,
    )
    hanging = [r for r in results if r["hangs"] or r["orphans"] or r["workers"]]
    assert [r for r in hanging if r not in waiting] == []
    assert not any(r["hangs"] or r["orphans"] for r in waiting)
    assert len(waiting) <= INTERRUPTS // 50
    assert len(cut) > INTERRUPTS // 2
    assert len(kept) + len(broken) == len(cut)
    # PyMC records a draw by a compiled function, in which an interrupt becomes a SystemError.
    assert len(broken) <= INTERRUPTS // 50
    assert all("SystemError" in r["error"] and "record" in r["places"][0] for r in broken)
    # Python drops what is raised in a finaliser or while it forks; the run goes on to its end.
    assert all(any(name in r["places"][0] for name in FINALISERS) for r in dropped)
    assert all(r["alike"] and not r["error"] for r in whole)
    for result in kept:
        # The interrupt may fall between a draw's record and its count.
        assert abs(result["kept"] - result["expected"]) <= CORES
