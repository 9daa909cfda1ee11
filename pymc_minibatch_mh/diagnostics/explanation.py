"""Facts of a model before it is sampled: records, and the sheet that shows them."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from io import StringIO
from itertools import groupby
from math import isnan
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.deterministics import LargeDeterministic, size_in_words

#: Columns of a sheet, and of its labels.
WIDTH, LABELS = 88, 23
#: Effective draws that times are stated for, and draws of warm-up in them.
EFFECTIVE, WARM_UP = 1_000, 1_000
#: Gradients of NUTS for an effective draw with hundreds of effects, whose κ is unknown: the fewest
#: measured are 119, of docs/tutorials/radon.md with intercepts; with slopes they are 1,700.
GRADIENTS_OF_EFFECTS = 100.0
#: What to type where NUTS is the faster sampler.
NUTPIE = 'pm.sample(nuts_sampler="nutpie")'


class Fact(NamedTuple):
    """A line of a sheet; lines of one section follow each other under its title."""

    section: str
    label: str
    value: str


class Sheet(NamedTuple):
    """Facts that are shown as tables, one for each section."""

    facts: tuple[Fact, ...]

    def __repr__(self) -> str:
        """Return plain text."""
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
        """Return the same for notebooks."""
        return f"<pre>{escape(str(self))}</pre>"


def section(title: str, lines: Iterable[tuple[str, str]]) -> list[Fact]:
    """Return the facts of a section; a line without a value is left out."""
    return [Fact(title, label, value) for label, value in lines if value]


def figure(value: float) -> str:
    """Return three significant digits, without an exponent where that is short."""
    if value == 0.0 or 1e-3 <= abs(value) < 999.5:
        return f"{value:.3g}"
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e9 else f"{value:.2e}"


def duration(seconds: float) -> str:
    """Return seconds, minutes or hours to two digits."""
    for unit, length in (("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{float(f'{seconds / length:.2g}'):,g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"


@dataclass(frozen=True)
class SubsampledTerm:
    """A likelihood term whose observations are subsampled, by the name of the observed variable."""

    name: str
    n_rows: int
    #: Linear forms of the parameters that the log-likelihood of an observation depends on, where it
    #: can be taken apart; and why it cannot, or is not computed by these forms.
    arguments: tuple[str, ...]
    not_apart: str
    #: Data arrays that observations are read from, with types and sizes.
    arrays: tuple[str, ...]

    def lines(self) -> list[tuple[str, str]]:
        """Return the linear predictors of its observations, and their arrays."""
        depends = f"each depends on {'; '.join(self.arguments)}" if self.arguments else ""
        apart = f"not taken apart: {self.not_apart}" if self.not_apart else ""
        words = [depends, apart, *(f"reads {array}" for array in self.arrays)]
        return [(self.name, f"{self.n_rows:,} observations"), *(("", word) for word in words)]


@dataclass(frozen=True)
class NotSubsampled:
    """A variable or potential whose observations are not subsampled, or that has none, and why."""

    name: str
    reason: str
    #: Whether every update evaluates many observations for it.
    in_full: bool = False


@dataclass(frozen=True)
class InCoordinates:
    """A variable, and its stand-in in the chain in words, or why it has none."""

    name: str
    words: str
    refused: str = ""


@dataclass(frozen=True)
class Certificate:
    """Whether the draws are exact, and by which bounds."""

    #: The promise of the method, given valid bounds or not, and which error it controls.
    guarantee: str
    #: Whether that makes the draws exact, by bounds that were derived from the model; and by which,
    #: or why not: the message of the BoundsError where there was one.
    certified: bool
    reason: str
    #: Sums C of the bounds over all observations, and where and how they hold.
    tables: tuple[str, ...]
    #: C of the observations that are drawn, all but the influential ones; NaN without bounds.
    drawn: float
    #: Influential observations, which every update evaluates.
    n_heavy: int = 0

    def in_words(self) -> str:
        """Return whether draws are exact, and why."""
        promise, _, _ = self.guarantee.partition(";")
        return f"{'yes' if self.certified else promise}: {self.reason}"

    def lines(self) -> list[tuple[str, str]]:
        """Return whether draws are exact, and by which bounds."""
        lines = [("guarantee", self.guarantee)]
        lines += [("proved bounds" if self.certified else "no proved bounds", self.reason)]
        lines += [(f"table {k}", table) for k, table in enumerate(self.tables, 1)]
        if self.n_heavy:
            others = "batches are drawn from all others"
            if self.tables:
                others = f"C = {figure(self.drawn)} of all others"
            always = f"{self.n_heavy:,} are evaluated in every update; {others}"
            lines.append(("influential", always))
        return lines


@dataclass(frozen=True)
class Memory:
    """Bytes of data, which are not copied, of tables of bounds, and of sums over all rows."""

    data: int
    tables: int
    sums: int
    #: Whether the data are of Rows(...), which the step does not hold.
    stored: bool = False

    def in_words(self) -> str:
        """Return the sizes."""
        whose = "of Rows(...), read in blocks" if self.stored else "the model's own"
        tables, sums = size_in_words(self.tables), size_in_words(self.sums)
        return f"data {size_in_words(self.data)} ({whose}), tables {tables}, sums {sums}"


@dataclass(frozen=True)
class Forecast:
    """Figures of pilots: short runs of the step's own loop."""

    #: Of all pilots together, and of the warm-up of each.
    draws: int
    tune: int
    updates_per_draw: int
    #: Mean number of observations that an update evaluates, and its error by Student's t, from the
    #: spread between pilots.
    rows_per_update: float
    rows_error: float
    #: Share of the updates that were accepted, and the estimated error of the probability of
    #: accepting: 0 for exact methods.
    acceptance: float
    acceptance_error: float
    full_pass_share: float
    #: Within the step, its share of the step's own overhead included.
    microseconds_per_update: float
    #: Bulk effective sample size of the worst coordinate.
    ess: float
    worst: str
    #: Of one chain in pm.sample() after warm-up, and in sample(): 0 where other steps move
    #: variables as well, beside which that does not run.
    ess_per_second: float
    ess_per_second_in_blocks: float
    #: Until one chain has 1,000 effective draws after 1,000 draws of warm-up: by sample(), and by
    #: pm.sample() where other steps move variables as well.
    seconds: float
    memory: Memory
    #: NaN for a step that was built before.
    preparation_seconds: float
    #: Variables of other steps, which the pilots held where they were.
    held: tuple[str, ...]
    warning: str

    def rows_in_words(self, n_rows: int) -> str:
        """Return the observations of a draw, out of `n_rows`."""
        mean, error = (self.updates_per_draw * x for x in (self.rows_per_update, self.rows_error))
        share = self.full_pass_share
        often = f"; {share:.1%} of the updates evaluate all" if share >= 5e-4 else ""
        return f"{figure(mean)} ± {float(f'{error:.2g}'):,g} of {n_rows:,}{often}"

    def seconds_in_words(self) -> str:
        """Return the time to 1,000 effective draws, and of preparation."""
        by = "pm.sample(step=found.step)" if self.held else "sample(found.step)"
        text = f"{duration(self.seconds)} by one chain of {by}, warm-up included"
        known = not isnan(self.preparation_seconds)
        return text + f"; preparation took {duration(self.preparation_seconds)}" * known

    def lines(self) -> list[tuple[str, str]]:
        """Return the figures."""
        per_draw = f"{self.updates_per_draw:,} update{'s' * (self.updates_per_draw != 1)} a draw"
        rests = f"{self.draws:,} draws of pilots, {self.tune:,} of warm-up in each; {per_draw}"
        acceptance = f"{self.acceptance:.3f}"
        if self.acceptance_error:
            acceptance += f"; estimated error of the probability: {figure(self.acceptance_error)}"
        rows = f"{figure(self.rows_per_update)} ± {figure(self.rows_error)}"
        effective = f"{self.ess:,.0f} of {self.draws:,} for {self.worst}, the worst coordinate"
        in_blocks = self.ess_per_second_in_blocks
        speed = f"{figure(self.ess_per_second)} by pm.sample()"
        if in_blocks:
            speed += f", {figure(in_blocks)} by sample() in each thread"
        held = f"{', '.join(self.held)}: other steps move them, which no figure includes"
        return [
            ("rests on", rests),
            ("an update evaluates", rows),
            ("acceptance rate", acceptance),
            ("full-data evaluations", f"{self.full_pass_share:.1%} of the updates"),
            ("time per update", f"{figure(self.microseconds_per_update)} µs"),
            ("effective draws", effective),
            ("ESS/s", speed),
            ("1,000 effective draws", self.seconds_in_words()),
            ("memory", self.memory.in_words()),
            ("held still", held if self.held else ""),
            ("warning", self.warning),
        ]


