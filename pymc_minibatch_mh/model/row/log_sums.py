"""Logarithms of sums of exponentials in an expression: of softmax, and of mixtures.

Simplification writes log(exp(x) + exp(y)) as x + softplus(y - x), of more exponentials one within
the other. Here they are brought together again, for what holds for all of them at once: bounds
of derivatives that do not grow with the number of exponentials.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.model.row.cells import Argument, Cell
from pymc_minibatch_mh.model.row.patterns import factors_of, is_a, reachable, summands

#: Exponentials beyond which a logarithm of their sum stays one of two.
MOST_EXPONENTIALS = 256

#: A product of data, and a sum of such products.
Product = tuple[Cell, ...]
Weights = tuple[Product, ...]


@dataclass(frozen=True)
class Linear:
    """A sum of arguments times data, plus data.

    Parameters
    ----------
    weights
        Number of an argument -> what it is multiplied by.
    offset
        What is added.
    """

    weights: dict[int, Weights]
    offset: Weights


@dataclass(frozen=True)
class LogSum:
    """Data times log Σ_k exp(l_k), every l_k a linear function of the arguments."""

    factor: Weights
    terms: tuple[Linear, ...]


@dataclass(frozen=True)
class Parts:
    """The summands of a log-likelihood: linear ones are left out.

    Parameters
    ----------
    log_sums
        Logarithms of sums of exponentials of linear functions.
    others
        All others that are not linear.
    """

    log_sums: tuple[LogSum, ...]
    others: tuple[Cell, ...]


def parts_of(root: Cell) -> Parts:
    """Return what a sum is made of."""
    known: dict[Cell, tuple[Linear, ...] | None] = {}
    factors: dict[Cell, list[Product]] = {}
    others: list[Cell] = []
    for part in summands(root):
        if linear((part,)) is not None:
            continue
        data, core = _split(part)
        if core is not None and core not in known:
            known[core] = _linear_terms(core)
        if core is None or known[core] is None:
            others.append(part)
        else:
            factors.setdefault(core, []).append(data)
    found = tuple(LogSum(tuple(factor), known[core] or ()) for core, factor in factors.items())
    return Parts(found, tuple(others))


def arguments_at_once(root: Cell) -> int:
    """Return on how many arguments a summand of a log-likelihood depends, at most.

    Logarithms of sums of exponentials of linear functions count as none: their bounds are joint.
    """
    return max((_n_arguments(part) for branch in branches(root) for part in parts_of(branch).others
                ), default=0)  # fmt: skip


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
    """Return what softplus(x) is the log of a sum of exponentials of, each as summands.

    None where there would be too many.
    """
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


def _n_arguments(cell: Cell) -> int:
    return sum(1 for x in reachable(cell) if isinstance(x, Argument))
