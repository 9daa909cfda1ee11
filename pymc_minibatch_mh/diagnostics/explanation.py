"""Facts of a model before it is sampled: records, each of which says itself in words."""

import textwrap
from dataclasses import dataclass
from html import escape
from math import isfinite, isnan
from typing import NamedTuple

from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.deterministics import LargeDeterministic, size_in_words

#: Columns of a terminal, and of the labels in it at most.
WIDTH, LABELS = 88, 26
#: Labels and values.
Lines = list[tuple[str, str]]


class Section(NamedTuple):
    """A titled part of a sheet."""

    title: str
    lines: Lines


def as_text(sections: list[Section]) -> str:
    """Return sections as plain text, values in one column and wrapped."""
    labels = [len(label) for section in sections for label, _ in section.lines]
    indent = " " * (2 + min(max(labels, default=0), LABELS) + 2)
    out = []
    for section in sections:
        out.append(section.title)
        for label, value in section.lines:
            head = f"  {label}".ljust(len(indent))
            if len(head) > len(indent):
                # A label that is too long for its column has a line of its own.
                out.append(head)
                head = indent
            paragraph = textwrap.TextWrapper(
                WIDTH, head, indent, break_long_words=False, break_on_hyphens=False
            )
            out.append(paragraph.fill(value) or head.rstrip())
    return "\n".join(out)


def as_html(sections: list[Section]) -> str:
    """Return sections as HTML that unfolds, a table for each; every text is escaped."""
    return "".join(
        f"<details><summary>{escape(section.title)}</summary>{_table(section.lines)}</details>"
        for section in sections
    )


def _table(lines: Lines) -> str:
    left = 'style="text-align:left"'
    rows = ("".join(f"<td {left}>{escape(text)}</td>" for text in line) for line in lines)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def summary_as_html(title: str, text: str, figures: Lines, share: float) -> str:
    """Return a title, a text, figures with their labels beside each other, and a bar of a share."""
    cells = "".join(
        f'<span style="display:inline-block;margin-right:2.5em"><b>{escape(value)}</b><br>'
        f"{escape(label)}</span>"
        for label, value in figures
    )
    # A share that is too small for a pixel is still seen.
    width = f"{min(max(share, 0.003), 1.0):.1%}"
    bar = (
        '<div style="background:#8884;height:8px;margin:.5em 0;max-width:40em">'
        f'<div style="background:#1f77b4;height:8px;width:{width}"></div></div>'
    )
    head = f"<p><b>{escape(title)}</b> – {escape(text)}</p>"
    return head + (f"<p>{cells}</p>{bar}" if figures else "")


def figure(value: float) -> str:
    """Return three significant digits, without an exponent where that is short."""
    if value == 0.0 or 1e-3 <= abs(value) < 999.5:
        return f"{value:.3g}"
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e9 else f"{value:.2e}"


@dataclass(frozen=True)
class DataArray:
    """A data array that rows of a term are read from."""

    name: str
    dtype: str
    row_shape: tuple[int, ...]
    bytes_per_row: int

    def in_words(self) -> str:
        """Return its name, type and size."""
        shape = str(list(self.row_shape)) if self.row_shape else ""
        return f"{self.name}: {self.dtype}{shape}, {self.bytes_per_row:,} bytes a row"


@dataclass(frozen=True)
class SubsampledTerm:
    """A likelihood term whose rows are subsampled, by the name of the observed variable."""

    name: str
    n_rows: int
    #: Linear forms of the parameters that the log-likelihood of a row depends on, where it can be
    #: taken apart; and why it cannot, or is not computed by these forms.
    arguments: tuple[str, ...]
    not_apart: str
    arrays: tuple[DataArray, ...]

    def lines(self) -> Lines:
        """Return the arguments of its rows, and their arrays."""
        lines = [(self.name, f"{self.n_rows:,} rows")]
        if self.arguments:
            lines.append(("", f"a row depends on {'; '.join(self.arguments)}"))
        if self.not_apart:
            lines.append(("", f"not taken apart: {self.not_apart}"))
        return lines + [("", f"reads {array.in_words()}") for array in self.arrays]


