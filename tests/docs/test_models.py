"""The models that people asked about: their results are stored, and the page shows these."""

import json
import logging

import numpy as np
import pytest
import xarray as xr

from benchmarks import public_reports
from benchmarks.public_models.catalogue import MODELS
from docs.tools.models_page import PAGE, filled, line, others

STORED = public_reports.stored()
PAGE_NOW = PAGE.read_text(encoding="utf-8")
SAMPLED = {
    "step": "TunaMH", "setup_seconds": 3.0, "rows": 1_000, "sampling_seconds": 2.0,
    "read_per_update": 50.0, "ess": 500.0, "rhat": 1.01,
}  # fmt: skip


def test_the_page_shows_the_results():
    assert list(STORED) == list(MODELS)
    assert filled(PAGE_NOW, STORED) == PAGE_NOW
    name = next(iter(STORED))
    assert filled(PAGE_NOW, STORED | {name: SAMPLED}) != PAGE_NOW


def test_simulated_parameters_are_among_the_draws():
    assert {
        name: result["outside"] for name, result in STORED.items() if result.get("outside")
    } == {}


def test_a_parameter_outside_of_its_draws_is_told():
    draws = xr.Dataset({"a": (("chain", "draw", "k"), np.zeros((2, 10, 2)))}, {"k": [0, 1]})
    assert public_reports.outside(draws, {"a": (0.0, 0.0)}) == {}
    assert list(public_reports.outside(draws, {"a": (0.0, 0.1)})) == ["a"]


@pytest.mark.parametrize("words", [[], ["Many rows.", "Wide bounds."]])
def test_warnings_of_a_step_are_recorded(words, monkeypatch, capsys):
    def step(model):
        for each in words:
            logging.getLogger("pymc").warning(each)

    monkeypatch.setitem(public_reports.STEPS, "TunaMH", step)
    public_reports.prepared(None, "TunaMH")
    logging.getLogger("pymc").warning("Later.")
    result = {}
    for printed in capsys.readouterr().out.splitlines():
        result |= json.loads(printed)
    assert result.get("told", []) == words


def test_a_process_beyond_its_limit_is_ended_and_told():
    assert public_reports.in_a_process("quantile", {}, limit=1) == {"ended": 1}


def test_lines_say_what_became_of_a_model():
    assert line("quantile", SAMPLED)[3:] == ["1,000", "50.0 (5 %)", "500", "1.010", "3.0", "7"]
    assert line("quantile", SAMPLED | {"rhat": 1.2})[-1] == "chains disagree"
    ended = {"step": "TunaMH", "ended": 150}
    assert line("quantile", ended)[2:] == ["`TunaMH`", *"–––––", "above 150"]
    refused = {"step": "TunaMH", "refused": [1.5, "No bound."]}
    assert line("quantile", refused)[2] == "none"
    penalty = SAMPLED | {"step": "PenaltyMH"}
    told = others({"quantile": penalty | {"TunaMH": refused}, "energy": penalty})
    assert told.splitlines()[1:] == ["- `quantile`, by `TunaMH`: refused in 1.5 s: No bound."]
    told = others({"quantile": refused | {"PenaltyMH": penalty}, "energy": SAMPLED})
    assert told.splitlines()[1:] == [
        "- `quantile`, by `TunaMH`: refused in 1.5 s: No bound.",
        "- `quantile`, by `PenaltyMH`: 50.0 (5 %) rows per update, 500 effective draws, "
        "R-hat 1.010",
    ]
    told = others({"quantile": penalty | {"TunaMH": ended}})
    assert told.splitlines()[1:] == ["- `quantile`, by `TunaMH`: not done after 150 s"]
    warned = ended | {"setup_seconds": 4.0, "told": ["Many rows."]}
    assert others({"quantile": warned}).splitlines()[1:] == [
        "- `quantile`, by `TunaMH`: not done after 150 s; said in 4.0 s, when it was built: Many "
        "rows."
    ]


def test_a_model_is_sampled_by_the_second_step_if_the_first_does_not_serve_it(monkeypatch):
    results = {"TunaMH": SAMPLED | {"read_per_update": 51.0}, "PenaltyMH": SAMPLED}
    monkeypatch.setattr(
        public_reports, "in_a_process", lambda name, sizes, method="TunaMH": results[method]
    )
    assert public_reports.best_of("quantile") == SAMPLED | {"TunaMH": results["TunaMH"]}
    results["PenaltyMH"] = SAMPLED | {"ess": 399.0}
    expected = results["TunaMH"] | {"PenaltyMH": results["PenaltyMH"]}
    assert public_reports.best_of("quantile") == expected
    results["TunaMH"] = SAMPLED
    assert public_reports.best_of("quantile") == SAMPLED


@pytest.mark.parametrize("name", MODELS)
def test_models_are_described(name):
    report = MODELS[name]
    assert report.kind
    assert report.source
    assert (name in PAGE_NOW) == (name in STORED)


@pytest.mark.slow
def test_a_model_is_measured(capsys):
    public_reports.measure("hurdle_gamma", {"rows": 3_000})
    result = {}
    for printed in capsys.readouterr().out.splitlines():
        result |= json.loads(printed)
    assert (result["step"], result["rows"], result["outside"]) == ("TunaMH", 3_000, {})
    assert result["ess"] > 400.0
    assert result["read_per_update"] < 150.0
