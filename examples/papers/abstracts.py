"""Claims of three abstracts beside stored results: no figure of theirs is typed by hand."""

from typing import Any

from papers.report import RESULTS, Claim, Report

#: Sections of the pages that claims refer to.
SEITA, KORATTIKARA, ZHANG = "seita.md", "korattikara.md", "zhang.md"


def stored(script: str) -> Report:
    """Return a stored report."""
    return Report.read(RESULTS / f"{script}.json")


def claim(script: str, start: str) -> Claim:
    """Return the only claim of a script that begins with some words."""
    (found,) = [each for each in stored(script).claims if each.what.startswith(start)]
    return found


def rounded(x: float) -> str:
    """Return a number with two digits, or in thousands in full."""
    return f"{x:,.0f}" if x >= 100.0 else f"{float(f'{x:.2g}'):g}".removeprefix("0")


def column(script: str, table: int, index: int) -> dict[Any, float]:
    """Return a column of a stored table by its first one, where it has figures or means of them."""
    rows = stored(script).tables[table].rows
    return {row[0]: _mean(row[index]) for row in rows if row[index] is not None}


def _mean(cell: Any) -> float:
    return float(cell[0] if isinstance(cell, list | tuple) else cell)


def listed(values: list[float], unit: str = "") -> str:
    """Return several numbers in words."""
    *most, last = map(rounded, values)
    return f"{', '.join(most)} and {last}{unit}"


def lines() -> list[tuple[str, str]]:
    """Return claims, and what was found."""
    return [*of_seita(), *of_korattikara(), *of_zhang()]


def of_seita() -> list[tuple[str, str]]:
    """Return the claims of Seita et al."""
    barker, austere, confidence = (
        claim("seita_mixture", f"{name}: rows a test").measured
        for name in ("Barker", "Austere (c)", "Confidence")
    )
    steps = column("seita_steps", 0, 2)
    correction = stored("seita_correction").tables[0]
    (line,) = [row for row in correction.rows if row[:2] == [4000.0, 10.0]]
    ridge = float(str(line[correction.head.index("σ = 1.0")]).split(", ")[1])
    linear = claim("seita_correction", "linear program: error").measured
    start = [
        each.measured
        for each in stored("seita_start").claims
        if each.what.startswith("rows until 95%")
    ]
    return [
        (
            "**Seita et al.:** batches are small, and sequential tests need far more",
            f"yes: [{rounded(barker)} of 10⁶ observations]({SEITA}#a-tempered-mixture) against "
            f"{rounded(austere)} and {rounded(confidence)}",
        ),
        (
            "shorter steps shrink the batches",
            f"yes: [{listed([steps[0.05], steps[0.01], steps[0.005]])}]"
            f"({SEITA}#larger-data-and-longer-steps) at steps of .05, .01 and .005; shorter steps "
            "also move more slowly",
        ),
        (
            "a correction lets Barker's test tolerate noise",
            f"yes: [errors]({SEITA}#the-correction-and-lemma-1) of {ridge:.1e} as published, and "
            f"of {linear:.1e} here. The [bound of its bias]({KORATTIKARA}#the-bound-of-theorem-1) "
            "says nothing at the paper's batches",
        ),
        (
            "orders of magnitude faster than earlier tests",
            f"two, per test. [Until digits are classified]({SEITA}#the-start-decides), "
            f"{rounded(min(start))} to {rounded(max(start))} times, depending on the start and on "
            "the way of counting",
        ),
    ]


