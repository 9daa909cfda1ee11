"""Files, changed data, models without bounds or mode, and states of other steps."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm

from inputs.case import Section, build_on
from pymc_minibatch_mh import (
    BoundsError,
    ModeError,
    PenaltyMH,
    SettingError,
    StaleDataError,
)
from step.editable import EDITS, Editable, edited
from zoo import poisson, sample

files = Section("Files of prepared steps", SettingError)
models = Section("Models without bounds or without a mode", BoundsError)
states = Section("States of other steps")
changed = Section("Data and models that change after construction", StaleDataError)

DAMAGED = "is no file that step.save() wrote, or is damaged."
ANEW = "Leave it out to prepare the step anew."
PREPARED = "prepared='step.npz'"


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
    ("without its centre", without("surrogate_centre")),
    ("with another key", foreign_key),
):
    files.refuses(
        f"TunaMH(prepared=path) with a file {written}",
        "prepared='<folder>/other.npz'",
        DAMAGED,
        ANEW,
        call=reading(write),
    )
files.refuses(
    "TunaMH(prepared=path) with a folder",
    "prepared='<folder>'",
    DAMAGED,
    ANEW,
    call=lambda g: g.build("TunaMH", prepared=g.folder),
)
files.refuses(
    "TunaMH(prepared=path) without a file",
    "prepared='<folder>/missing.npz'",
    "does not exist.",
    "Write it with step.save(), or leave it out to prepare the step anew.",
    call=lambda g: g.build("TunaMH", prepared=g.folder / "missing.npz"),
    error=FileNotFoundError,
)
OTHER = "was saved for a model that differs in {}."
SAVE = "Leave it out to prepare the step anew, and save it again."
for written, what, settings in (
    ("another temperature", "temperature", {"temperature": 2.0}),
    ("another order", "taylor_order", {"taylor_order": 1}),
    ("weights", "the likelihood of 'counts'", {"weights": np.ones(5_000)}),
):
    files.refuses(
        f"TunaMH(prepared=path) with a file, and {written}",
        "prepared='<folder>/step.npz'",
        OTHER.format(what),
        SAVE,
        call=lambda g, settings=settings: g.build("TunaMH", prepared=g.file, **settings),
        error=StaleDataError,
    )
files.refuses(
    "TunaMH(prepared=path) with a file of other data",
    "prepared='<folder>/step.npz'",
    OTHER.format("'a data array of counts' (column 0)"),
    SAVE,
    call=lambda g: g.build("TunaMH", prepared=g.file, model=poisson(rows=4_999)),
    error=StaleDataError,
)

OWN_BOUNDS = (
    "Use BarkerMinibatchMH() or PenaltyMH(), which need no bounds, or pass bounds=Bounds(...) of "
    "your own."
)


def on_discrete_rows():
    level = pm.Normal("level", shape=2)
    k = pm.Bernoulli("k", 0.5)
    pm.Normal("y", level[k], observed=np.zeros(1_000))


models.refuses(
    "TunaMH() where rows depend on a discrete variable",
    "'y'",
    "depends on the discrete variable 'k' of another step, whose every value would need bounds of "
    "its own.",
    OWN_BOUNDS,
    call=lambda g: build_on(on_discrete_rows, "TunaMH"),
)
models.refuses(
    "PenaltyMH(taylor_order=2) where rows depend on a discrete variable",
    "taylor_order=2",
    "needs rows that can be expanded, but they depend on the discrete variable 'k'.",
    "Use taylor_order=0, or marginalise it.",
    call=lambda g: build_on(on_discrete_rows, taylor_order=2),
    error=SettingError,
)


def flat():
    a, b = pm.Flat("a"), pm.Flat("b")
    pm.Normal("y", a + b, observed=np.zeros(1_000))


PRIOR = (
    "Give the variable a proper, informative prior, such as pm.HalfNormal() for the scale of a "
    "hierarchy, whichever way that is written; or sample with pm.NUTS()."
)
models.refuses(
    "PenaltyMH() with two variables of which the data tell the sum",
    "'a', 'b':",
    "the log-posterior is flat or rises at its mode along these together, so it has no Gaussian "
    "scale there.",
    PRIOR,
    call=lambda g: build_on(flat),
    error=ModeError,
)


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


SUMS = "so its mode and its sums over the rows are those of"
for written, edit, variable in (
    ("pm.set_data() of one row", "pm.set_data in the second row", "design"),
    ("pm.set_data() of another length", "pm.set_data of another length", "few_data"),
    ("x *= 0.5 of a predictor", "a predictor in place", "a data array of y"),
    ("weights[1] = 2", "a weight in place", "weights of y"),
    ("set_value() of a pytensor.shared", "a shared variable", "offset"),
    ("set_value() of one in a prior", "a shared number in a prior", "a number of level"),
):
    changed.refuses(
        f"{written}, then pm.sample()",
        f"{variable!r}",
        f"changed after this step was built, {SUMS} other data.",
        "Build PenaltyMH() again.",
        call=after(edit),
    )
for written, edit, variable, what in (
    ("another pm.Potential", "a potential that is added", "late", "was added to the model"),
    ("another likelihood", "a likelihood that is added", "late", "was added to the model"),
    ("model.potentials.pop()", "a potential that is removed", "pull", "was removed from the model"),
):
    changed.refuses(
        f"{written}, then pm.sample()",
        f"{variable!r}",
        f"{what} after this step was built, {SUMS} another model.",
        "Build PenaltyMH() again.",
        call=after(edit),
    )


AS_THAT = "Build the step as the one whose state it is."


@states.refuses(
    "step.sampling_state = that of a step with updates_per_draw=5",
    "updates_per_draw=1",
    "is not that of the sampling state, 5.",
    AS_THAT,
)
def of_other_settings(g):
    g.step.sampling_state = replace(g.step.sampling_state, updates_per_draw=5)


for written, what, value, named in (
    ("on other data", "'a data array of counts' (column 0)", "", ""),
    ("of another order", "taylor_order", "1", " (1, not 2)"),
    ("of another temperature", "temperature", "2.0", " (2.0, not 1.0)"),
    ("of another method", "method", "PenaltyMH", " (PenaltyMH, not TunaMH)"),
    ("with another test", "the settings of its test", "", ""),
    ("with other bounds", "its bounds", "", ""),
    ("with another proposal", "its proposal", "RandomWalk()", ""),
):
    states.refuses(
        f"step.sampling_state = that of a step {written}",
        "sampling_state=",
        f"is of a step that differs in {what}{named}.",
        AS_THAT,
        call=lambda g, what=what, value=value: setattr(
            g.step,
            "sampling_state",
            replace(g.step.sampling_state, key=g.step.key | {what: value}),
        ),
    )


@states.refuses(
    "step.sampling_state = one whose arrays were cut",
    "sampling_state=",
    "has 'warm_up_sum' of shape (7,) instead of (2,), so it is of another model, method or "
    "proposal.",
    AS_THAT,
)
def of_another_shape(g):
    state = g.step.sampling_state
    cut = replace(state.chain_state, warm_up_sum=np.zeros(7))
    g.step.sampling_state = replace(state, chain_state=cut)


@states.refuses(
    "step.sampling_state = {}",
    "sampling_state=dict",
    "is no state of this step.",
    "Give one that step.sampling_state returned.",
)
def of_another_step(g):
    g.step.sampling_state = {}


files.refuses(
    "step.save(3)",
    "path=3",
    "is no path.",
    "Give that of the file to write.",
    call=lambda g: g.step.save(3),
)

CASES = [*files.cases, *models.cases, *changed.cases, *states.cases]
