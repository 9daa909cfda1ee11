"""One input that is invalid or cannot be served, and what the package is given."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import xarray as xr

import pymc_minibatch_mh
from helpers.zoo import METHODS

#: What stands for a number whose last digits depend on the machine.
NUMBER = "<number>"
#: What no user knows: addresses, classes and tuples of PyTensor's and of this package's objects.
INTERNALS = r"0x[0-9a-f]{4}|object at|<class|<[a-z_]+\.|\('\w+', [<(']|Apply\(|Argument\(|\{[a-z]+="
#: What stands for the folder of a test's files.
FOLDER = "<folder>"


@dataclass(frozen=True)
class Case:
    """An input; the page says what becomes of it.

    Parameters
    ----------
    section
        Part of the table.
    written
        The input, as a user writes it.
    call
        Gives the input to the package; takes what the cases share.
    """

    section: str
    written: str
    call: Callable[["Shared"], object]

    @property
    def name(self) -> str:
        """Part of the table and the input."""
        return f"{self.section}: {self.written}"


class Section:
    """Collects the cases of one part of the table."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.cases: list[Case] = []

    def gives(self, written: str, call: Callable | None = None) -> Callable:
        """Register a call; a decorator where `call` is not given."""

        def register(call: Callable) -> Callable:
            self.cases.append(Case(self.title, written, call))
            return call

        return register if call is None else register(call)

    def reads(self, *written: str, **names: object) -> None:
        """Register inputs that are evaluated as they are written, with further names."""
        for one in written:
            self.gives(one, lambda shared, one=one: shared.evaluated(one, names))

    def argument(self, call: Callable, name: str, *values: object) -> None:
        """Register values of an argument of a function or a class, given one by one."""
        for value in values:
            self.gives(
                f"{call.__name__}({name}={value!r})", lambda _, value=value: call(**{name: value})
            )

    def settings(self, method: str, **given: object) -> None:
        """Register settings of a step, given together."""
        written = ", ".join(f"{name}={value!r}" for name, value in given.items())
        self.gives(f"{method}({written})", lambda shared: shared.build(method, **given))

    def setting(self, method: str, name: str, *values: object) -> None:
        """Register values of a setting of a step, given one by one."""
        for value in values:
            self.settings(method, **{name: value})


class Shared:
    """What the cases share: a model, a step on it, a trace of it, and a folder.

    Parameters
    ----------
    model
        The Poisson regression of the zoo.
    step
        Returns a TunaMH on it.
    folder
        Where files may be written.
    """

    def __init__(self, model: pm.Model, step: Callable[[], object], folder: Path) -> None:
        self.model = model
        self._step = step
        self.folder = folder
        self.start = {"level": np.zeros(()), "slope": np.zeros(())}

    @cached_property
    def step(self) -> object:
        """A TunaMH that is only read."""
        return self._step()

    @cached_property
    def file(self) -> Path:
        """A file of that step."""
        self.step.save(self.folder / "step.npz")
        return self.folder / "step.npz"

    def build(self, method: str, **settings: object) -> object:
        """Build a step on the shared model."""
        point = {"initial_point": self.start}
        return getattr(pymc_minibatch_mh, method)(**{"model": self.model, **point, **settings})

    def evaluated(self, written: str, names: dict[str, object]) -> object:
        """Evaluate an input: steps are on the shared model, and so is what is asked of a trace."""
        known = {name: getattr(pymc_minibatch_mh, name) for name in pymc_minibatch_mh.__all__}
        known |= {name: partial(self.build, name) for name in METHODS}
        asked = ("log_likelihood", "posterior_predictive", "loo_subsample")
        known |= {name: partial(known[name], model=self.model) for name in asked}
        known |= {"np": np, "nan": np.nan, "inf": np.inf, "model": self.model, "N": 5_000}
        for name, made in (("step", lambda: self.step), ("trace", self.trace)):
            if re.search(rf"\b{name}\b", written):
                known[name] = made()
        return eval(written, known | names)  # noqa: S307 - our own

    def trace(self, **changed: np.ndarray) -> xr.DataTree:
        """Return a trace of the shared model, some of its variables changed."""
        rng = np.random.default_rng(3)
        draws = {name: rng.normal(size=(2, 3)) for name in ("level", "slope")} | changed
        dims = {name: ["chain", "draw", *"abc"[: array.ndim - 2]] for name, array in draws.items()}
        posterior = xr.Dataset({name: (dims[name], array) for name, array in draws.items()})
        posterior = posterior.assign_coords(chain=np.arange(2), draw=np.arange(3))
        return xr.DataTree.from_dict({"/posterior": posterior})


@pytensor.config.change_flags(cxx="", traceback__limit=0)
def build_on(
    declare: Callable[[], object], method: str = "PenaltyMH", **settings: object
) -> object:
    """Build a step on a model of its own, from the origin."""
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        declare()
    start = {str(v.name): np.zeros(v.type.shape, v.dtype) for v in model.value_vars}
    return METHODS[method](**{"model": model, "initial_point": start, **settings})
