"""One way of writing a model down, and made-up data to write it with."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pymc as pm
import pytensor
from scipy.special import ndtr

#: Sizes that an axis of observations must not be confused with; there are as many classes.
COLUMNS, GROUPS = 3, 4
CLASSES = COLUMNS


@dataclass(frozen=True)
class Form:
    """A model in one spelling, and what becomes of it. The page has the line of PyMC it is about.

    Parameters
    ----------
    name
        What the form is, for the table.
    section
        Part of the table.
    declare
        Declares the model's variables, given data; returns the model if it makes another one.
    observed
        Name of the variable that is subsampled.
    refused
        Whether it is refused; the page says why.
    settings
        Further settings of the split.
    axis
        Where the rows lie in the observed variable.
    trap
        Length of another axis, which the axis of the rows must not be confused with.
    """

    name: str
    section: str
    declare: "Declare"
    observed: tuple[str, ...] = ("y",)
    refused: bool = False
    settings: tuple[tuple[str, object], ...] = ()
    axis: int = 0
    trap: int = COLUMNS

    @property
    def key(self) -> str:
        """The name with that of its part of the table."""
        return f"{self.section}: {self.name}"

    def build(self, rows: int, *, mutable: bool = False) -> pm.Model:
        """Return the model on so many rows, their data in arrays or in pm.Data."""
        # PyMC evaluates the inputs of a Gaussian process, for which PyTensor would compile.
        in_python = pytensor.config.change_flags(mode="FAST_COMPILE", cxx="")
        with in_python, pm.Model() as model, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            changed = self.declare(Data(rows, mutable=mutable))
        return changed if isinstance(changed, pm.Model) else model


class Data:
    """Made-up columns of one length, each a pm.Data of its own if they are to be mutable."""

    def __init__(self, rows: int, *, mutable: bool) -> None:
        self.n = rows
        self.mutable = mutable
        self._known: dict[str, object] = {}

    def __call__(self, name: str, values: np.ndarray) -> object:
        """Return an array as the form's model holds it."""
        if name not in self._known:
            self._known[name] = pm.Data(f"{name}_data", values) if self.mutable else values
        return self._known[name]

    @cached_property
    def raw(self) -> "Raw":
        """The same columns as plain arrays."""
        return Raw(self.n)

    def __getattr__(self, name: str) -> object:
        return self(name, getattr(self.raw, name))


class Raw:
    """The numbers."""

    def __init__(self, rows: int) -> None:
        rng = np.random.default_rng(7)
        self.X = rng.normal(size=(rows, COLUMNS))
        self.Y = rng.normal(size=(rows, COLUMNS))
        self.x, self.z = self.X[:, 0].copy(), self.X[:, 1].copy()
        self.y = self.Y[:, 0].copy()
        self.positive = rng.gamma(2.0, size=rows) + 0.1
        self.share = 0.05 + 0.9 * ndtr(self.y)
        self.counts = rng.poisson(3.0, rows)
        self.trials = self.counts + 2
        self.ones = rng.integers(0, 2, rows)
        self.classes = rng.integers(0, CLASSES, rows)
        self.g = rng.integers(0, GROUPS, rows)
        self.h = rng.integers(0, 2, rows)
        self.tallies = rng.multinomial(9, np.full(CLASSES, 1.0 / CLASSES), size=rows)
        self.simplex = rng.dirichlet(np.full(CLASSES, 3.0), size=rows)
        self.weights = rng.uniform(0.5, 2.0, rows)
        self.clipped_to = np.clip(self.y, -1.0, 1.0)


#: Declares a model's variables; returns the model if it makes another one.
Declare = Callable[[Data], object]


class Section:
    """Collects the forms of one part of the table."""

    def __init__(self, title: str, **common: object) -> None:
        self.title = title
        self.common = common
        self.forms: list[Form] = []

    def form(self, name: str, **more: object) -> Callable:
        """Register the declaration of a form."""

        def register(declare: Declare) -> Declare:
            self.forms.append(Form(name, self.title, declare, **(self.common | more)))
            return declare

        return register

    def forms_of(self, declarations: dict[str, Declare]) -> None:
        """Register declarations of one expression each, by their names."""
        for name, declare in declarations.items():
            self.form(name)(declare)
