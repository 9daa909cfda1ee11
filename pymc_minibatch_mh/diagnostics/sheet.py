"""Sheets of facts: sections of labels and values, as text in a terminal and as HTML in a notebook.

A fact is a row (section, label, value); other modules supply lines of labels and values.
"""

from collections.abc import Iterable
from html import escape
from io import StringIO
from itertools import groupby
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Width of a sheet and of its labels, in characters.
WIDTH, LABELS = 88, 23


class Fact(NamedTuple):
    """One line of a sheet; consecutive facts of a section share its title."""

    section: str
    label: str
    value: str


class Sheet(NamedTuple):
    """Facts, shown as one table for each section."""

    facts: tuple[Fact, ...]

    def __repr__(self) -> str:
        """Plain text in a fixed width."""
        console = Console(file=StringIO(), width=WIDTH, color_system=None, force_jupyter=False)
        with console.capture() as captured:
            for title, facts in groupby(self.facts, key=lambda fact: fact.section):
                if title:
                    console.print(Text(title))
                table = Table.grid(padding=(0, 2, 0, 0))
                table.add_column(width=LABELS)
                table.add_column(overflow="fold")
                for _, label, value in facts:
                    table.add_row(Text(f"  {label}" if title else label), Text(value))
                console.print(table)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def _repr_html_(self) -> str:
        """The same text for notebooks, with markup escaped."""
        return f"<pre>{escape(str(self))}</pre>"


def sheet_section(title: str, lines: Iterable[tuple[str, str]]) -> list[Fact]:
    """Facts of a section; lines without a value are left out."""
    return [Fact(title, label, value) for label, value in lines if value]


def format_figure(value: float) -> str:
    """Three significant digits, without an exponent up to a billion."""
    if value == 0.0 or 1e-3 <= abs(value) < 999.5:
        return f"{value:.3g}"
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e9 else f"{value:.2e}"


def format_duration(seconds: float) -> str:
    """Seconds, minutes or hours to two digits."""
    for unit, length in (("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{float(f'{seconds / length:.2g}'):,g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"
