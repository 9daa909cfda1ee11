"""Sections of labelled values, as plain text and as an HTML table."""

import textwrap
from dataclasses import dataclass
from html import escape

#: Columns of a terminal, and of the labels in it at most.
WIDTH, LABELS = 88, 26


@dataclass(frozen=True)
class Section:
    """A titled part of a sheet.

    Parameters
    ----------
    title
        Its heading.
    lines
        Labels and values.
    """

    title: str
    lines: tuple[tuple[str, str], ...]


def as_text(sections: tuple[Section, ...]) -> str:
    """Return sections as plain text, values in one column and wrapped."""
    labels = [len(label) for section in sections for label, _ in section.lines]
    indent = 2 + min(max(labels, default=0), LABELS) + 2
    out = []
    for section in sections:
        out.append(section.title)
        for label, value in section.lines:
            head = f"  {label}".ljust(indent)
            wrapped = textwrap.wrap(
                value, max(WIDTH - indent, 1), break_long_words=False, break_on_hyphens=False
            )
            # A label that is too long for its column has a line of its own.
            first = [head] if len(head) > indent or not wrapped else [head + wrapped.pop(0)]
            out += [line.rstrip() for line in first]
            out += [" " * indent + line for line in wrapped]
    return "\n".join(out)


def as_html(sections: tuple[Section, ...]) -> str:
    """Return sections as one HTML table; every text is escaped."""
    rows = []
    for section in sections:
        rows.append(
            f'<tr><th colspan="2" style="text-align:left">{escape(section.title)}</th></tr>'
        )
        rows += [
            f'<tr><td style="text-align:left">{escape(label)}</td>'
            f'<td style="text-align:left">{escape(value)}</td></tr>'
            for label, value in section.lines
        ]
    return f"<table>{''.join(rows)}</table>"


def figure(value: float) -> str:
    """Return three significant digits, without an exponent where that is short."""
    if value == 0.0 or 1e-3 <= abs(value) < 999.5:
        return f"{value:.3g}"
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e9 else f"{value:.2e}"
