"""README.md shows what the catalogues and the stored figures say."""

import json
import re
from pathlib import Path

import pytest

from docs.tools.inputs_page import ACCEPTED, on_the_page
from docs.tools.inputs_page import PAGE as INPUTS
from docs.tools.verification_page import FIGURES, PAGE, between, figures, read, tables
from law.exactness import law
from law.golden.combinations import COMBINATIONS
from law.statistical.posteriordb import POSTERIORS
from models.gallery.catalogue import EXAMPLES
from mutants import c_sources
from mutants.catalogue import EDITED
from mutants.held import HELD

MADE = tables()
TESTING = Path(__file__).parents[3] / "docs" / "background" / "testing.md"
WORDS = {"three": 3, "four": 4, "five": 5}
#: What the page of the documentation counts: words around a number -> how many there are, and by
#: how many they may exceed the number.
COUNTED = {
    r"More than (\w+) mistakes are made": (
        len(EDITED) + len(c_sources.catalogue()) + len(HELD),
        100,
    ),
    r"More than (\w+) invalid inputs": (
        sum(x != ACCEPTED for x in on_the_page(INPUTS.read_text(encoding="utf-8")).values()),
        100,
    ),
    r"draws of (\w+) combinations": (len(COMBINATIONS), 9),
    r"on (\w+) random chains per method": (
        min(row["chains"] for row in read(law.EXACT_FILE).values()),
        0,
    ),
    r"standard deviations of (\w+) posteriors": (len(POSTERIORS), 0),
    r"(\w+) models of PyMC's gallery": (len(EXAMPLES), 0),
}


@pytest.mark.parametrize(("words", "count"), COUNTED.items())
def test_the_documentation_counts_what_is_there(words, count):
    text = " ".join(TESTING.read_text(encoding="utf-8").split())
    there, beyond = count
    found = re.findall(words, text)
    assert found
    for said in found:
        number = WORDS.get(said) or int(said)
        assert number <= there <= number + beyond, f"{there} where the page says {said}"


@pytest.mark.parametrize("name", MADE)
def test_the_page_shows_what_is_stored(name):
    assert between(PAGE.read_text(encoding="utf-8"), name) == MADE[name]


def test_figures_of_a_section_have_their_form(tmp_path):
    for path in FIGURES.values():
        for row in json.loads(path.read_text()).values() if path.exists() else []:
            assert set(row) >= {"asked", "measured", "command", "seed"}
    path = tmp_path / "figures.json"
    row = {"asked": "< 1", "measured": "0.2", "command": "pytest -m slow", "seed": 3}
    path.write_text(json.dumps({"memory": row}))
    assert "| memory | < 1 | 0.2 | `pytest -m slow` | 3 |" in figures(path)


def test_another_figure_would_show(monkeypatch):
    monkeypatch.setattr("docs.tools.verification_page.EDITED", [])
    page = PAGE.read_text(encoding="utf-8")
    assert between(page, "edited mutants") != tables()["edited mutants"]
