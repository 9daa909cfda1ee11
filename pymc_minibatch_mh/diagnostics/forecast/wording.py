"""The record of an explanation in words and figures, section by section."""

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
from pymc_minibatch_mh.diagnostics.forecast.sheet import Section, figure
from pymc_minibatch_mh.step.deterministics import LargeDeterministic
from pymc_minibatch_mh.step.report import size_in_words


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
