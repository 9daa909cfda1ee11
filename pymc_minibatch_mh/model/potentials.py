"""Likelihood terms of potentials that are sums over rows.

A potential is the sum of its entries. Linear operations around sums move into them, such as -Σ rᵢ,
Σ rᵢ + Σ sⱼ, c Σ rᵢ and the mean of rᵢ times n, so that it becomes arrays of rows and scalars. The
rules of observed variables prove the rows of each array independent; arrays of equal length are
one term. Everything else belongs to the prior part.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Add, Cast, Mul, Neg, Sub, TrueDiv
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Shape

from pymc_minibatch_mh.errors import UnsupportedModelError
from pymc_minibatch_mh.model.constant_data import as_plain_tensor, compute_constant, data_behind
from pymc_minibatch_mh.model.independence import Likelihood, batch_term
from pymc_minibatch_mh.model.independence_rules import USE_NUTS
from pymc_minibatch_mh.model.inputs import ModelArrays
from pymc_minibatch_mh.model.terms import MIN_ROWS, log_densities, longest_data, observation_axis

#: Names of value variables, names of dims of observations, and the arrays that graphs read.
type Reading = tuple[dict[Variable, str], Sequence[str], ModelArrays]


class RowsOfPotential(NamedTuple):
    """Terms of a potential, summands that stay in the prior part, and errors by their rows."""

    terms: list[Likelihood]
    rest: list[Variable]
    errors: dict[int, UnsupportedModelError]


def rows_of_potential(
    model: pm.Model,
    potential: Variable,
    names: dict[Variable, str],
    observation_dims: Sequence[str] = (),
    arrays: ModelArrays | None = None,
    min_rows: int = MIN_ROWS,
) -> RowsOfPotential:
    """Likelihood terms of at least `min_rows` rows in a potential."""
    (graph,) = log_densities(model, [potential])
    if arrays is not None:
        arrays.add([graph], str(potential.name))
    graph = as_plain_tensor(graph)
    if graph.type.ndim:
        graph = pt.moveaxis(graph, observation_axis(model, potential, observation_dims), 0)
    reading, by_length = RowsOfPotential([], [], {}), defaultdict[int, list[Variable]](list)
    for part in summands(graph):
        try:
            by_length[batch_term(str(potential.name), part, None, names).n_rows].append(part)
        except UnsupportedModelError as error:
            reading.rest.append(part)
            reading.errors[longest_data([part])] = error
    for n_rows, parts in by_length.items():
        if n_rows < min_rows or names.keys().isdisjoint(ancestors(parts)):
            reading.rest.extend(parts)
            continue
        rows = pt.add(*map(_sum_of_each_row, parts)) if len(parts) > 1 else parts[0]
        name = f"{potential.name}[{len(reading.terms)}]" if reading.terms else str(potential.name)
        reading.terms.append(batch_term(name, rows, n_rows, names))
    return reading


def _sum_of_each_row(rows: Variable) -> Variable:
    return rows.sum(axis=tuple(range(1, rows.type.ndim))) if rows.type.ndim > 1 else rows


def summands(graph: Variable) -> list[Variable]:
    """Arrays and scalars whose sums of all entries add up to the sum of `graph`."""
    if graph.type.ndim or graph.owner is None:
        return [graph]
    op, inputs = graph.owner.op, graph.owner.inputs
    if isinstance(op, Sum):
        return [inputs[0]]
    if isinstance(op, DimShuffle):
        return _summands_of_product(graph, inputs[0])
    scalar_op = op.scalar_op if isinstance(op, Elemwise) else None
    if isinstance(scalar_op, Add):
        return [part for x in inputs for part in summands(x)]
    if isinstance(scalar_op, Sub):
        return [*summands(inputs[0]), *(-part for part in summands(inputs[1]))]
    if isinstance(scalar_op, Neg | Cast | Mul | TrueDiv):
        parts = [summands(x) for x in inputs]
        by_rows = [k for k, some in enumerate(parts) if any(part.type.ndim for part in some)]
        if len(by_rows) == 1 and not (isinstance(scalar_op, TrueDiv) and by_rows[0]):
            (k,) = by_rows
            before, after = (_with_known_lengths(some) for some in (inputs[:k], inputs[k + 1 :]))
            return [op.make_node(*before, part, *after).outputs[0] for part in parts[k]]
    return [graph]


def _summands_of_product(graph: Variable, product: Variable) -> list[Variable]:
    """Products of entries if a scalar is an inner product of two vectors, else the scalar."""
    while isinstance(product.owner_op, DimShuffle):
        product = product.owner.inputs[0]
    op = product.owner_op
    core = op.core_op if isinstance(op, Blockwise) else op
    if not isinstance(core, Dot) or product.type.ndim != 2 or not all(product.type.broadcastable):
        return [graph]
    left, right = product.owner.inputs
    return [left[0] * right[:, 0]]


def _with_known_lengths(scales: Iterable[Variable]) -> list[Variable]:
    """Scalars in which lengths of arrays, as in the mean, are numbers."""
    numbers = []
    for scale in scales:
        if any(isinstance(v.owner_op, Shape) for v in ancestors([scale])):
            short = rewrite_graph(scale, include=("ShapeOpt", "canonicalize"), clone=True)
            if data_behind(short) is not None:
                scale = pt.constant(compute_constant(short))
        numbers.append(scale)
    return numbers


def read_potentials(
    model: pm.Model, chosen: Sequence[Variable], reading: Reading, min_rows: int
) -> dict[Variable, RowsOfPotential]:
    """Rows of the potentials among `chosen`; `reading` has further arguments."""
    potentials = [v for v in chosen if v in model.potentials]
    return {v: rows_of_potential(model, v, *reading, min_rows) for v in potentials}


def term_of_whole(
    model: pm.Model, potential: Variable, names: dict[Variable, str], arrays: ModelArrays
) -> Likelihood:
    """Only term of a potential that is nothing but a sum over rows; else UnsupportedModelError."""
    terms, rest, errors = rows_of_potential(model, potential, names, arrays=arrays, min_rows=1)
    if len(terms) == 1 and names.keys().isdisjoint(ancestors(rest)):
        return terms[0]
    cause = "is no sum over rows of one length alone, so its rows have no log-likelihoods"
    raise UnsupportedModelError(
        str(errors[max(errors)])
        if errors
        else f"{potential.name!r} {cause}. Declare them with "
        "observed=, for instance as pm.CustomDist(..., logp=..., observed=data)."
    )


def terms_of_potentials(
    by_rows: Mapping[Variable, RowsOfPotential], observed: Sequence[str] | None, n_terms: int
) -> list[Likelihood]:
    """Terms of all potentials; the error of one named in `observed`, or if there is no term."""
    terms = [term for reading in by_rows.values() for term in reading.terms]
    for potential, reading in by_rows.items():
        if not reading.terms and (observed is not None or not n_terms + len(terms)):
            few = UnsupportedModelError(f"{potential.name!r} has no sum over many rows. {USE_NUTS}")
            raise reading.errors[max(reading.errors)] if reading.errors else few
    return terms


def evaluated_in_full(
    model: pm.Model, by_rows: Mapping[Variable, RowsOfPotential]
) -> dict[str, tuple[int, str]]:
    """Potentials of which every update evaluates rows: name -> their number, and that in words."""
    in_full = {}
    for potential in model.potentials:
        errors = by_rows[potential].errors if potential in by_rows else {}
        unread = 0 if potential in by_rows else longest_data(log_densities(model, [potential]))
        n_rows = max(errors, default=unread)
        if n_rows >= MIN_ROWS:
            why = errors.get(n_rows, "It is not named in observed=.")
            words = f"a potential of {n_rows:,} rows, evaluated in full at every update: {why}"
            in_full[str(potential.name)] = n_rows, words
    return in_full
