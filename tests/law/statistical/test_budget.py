"""All random tests of the fast tier together hardly ever fail without a fault."""

import json
import re
from pathlib import Path

from helpers.models import FAMILIES
from helpers.nodes import TESTS, exists
from law.statistical.budget import BUDGET, RANDOM
from law.statistical.test_families import QUICK

#: What brings a level into a test module.
LEVELS = re.compile(r"from law\.statistical\.(?:budget|comparison) import")


def counted():
    return {random.test.split("::")[0] for random in RANDOM}


def test_false_alarms_stay_within_the_budget():
    assert sum(random.alarm for random in RANDOM) <= BUDGET


def test_random_tests_are_there_and_named_once():
    assert [random.test for random in RANDOM if not exists(random.test)] == []
    assert len({random.test for random in RANDOM}) == len(RANDOM)


def test_every_module_with_a_level_is_counted():
    modules = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("test_*.py")
        if LEVELS.search(path.read_text(encoding="utf-8"))
    }
    assert modules - {"law/statistical/test_budget.py"} <= counted()


def test_as_many_moments_are_counted_as_families_have():
    folder = Path(__file__).parent
    stored = json.loads((folder / "family_references.json").read_text())["models"]
    fast = [name for name in FAMILIES if name in QUICK]
    means_and_sds = 2 * sum(len(stored[name]) for name in fast)
    other_ways = 5 * 2 * sum(len(stored[name]) for name in ("bernoulli_logit", "student_fixed"))
    by_test = {random.test: random.comparisons for random in RANDOM}
    prefix = "law/statistical/test_families.py::"
    assert means_and_sds <= by_test[f"{prefix}test_posterior_is_that_of_nuts"]
    assert other_ways <= by_test[f"{prefix}test_the_other_ways_are_as_exact"]


def test_a_level_of_one_in_ten_thousand_would_not_do():
    assert sum(1e-4 * random.comparisons for random in RANDOM) > BUDGET