@dataclass(frozen=True)
class NotSubsampled:
    """A variable whose rows are not subsampled, or that has none, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class InCoordinates:
    """A variable, and its stand-in in the chain in words, or why it has none."""

    name: str
    words: str
    refused: str = ""


@dataclass(frozen=True)
class BoundTable:
    """Bounds c_i of all rows over one trust region."""

    #: In posterior standard deviations, and the probability of a normal posterior beyond it.
    radius: float
    left_with_probability: float
    #: Which bound it is: see docs/background/derivation.md.
    kind: str
    #: Σ c_i over all rows, and over those that are drawn: all but the heavy ones.
    total: float
    drawn: float

    def in_words(self) -> str:
        """Return the sum of the bounds, and where they hold."""
        region = "everywhere"
        if isfinite(self.radius):
            region = (
                f"within {self.radius:.2f} posterior sds of the centre, which a normal posterior "
                f"leaves with probability {self.left_with_probability:.0e}"
            )
        return f"C = Σ c_i = {figure(self.total)} {region}; {self.kind}"


@dataclass(frozen=True)
class Certificate:
    """Whether the draws are exact, and by which bounds."""

    #: The promise of the method, given valid bounds or not, and which error it controls.
    guarantee: str
    #: Whether that makes the draws exact, by bounds that were derived from the model; and by which,
    #: or why not: the message of the BoundsError where there was one.
    certified: bool
    reason: str
    #: Order of the control variates that the bounds belong to.
    order: int
    tables: tuple[BoundTable, ...]
    #: Σ c_i over that of enclosures of zero radius, at the smallest radius; NaN without bounds.
    looseness: float
    #: Rows that every update reads, instead of drawing them at nearly every one or hardly ever.
    n_heavy: int = 0

    def section(self) -> Section:
        """Return whether draws are exact, and by which bounds."""
        certified = "certified" if self.certified else "not certified"
        lines = [("guarantee", self.guarantee), (certified, self.reason)]
        lines += [(f"table {k}", table.in_words()) for k, table in enumerate(self.tables, 1)]
        if self.n_heavy:
            others = "batches are drawn from all others"
            if self.tables:
                others = f"C = {figure(min(table.drawn for table in self.tables))} of all others"
            lines.append(("heavy rows", f"{self.n_heavy:,} are read at every update; {others}"))
        if self.tables:
            lines.append(("remainder", f"of order {self.order}"))
        if not isnan(self.looseness):
            lines.append(("looseness", f"{self.looseness:.2f} times the bounds of zero radius"))
        return Section("Exactness", lines)


@dataclass(frozen=True)
class Memory:
    """Bytes of data, which are not copied, of tables of bounds, and of sums over all rows."""

    data: int
    tables: int
    sums: int
    #: Whether the data are of Rows(...), which the step does not hold.
    stored: bool = False
    #: Part of the tables that is a copy of the rows, by which candidates are dropped.
    copy: int = 0

    def in_words(self) -> str:
        """Return the sizes."""
        whose = "of Rows(...), read in blocks" if self.stored else "the model's own"
        copy = f" ({size_in_words(self.copy)} an 8-bit copy of the rows)" if self.copy else ""
        return (
            f"data {size_in_words(self.data)} ({whose}), tables "
            f"{size_in_words(self.tables)}{copy}, sums {size_in_words(self.sums)}"
        )


@dataclass(frozen=True)
class Forecast:
    """Figures of a pilot: a short run of the step's own loop."""

    draws: int
    tune: int
    updates_per_draw: int
    #: Mean number of rows that an update reads, and its standard error by batch means.
    rows_per_update: float
    rows_error: float
    #: Share of the updates that were accepted, and the estimated error of the probability of
    #: accepting: 0 for exact methods.
    acceptance: float
    acceptance_error: float
    full_pass_share: float
    #: Within the step, its share of the step's own overhead included.
    microseconds_per_update: float
    #: Bulk effective sample size of the worst coordinate, and the lower and the higher of twice
    #: those of the halves of the pilot, which show its noise.
    ess: float
    ess_low: float
    ess_high: float
    worst: str
    #: Of one chain in pm.sample() after warm-up, and in sample(): 0 where other steps move
    #: variables as well, beside which that does not run.
    ess_per_second: float
    ess_per_second_in_blocks: float
    memory: Memory
    #: NaN for a step that was built before.
    preparation_seconds: float
    #: Variables of other steps, which the pilot held where they were.
    held: tuple[str, ...]
    warning: str
    #: Mean number of rows that an update draws, where their own ceilings drop some unread; else 0.
    candidates_per_update: float = 0.0

    def section(self, method: str) -> Section:
        """Return the figures of a method's pilot."""
        count = self.updates_per_draw
        per_draw = "one update" if count == 1 else f"{count:,} updates"
        pilot = f"a pilot of {self.draws:,} draws after {self.tune:,} of warm-up, {per_draw} a draw"
        acceptance = f"{self.acceptance:.3f}"
        if self.acceptance_error:
            error = figure(self.acceptance_error)
            acceptance += f"; its probability is off by {error}, by an estimate"
        effective = (
            f"{self.ess:,.0f} of {self.draws:,} for {self.worst}, the worst coordinate; twice "
            f"those of each half: {self.ess_low:,.0f} and {self.ess_high:,.0f}"
        )
        preparation = "not measured, what it takes had been prepared before"
        if not isnan(self.preparation_seconds):
            preparation = f"{self.preparation_seconds:.1f} s, compilation included"
        in_blocks = self.ess_per_second_in_blocks
        held = (
            f"{', '.join(self.held)}: other steps move them, and read all rows whenever they do, "
            "which is in none of these figures"
        )
        rows = f"{figure(self.rows_per_update)} ± {figure(self.rows_error)}"
        if self.candidates_per_update:
            rows += f", left of {figure(self.candidates_per_update)} candidates"
        lines = {
            "rests on": pilot,
            "rows per update": rows,
            "acceptance": acceptance,
            "updates on all rows": f"{self.full_pass_share:.1%}",
            "time per update": f"{figure(self.microseconds_per_update)} µs",
            "effective draws": effective,
            "effective draws a second": figure(self.ess_per_second),
            "the same, by sample()": f"{figure(in_blocks)} in each thread" if in_blocks else "",
            "memory": self.memory.in_words(),
            "preparation": preparation,
            "held still": held if self.held else "",
            "warning": self.warning,
        }
        return Section(f"Forecast of {method}", [line for line in lines.items() if line[1]])