@dataclass(frozen=True)
class NutsForecast:
    """The cost of NUTS, from the time of one gradient and the rule of 5 √κ gradients."""

    #: κ of the posterior's correlation matrix at the mode; NaN where no mode is known, and κ is
    #: then taken to be 1.
    condition_number: float
    gradients_per_effective_draw: float
    #: Least time of a gradient of the log-density of all rows on one core, and the seconds until it
    #: was built, compiled and evaluated once; NaN for ``nuts=False``.
    gradient_microseconds: float = float("nan")
    compile_seconds: float = float("nan")
    #: Of one chain, after warm-up.
    ess_per_second: float = float("nan")

    @property
    def timed(self) -> bool:
        """Whether a gradient was timed."""
        return not isnan(self.ess_per_second)

    def in_words(self) -> str:
        """Return the speed."""
        if not self.timed:
            return "left out by nuts=False"
        return (
            f"{duration(EFFECTIVE / self.ess_per_second)} after warm-up, at "
            f"{figure(self.gradient_microseconds)} µs a gradient"
        )

    def lines(self) -> list[tuple[str, str]]:
        """Return the cost of NUTS."""
        count = f"{self.gradients_per_effective_draw:.1f} per effective draw, {self._rule()}"
        lines = [("1,000 effective draws", self.in_words()), ("gradients", count)]
        if self.timed:
            lines += [
                ("ESS/s", figure(self.ess_per_second)),
                ("preparation", f"{self.compile_seconds:.1f} s of compilation"),
            ]
        return lines

    def _rule(self) -> str:
        if not isnan(self.condition_number):
            return f"by 5 √κ with κ = {figure(self.condition_number)}"
        if self.gradients_per_effective_draw == GRADIENTS_OF_EFFECTS:
            return "about the fewest that hierarchies have taken"
        return "by 5 √κ with κ unknown, taken to be 1"


