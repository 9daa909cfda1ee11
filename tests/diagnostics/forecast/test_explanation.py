import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from diagnostics.forecast.samples import EXPLANATION, NUTS_UNTIMED
from every import every
from pymc_minibatch_mh.diagnostics.explanation import (
    WIDTH,
    Section,
    as_html,
    as_text,
    summary_as_html,
)

EXPECTED = Path(__file__).with_name("explanation.txt")


class Text(HTMLParser):
    """Collects what a browser would show, and the tags that it would see."""

    def __init__(self, page):
        super().__init__()
        self.shown, self.tags = "", set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.shown += f" {data}"


def words(text):
    return re.sub(r"\s+", " ", text).strip()


def test_text_and_html_hold_every_field():
    """No two fields of the record have the same value; the file was read against it."""
    assert str(EXPLANATION) == repr(EXPLANATION) == EXPECTED.read_text(encoding="utf-8")
    page = EXPLANATION._repr_html_()
    assert words(Text(page[page.index("<details>") :]).shown) == words(str(EXPLANATION))


def test_flags_and_unknown_figures_are_said():
    certificate = replace(EXPLANATION.certificate, certified=False, looseness=float("nan"))
    forecast = replace(EXPLANATION.forecast, preparation_seconds=float("nan"), acceptance_error=0.0)
    nuts = replace(EXPLANATION.nuts, condition_number=float("nan"))
    changed = replace(
        EXPLANATION, certificate=certificate, forecast=forecast, approximate=None, nuts=nuts
    )
    text = str(changed)
    assert "not certified" in text
    assert "not certified" not in str(EXPLANATION)
    assert "not measured" in text
    assert "κ unknown" in text
    assert "is off by" not in text
    assert "nan" not in text
    assert "no gradient" in str(replace(changed, nuts=None))


def test_nuts_that_was_not_timed_has_no_speed():
    text = words(str(replace(EXPLANATION, nuts=NUTS_UNTIMED)))
    section = text[text.index("NUTS gradient not compiled") :]
    assert "35.0 per effective draw" in section
    assert "κ = 49" in section
    assert "nuts=True" in section
    assert "µs, all rows" not in section
    assert "effective draws a second" not in section


def test_the_names_are_written_to_be_pasted():
    text = str(EXPLANATION)
    assert "pm.sample(..., var_names=['alpha', 'gaps'])" in text
    silent = str(replace(EXPLANATION, large_deterministics=()))
    assert "var_names" not in silent


def test_everything_between_tags_is_escaped():
    hostile = "<script>alert('&')</script>"
    page = Text(as_html((Section(hostile, ((hostile, hostile),)),)))
    assert page.tags == {"details", "summary", "table", "tr", "td"}
    assert page.shown.count(hostile) == 3
    summary = Text(summary_as_html(hostile, hostile, [(hostile, hostile)], 0.5))
    assert summary.tags == {"p", "b", "span", "br", "div"}
    assert summary.shown.count(hostile) == 4


def test_a_notebook_shows_the_verdict_three_figures_and_a_bar():
    seen, *_ = EXPLANATION._repr_html_().split("<details>")
    shown = words(Text(seen).shown)
    forecast = EXPLANATION.forecast
    figures = f"9.87 of {EXPLANATION.n_rows:,}", "54,321", "2.3%"
    for text in (EXPLANATION.recommended, EXPLANATION.reason, *figures):
        assert text in shown
    quarter = replace(forecast, rows_per_update=EXPLANATION.n_rows / 4)
    assert "width:25.0%" in replace(EXPLANATION, forecast=quarter)._repr_html_()
    refused = replace(EXPLANATION, forecast=None)._repr_html_()
    assert "div" not in refused.split("<details>")[0]


@every("label", ["short", "a label that is far longer than its column is wide"])
def test_text_is_wrapped_in_columns(label):
    value = "word " * 60 + "a_word_that_is_longer_than_" + "a_line_" * 15
    lines = as_text((Section("Title", ((label, value),)),)).splitlines()
    assert lines[0] == "Title"
    assert [line for line in lines if len(line) > WIDTH] == [lines[-1]]
    assert " ".join(" ".join(lines[1:]).split()) == f"{label} {value}"
