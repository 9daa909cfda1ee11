"""Logarithms of sums of exponentials in an expression: of softmax, and of mixtures.

Simplification writes log(exp(x) + exp(y)) as x + softplus(y - x), of more exponentials one within
the other. Here they are brought together again: their joint bounds do not grow with their number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.likelihood.arithmetic import add
from pymc_minibatch_mh.likelihood.cells import Argument, Cell, Cells
from pymc_minibatch_mh.likelihood.patterns import factors_of, is_a, reachable, summands

#: Exponentials beyond which a logarithm of their sum stays one of two.
MOST_EXPONENTIALS = 256

#: A product of data, and a sum of such products.
Product = tuple[Cell, ...]
Weights = tuple[Product, ...]


@dataclass(frozen=True)
class Linear:
    """A sum of arguments, by number, times data, plus data."""

    weights: dict[int, Weights]
    offset: Weights


@dataclass(frozen=True)
class LogSum:
    """Data times log Σ_k exp(l_k), every l_k a linear function; `core` is it as it is written."""

    core: Cell
    factor: Weights
    terms: tuple[Linear, ...]


@dataclass(frozen=True)
class Parts:
    """The summands of a log-likelihood but for linear ones.

    A mixture is the exponents of one more log of a sum, with all other summands in each, where what
    was taken out of the sum cancels again; of one softplus there are two. Others are left where
    there is no mixture.
    """

    log_sums: tuple[LogSum, ...]
    mixture: tuple[Cell, ...]
    others: tuple[Cell, ...]


def parts_of(cells: Cells, root: Cell) -> Parts:
    """Return what a sum is made of."""
    known: dict[Cell, tuple[Linear, ...] | None] = {}
    factors: dict[Cell, list[Product]] = {}
    others: list[Cell] = []
    for part in summands(root):
        spread = [(data, core) for data, core in _spread(cells, part) if linear((core,)) is None]
        for _, core in spread:
            if core not in known:
                known[core] = _linear_terms(core)
        if any(known[core] is None for _, core in spread):
            # What is written as one may cancel within, which its own parts would not.
            others.append(part)
            continue
        for data, core in spread:
            factors.setdefault(core, []).append(data)
    found = [LogSum(core, tuple(factor), known[core] or ()) for core, factor in factors.items()]
    mixture = _mixture(cells, others)
    return Parts(tuple(found), mixture, () if mixture else tuple(others))


def _spread(cells: Cells, cell: Cell, data: Product = ()) -> list[tuple[Product, Cell]]:
    """Return an expression as a sum of products of data with what is no such sum itself.

    A choice by data is the sum of both values, each times zero or one.
    """
    if cell.is_data:
        return []
    if is_a(cell, scalar.Add):
        return [pair for x in cell.inputs for pair in _spread(cells, x, data)]
    if is_a(cell, scalar.Switch) and cell.inputs[0].is_data:
        condition, yes, no = cell.inputs
        here = cells.node(scalar.switch, (condition, cells.one, cells.zero))
        spread = _spread(cells, yes, (*data, here))
        elsewhere = cells.node(scalar.switch, (condition, cells.zero, cells.one))
        return spread + _spread(cells, no, (*data, elsewhere))
    own, core = _split(cell)
    if core is None or core is cell:
        return [(data, cell)]
    return _spread(cells, core, (*data, *own))


def _mixture(cells: Cells, others: Sequence[Cell]) -> tuple[Cell, ...]:
    for part in others:
        raised = exponents(part) if is_a(part, scalar_math.Softplus) else None
        if raised is not None:
            common = [x for x in others if x is not part]
            return tuple(add(cells, *common, *terms) for terms in raised)
    return ()


def arguments_at_once(cells: Cells, root: Cell) -> int:
    """Return on how many arguments a part of a log-likelihood depends, at most.

    Logarithms of sums of exponentials of linear functions count as none: their bounds are joint.
    """
    parts = [parts_of(cells, branch) for branch in branches(root)]
    joint = [x for part in parts for x in (*part.others, *part.mixture)]
    return max((sum(isinstance(y, Argument) for y in reachable(x)) for x in joint), default=0)


def branches(root: Cell) -> Iterator[Cell]:
    """Yield the expressions that data choose from."""
    waiting = [root]
    while waiting:
        cell = waiting.pop()
        if is_a(cell, scalar.Switch) and cell.inputs[0].is_data:
            waiting += cell.inputs[1:]
        else:
            yield cell


def exponents(cell: Cell) -> list[tuple[Cell, ...]] | None:
    """Return the exponents, each as summands, of a sum with log softplus(x); None of too many."""
    raised: list[tuple[Cell, ...]] = [()]
    for part in summands(cell.inputs[0]):
        inner = exponents(part) if is_a(part, scalar_math.Softplus) else [(part,)]
        if inner is None or len(raised) * len(inner) >= MOST_EXPONENTIALS:
            return None
        raised = [(*left, *right) for left in raised for right in inner]
    return [(), *raised]


def linear(parts: Sequence[Cell]) -> Linear | None:
    """Return a sum as a linear function of the arguments, None if it is not written as one."""
    weights: dict[int, list[Product]] = {}
    offset: list[Product] = []
    waiting: list[tuple[Cell, Product]] = [(part, ()) for part in parts]
    while waiting:
        cell, factors = waiting.pop()
        if cell.is_data:
            offset.append((*factors, cell))
        elif isinstance(cell, Argument):
            weights.setdefault(cell.number, []).append(factors)
        elif is_a(cell, scalar.Add):
            waiting += [(x, factors) for x in cell.inputs]
        else:
            data, core = _split(cell)
            if core is None or core is cell:
                return None
            waiting.append((core, (*factors, *data)))
    return Linear({a: tuple(w) for a, w in weights.items()}, tuple(offset))


def _linear_terms(core: Cell) -> tuple[Linear, ...] | None:
    found = exponents(core) if is_a(core, scalar_math.Softplus) else None
    terms = [linear(parts) for parts in found or ()]
    kept = tuple(term for term in terms if term is not None)
    return kept if found and len(kept) == len(terms) else None


def _split(cell: Cell) -> tuple[Product, Cell | None]:
    """Return the data in a product, and the one factor that is not data, if it is one."""
    factors = factors_of(cell)
    others = [x for x in factors if not x.is_data]
    return tuple(x for x in factors if x.is_data), others[0] if len(others) == 1 else None
