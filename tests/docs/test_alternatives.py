"""The page on alternatives shows the stored results, and says what they show."""

import json

from benchmarks import alternatives_page as page
from papers import provenance

RESULTS = json.loads(page.RESULTS.read_text(encoding="utf-8"))


def test_the_page_is_that_of_the_results():
    assert page.PAGE.read_text(encoding="utf-8") == page.written()


def test_results_are_stored_with_their_record():
    for name in page.MODELS:
        assert RESULTS[name]["run"].keys() == provenance.KEYS
        command = f"python -m benchmarks.alternatives {name}"
        assert RESULTS[name]["run"]["command"].startswith(command)


def of(model, method):
    """Return the worst error of a mean, and the worst tail, of a method."""
    entries = RESULTS[model]["methods"][method]["unknowns"].values()
    tails = [abs(each[side] - 0.025) for each in entries for side in ("below", "above")]
    return max(abs(each["mean"]) for each in entries), max(tails)


def test_laplace_is_right_for_common_parameters_and_wrong_for_rare_ones():
    assert of("common", "Laplace")[0] < 0.05
    for model in ("rare", "groups"):
        assert of(model, "Laplace")[0] > 0.1
        assert of(model, "Laplace")[1] > 0.01


def test_draws_of_tuna_differ_by_their_monte_carlo_error():
    for model in page.MODELS:
        mean, tail = of(model, "TunaMH")
        assert mean < 0.05
        assert tail < 0.005


def test_the_worst_figures_are_over_all_unknowns():
    one = {"mean": -0.2, "sd": 0.9, "below": 0.01, "above": 0.02}
    other = {"mean": 0.1, "sd": 1.1, "below": 0.03, "above": 0.04}
    assert page.worst({"a": one, "b": other}) == ("0.20", "0.90 to 1.10", "1.0 to 4.0")
