"""The settings that all step methods share, and what they are by default."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike
from pymc.step_methods.compound import BlockedStep

from pymc_minibatch_mh.model.reading.inputs import Weights
from pymc_minibatch_mh.proposals.base import Proposal


class SharedSettings(TypedDict, total=False):
    """The settings that every step takes besides its own.

    Parameters
    ----------
    taylor_order
        Order of the control variates: "auto", 0, 1 or 2.
    centre
        "auto" seeks the posterior's mode and expands around the mean nearby. "start" takes
        `initial_point` as it is: no mode is sought, which the posterior need not have, nothing is
        expanded (``taylor_order=0``), and no moves start elsewhere than PyMC does.
    covariance
        With ``centre="start"``, what distances are measured by and moves are shaped by instead of
        the posterior's covariance: an array of shape (d, d), by default the identity.
    coordinates
        "auto" runs the chain in coordinates in which rows are linear, such as α = mu + tau z of a
        hierarchy that is written with ``mu + tau * z``, and maps draws back to the model's own
        variables: exact, by the Jacobian of the map. "model" runs it in the model's own, as "auto"
        does where settings are in terms of them: ``centre="start"``, bounds or ranges of your own,
        the covariance of a walk, a proposal of your own.
    proposal
        "auto", or a :func:`RandomWalk`, :func:`Laplace` or :class:`Mixture`.
    temperature
        K > 0 raises the likelihood, and only it, to the power 1/K; above 1 it is flattened. The
        trace is then one of the tempered posterior, and says so in the stat ``temperature``.
        A schedule ``[(0, 100), (400, 1)]`` starts at K = 100 and goes on at K = 1 from draw 400
        of warm-up on, which it has to end in: draws are kept at its last temperature only. Control
        variates hold the temperature, so that a schedule goes with ``taylor_order=0`` alone, which
        "auto" then is. Source: Seita et al. (2017), section 6.2, doi:10.48550/arXiv.1610.06848.
    observed
        Names of the observed variables to subsample; by default all with 1,000 rows or more.
    weights
        What the log-likelihood of each row is multiplied by, such as survey weights, importance
        weights or how often a row occurred: name of the observed variable -> array of shape (N,),
        or the array if there is one such variable. Of rows in :class:`Rows` they are an array of
        the same, ``rows.data("w")``. They scale the rows' bounds as well.
    observation_dims
        Names of dims along which observations lie; by default they lie on the first axis.
    prepared
        A file that ``step.save`` wrote for the same model and data: passes over all rows are then
        read instead of made. Or a step on the same model whose rows, in :class:`Rows`, are the
        first of these: then the new rows alone are read, unless they move the mode by more than
        half a posterior standard deviation or are more than a quarter of all.
    updates_per_draw
        Updates between two draws that are kept.
    full_pass_above
        Rows above which a move is decided by all rows, exactly, instead of by as many drawn ones:
        by default half of them, from where on a pass in order is as quick. With ``math.inf`` all
        rows decide only where the test itself asks for them, as the tests were published.
    moves_without_rows
        How many moves follow each update that read no row: slice sampling by the prior part, along
        one direction each that no row changes along, such as the scale of group effects, or a
        location against the effects that it is added to. They are exact, whatever the method, and
        models without such directions have none. "auto" takes each direction once, up to 10 of
        them in turn. None is the default of proposals that may keep to a set of positions
        (:func:`OwnMove`, :class:`StiefelWalk`) and all that :class:`FireflyMH` can make. Source:
        Neal (2003), doi:10.1214/aos/1056562461.
    tune
        Whether to adapt the proposal in warm-up.
    model, rng, initial_point, compile_kwargs, blocked
        As in PyMC's own step methods. `initial_point` is where the search for the mode starts.
    """

    taylor_order: int | str
    centre: str
    covariance: ArrayLike | None
    coordinates: str
    proposal: Proposal | str
    temperature: float | Sequence[tuple[int, float]]
    observed: Sequence[str] | None
    weights: Weights | None
    observation_dims: Sequence[str]
    prepared: str | PathLike | BlockedStep | None
    updates_per_draw: int
    full_pass_above: float | str
    moves_without_rows: int | str
    tune: bool
    model: pm.Model | None
    rng: Any
    initial_point: Mapping[str, np.ndarray] | None
    compile_kwargs: Mapping[str, Any] | None
    blocked: bool


#: What the shared settings are where nothing else is asked for.
DEFAULTS: SharedSettings = {
    "taylor_order": "auto",
    "centre": "auto",
    "covariance": None,
    "coordinates": "auto",
    "proposal": "auto",
    "temperature": 1.0,
    "observed": None,
    "weights": None,
    "observation_dims": (),
    "prepared": None,
    "updates_per_draw": 1,
    "full_pass_above": "auto",
    "moves_without_rows": "auto",
    "tune": True,
    "model": None,
    "rng": None,
    "initial_point": None,
    "compile_kwargs": None,
    "blocked": True,
}
