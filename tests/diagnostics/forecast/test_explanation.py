import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from diagnostics.forecast.samples import EXPLANATION, NUTS_UNTIMED
from pymc_minibatch_mh.diagnostics.sheet import WIDTH, Fact, Sheet, format_duration

EXPECTED = Path(__file__).with_name("explanation.txt")
#: Fields of the sheet alone, and not of the six lines.
LABELS = (
    "recommended",
    "exact",
    "observations a draw",
    "1,000 effective draws",
    "evaluated in full",
    "NUTS",
)


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


def test_six_lines_answer_six_questions():
    accepted = replace(EXPLANATION, refused="")
    first = [line[:22].strip() for line in str(accepted).splitlines()]
    assert tuple(label for label in first if label) == LABELS


def test_a_notebook_shows_the_same_and_details_unfold():
    page = EXPLANATION._repr_html_()
    seen, unfolds = page.split("<details>")
    assert words(Text(seen).shown) == words(str(EXPLANATION))
    assert words(Text(unfolds).shown) == words(f"Details {EXPLANATION.details}")


def test_where_nuts_wins_the_line_to_type_is_given():
    text = str(replace(EXPLANATION, recommended="pm.NUTS", reason="it is faster"))
    assert 'pm.sample(nuts_sampler="nutpie"): it is faster' in text


def test_a_draw_of_several_updates_evaluates_the_observations_of_all():
    forecast = replace(EXPLANATION.forecast, updates_per_draw=2, full_pass_share=0.0)
    text = str(replace(EXPLANATION, forecast=forecast))
    assert "19.7 ± 1.3 of 1,100,000\n" in text


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


def test_nuts_that_was_left_out_has_no_speed():
    found = replace(EXPLANATION, nuts=NUTS_UNTIMED)
    assert "left out by nuts=False" in str(found)
    text = words(str(found.details))
    section = text[text.index("NUTS 1,000 effective draws") :]
    assert "35.0 per effective draw" in section
    assert "κ = 49" in section
    assert "ESS/s" not in section


def test_the_names_are_written_to_be_pasted():
    text = str(EXPLANATION.details)
    assert "pm.sample(..., var_names=['alpha', 'gaps'])" in text
    silent = replace(EXPLANATION, large_deterministics=())
    assert "var_names" not in str(silent.details)
    assert "fitted" not in str(silent)


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
