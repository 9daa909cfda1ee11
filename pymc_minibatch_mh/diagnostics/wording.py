"""The record of an explanation in words and figures, section by section."""

from math import isfinite, isnan

from pymc_minibatch_mh.diagnostics.records import (
    BoundTable,
    Certificate,
    DataArray,
    Forecast,
    Memory,
    NotSubsampled,
    NutsForecast,
    SubsampledTerm,
)
from pymc_minibatch_mh.diagnostics.sheet import Section, figure


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


def expansion(order: int, reason: str) -> Section:
    """Return the order of the control variates, and why."""
    return Section("Control variates", (("order", f"{order}: {reason}"),))


def certificate(found: Certificate) -> Section:
    """Return whether draws are exact, and by which bounds."""
    lines = [("certified" if found.certified else "not certified", found.reason)]
    lines += [(f"table {k + 1}", _table(table)) for k, table in enumerate(found.tables)]
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
        ("acceptance", f"{found.acceptance:.3f}"),
        ("updates on all rows", f"{found.full_pass_share:.1%}"),
        ("time per update", f"{figure(found.microseconds_per_update)} µs"),
        (
            "effective draws",
            f"{found.ess:,.0f} of {found.draws:,} for {found.worst}, the worst coordinate; twice "
            f"those of each half: {found.ess_low:,.0f} and {found.ess_high:,.0f}",
        ),
        ("effective draws a second", figure(found.ess_per_second)),
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


def _memory(memory: Memory) -> str:
    return (
        f"data {_bytes(memory.data)} (the model's own), tables {_bytes(memory.tables)}, sums "
        f"{_bytes(memory.sums)}"
    )


def _preparation(seconds: float) -> str:
    if isnan(seconds):
        return "not measured, the step was built before"
    return f"{seconds:.1f} s, compilation included"


def nuts(found: NutsForecast | None) -> Section:
    """Return what NUTS would take."""
    if found is None:
        return Section("NUTS", (("not possible", "the model has no gradient to compile"),))
    known = not isnan(found.condition_number)
    number = f"κ = {figure(found.condition_number)}" if known else "κ unknown, taken to be 1"
    return Section(
        "Forecast of NUTS",
        (
            ("gradient", f"{figure(found.gradient_microseconds)} µs, all rows"),
            (
                "gradients",
                f"{found.gradients_per_effective_draw:.1f} per effective draw, by the rule "
                f"5 √κ, with {number}",
            ),
            ("effective draws a second", figure(found.ess_per_second)),
            ("preparation", f"{found.compile_seconds:.1f} s of compilation"),
        ),
    )


def _bytes(size: int) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
