"""One measurement per move: the step's own test, the way back, and all rows."""

from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.chain.probe import Acceptance, Probe, ProposedMove, RowsOfMove
from pymc_minibatch_mh.diagnostics.audit.value_draws import ValueDraws
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.step.base import MinibatchStep

#: A move to where the density is zero before a row is read: rejected, and left alone.
REJECTED = Acceptance(0.0, 0.0, 0.0, np.nan)
UNREAD = RowsOfMove(-np.inf, np.nan, np.nan, np.nan, np.nan, np.nan, -1)


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured of P moves.

    Parameters
    ----------
    chain, draw : ndarray, shape (P,)
        Where the moves start, in the trace.
    position, new : ndarray, shape (P, d)
    there, back
        Fields of `Acceptance` -> array of shape (P,), for the move and for the way back.
    rows
        Fields of `RowsOfMove` -> array of shape (P,).
    """

    chain: np.ndarray
    draw: np.ndarray
    position: np.ndarray
    new: np.ndarray
    there: dict[str, np.ndarray]
    back: dict[str, np.ndarray]
    rows: dict[str, np.ndarray]

    @property
    def error(self) -> np.ndarray:
        """The error of the acceptance probability, shape (P,).

        With a and a' the test's probabilities there and back and Δ the exact log ratio, it is
        a - σ(Δ)(a + a'), σ the logistic function. What is taken off balances the pair whatever a
        and a' are, and is a itself where these do: Barker's probability for Barker's test,
        Metropolis' for Metropolis', and that of a Poisson test, which is neither, for that one.
        """
        forward, backward = self._shares
        return forward * self.there["mean"] - backward * np.nan_to_num(self.back["mean"])

    @property
    def error_mcse(self) -> np.ndarray:
        """Its Monte Carlo standard error, shape (P,)."""
        forward, backward = self._shares
        return np.hypot(forward * self.there["mcse"], backward * np.nan_to_num(self.back["mcse"]))

    @property
    def _shares(self) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(over="ignore"):
            backward = 1.0 / (1.0 + np.exp(-self.rows["log_ratio"]))
        return 1.0 - backward, backward


def measured(step: MinibatchStep, draws: ValueDraws, pairs: int, probe: Probe) -> Measured:
    """Propose from draws of a trace, and measure each move with all rows.

    Raises
    ------
    SettingError
        If a draw has zero density, so that the trace cannot be of this model.
    """
    places = draws.spread_out(pairs)
    positions = draws.positions(step)
    moves, there, back, rows = [], [], [], []
    for chain, draw in places:
        point = draws.point(chain, draw)
        probe.given(step.target.split.ravel_others(point))
        step.target.condition_on(point)
        position = np.ascontiguousarray(positions[chain, draw], dtype=np.float64)
        move = probe.propose(position)
        moves.append(move)
        possible = np.isfinite(move.cheap)
        rows.append(probe.rows(move) if possible else UNREAD)
        _require_possible(step, move, rows[-1], chain, draw)
        there.append(probe.acceptance(move) if possible else REJECTED)
        # Where the proposal has zero density, the way back starts outside the posterior.
        returns = np.isfinite(rows[-1].log_ratio)
        back.append(probe.acceptance(move.back) if returns else REJECTED)
    chains, numbers = np.array(places).T
    return Measured(
        chains,
        numbers,
        np.array([move.position for move in moves]),
        np.array([move.new for move in moves]),
        *(_columns(records) for records in (there, back, rows)),
    )


def _columns(records: list) -> dict[str, np.ndarray]:
    return {
        name: np.array(values)
        for name, values in zip(records[0]._fields, zip(*records, strict=True), strict=True)
    }


def _require_possible(
    step: MinibatchStep, move: ProposedMove, rows: RowsOfMove, chain: int, draw: int
) -> None:
    target = step.target
    if np.isfinite(rows.log_ratio):
        return
    if np.isfinite(target.log_prior(move.position)) and np.isfinite(
        target.log_likelihood(move.position)
    ):
        return
    names = ", ".join(repr(term.name) for term in target.split.terms)
    raise SettingError(
        f"{names}: draw {draw} of chain {chain} has zero density in the step's model, so that the "
        "trace is not of this model and data. Give the step that sampled this trace."
    )
