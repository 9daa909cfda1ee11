"""Choice of coordinates for variables that may be at an end: docs/background/derivation.md.

Each is judged around the mode of a subsample, by the number of observations that an update would
evaluate, and by the distance of the posterior from the truncated normal proposal distribution.
Logarithms and log-odds are replaced only if their posterior has a tail that their normal
approximation lacks, and the other coordinate has not.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from pymc_minibatch_mh import costs
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.compiled.prior import Prior
from pymc_minibatch_mh.errors import BoundsError, ModeError
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.full_data import FullData
from pymc_minibatch_mh.reference.mode import COARSE_TOLERANCE, reference_at
from pymc_minibatch_mh.reference.tails import FEW_ROWS, Tails
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.reparametrize.inverse_shape import (
    InverseShape,
    in_inverse_shape,
    shape_variables,
    variables_with_ends,
)

#: Number of evenly spaced observations in the subsample.
SUBSAMPLE_ROWS = 20_000
#: Minimum factor by which reciprocals have to be cheaper than logarithms.
MIN_GAIN = 2.0
#: Cost of a draw without observations, in observations.
LEAST_COST = costs.DRAW / costs.OBSERVATION_OF_DRAW
#: Number and seed of the draws that compare a posterior with its approximation.
DRAWS, SEED = 512, 7
#: Powers p of the trial coordinates shape^(-1/p): the reciprocal and its square root.
POWERS = (1, 2)
#: Maximum number of shapes that are tried, and of parameters of a model with trials: with more,
#: each trial would take minutes.
MAX_SHAPES, MAX_PARAMETERS = 4, 300
#: Efficiency along a coordinate below which its logarithm is replaced; entries that are measured.
MIN_TAIL_EFFICIENCY, MAX_ENTRIES = 0.5, 8


def choose_parametrization(model: CompiledModel, point: Mapping[str, np.ndarray]) -> CompiledModel:
    """Model in other coordinates of shapes and of variables near an end, if much cheaper.

    The search for the mode starts at `point`.
    """
    if model.factorization.size > MAX_PARAMETERS:
        return model
    trials = _Trials(point)
    return _choose_for_ends(_choose_for_shapes(model, trials), trials)


def _choose_for_shapes(model: CompiledModel, trials: "_Trials") -> CompiledModel:
    best = model
    for name in shape_variables(model.factorization)[:MAX_SHAPES]:
        others = trials.models_in(best, name, POWERS)
        if not others or trials.cost(best) <= MIN_GAIN * LEAST_COST:
            continue
        costs = [trials.cost(other) for other in others]
        least = int(np.argmin(costs))
        if MIN_GAIN * costs[least] < trials.cost(best):
            best = others[least]
    return best


def _choose_for_ends(model: CompiledModel, trials: "_Trials") -> CompiledModel:
    best, left = model, MAX_SHAPES
    target = Target(model)
    if not target.source.in_memory:
        # Each of some hundred evaluations would read the rows of its subsample again.
        return best
    # Effects of groups have scales, and tables for the tails of these.
    sizes = {
        b.name: len(target.indexed & {*range(b.start, b.stop)}) for b in target.factorization.blocks
    }
    for name, powers in variables_with_ends(model.factorization).items():
        if sizes[name] > MAX_ENTRIES:
            continue
        others = trials.models_in(best, name, powers)
        if not others or not left:
            continue
        left -= 1
        efficiency = trials.least_tail_efficiency(best, name)
        if efficiency >= MIN_TAIL_EFFICIENCY:
            continue
        merits = [trials.least_tail_efficiency(x, name) / trials.cost(x) for x in others]
        most = int(np.argmax(merits))
        if merits[most] > MIN_GAIN * efficiency / trials.cost(best):
            best = others[most]
    return best


class _TrialPrior(NamedTuple):
    """Prior part in other coordinates by the chain rule, which compiles nothing anew."""

    prior: "Prior | _TrialPrior"
    map: InverseShape

    def derivatives(
        self, position: np.ndarray, others: np.ndarray, *, hessian: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian; the Hessian is empty unless requested."""
        values = self.map.values_at(position)
        return self.map.by_chain_rule(
            position, self.prior.derivatives(values, others, hessian=hessian)
        )

    def compiled(self) -> Callable[[np.ndarray, np.ndarray], float]:
        """Log-density of a position, by the compiled one of the model's own coordinates."""
        plain = self.prior.compiled()

        def log_density(position: np.ndarray, context: np.ndarray) -> float:
            jacobian = float(self.map.log_jacobian(position))
            return float(plain(self.map.values_at(position), context)) + jacobian

        return log_density


