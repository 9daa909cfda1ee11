"""A model that holds data in every way, and all that a stranger may do to it after building."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pymc as pm
import pytensor

ROWS = 10_000
Undo = Callable[[], object]
Edit = Callable[["Editable"], Undo]


class Editable:
    """The model, and the arrays and shared variables that it was written with."""

    def __init__(self) -> None:
        rng = np.random.default_rng(31)
        self.x, self.y = rng.normal(size=(2, ROWS))
        self.weights = np.ones(ROWS)
        self.mean, self.pull, self.known = np.zeros(3), np.ones(3), np.ones(5)
        self.scale = pytensor.shared(2.0)
        self.offset = pytensor.shared(rng.normal(size=ROWS), name="offset")
        self.factor = pytensor.shared(np.ones(5), name="factor")
        with pm.Model(coords={"group": list("abc")}) as self.model:
            design = pm.Data("design", rng.normal(size=(ROWS, 2)))
            unused = pm.Data("unused", np.zeros(3))
            level = pm.Normal("level", self.mean, self.scale, dims="group")
            slope = pm.HalfNormal("slope")
            pm.Deterministic("prediction", unused * slope)
            pm.Potential("pull", -(self.pull * level**2).sum())
            pm.Normal("few", level[0], observed=pm.Data("few_data", np.zeros(5)))
            pm.CustomDist("custom", level[1], logp=self.logp, observed=np.zeros(5))
            mu = design @ level[:2] + slope * self.x + self.offset
            pm.Normal("y", mu, observed=self.y)

    def logp(self, value, level):
        """Return a log-density that computes with an array of its own."""
        return -((value - self.factor * self.known * level) ** 2)


def set_data(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Edit:
    """Give a pm.Data other values."""

    def edit(m: Editable) -> Undo:
        before = m.model[name].get_value()
        pm.set_data({name: change(before)}, model=m.model)
        return lambda: pm.set_data({name: before}, model=m.model)

    return edit


def in_row(row: int) -> Callable[[np.ndarray], np.ndarray]:
    """Change one row."""

    def change(values: np.ndarray) -> np.ndarray:
        other = values.copy()
        other[row] += 0.5
        return other

    return change


def in_place(array_of: Callable[[Editable], np.ndarray]) -> Edit:
    """Change an array where it lies."""

    def edit(m: Editable) -> Undo:
        array = array_of(m)
        before = array.copy()
        array += 0.5
        return lambda: np.copyto(array, before)

    return edit


def other_value(name: str) -> Edit:
    """Give a shared variable another value."""

    def edit(m: Editable) -> Undo:
        shared = getattr(m, name)
        before = shared.get_value()
        shared.set_value(before + 0.5)
        return lambda: shared.set_value(before)

    return edit


def declared(kind: str, declare: Callable[[pm.Model], object]) -> Edit:
    """Declare one more variable."""

    def edit(m: Editable) -> Undo:
        with m.model:
            variable = declare(m.model)

        def undo() -> None:
            getattr(m.model, kind).remove(variable)
            del m.model.named_vars[variable.name]

        return undo

    return edit


def removed(m: Editable) -> Undo:
    """Take the potential away."""
    potential = m.model.potentials.pop()
    return lambda: m.model.potentials.append(potential)


def without_transform(m: Editable) -> Undo:
    """Take away the transform of a variable."""
    transforms, slope = m.model.rvs_to_transforms, m.model["slope"]
    before, transforms[slope] = transforms[slope], None
    return lambda: transforms.update({slope: before})


#: What is done -> how, and what the message says of it.
EDITS: dict[str, tuple[Edit, str]] = {
    "pm.set_data in the second row": (set_data("design", in_row(1)), "'design' changed"),
    "pm.set_data in the last row": (set_data("design", in_row(-1)), "'design' changed"),
    "pm.set_data of what is not subsampled": (
        set_data("few_data", in_row(0)), "'few_data' changed"),
    "pm.set_data of another length": (
        set_data("few_data", lambda values: values[:4]), "'few_data' changed"),
    "the array of a pm.Data in place": (
        in_place(lambda m: m.model["design"].get_value(borrow=True)), "'design' changed"),
    "a predictor in place": (in_place(lambda m: m.x), "'a data array of y' changed"),
    "one of its numbers in place": (
        in_place(lambda m: m.x[17:18]), "'a data array of y' changed"),
    "PyMC's copy of the observations in place": (
        in_place(lambda m: m.model.rvs_to_values[m.model["y"]].data), "'y' changed"),
    "a weight in place": (in_place(lambda m: m.weights[1:2]), "'weights of y' changed"),
    "a shared variable": (other_value("offset"), "'offset' changed"),
    "a shared number in a prior": (other_value("scale"), "'a number of level' changed"),
    "an array in a prior": (in_place(lambda m: m.mean), "'a data array of level' changed"),
    "an array in a potential": (in_place(lambda m: m.pull), "'a data array of pull' changed"),
    "an array in a log-density": (
        in_place(lambda m: m.known), "'a data array of the prior part' changed"),
    "a shared variable in a log-density": (other_value("factor"), "'factor' changed"),
    "a potential that is added": (
        declared("potentials", lambda model: pm.Potential("late", -model["slope"])),
        "'late' was added to the model"),
    "a likelihood that is added": (
        declared("observed_RVs", lambda model: pm.Normal("late", observed=np.ones(3))),
        "'late' was added to the model"),
    "a variable that is added": (
        declared("free_RVs", lambda model: pm.Normal("late")), "'late' was added to the model"),
    "a potential that is removed": (removed, "'pull' was removed from the model"),
    "another transform": (without_transform, "'slope' got other values or another transform"),
}  # fmt: skip
#: What is done without any effect on the log-density -> how.
HARMLESS: dict[str, Edit] = {
    "pm.set_data of what no density depends on": set_data("unused", in_row(1)),
    "pm.set_data of the same numbers": set_data("design", np.copy),
    "the user's own copy of the observations": in_place(lambda m: m.y),
    "a Deterministic that is added": declared(
        "deterministics", lambda model: pm.Deterministic("late", model["slope"] ** 2)
    ),
}


@contextmanager
def edited(m: Editable, edit: Edit) -> Iterator[None]:
    """Edit a model, and undo it afterwards."""
    undo = edit(m)
    try:
        yield
    finally:
        undo()
