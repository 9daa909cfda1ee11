"""What is recorded of a model that others wrote, and what becomes of it today."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from scipy import linalg
from scipy.stats import chi2

from bounds.certified import Rows
from model.evaluation import evaluate
from pymc_minibatch_mh.bounds.bounds_pass import TAILS, BoundsPass
from pymc_minibatch_mh.errors import BoundsError, UnsupportedModelError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.mode import Mode, reference_at
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

#: Rows that the models are sampled with, and whose posterior's width the fast test assumes.
TALL = 20_000
GALLERY, MANUAL = "pymc-devs/pymc-examples: examples/", "pymc-devs/pymc: docs/source/learn/"


@dataclass(frozen=True, eq=False)
class Example:
    """A model of PyMC's gallery, with the statements of the original and simulated tall data."""

    #: Number of rows -> model.
    build: Callable[[int], pm.Model]
    #: Title of the original's page.
    title: str
    #: Repository and path of the original.
    source: str
    #: "exact" (bounds are derived), "order 2" (read, but a row has no bound), or "refused".
    expected: str = "exact"
    #: A part of the message that says why it is not "exact".
    reason: str = ""
    #: The values that data are simulated with: name of a free variable -> value.
    truth: Mapping[str, object] = field(default_factory=dict)
    #: A part of the message with which the search for the mode ends, where it finds none.
    no_mode: str = ""
    #: Whether it is sampled, but not worth it: its mode is so far from the posterior that most
    #: updates read all rows.
    reads_all: bool = False
    #: Draws of NUTS for each chain, after as many of warm-up: fewer where its trees are deep.
    nuts_draws: int = 1_000
    #: Whether NUTS starts where this package does, as from its own start it may end up in a mode
    #: that has no weight.
    starts_nuts: bool = False
    #: What the original's statements needed to run, or what was chosen among its variants.
    ported: str = ""

    @property
    def name(self) -> str:
        """Name in the tables."""
        return self.build.__name__


def example(title: str, source: str, **described):
    """Describe a function that builds a model of the gallery."""

    def decorate(build):
        build.example = Example(build, title, source, **described)
        return build

    return decorate


def verdict(example: Example, rows: int) -> tuple[str, str]:
    """Return what becomes of an example, and the message where it is not certified.

    Nothing is compiled. The reference is artificial: its centre is where the data were simulated,
    and its precision is the observed one, scaled up to `TALL` rows.
    """
    model = example.build(rows)
    continuous = [v for v in model.value_vars if np.dtype(v.dtype).kind == "f"]
    try:
        parts = factorize(model, continuous)
    except UnsupportedModelError as error:
        return "refused", str(error)
    try:
        point = unconstrained(model, example.truth)
        functions = row_functions(parts)
        reference = artificial(parts, functions, point, rows)
        support = parts.lower, parts.upper
        require_bounds(BoundsPass(functions, reference, support), functions)
    except BoundsError as error:
        return "order 2", str(error)
    return "exact", ""


def unconstrained(model: pm.Model, truth: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Return values of free variables under the names of their value variables."""
    point = model.initial_point()
    known = {model[name]: np.asarray(x, dtype="float64") for name, x in truth.items()}
    for rv, x in known.items():
        value = model.rvs_to_values[rv]
        transform = model.rvs_to_transforms[rv]
        if transform is not None:
            given = {r: model[r.name].type.filter(v, allow_downcast=True) for r, v in known.items()}
            inputs = clone_replace(list(rv.owner.inputs), given, rebuild_strict=False)
            x = evaluate([], transform.forward(pt.as_tensor(x), *inputs), [])
        assert np.shape(x) == np.shape(point[value.name]), value.name
        point[value.name] = np.asarray(x, dtype="float64")
    return point


def artificial(parts, functions, point, rows):
    """Return control variates of order 2 as a fit to `TALL` such rows would make them."""
    centre = parts.ravel(point)
    terms = [Rows(f, np.arange(f.n_rows), parts.size) for f in functions]
    _, gradient, hessian = (
        sum(part) for part in zip(*(t.summed(centre) for t in terms), strict=True)
    )
    scale = TALL / rows
    values, vectors = linalg.eigh(-0.5 * scale * (hessian + hessian.T))
    precision = (vectors * (1.0 + np.maximum(values, 0.0))) @ vectors.T
    likelihood = Derivatives(0.0, gradient, hessian)
    return reference_at(Mode(centre, precision, likelihood), 2, 1.0)


def require_bounds(bounds, functions):
    """Refuse rows without a bound over the smallest region, as a step does."""
    radius = float(np.sqrt(chi2.isf(TAILS[0], bounds.size)))
    for function in functions:
        data = RowData(function, slice(0, function.n_rows))
        whole = (1,) * len(function.arguments)
        along, together = bounds.kind.bounds(data, bounds.geometry(data), radius, whole)
        if not np.isfinite([along, together]).all():
            # Intervals that are cut into pieces may still have bounds.
            bounds.tables()
            return