@dataclass(frozen=True)
class NutsUntimed:
    """The gradients that NUTS would take, by the rule 5 √κ; nobody asked how long one takes."""

    #: κ of the posterior's correlation matrix at the mode; NaN where no mode is known, and κ is
    #: then taken to be 1.
    condition_number: float
    gradients_per_effective_draw: float

    def section(self) -> Section:
        """Return the cost of NUTS."""
        untimed = "not compiled; nuts=True does, and times it, which may take minutes"
        return Section("NUTS", [("gradient", untimed), self._gradients()])

    def _gradients(self) -> tuple[str, str]:
        known = not isnan(self.condition_number)
        number = f"κ = {figure(self.condition_number)}" if known else "κ unknown, taken to be 1"
        count = f"{self.gradients_per_effective_draw:.1f} per effective draw"
        return "gradients", f"{count}, by the rule 5 √κ, with {number}"


@dataclass(frozen=True)
class NutsForecast(NutsUntimed):
    """The cost of NUTS, from the time of one gradient and the rule."""

    #: Least time of a gradient of the log-density of all rows on one core, and the seconds until it
    #: was built, compiled and evaluated once.
    gradient_microseconds: float
    compile_seconds: float
    #: Of one chain, after warm-up.
    ess_per_second: float

    def section(self) -> Section:
        """Return the cost of NUTS."""
        lines = [
            ("gradient", f"{figure(self.gradient_microseconds)} µs, all rows"),
            self._gradients(),
            ("effective draws a second", figure(self.ess_per_second)),
            ("preparation", f"{self.compile_seconds:.1f} s of compilation"),
        ]
        return Section("Forecast of NUTS", lines)


@dataclass(frozen=True)
class Approximate:
    """An approximate step, on the prepared model of the exact one, and its forecast."""

    method: str
    step: MinibatchStep
    forecast: Forecast


