"""The record of what is known of a model before it is sampled."""

import textwrap
from dataclasses import dataclass
from html import escape
from math import isfinite, isnan

from pymc_minibatch_mh.diagnostics.forecast.records import (
    Approximate,
    BoundTable,
    Certificate,
    DataArray,
    Forecast,
    InCoordinates,
    Memory,
    NotSubsampled,
    NutsForecast,
    NutsUntimed,
    SubsampledTerm,
)
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.report import LargeDeterministic, size_in_words

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


def verdict(recommended: str, reason: str, refused: str, n_rows: int, size: int) -> Section:
    """Return what to sample with, and why."""
    lines = [("recommended", recommended), ("because", reason)]
    if refused:
        lines.append(("refused", refused))
    lines.append(("rows and dimensions", f"N = {n_rows:,}, d = {size:,}"))
    return Section("Explanation", tuple(lines))


def subsampled(terms: tuple[SubsampledTerm, ...]) -> Section:
    """Return what is subsampled."""
    lines = []
    for term in terms:
        lines.append((term.name, f"{term.n_rows:,} rows"))
        if term.arguments:
            lines.append(("", f"a row depends on {'; '.join(term.arguments)}"))
        if term.not_apart:
            lines.append(("", f"not taken apart: {term.not_apart}"))
        lines += [("", f"reads {_array(array)}") for array in term.arrays]
    return Section("Subsampled", tuple(lines) or (("nothing", ""),))


def _array(array: DataArray) -> str:
    shape = f"[{', '.join(map(str, array.row_shape))}]" if array.row_shape else ""
    return f"{array.name}: {array.dtype}{shape}, {array.bytes_per_row:,} bytes a row"


def not_subsampled(others: tuple[NotSubsampled, ...]) -> Section:
    """Return what is not subsampled, and why."""
    lines = tuple((other.name, other.reason) for other in others)
    return Section("Not subsampled", lines or (("nothing", ""),))


def coordinates(found: tuple[InCoordinates, ...]) -> Section:
    """Return what the chain moves in the place of the model's own variables."""
    lines = [
        (one.name, one.refused or f"moved as {one.words}, and mapped back in every draw")
        for one in found
    ]
    return Section("Coordinates", tuple(lines))


def expansion(order: int, reason: str, centre: str) -> Section:
    """Return the order of the control variates, and why, and what they are expanded around."""
    return Section("Control variates", (("order", f"{order}: {reason}"), ("centre", centre)))


def moves(scales: tuple[str, ...]) -> Section:
    """Return what moves of a hierarchy are drawn by."""
    names = ", ".join(scales)
    return Section("Moves", (("proposal", f"all else is drawn as normal given {names}"),))


def certificate(found: Certificate) -> Section:
    """Return whether draws are exact, and by which bounds."""
    lines = [("guarantee", found.guarantee)]
    lines.append(("certified" if found.certified else "not certified", found.reason))
    lines += [(f"table {k + 1}", _table(table)) for k, table in enumerate(found.tables)]
    if found.n_heavy:
        others = "batches are drawn from all others"
        if found.tables:
            others = f"C = {figure(min(table.drawn for table in found.tables))} of all others"
        lines.append(("heavy rows", f"{found.n_heavy:,} are read at every update; {others}"))
    if found.tables:
        lines.append(("remainder", f"of order {found.order}"))
    if not isnan(found.looseness):
        lines.append(("looseness", f"{found.looseness:.2f} times the bounds of zero radius"))
    return Section("Exactness", tuple(lines))


def _table(table: BoundTable) -> str:
    region = "everywhere"
    if isfinite(table.radius):
        region = (
            f"within {table.radius:.2f} posterior sds of the centre, which a normal posterior "
            f"leaves with probability {table.left_with_probability:.0e}"
        )
    return f"C = Σ c_i = {figure(table.total)} {region}; {table.kind}"


def forecast(method: str, found: Forecast) -> Section:
    """Return what the pilot has shown."""
    count = found.updates_per_draw
    per_draw = "one update" if count == 1 else f"{count:,} updates"
    lines = [
        (
            "rests on",
            f"a pilot of {found.draws:,} draws after {found.tune:,} of warm-up, {per_draw} a draw",
        ),
        ("rows per update", f"{figure(found.rows_per_update)} ± {figure(found.rows_error)}"),
        ("acceptance", _acceptance(found)),
        ("updates on all rows", f"{found.full_pass_share:.1%}"),
        ("time per update", f"{figure(found.microseconds_per_update)} µs"),
        (
            "effective draws",
            f"{found.ess:,.0f} of {found.draws:,} for {found.worst}, the worst coordinate; twice "
            f"those of each half: {found.ess_low:,.0f} and {found.ess_high:,.0f}",
        ),
        ("effective draws a second", figure(found.ess_per_second)),
        *_in_blocks(found),
        ("memory", _memory(found.memory)),
        ("preparation", _preparation(found.preparation_seconds)),
    ]
    if found.held:
        lines.append(
            (
                "held still",
                f"{', '.join(found.held)}: other steps move them, and read all rows whenever they "
                "do, which is in none of these figures",
            )
        )
    if found.warning:
        lines.append(("warning", found.warning))
    return Section(f"Forecast of {method}", tuple(lines))


def approximate(found: Approximate) -> Section:
    """Return what the pilot of an approximate step has shown."""
    section = forecast(found.method, found.forecast)
    instead = ("approximate", "its draws are near the posterior; the step is approximate.step")
    return Section(section.title, (instead, *section.lines))


