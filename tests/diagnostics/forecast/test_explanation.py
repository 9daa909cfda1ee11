import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from diagnostics.forecast.samples import EXPLANATION
from pymc_minibatch_mh.diagnostics.sheet import WIDTH, Fact, Sheet, format_duration

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


def test_six_lines_and_details_are_as_they_were_read():
    """No two fields of the record have the same value; the file was read against it."""
    printed = f"{EXPLANATION}\n\n{EXPLANATION.details}\n"
    assert printed == EXPECTED.read_text(encoding="utf-8")
    assert str(EXPLANATION) == repr(EXPLANATION)


def test_a_notebook_shows_the_same_and_details_unfold():
    page = EXPLANATION._repr_html_()
    seen, unfolds = page.split("<details>")
    assert words(Text(seen).shown) == words(str(EXPLANATION))
    assert words(Text(unfolds).shown) == words(f"Details {EXPLANATION.details}")


def test_flags_and_unknown_figures_are_said():
    certificate = replace(EXPLANATION.certificate, certified=False)
    forecast = replace(EXPLANATION.forecast, preparation_seconds=float("nan"), acceptance_error=0.0)
    nuts = replace(EXPLANATION.nuts, condition_number=float("nan"))
    changed = replace(
        EXPLANATION, certificate=certificate, forecast=forecast, approximate=None, nuts=nuts
    )
    text = f"{changed} {changed.details}"
    assert "no proved bounds" in text
    assert "exact given valid bounds: bounds were derived" in text
    assert "no proved bounds" not in str(EXPLANATION.details)
    assert "preparation took" not in text
    assert "κ unknown" in text
    assert "estimated error" not in text
    assert "nan" not in text
    assert "cannot sample this model" in str(replace(changed, nuts=None))


def test_everything_between_tags_is_escaped_and_no_markup_is_read():
    hostile = "<script>alert('&')</script> [bold]b[/bold]"
    page = Text(Sheet((Fact(hostile, "label", hostile),))._repr_html_())
    assert page.tags == {"pre"}
    assert words(page.shown) == words(f"{hostile} label {hostile}")


def test_values_are_wrapped_in_their_column():
    value = "word " * 60 + "a_word_that_is_longer_than_" + "a_line_" * 15
    title, *lines = str(Sheet((Fact("Title", "label", value),))).splitlines()
    assert title == "Title"
    assert max(map(len, lines)) <= WIDTH
    column = lines[0].index("word")
    assert all(line[:column].strip() in {"", "label"} for line in lines)
    joined = "".join(line[column:] for line in lines).replace(" ", "")
    assert joined == value.replace(" ", "")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0312, "0.031 s"), (119.0, "1.2e+02 s"), (121.0, "2 minutes"), (9_000.0, "2.5 hours")],
)
def test_durations_have_two_digits(seconds, said):
    assert format_duration(seconds) == said.replace("1.2e+02", "120")
