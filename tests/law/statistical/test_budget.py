"""All random tests of the fast tier together hardly ever fail without a fault."""

import re

from helpers.nodes import TESTS, exists
from law.statistical.budget import BUDGET, RANDOM

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


def test_a_level_of_one_in_ten_thousand_would_not_do():
    assert sum(1e-4 * random.comparisons for random in RANDOM) > BUDGET