def _acceptance(found: Forecast) -> str:
    rate = f"{found.acceptance:.3f}"
    if found.acceptance_error == 0.0:
        return rate
    return f"{rate}; its probability is off by {figure(found.acceptance_error)}, by an estimate"


def _memory(memory: Memory) -> str:
    whose = "of Rows(...), read in blocks" if memory.stored else "the model's own"
    return (
        f"data {size_in_words(memory.data)} ({whose}), tables "
        f"{size_in_words(memory.tables)}, sums {size_in_words(memory.sums)}"
    )


def _in_blocks(found: Forecast) -> list[tuple[str, str]]:
    if not found.ess_per_second_in_blocks:
        return []
    return [("the same, by sample()", f"{figure(found.ess_per_second_in_blocks)} in each thread")]


def _preparation(seconds: float) -> str:
    if isnan(seconds):
        return "not measured, what it takes had been prepared before"
    return f"{seconds:.1f} s, compilation included"


def nuts(found: NutsForecast | NutsUntimed | None) -> Section:
    """Return what NUTS would take."""
    if found is None:
        return Section("NUTS", (("not possible", "the model has no gradient to compile"),))
    known = not isnan(found.condition_number)
    number = f"κ = {figure(found.condition_number)}" if known else "κ unknown, taken to be 1"
    gradients = f"{found.gradients_per_effective_draw:.1f} per effective draw, by the rule 5 √κ"
    lines = [("gradients", f"{gradients}, with {number}")]
    if isinstance(found, NutsUntimed):
        untimed = "not compiled; nuts=True does, and times it, which may take minutes"
        return Section("NUTS", (("gradient", untimed), *lines))
    return Section(
        "Forecast of NUTS",
        (
            ("gradient", f"{figure(found.gradient_microseconds)} µs, all rows"),
            *lines,
            ("effective draws a second", figure(found.ess_per_second)),
            ("preparation", f"{found.compile_seconds:.1f} s of compilation"),
        ),
    )


def large(found: tuple[LargeDeterministic, ...], var_names: tuple[str, ...]) -> Section:
    """Return what ``pm.sample`` would store beside the variables."""
    lines = [(one.name, f"{one.priced} for 1,000 draws of a chain") for one in found]
    lines.append(("leave out with", f"pm.sample(..., var_names={list(var_names)})"))
    return Section("Evaluated and stored at every draw", tuple(lines))


@dataclass(frozen=True, repr=False)
class Explanation:
    """What subsampling makes of a model, forecast before sampling.

    Printed in a terminal or shown in a notebook, it is a table of everything below.

    Parameters
    ----------
    method
        Step method that the forecast is of; empty where the model is refused.
    step
        That step, ready for ``pm.sample(step=found.step)`` inside of the model: the one that was
        given, or that was built. None where the model is refused.
    recommended
        What to sample with.
    reason
        Why, with figures.
    refused
        Why the model cannot be subsampled; empty where it can.
    n_rows, size
        Number N of subsampled rows, and d of dimensions.
    terms
        What is subsampled.
    others
        What is not, and why.
    coordinates
        Variables in whose place the chain has others, in which rows are linear, and what stands
        against that for others; empty where it runs in the model's own.
    taylor_order
        Order of the control variates; None where the model is refused.
    order_reason
        Why this order.
    centre
        What the control variates are expanded around; empty where the model is refused.
    certificate
        Whether draws are exact; None where the model is refused.
    forecast
        Of the step; None where the model is refused.
    approximate
        An approximate step and its forecast, where the exact one reads all rows at more than half
        of its updates; else None.
    nuts
        Forecast of NUTS, or the gradients that it takes where none was timed; None where the model
        has no gradient.
    large_deterministics
        What :func:`pymc.sample` would evaluate and store at every draw, and is better left out.
    var_names
        All else, for ``pm.sample(var_names=found.var_names)``.
    given_scales
        Variables that moves draw by the density of scales, and all else given them; empty where
        they are drawn by one normal approximation.
    """

    method: str
    step: MinibatchStep | None
    recommended: str
    reason: str
    refused: str
    n_rows: int
    size: int
    terms: tuple[SubsampledTerm, ...]
    others: tuple[NotSubsampled, ...]
    coordinates: tuple[InCoordinates, ...]
    taylor_order: int | None
    order_reason: str
    centre: str
    certificate: Certificate | None
    forecast: Forecast | None
    approximate: Approximate | None
    nuts: NutsForecast | NutsUntimed | None
    large_deterministics: tuple[LargeDeterministic, ...]
    var_names: tuple[str, ...]
    given_scales: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a table in plain text."""
        return as_text(self._sections())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return as_html(self._sections())

    def _sections(self) -> tuple[Section, ...]:
        sections = [
            verdict(self.recommended, self.reason, self.refused, self.n_rows, self.size),
            subsampled(self.terms),
            not_subsampled(self.others),
        ]
        if self.coordinates:
            sections.append(coordinates(self.coordinates))
        if self.certificate is not None and self.taylor_order is not None:
            sections.append(expansion(self.taylor_order, self.order_reason, self.centre))
            sections.append(certificate(self.certificate))
        if self.given_scales:
            sections.append(moves(self.given_scales))
        if self.forecast is not None:
            sections.append(forecast(self.method, self.forecast))
        if self.approximate is not None:
            sections.append(approximate(self.approximate))
        sections.append(nuts(self.nuts))
        if self.large_deterministics:
            sections.append(large(self.large_deterministics, self.var_names))
        return tuple(sections)