def of_korattikara() -> list[tuple[str, str]]:
    """Return the claims of Korattikara et al."""
    levels = ("0.01", "0.05", "0.1", "0.2")
    risk = "korattikara_risk"
    shares = [100.0 / claim(risk, f"ε = {level}: draws for the rows").measured for level in levels]
    errors = column("korattikara_error", 1, 3)
    designs = [
        _mean(row[2]) / _mean(row[0])
        for table in stored("korattikara_designs").tables
        for row in table.rows
    ]
    bias = column("korattikara_ica", 1, 4)
    components = claim("korattikara_ica", "two normal sources: risk with ε = 0").measured
    selection = claim("korattikara_selection", "risk with ε = 0").measured
    digits = claim(risk, "least risk at ε > 0 after all rows").measured
    exact = claim(risk, "TunaMH, default settings: risk").measured
    return [
        (
            "**Korattikara et al.:** a sequential test decides from a fraction of the data",
            f"yes: [{listed(shares, ' %')}]({KORATTIKARA}#risk-of-predictions) at ε = .01, .05, "
            f".1 and .2, with acceptance errors of [{rounded(errors['0.01'])} to "
            f"{rounded(errors['0.2'])}]({KORATTIKARA}#error-of-the-sequential-test)",
        ),
        (
            "its bias can be controlled",
            f"for a decision: [errors of {rounded(min(designs))} to {rounded(max(designs))} times "
            f"their target]({KORATTIKARA}#designs-of-the-sequential-test); not for the posterior: "
            f"[a mean of {rounded(bias[0.0])} becomes {rounded(bias[0.2])}]"
            f"({KORATTIKARA}#independent-components) at ε = .2",
        ),
        (
            "lower variance makes up for the bias",
            "if variance is most of the risk, which falls to "
            f"[{rounded(1.0 / components)}]({KORATTIKARA}#independent-components), "
            f"[{rounded(1.0 / selection)}]({KORATTIKARA}#variable-selection), and [perhaps "
            f"{rounded(digits)}]({KORATTIKARA}#risk-of-predictions). The exact `TunaMH` reaches "
            f"[{exact:.1e}]({KORATTIKARA}#risk-of-predictions) if there is a mode",
        ),
    ]


def of_zhang() -> list[tuple[str, str]]:
    """Return the claims of Zhang et al."""
    distances = column("zhang_gap", 0, 4)
    inexact = [distances[name] for name in ("Austere, ε = .05", "Austere, ε = .01", "Barker")]
    _, gaps = stored("zhang_gap").tables
    level = [row for row in gaps.rows if row[0] == 0.0]
    promised, kept = ([_mean(row[index]) for row in level] for index in (1, 3))
    drift = f"{ZHANG}#approximate-tests-that-drift"
    saved = claim("zhang_logistic", "TunaMH(): rows an effective draw").measured
    return [
        (
            "**Zhang et al.:** approximate tests can be arbitrarily wrong",
            f"yes: [total variations of {rounded(min(inexact))} to {rounded(max(inexact))}]"
            f"({drift}) on 200 states",
        ),
        (
            "one number of TunaMH trades observations for convergence",
            f"yes: [spectral gaps]({drift}) of {rounded(min(kept))} to {rounded(max(kept))}, "
            f"relative to all rows, with a promise of {rounded(min(promised))} to "
            f"{rounded(max(promised))}",
        ),
        (
            "it needs the fewest observations, up to a constant",
            f"not an experiment; they [grow]({ZHANG}#rows-against-the-size-of-the-data) as "
            "corollary 1 says",
        ),
        (
            "it is better than other exact methods",
            f"without a mode: [yes]({ZHANG}#a-truncated-mixture), [yes]({ZHANG}#handwritten-digits"
            f"-7-against-9), and [no]({ZHANG}#robust-regression) for robust regression. With "
            f"one: [no]({ZHANG}#handwritten-digits-7-against-9) for the published form, next to "
            f"FlyMC-MAP; control variates save [{rounded(saved)} times]({ZHANG}#handwritten-digits"
            "-7-against-9) the observations",
        ),
    ]


def of_the_mode() -> str:
    """Return what methods of Zhang et al. cost, and what those that know the mode cost."""
    parts = []
    for what, script, table, cost, tuna, ours in (
        ("robust regression of 100,000 rows", "zhang_regression", 2, 8, "TunaMH", "default TunaMH"),
        ("the digits", "zhang_logistic", 1, 4, "Tuna, χ = 0.0005", "TunaMH()"),
    ):
        rows = column(script, table, cost)
        figures = [rounded(rows[name]) for name in (tuna, "SMH-2", "FlyMC-MAP", ours)]
        parts.append("{}, {}, {} and {} for ".format(*figures) + what)
    return (
        "Observations for an effective draw of TunaMH as published, SMH-2, FlyMC-MAP and TunaMH "
        "with its defaults: " + ", and ".join(parts) + ".\n"
    )
