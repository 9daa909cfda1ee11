"""Every recipe runs as it stands, and finds the parameters that its data were generated with."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_minibatch_mh
from helpers.tiers import fast

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "recipes.md"
RECIPE = re.compile(r"^## ([^\n]*)\n(?:(?!^## ).)*?```python\n(.*?)```", re.DOTALL | re.MULTILINE)
CODE = dict(RECIPE.findall(PAGE.read_text(encoding="utf-8")))
#: Title -> posterior variable -> the value in the code.
TRUTH = {
    "Offsets": {"rate": -2.0, "slope": 0.4},
    "Survival with censoring": {"shape": 1.5, "level": 1.0, "slope": -0.3},
    "Survey weights": {"share": 0.5},
    "Splines": {},
    "Ordered categories": {"slope": 0.7, "cuts": [-1.0, 0.5, 2.0]},
    "Crossed effects": {"level": 0.3, "scale": [1.0, 0.5]},
    "Slopes by group": {"mean": [2.0, -0.5], "scale": [0.5, 0.3], "noise": 1.0},
    "Counts with many zeros": {"share": 0.7, "level": 1.0, "slope": 0.5, "alpha": 2.0},
    "Robust regression": {"level": 1.0, "slopes": [0.5, -0.3, 0.0], "scale": 0.8, "nu": 4.0},
    "Data larger than memory": {"level": -2.0, "beta": [0.5, -0.5, 0.2]},
}
#: Recipes that every run samples; rows of the others compile for longer.
LONG = ("Crossed effects", "Ordered categories", "Robust regression", "Counts with many zeros")
QUICK = [title for title in TRUTH if title not in LONG]
#: Largest distance of a posterior mean from the truth, in posterior standard deviations.
DISTANCE = 4.0
LONGEST = 24


@pytest.fixture
def short_chains(monkeypatch, tmp_path):
    """Sample in this process, from a fixed seed; files go nowhere."""
    monkeypatch.chdir(tmp_path)
    settings = {"tune": 500, "chains": 2, "random_seed": 3, "progressbar": False, "quiet": True}
    for module in (pm, pymc_minibatch_mh):

        def short(*steps, sample=module.sample, **named):
            return sample(*steps, **{"cores": 1} | settings | named)

        monkeypatch.setattr(module, "sample", short)


def test_every_recipe_has_its_truth():
    assert list(CODE) == list(TRUTH)
    assert max(code.count("\n") for code in CODE.values()) <= LONGEST


@pytest.mark.usefixtures("short_chains")
# PyMC leaves data of files out of a trace, and says so.
@pytest.mark.filterwarnings("ignore:Could not extract data from symbolic observation")
@pytest.mark.parametrize("title", fast(TRUTH, QUICK))
def test_a_recipe_finds_what_generated_its_data(title):
    found, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(CODE[title], found)  # noqa: S102 - the page of this very checkout
    trace = found["trace"]
    assert "r_hat" in printed.getvalue()
    for name, value in TRUTH[title].items():
        draws = trace.posterior[name]
        distance = (draws.mean(("chain", "draw")) - value) / draws.std(("chain", "draw"))
        assert np.abs(distance).max() < DISTANCE, name
    # Subsampling pays: this is what recipes are for.
    assert trace.sample_stats["n_obs"].mean() < 100
