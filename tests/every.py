"""A table of cases as one test, whose message names every case that fails."""

import inspect
from functools import wraps

import pytest

from nodes import cases_of

#: How a case fails; pytest's own failures are no exceptions of the ordinary kind.
FAILED = (Exception, pytest.fail.Exception)
#: Fixtures that hold what earlier cases left: a case would depend on those before it.
ACCUMULATING = {"rng", "caplog", "capsys", "capfd", "recwarn"}

#: The two items of a table with slow cases.
TIERS = pytest.mark.parametrize("tier", ["fast", pytest.param("slow", marks=pytest.mark.slow)])


def every(names, cases, ids=None):
    """Run a test for each case of a table, as one item. The cases of two tables are crossed.

    It is written as ``pytest.mark.parametrize`` is, and each case has a ``monkeypatch`` of its own.
    Cases that are marked slow are a second item, of the slow tier. `nodes.resolve` finds a single
    case by the id that it would have there.
    """
    given, cases = {} if ids is None else {"ids": ids}, [*cases]
    table = pytest.mark.parametrize(names, cases, **given).mark
    slow = [any(mark.name == "slow" for mark in getattr(case, "marks", ())) for case in cases]
    everything = cases_of(table)
    assert everything, "no cases"

    def decorate(test):
        wanted = inspect.signature(test).parameters
        shared = ACCUMULATING & {*wanted} - {*everything[0][1]}
        assert not shared, f"cases would share {sorted(shared)}: make one in each"

        @wraps(test)
        def run(**others):
            tier = others.pop("tier", "fast") if any(slow) else "fast"
            cases = zip(everything, slow, strict=True)
            rows, failed = [case for case, late in cases if late == (tier == "slow")], []
            for number, (name, row) in enumerate(rows):
                with pytest.MonkeyPatch.context() as patch:
                    own = {"monkeypatch": patch} if "monkeypatch" in wanted else {}
                    try:
                        test(**others, **row, **own)
                    except FAILED as error:
                        failed.append((f"{number}, {name}: {type(error).__name__}: {error}", error))
            if failed:
                told = "\n".join([f"{len(failed)} of {len(rows)} cases:", *(t for t, _ in failed)])
                raise AssertionError(told) from failed[0][1]

        left = [p for name, p in wanted.items() if name not in {*everything[0][1], "monkeypatch"}]
        if any(slow):
            left.append(inspect.Parameter("tier", inspect.Parameter.KEYWORD_ONLY))
            run = TIERS(run)
        run.__signature__ = inspect.Signature(left)
        run.tables = [*getattr(test, "tables", []), table]
        return run

    return decorate
