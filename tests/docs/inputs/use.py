"""Files, changed data, models without bounds or mode, and states of other steps."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm

from docs.inputs.case import Section, build_on
from helpers.models import poisson
from helpers.without_bounds import marks_of_raters
from helpers.zoo import sample
from pymc_minibatch_mh import PenaltyMH, TunaMH
from steps.editable import EDITS, Editable, edited

files = Section("Files of prepared steps")
models = Section("Models without bounds or without a mode")
states = Section("States of other steps")
changed = Section("Data and models that change after construction")


def reading(write):
    """Return the call that reads a file which `write` makes of the right one."""

    def call(g):
        path = g.folder / "other.npz"
        write(g.file, path)
        g.build("TunaMH", prepared=path)

    return call


def without(name):
    """Return what copies a file except for one array."""

    def write(right, path):
        with np.load(right) as archive:
            np.savez(path, **{key: archive[key] for key in archive.files if key != name})

    return write


def truncated(right, path):
    path.write_bytes(right.read_bytes()[:-2_000])


def text(right, path):
    path.write_text("no archive")


def foreign(right, path):
    np.savez(path, a=np.zeros(3))


def foreign_key(right, path):
    with np.load(right) as archive:
        np.savez(path, **{**archive, "key": np.asarray("[1, 2]")})


for written, write in (
    ("of text", text),
    ("of other arrays", foreign),
    ("that is cut", truncated),
    ("without its bounds", without("c")),
    ("without its centre", without("reference_centre")),
    ("with another key", foreign_key),
):
    files.gives(f"TunaMH(prepared=path) with a file {written}", reading(write))
files.gives("TunaMH(prepared=path) with a folder", lambda g: g.build("TunaMH", prepared=g.folder))
files.gives(
    "TunaMH(prepared=path) without a file",
    lambda g: g.build("TunaMH", prepared=g.folder / "missing.npz"),
)
for written, settings in (
    ("another temperature", {"temperature": 2.0}),
    ("another order", {"taylor_order": 1}),
    ("weights", {"weights": np.ones(5_000)}),
):
    files.gives(
        f"TunaMH(prepared=path) with a file, and {written}",
        lambda g, settings=settings: g.build("TunaMH", prepared=g.file, **settings),
    )
files.gives(
    "TunaMH(prepared=path) with a file of other data",
    lambda g: g.build("TunaMH", prepared=g.file, model=poisson(rows=4_999)),
)


def on_discrete_rows():
    level = pm.Normal("level", shape=2)
    k = pm.Bernoulli("k", 0.5)
    pm.Normal("y", level[k], observed=np.zeros(1_000))


models.gives(
    "TunaMH() of marks by raters with thresholds of their own",
    lambda g: TunaMH(model=marks_of_raters()),
)
models.gives(
    "TunaMH() where rows depend on a discrete variable",
    lambda g: build_on(on_discrete_rows, "TunaMH"),
)
models.gives(
    "PenaltyMH(taylor_order=2) where rows depend on a discrete variable",
    lambda g: build_on(on_discrete_rows, taylor_order=2),
)


def free_scale():
    level, scale = pm.Normal("level"), pm.HalfNormal("scale")
    pm.Normal("y", level, scale, observed=np.zeros(1_000))


models.gives(
    "TunaMH(taylor_order=3) where observations have several linear predictors",
    lambda g: build_on(free_scale, "TunaMH", taylor_order=3),
)


def flat():
    a, b = pm.Flat("a"), pm.Flat("b")
    pm.Normal("y", a + b, observed=np.zeros(1_000))


models.gives(
    "PenaltyMH() with two variables of which the data tell the sum", lambda g: build_on(flat)
)


def horseshoe():
    """Declare coefficients with one scale each."""
    local = pm.HalfCauchy("local", 1.0, shape=20)
    b = pm.Normal("b", 0.0, local * pm.HalfCauchy("tau", 1.0), shape=20)
    pm.Normal("y", np.ones((1_000, 20)) @ b, observed=np.zeros(1_000))


models.gives("PenaltyMH() with 20 coefficients of one scale each", lambda g: build_on(horseshoe))


@cache
def built():
    """Return a model that holds data in every way, and a step on it."""
    written = Editable()
    return written, PenaltyMH(model=written.model, weights=written.weights)


def after(edit):
    """Return the call that samples with a step whose model was edited after it was built."""

    def call(g):
        written, step = built()
        with edited(written, EDITS[edit][0]):
            sample(written.model, step, 5, 5)

    return call


for written, edit in (
    ("pm.set_data() of one row", "pm.set_data in the second row"),
    ("pm.set_data() of another length", "pm.set_data of another length"),
    ("x *= 0.5 of a predictor", "a predictor in place"),
    ("weights[1] = 2", "a weight in place"),
    ("set_value() of a pytensor.shared", "a shared variable"),
    ("set_value() of one in a prior", "a shared number in a prior"),
    ("another pm.Potential", "a potential that is added"),
    ("another likelihood", "a likelihood that is added"),
    ("model.potentials.pop()", "a potential that is removed"),
):
    changed.gives(f"{written}, then pm.sample()", after(edit))


@states.gives("step.sampling_state = that of a step with updates_per_draw=5")
def of_other_settings(g):
    g.step.sampling_state = replace(g.step.sampling_state, updates_per_draw=5)


for written, what, value in (
    ("on other data", "'a data array of counts' (column 0)", ""),
    ("of another order", "taylor_order", "1"),
    ("of another temperature", "temperature", "2.0"),
    ("of another method", "method", "PenaltyMH"),
    ("with another test", "the settings of its test", ""),
    ("with other bounds", "its bounds", ""),
    ("with another proposal", "its proposal", "RandomWalk()"),
):
    states.gives(
        f"step.sampling_state = that of a step {written}",
        lambda g, what=what, value=value: setattr(
            g.step,
            "sampling_state",
            replace(g.step.sampling_state, key=g.step.key | {what: value}),
        ),
    )


@states.gives("step.sampling_state = one whose arrays were cut")
def of_another_shape(g):
    state = g.step.sampling_state
    cut = replace(state.chain_state, warm_up_sum=np.zeros(7))
    g.step.sampling_state = replace(state, chain_state=cut)


@states.gives("step.sampling_state = {}")
def of_another_step(g):
    g.step.sampling_state = {}


files.reads("step.save(3)")

CASES = [*files.cases, *models.cases, *changed.cases, *states.cases]
