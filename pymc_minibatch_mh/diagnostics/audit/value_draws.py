"""Draws of a trace as positions of a step, and moves of the step from them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
import xarray as xr
from pymc.pytensorf import compile as compile_graph

from pymc_minibatch_mh.diagnostics.after.chosen_rows import posterior_draws, stand_ins
from pymc_minibatch_mh.diagnostics.after.loglikelihood import values_of
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.step.base import MinibatchStep


@dataclass(frozen=True, eq=False)
class ValueDraws:
    """The draws of all value variables of a model.

    Parameters
    ----------
    values
        Name of the value variable -> array of shape (chain, draw, ...).
    chains, draws
        Their numbers.
    """

    values: Mapping[str, np.ndarray]
    chains: int
    draws: int

    def point(self, chain: int, draw: int) -> dict[str, np.ndarray]:
        """Return one draw as a point of the model."""
        return {name: values[chain, draw] for name, values in self.values.items()}

    def positions(self, step: MinibatchStep) -> np.ndarray:
        """Return all draws of the variables of a step's position, shape (chain, draw, d)."""
        split = step.target.split
        shape = self.chains, self.draws, -1
        parts = [self.values[b.name].reshape(shape) for b in split.blocks]
        return split.positions(np.concatenate(parts, axis=-1))

    def random_points(
        self, count: int, rng: np.random.Generator
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield draws at random, with repetition."""
        for place in rng.integers(self.chains * self.draws, size=count):
            yield self.point(*divmod(int(place), self.draws))

    def spread_out(self, count: int) -> list[tuple[int, int]]:
        """Return chain and draw of draws that lie evenly in all chains, at least `count`."""
        each = -(-count // self.chains)
        places = ((np.arange(each) + 0.5) / each * self.draws).astype(int)
        return [(chain, int(draw)) for chain in range(self.chains) for draw in places]


def value_draws(trace: xr.DataTree, model: pm.Model, step: MinibatchStep) -> ValueDraws:
    """Map a trace to the value variables of its model.

    Raises
    ------
    SettingError
        If the trace, the model and the step do not belong together; names the variable.
    """
    _require_same_model(model, step)
    draws = posterior_draws(trace, model)
    blocks = step.target.split.blocks + step.target.split.others
    values = _transformed(draws, model)
    for block in blocks:
        shape = values[block.name].shape[2:]
        if shape != block.shape:
            raise SettingError(
                f"{block.name!r} has shape {shape} in the trace, but {block.shape} in the step, so "
                "that they belong to different models. Give the step that sampled this trace."
            )
    chains, count = next(iter(draws.values())).shape[:2]
    return ValueDraws(values, chains, count)


def _require_same_model(model: pm.Model, step: MinibatchStep) -> None:
    names = {str(v.name) for v in model.value_vars}
    for block in step.target.split.blocks + step.target.split.others:
        if block.name not in names:
            raise SettingError(
                f"{block.name!r} is a variable of the step, but not of the model. Pass the model "
                "that the step was built for, as model= or as the context."
            )


def _transformed(draws: Mapping[str, np.ndarray], model: pm.Model) -> dict[str, np.ndarray]:
    given = stand_ins(model)
    outputs = values_of(model, given)
    values = {str(v.name): draws[str(given_v.name)] for v, given_v in _as_they_are(model, given)}
    moved = {v: graph for v, graph in outputs.items() if str(v.name) not in values}
    if not moved:
        return values
    inputs = list(given.values())
    function = compile_graph(inputs, list(moved.values()), on_unused_input="ignore")
    chains, count = next(iter(draws.values())).shape[:2]
    results: list[list[np.ndarray]] = [[] for _ in moved]
    for chain, draw in np.ndindex(chains, count):
        point = [np.asarray(draws[str(v.name)][chain, draw], dtype=v.type.dtype) for v in inputs]
        for result, value in zip(results, function(*point), strict=True):
            result.append(np.asarray(value))
    for variable, result in zip(moved, results, strict=True):
        stacked = np.stack(result)
        values[str(variable.name)] = stacked.reshape(chains, count, *stacked.shape[1:])
    return values


def _as_they_are(model: pm.Model, given: Mapping) -> list[tuple]:
    """Return the value variables without a transform, each with its stand-in."""
    return [
        (model.rvs_to_values[rv], stand_in)
        for rv, stand_in in given.items()
        if model.rvs_to_transforms[rv] is None
    ]