@dataclass(frozen=True, repr=False, kw_only=True)
class Explanation:
    """A forecast of subsampling, made before sampling.

    Printed in a terminal or shown in a notebook, it is a table of everything below.

    Parameters
    ----------
    method
        Step method that the forecast is of; empty where the model is refused.
    step
        That step, ready for ``pm.sample(step=found.step)`` inside of the model: the one that was
        given, or that was built. None where the model is refused.
    recommended
        The sampler to take.
    reason
        Why, with figures.
    refused
        Why the model cannot be subsampled; empty where it can.
    n_rows, size
        Number N of subsampled rows, and d of dimensions.
    terms
        Terms of the likelihood that are subsampled.
    others
        Variables that are not, and why.
    coordinates
        Variables in whose place the chain has others, in which rows are linear, and objections to
        that for others; empty where it runs in the model's own.
    taylor_order
        Order of the control variates; None where the model is refused.
    order_reason
        Why this order.
    centre
        Centre of the control variates; empty where the model is refused.
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
        Those that :func:`pymc.sample` would evaluate and store at every draw, better left out.
    var_names
        All else, for ``pm.sample(var_names=found.var_names)``.
    given_scales
        Variables that moves draw by the density of scales, and all else given them; empty where
        they are drawn by one normal approximation.
    """

    method: str = ""
    step: MinibatchStep | None = None
    recommended: str
    reason: str
    refused: str = ""
    n_rows: int
    size: int
    terms: tuple[SubsampledTerm, ...]
    others: tuple[NotSubsampled, ...]
    coordinates: tuple[InCoordinates, ...] = ()
    taylor_order: int | None = None
    order_reason: str = ""
    centre: str = ""
    certificate: Certificate | None = None
    forecast: Forecast | None = None
    approximate: Approximate | None = None
    nuts: NutsUntimed | None
    large_deterministics: tuple[LargeDeterministic, ...]
    var_names: tuple[str, ...]
    given_scales: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a table in plain text."""
        return as_text(self._sections())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the verdict, three figures and a bar for notebooks; the rest unfolds."""
        figures, share = [], 0.0
        if self.forecast is not None:
            share = self.forecast.rows_per_update / self.n_rows
            rows = f"{figure(self.forecast.rows_per_update)} of {self.n_rows:,}"
            figures = [
                (f"observations per update of {self.method}", rows),
                ("effective draws a second", figure(self.forecast.ess_per_second)),
                ("share of updates on all rows", f"{self.forecast.full_pass_share:.1%}"),
            ]
        verdict = summary_as_html(self.recommended, self.reason, figures, share)
        return verdict + as_html(self._sections())

    def _sections(self) -> list[Section]:
        sections = self._of_model()
        if self.certificate is not None:
            order = f"{self.taylor_order}: {self.order_reason}"
            lines = [("order", order), ("centre", self.centre)]
            sections += [Section("Control variates", lines), self.certificate.section()]
        if self.given_scales:
            names = ", ".join(self.given_scales)
            drawn = f"all else is drawn as normal given {names}"
            sections.append(Section("Moves", [("proposal", drawn)]))
        if self.forecast is not None:
            sections.append(self.forecast.section(self.method))
        if self.approximate is not None:
            title, lines = self.approximate.forecast.section(self.approximate.method)
            near = "its draws are near the posterior; the step is approximate.step"
            sections.append(Section(title, [("approximate", near), *lines]))
        impossible = Section("NUTS", [("not possible", "the model has no gradient to compile")])
        sections.append(impossible if self.nuts is None else self.nuts.section())
        if large := self.large_deterministics:
            lines = [(one.name, f"{one.priced} for 1,000 draws of a chain") for one in large]
            lines.append(("leave out with", f"pm.sample(..., var_names={list(self.var_names)})"))
            sections.append(Section("Evaluated and stored at every draw", lines))
        return sections

    def _of_model(self) -> list[Section]:
        verdict = [("recommended", self.recommended), ("because", self.reason)]
        if self.refused:
            verdict.append(("refused", self.refused))
        verdict.append(("rows and dimensions", f"N = {self.n_rows:,}, d = {self.size:,}"))
        nothing = [("nothing", "")]
        terms = [line for term in self.terms for line in term.lines()]
        others = [(other.name, other.reason) for other in self.others]
        sections = [
            Section("Explanation", verdict),
            Section("Subsampled", terms or nothing),
            Section("Not subsampled", others or nothing),
        ]
        if self.coordinates:
            moved = [
                (one.name, one.refused or f"moved as {one.words}, and mapped back in every draw")
                for one in self.coordinates
            ]
            sections.append(Section("Coordinates", moved))
        return sections
