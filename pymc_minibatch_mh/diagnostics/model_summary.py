"""Summary of a model: its subsampled terms, its reparametrised variables, and all others."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.data.arrays import Column
from pymc_minibatch_mh.errors import BoundsError, UnsupportedModelError
from pymc_minibatch_mh.expressions import graph
from pymc_minibatch_mh.model.factorization import Factorization, factorize
from pymc_minibatch_mh.model.independence import Likelihood
from pymc_minibatch_mh.model.inputs import likelihood_names
from pymc_minibatch_mh.model.layout import Block
from pymc_minibatch_mh.model.terms import MIN_ROWS, number_of_rows
from pymc_minibatch_mh.structure.predictors import LinearForm
from pymc_minibatch_mh.structure.row_function import RowFunction, row_functions

PRIOR = "a prior, which has no observations"


class SubsampledTerm(NamedTuple):
    """A likelihood term with subsampled observations, named after the observed variable."""

    name: str
    n_rows: int
    #: Linear predictors of an observation, if any, and the reason why they are unknown or unused.
    arguments: tuple[str, ...]
    not_apart: str
    #: Data arrays of the observations, with types and sizes.
    arrays: tuple[str, ...]

    def lines(self) -> list[tuple[str, str]]:
        """Labels and values of the lines of a sheet."""
        depends = f"each depends on {'; '.join(self.arguments)}" if self.arguments else ""
        apart = f"not taken apart: {self.not_apart}" if self.not_apart else ""
        words = [depends, apart, *(f"reads {array}" for array in self.arrays)]
        return [(self.name, f"{self.n_rows:,} observations"), *(("", word) for word in words)]


class NotSubsampled(NamedTuple):
    """A variable or potential that is not subsampled, and the reason."""

    name: str
    reason: str
    #: Whether every update evaluates all of its observations.
    in_full: bool = False


class Reparametrized(NamedTuple):
    """A variable, and the expression that the chain samples instead or the reason against it."""

    name: str
    words: str
    refused: str = ""


class _PredictorText(NamedTuple):
    """Linear predictors of the observations of a term, as ``x × slope + effect[group]``."""

    function: RowFunction
    factorization: Factorization

    def describe(self, form: LinearForm) -> str:
        """Terms of a linear predictor as text; several coordinates of a block are one term."""
        groups: dict[tuple[str, str], list[graph.Monomial]] = {}
        for term in form.terms:
            data = " × ".join(self.data(expr, entries=False) for expr in term.monomial)
            first = term.place.first if isinstance(term.place, graph.Gather) else term.place
            groups.setdefault((data, self.name(first)), []).append(term)
        words = ""
        for (data, block), terms in groups.items():
            negative = len(terms) == 1 and terms[0].factor < 0.0
            text = f"{f'{data} × ' if data else ''}{block} ({len(terms)} terms)"
            if len(terms) == 1:
                text = self.monomial(terms[0])
            if words:
                words += f" {'-' if negative else '+'} {text}"
            else:
                words = f"-{text}" if negative else text
        return words

    def monomial(self, term: graph.Monomial) -> str:
        factors = [] if abs(term.factor) == 1.0 else [f"{abs(term.factor):g}"]
        factors += [self.data(expr, entries=True) for expr in term.monomial]
        if isinstance(term.place, graph.Gather):
            index = self.data(term.place.index, entries=True)
            return " × ".join([*factors, f"{self.name(term.place.first)}[{index}]"])
        name = self.factorization.coordinate_names[term.place]
        entry = name.removeprefix(self.block_of(term.place).name)
        return " × ".join([*factors, self.name(term.place) + entry])

    def block_of(self, place: int) -> Block:
        return next(block for block in self.factorization.blocks if place < block.stop)

    def name(self, place: int) -> str:
        """Name of the block of a coordinate, or its expression where it is reparametrised."""
        words = (f"({one.label})" for one in self.factorization.maps if place in one.indices)
        return next(words, self.block_of(place).name)

    def data(self, expr: graph.Expr, entries: bool) -> str:
        """Text for a data expression, such as the name of its column."""
        if isinstance(expr, graph.Data):
            entry = str(list(expr.entry)) if entries and expr.entry else ""
            name = self.function.columns[expr.column].name
            # Bambi does not name its design matrix: numbers distinguish its columns.
            return ("data" if name.startswith("a data array of") else name) + entry
        if isinstance(expr, graph.Constant):
            return f"{expr.value:g}"
        if isinstance(expr, graph.Lookup):
            return f"a table[{self.data(expr.index, entries)}]"
        if isinstance(expr, graph.Apply):
            if isinstance(expr.op, scalar.Cast):
                return self.data(expr.inputs[0], entries)
            return f"f({', '.join(self.data_sources(expr, entries))})"
        return "row number"

    def data_sources(self, expr: graph.Expr, entries: bool) -> list[str]:
        """Names of the data in an expression, without repetition for each category of a column."""
        if isinstance(expr, graph.Apply):
            inside = (self.data_sources(operand, entries) for operand in expr.inputs)
            return list(dict.fromkeys(chain.from_iterable(inside)))
        return [] if isinstance(expr, graph.Constant) else [self.data(expr, entries)]


def subsampled_terms(parts: Factorization, why_graph: str = "") -> tuple[SubsampledTerm, ...]:
    """Likelihood terms; `why_graph` is the reason why rows are computed as a graph, if they are."""
    return tuple(_subsampled_term(parts, term, why_graph) for term in parts.terms)


def _subsampled_term(parts: Factorization, term: Likelihood, why_graph: str) -> SubsampledTerm:
    arguments: tuple[str, ...] = ()
    not_apart = f"computed as a graph of all parameters, because {why_graph}" if why_graph else ""
    try:
        # One term at a time: a term without linear predictors does not affect the others.
        (function,) = row_functions(replace(parts, terms=(term,)))
        text = _PredictorText(function, parts)
        arguments = tuple(text.describe(form) for form in function.arguments)
    except BoundsError as error:
        not_apart = str(error)
    arrays = tuple(_describe_array(column) for column, _ in term.batches)
    return SubsampledTerm(term.name, term.n_rows, arguments, not_apart, arrays)


def _describe_array(column: Column) -> str:
    dtype, shape = column.values.dtype, column.row_shape
    entries = str(list(shape)) if shape else ""
    return f"{column.name}: {dtype}{entries}, {dtype.itemsize * prod(shape):,} bytes a row"


def reparametrized_variables(parts: Factorization) -> tuple[Reparametrized, ...]:
    """Reparametrised variables, and variables with reasons against a reparametrisation."""
    mapped = [Reparametrized(one.name, one.label) for one in parts.maps]
    refused = [Reparametrized(name, "", why) for name, why in parts.refused]
    return (*dict.fromkeys(mapped), *refused)


def not_subsampled(
    model: pm.Model, parts: Factorization, directions: Sequence[np.ndarray] = ()
) -> tuple[NotSubsampled, ...]:
    """Variables and potentials not subsampled, and why; updates along `directions` need no rows."""
    chosen = set(likelihood_names(parts.terms))
    observed = [
        NotSubsampled(str(rv.name), _explain_full(number_of_rows(model, rv)), in_full=True)
        for rv in model.observed_RVs
        if rv.name not in chosen
    ]
    reasons = _reasons_of_other_steps(parts)
    for name, why in _updates_without_rows(parts, directions).items():
        reasons[name] = f"{reasons.get(name, PRIOR)}; {why}"
    alone = {str(x.name): "a potential of the parameters alone" for x in model.potentials}
    read = {name: words for name, (_, words) in parts.in_full.items()}
    potentials = [
        NotSubsampled(name, words, in_full=name in read)
        for name, words in {**alone, **read}.items()
        if name not in chosen or name in read
    ]
    return (*observed, *_priors(model, reasons), *potentials)


def try_each_observed(
    model: pm.Model, variables: list[Variable], **reading: Any
) -> tuple[NotSubsampled, ...]:
    """Whether each likelihood of an unsupported model could be subsampled by itself."""
    tried = {**reading, "weights": None}
    refused = []
    for rv in (*model.observed_RVs, *model.potentials):
        name, count = str(rv.name), number_of_rows(model, rv)
        reason = _explain_full(count) if count else "a potential of the parameters alone"
        if count >= MIN_ROWS:
            try:
                factorize(model, variables, **{**tried, "observed": [name]})
                reason = f"could be subsampled without the others: observed=[{name!r}]"
            except UnsupportedModelError as error:
                reason = str(error)
        refused.append(NotSubsampled(name, reason))
    return (*refused, *_priors(model, {}))


def _explain_full(count: int) -> str:
    why = f"fewer than {MIN_ROWS:,}" if count < MIN_ROWS else "but not named in observed="
    return f"{count:,} observations, {why}: evaluated in full at every update"


def _priors(model: pm.Model, reasons: dict[str, str]) -> list[NotSubsampled]:
    """Free variables; `reasons` maps names of value variables to reasons."""
    return [
        NotSubsampled(str(rv.name), reasons.get(str(model.rvs_to_values[rv].name), PRIOR))
        for rv in model.free_RVs
    ]


def _reasons_of_other_steps(parts: Factorization) -> dict[str, str]:
    """Reasons why value variables are left to other steps, by name."""
    reasons = {}
    for block in (*parts.blocks, *parts.others):
        if block.name in parts.discrete_in_rows:
            why = "discrete, and observations depend on it: another step moves it, pilots hold it"
        elif block in parts.others:
            why = "no observation depends on it: another step moves it, pilots hold it"
        elif block.stop <= parts.first:
            why = "observations depend on it, but another step moves it: pilots hold it"
        else:
            continue
        reasons[block.name] = f"{PRIOR}; {why}"
    return reasons


def _updates_without_rows(parts: Factorization, directions: Sequence[np.ndarray]) -> dict[str, str]:
    """Descriptions of additional updates that need no observations, by name of value variable."""
    updates = {}
    for direction in directions:
        moved = [b.name for b in parts.blocks if direction[b.start : b.stop].any()]
        for name in moved:
            others = " and ".join(repr(other) for other in moved if other != name)
            if np.count_nonzero(direction) == 1:
                updates[name] = "no row depends on it, so that it is also moved without rows"
            elif others:
                updates.setdefault(name, f"also moved without rows, together with {others}")
            else:
                updates.setdefault(name, "also moved without rows, all of it alike")
    return updates
