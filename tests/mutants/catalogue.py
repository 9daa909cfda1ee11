"""Plausible mistakes in the shipped code, and the test that kills each of them.

``catalogue.txt`` has two lines for each: its name and the claim that it breaks; the end of the full
name of the function that is changed, the change, and the killer. A change is
``pattern -> replacement``, or another operator of :mod:`mutants.pattern` and a pattern; ``&&``
joins several, and ``every`` changes all nodes that match. A star marks the mutants of the fast
tier: they decide whether chains are exact, and take about a second each. Others are slow tests.
"""

from dataclasses import dataclass
from pathlib import Path

from mutants.pattern import Replace, always, drop, left, never, right

OPERATORS = {f.__name__: f for f in (always, drop, left, never, right)}


@dataclass(frozen=True)
class Mutant:
    """A mistake: what it breaks, the changes that make it, and the test that fails under it."""

    name: str
    breaks: str
    target: str
    changes: tuple[Replace, ...]
    killer: str
    slow: bool


def change_of(text):
    if " -> " not in text:
        operator, _, pattern = text.partition(" ")
        return OPERATORS[operator](pattern)
    old, new = text.removeprefix("every ").replace("\\n", "\n").split(" -> ")
    return Replace(old, new, every=text.startswith("every "))


def mutant_of(head, body):
    name, breaks = head.removeprefix("* ").split(": ", 1)
    target, rest = body.strip().split(": ", 1)
    changes, killer = rest.rsplit(" | ", 1)
    made = tuple(map(change_of, changes.split(" && ")))
    return Mutant(name, breaks, target, made, killer, slow=not head.startswith("* "))


LINES = Path(__file__).with_name("catalogue.txt").read_text(encoding="utf-8").splitlines()
LINES = [line for line in LINES if line and not line.startswith("# ")]
EDITED = [mutant_of(*pair) for pair in zip(LINES[::2], LINES[1::2], strict=True)]