@dataclass(frozen=True)
class Approximate:
    """An approximate step, on the prepared model of the exact one, and its forecast."""

    method: str
    step: MinibatchStep
    forecast: Forecast


@dataclass(frozen=True, repr=False, kw_only=True)
class Explanation:
    """A forecast of subsampling, made before sampling.

    Printed in a terminal or shown in a notebook, it has six lines. ``found.details`` is a sheet of
    everything below, which unfolds in a notebook.

    Parameters
    ----------
    method, step
        Step method of the forecast, and that step, ready for ``sample(found.step)``; empty and None
        for an unsupported model.
    recommended, reason
        Sampler to take, and why, with figures.
    refused
        Why the model cannot be subsampled; empty where it can.
    n_rows, size
        Number N of subsampled observations, and d of dimensions.
    terms, others
        Likelihood terms that are subsampled; variables and potentials that are not, and why.
    coordinates
        Variables that the chain samples through others, in which observations are linear, and
        objections to that.
    taylor_order, order_reason, centre
        Order of the control variates, its reason, and the point around which they are built.
    certificate, forecast
        Exactness and figures of the step; None for an unsupported model.
    approximate
        An approximate step and its forecast, where more than half of the updates of the exact one
        evaluate all observations; else None.
    nuts
        Forecast of NUTS, without its speed for ``nuts=False``; None where NUTS cannot sample the
        model.
    large_deterministics, var_names
        Deterministics that :func:`pymc.sample` would evaluate and store at every draw; all other
        variables, for ``var_names=``.
    given_scales
        Hyperparameters that the proposal draws first, and all others conditionally on them.
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
    nuts: NutsForecast | None
    large_deterministics: tuple[LargeDeterministic, ...]
    var_names: tuple[str, ...]
    given_scales: tuple[str, ...] = ()

    @property
    def details(self) -> Sheet:
        """Everything that is known, as a sheet for terminals and notebooks."""
        facts = [*self._of_model(), *self._of_step()]
        if (other := self.approximate) is not None:
            near = ("approximate", "its draws are near the posterior; see approximate.step")
            facts += section(f"Forecast of {other.method}", [near, *other.forecast.lines()])
        nuts = [("not possible", _NO_NUTS)] if self.nuts is None else self.nuts.lines()
        facts += section("NUTS", nuts)
        if large := self.large_deterministics:
            lines = [(one.name, f"{one.priced} for 1,000 draws of a chain") for one in large]
            lines.append(("leave out with", f"pm.sample(..., var_names={list(self.var_names)})"))
            facts += section("Evaluated and stored at every draw", lines)
        return Sheet(tuple(facts))

    def __str__(self) -> str:
        """Return the six lines."""
        return str(self._summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the six lines for notebooks, and the details, which unfold."""
        unfolds = f"<details><summary>Details</summary>{self.details._repr_html_()}</details>"
        return self._summary()._repr_html_() + unfolds

    def _summary(self) -> Sheet:
        to_type = NUTPIE if self.recommended == "pm.NUTS" else self.recommended
        full = [f"{other.name!r}: {other.reason}" for other in self.others if other.in_full]
        full += [
            f"{one.name!r}: {one.priced} for 1,000 draws; leave it out by var_names=found.var_names"
            for one in self.large_deterministics
        ]
        found, exact = self.forecast, self.certificate
        lines = [
            ("recommended", f"{to_type}: {self.reason}"),
            ("not subsampled", self.refused),
            ("exact", "" if exact is None else exact.in_words()),
            ("observations a draw", "" if found is None else found.rows_in_words(self.n_rows)),
            ("1,000 effective draws", "" if found is None else found.seconds_in_words()),
            ("evaluated in full", "; ".join(full) or "nothing" * (found is not None)),
            ("NUTS", _NO_NUTS if self.nuts is None else self.nuts.in_words()),
        ]
        return Sheet(tuple(section("", lines)))

    def _of_model(self) -> list[Fact]:
        moved = [
            (one.name, one.refused or f"sampled through {one.words}, and stored as itself")
            for one in self.coordinates
        ]
        size = ("", f"N = {self.n_rows:,} observations, d = {self.size:,} dimensions")
        return [
            *section("Subsampled", [line for term in self.terms for line in term.lines()] + [size]),
            *section("Not subsampled", [(other.name, other.reason) for other in self.others]),
            *section("Reparametrisation", moved),
        ]

    def _of_step(self) -> list[Fact]:
        if self.certificate is None or self.forecast is None:
            return []
        order = ("order", f"{self.taylor_order}: {self.order_reason}")
        drawn = f"all else is drawn as normal given {', '.join(self.given_scales)}"
        return [
            *section("Control variates", [order, ("centre", self.centre)]),
            *section("Exactness", self.certificate.lines()),
            *section("Proposal", [("hyperparameters", drawn)] if self.given_scales else []),
            *section(f"Forecast of {self.method}", self.forecast.lines()),
        ]


_NO_NUTS = "cannot sample this model, or has no gradient"
