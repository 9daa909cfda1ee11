"""The Python of the documentation runs, and prints what the pages say."""

import contextlib
import io
import re
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytest

from docs.taken import taken
from pymc_minibatch_mh.diagnostics import forecast as nuts

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<output>.*?)```)?", re.DOTALL)
#: What reruns of a page on another machine may change: how far a float in its output is off.
RELATIVE = 0.02
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


@pytest.fixture(scope="module")
def given():
    """What the pages take as given: a model, its data, and the imports of earlier pages."""
    return taken() | {"az": az}


@pytest.fixture
def short_chains(monkeypatch, tmp_path):
    """Cut every run to a few draws in this process, from fixed seeds; files go nowhere."""
    monkeypatch.chdir(tmp_path)
    sample = pm.sample

    def short(draws=1_000, **settings):
        settings |= {"tune": 200, "cores": 1, "quiet": True, "compute_convergence_checks": False}
        with pytensor.config.change_flags(linker="py", cxx=""):
            return sample(min(draws, 200), random_seed=3, **settings)

    monkeypatch.setattr(pm, "sample", short)
    # To compile what NUTS needs takes longer than all of the pages together.
    monkeypatch.setattr(nuts, "seconds_per_call", lambda *_: (30.0, 1e-3))


def blocks(page):
    return [
        (match["code"], match["output"])
        for match in BLOCK.finditer((ROOT / page).read_text(encoding="utf-8"))
    ]


def run(code, namespace):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)  # noqa: S102 - the pages of this very checkout
    return printed.getvalue()


# PyMC leaves data of files out of a trace, and says so.
@pytest.mark.filterwarnings("ignore:Could not extract data from symbolic observation")
@pytest.mark.usefixtures("short_chains")
@pytest.mark.parametrize(
    "page",
    [
        f"docs/{name}.md"
        for name in (
            "howto/when_not",
            "choose",
            "models",
            "use",
            "big-data",
            "before",
            "after",
            "bounds",
            "background/derivation",
        )
    ],
)
def test_snippets_run_and_print_what_the_page_says(page, given):
    namespace, snippets = dict(given), blocks(page)
    assert snippets
    for code, output in snippets:
        printed = run(code, namespace)
        if output is not None:
            assert NUMBER.sub("#", printed) == NUMBER.sub("#", output)
            numbers = [[float(n) for n in NUMBER.findall(text)] for text in (printed, output)]
            np.testing.assert_allclose(*numbers, rtol=RELATIVE)


def test_derived_bounds_cover_bounds_by_hand():
    page = (ROOT / "docs/background/derivation.md").read_text()
    pairs = re.findall(r"by hand (\S+), derived (\S+)\n", page)
    assert len(pairs) == 1
    assert all(float(by_hand) <= float(derived) for by_hand, derived in pairs)


def test_the_figure_of_the_bounds_is_small_and_there():
    assert 0 < (ROOT / "docs/figures/bound.svg").stat().st_size < 150_000
