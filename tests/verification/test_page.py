"""README.md shows what the catalogues and the stored figures say."""

import json

from every import every
from verification.page import FIGURES, PAGE, between, figures, tables

MADE = tables()


@every("name", MADE)
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
    monkeypatch.setattr("verification.page.EDITED", [])
    page = PAGE.read_text(encoding="utf-8")
    assert between(page, "edited mutants") != tables()["edited mutants"]
