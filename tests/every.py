"""A table of cases as one test, whose message names every case that fails."""

import inspect
from functools import wraps

import pytest

from nodes import cases_of

#: How a case fails; pytest's own failures are no exceptions of the ordinary kind.
FAILED = (Exception, pytest.fail.Exception)
#: Whether the cases of a tier are those that are marked slow.
TIERS = (("fast", False), ("slow", True))
SLOW = pytest.param("slow", marks=pytest.mark.slow)


def every(names, cases, ids=None):
    """Run a test for each case of a table, as one item. The cases of two tables are crossed.

    It is written as ``pytest.mark.parametrize`` is, and each case has a ``monkeypatch`` of its own.
    `nodes.resolve` finds a single case by the id that it would have there. Cases that are marked
    slow, as `tiers.fast` marks them, are an item of their own in the slow tier.
    """
    given, cases = {} if ids is None else {"ids": ids}, [*cases]
    table = pytest.mark.parametrize(names, cases, **given).mark
    known = list(zip(cases_of(table), (getattr(case, "marks", ()) for case in cases), strict=True))
    in_tier = {tier: [row for row, marks in known if bool(marks) is slow] for tier, slow in TIERS}
    assert in_tier["fast"], "no cases"

    def decorate(test):
        wanted = inspect.signature(test).parameters

        @wraps(test)
        def run(**others):
            rows = in_tier[others.pop("tier", "fast") if in_tier["slow"] else "fast"]
            failed = []
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

        own = {*in_tier["fast"][0][1], "monkeypatch"}
        left = [p for name, p in wanted.items() if name not in own]
        run.tables = [*getattr(test, "tables", []), table]
        if in_tier["slow"]:
            assert "tier" not in wanted, "slow cases in two tables"
            left.append(inspect.Parameter("tier", inspect.Parameter.KEYWORD_ONLY))
            run = pytest.mark.parametrize("tier", ["fast", SLOW])(run)
        run.__signature__ = inspect.Signature(left)
        return run

    return decorate