class _Trials:
    """Models judged around the mode of a subsample, each searched once from a point."""

    def __init__(self, point: Mapping[str, np.ndarray]) -> None:
        self._point = point
        #: Priors of models in other coordinates.
        self._priors: dict[CompiledModel, _TrialPrior] = {}
        self.cost, self._around = cache(self._draw_cost), cache(self._reference_of_few)

    def models_in(
        self, model: CompiledModel, name: str, powers: Sequence[int]
    ) -> list[CompiledModel]:
        """The same model with each coordinate κ of a variable that its observations allow."""
        found = []
        for power in powers:
            parts = in_inverse_shape(model.factorization, name, power)
            if parts is not None:
                found.append(CompiledModel(parts, model.compile_kwargs))
                bijection = parts.maps[-1]
                assert isinstance(bijection, InverseShape)
                prior = self._priors.get(model) or model.prior
                self._priors[found[-1]] = _TrialPrior(prior, bijection)
        return found

    def least_tail_efficiency(self, model: CompiledModel, name: str) -> float:
        """Least efficiency along entries of a variable with suspected tails; 0 if unknown."""
        around = self._around(model)
        if around is None:
            return 0.0
        target, rows, reference = around
        block = next(block for block in target.factorization.blocks if block.name == name)
        entries = slice(block.start, min(block.stop, block.start + MAX_ENTRIES))
        some = np.ascontiguousarray(rows[:: max(1, rows.size // FEW_ROWS)])
        few = Tails.around(target, reference, some, rows.size / some.size)
        lines = np.eye(target.factorization.size)[entries]
        # Few rows seldom jump near the place of a jump, and say nothing of the tails of all.
        suspected = [line for line in lines if target.meets_kinks or few.is_suspected(line)]
        tails = Tails.around(target, reference, rows)
        return min(map(tails.efficiency_along, suspected), default=1.0)

    def _reference_of_few(
        self, model: CompiledModel
    ) -> tuple[Target, np.ndarray, Reference] | None:
        """Target, evenly spaced rows, and the expansion around their mode; None without one."""
        target = Target(model)
        target.condition_on(self._point)
        if model in self._priors:
            prior: Any = self._priors[model]
            target.full_data = FullData(target.rows, prior, target.source)
        rows, start = (
            np.unique(target.spread(SUBSAMPLE_ROWS)),
            target.factorization.ravel(self._point),
        )
        try:
            rng = np.random.default_rng(SEED)
            mode = target.mode_of_few(start, rows, COARSE_TOLERANCE, rng)
        except ModeError:
            return None
        return target, rows, reference_at(mode, 2, target.source.n_rows / rows.size)

    def _draw_cost(self, model: CompiledModel) -> float:
        """Cost of an effective draw, in evaluated observations; infinite if unknown."""
        functions = model.row_functions
        if isinstance(functions, BoundsError) or (around := self._around(model)) is None:
            return np.inf
        target, _, reference = around
        # The metric belongs to the posterior of all rows; bounds are of rows with weight one.
        support = target.factorization.lower, target.factorization.upper
        plain = reference._replace(inverse_temperature=1.0)
        try:
            read = BoundsPass(functions, plain, support).forecast()
        except BoundsError:
            return np.inf
        read = min(read, float(target.source.n_rows))
        return (LEAST_COST + read) / _draw_efficiency(target, reference)


def _draw_efficiency(target: Target, reference: Reference) -> float:
    """Effective sample size per importance draw from the truncated normal approximation."""
    rng, weight = np.random.default_rng(SEED), reference.inverse_temperature
    slope = target.full_data.prior(reference.centre, hessian=False).gradient
    slope = slope + weight * reference.gradient
    ends = np.flatnonzero(target.factorization.lower == 0.0)
    order = np.array([*ends, *np.setdiff1d(np.arange(slope.size), ends)])
    covariance = reference.factor @ reference.factor.T
    mean = (reference.centre + covariance @ slope)[order]
    factor = np.linalg.cholesky(covariance[np.ix_(order, order)])
    white, log_weight = rng.standard_normal((DRAWS, order.size)), np.zeros(DRAWS)
    for i in range(ends.size):
        low = -(mean[i] + white[:, :i] @ factor[i, :i]) / factor[i, i]
        white[:, i] = -ndtri_exp(np.log(rng.random(DRAWS)) + log_ndtr(-low))
        log_weight += log_ndtr(-low)
    steps = np.empty_like(white)
    steps[:, order] = mean + white @ factor.T
    steps -= reference.centre
    log_weight += 0.5 * (white**2).sum(axis=1)
    for k, step in enumerate(steps):
        log_weight[k] += target.log_prior(reference.centre + step)
        log_weight[k] += weight * (reference.gradient + 0.5 * reference.hessian @ step) @ step
    log_weight = np.where(np.isfinite(log_weight), log_weight, -np.inf)
    weights = np.exp(log_weight - log_weight.max())
    return float(weights.mean() ** 2 / (weights**2).mean())
