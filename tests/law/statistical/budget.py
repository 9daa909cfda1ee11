"""What random tests may cost: how often a run of the fast tests would fail without a fault.

Seeds are fixed, so that a run fails always or never. The budget says how likely it is that a
change of seeds, of versions or of the order of random numbers makes a right sampler fail.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import norm

#: Smallest accepted p-value of one comparison.
LEVEL = 4e-7
#: Largest accepted distance of one comparison in standard errors, and the chance to exceed it.
FAR = 5.0
FAR_LEVEL = 2.0 * float(norm.sf(FAR))
#: The same of slow tests that compare very much.
VERY_FAR = 6.2
VERY_FAR_LEVEL = 2.0 * float(norm.sf(VERY_FAR))
#: Largest chance that the comparisons of one trace fail, which tests assert of their own noise.
TRACE_LEVEL = 1e-5
#: Largest chance that any of the fast tests fails.
BUDGET = 1e-3


@dataclass(frozen=True)
class Random:
    """A random test: comparisons that it makes in a run of all its cases, and their level."""

    test: str
    comparisons: int
    level: float
    what: str

    @property
    def alarm(self):
        """Chance that one of the comparisons fails without a fault, by the union bound."""
        return self.comparisons * self.level


#: By their lines: comparisons, the level of each, the test, and what it compares.
LINE = re.compile(r"(\d+) at (\S+): (\S+) \| (.+)")


def random_of(line):
    """Return a line's test; its level is a name of this module, or a number."""
    comparisons, level, test, what = LINE.fullmatch(line).groups()
    return Random(test, int(comparisons), globals().get(level) or float(level), what)


LINES = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
RANDOM = [*map(random_of, LINES)]
