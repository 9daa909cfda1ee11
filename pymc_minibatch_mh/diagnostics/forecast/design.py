"""The design of a sequential test for a step: which moves it tries, and which test suits them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_minibatch_mh.chain.probe import Probe
from pymc_minibatch_mh.diagnostics.forecast.pilot import first_point, fresh_chain
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.likelihood.inputs import generator_of
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.designs import (
    BATCH_SIZES,
    EPSILONS,
    SequentialDesign,
    TriedMoves,
    average_designs,
    best_design,
    grid_of,
    tolerance_of,
    worst_case_designs,
)
from pymc_minibatch_mh.steps.given import model_behind, step_of
from pymc_minibatch_mh.steps.sequential import PUBLISHED_ALL_ROWS_FROM, SHIPPED_ALL_ROWS_FROM, whole
from pymc_minibatch_mh.steps.settings import integer

#: Draws of warm-up before moves are looked at, draws from move to move, and moves of a design.
TUNE, GAP, MOVES = 500, 5, 100


def design_sequential_test(
    step_or_numbers: MinibatchStep | TriedMoves | int,
    tolerance: float,
    kind: str = "worst",
    *,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    epsilons: Sequence[float] = EPSILONS,
    boundaries: Sequence[float] = (0.5,),
    all_rows_from: float | None = None,
    random_seed: Any = None,
) -> SequentialDesign:
    """Choose the sequential test that reads the fewest rows at a tolerated error.

    All combinations of `batch_sizes`, `epsilons` and `boundaries` are tried. The figures are those
    of :func:`sequential_error` and :func:`sequential_use`: they take sums over batches for normal.

    Parameters
    ----------
    step_or_numbers
        A step, whose proposal, control variates and number of rows are used: moves are measured
        with :func:`tried_moves` where `kind` asks for them. Or such moves, measured before. Or, for
        the worst case, just the number of rows.
    tolerance
        Largest error, in (0, 0.5].
    kind
        "worst": the error of a decision at the threshold itself, where it is largest; rows are
        those that such a decision reads. "average": the mean over moves of the error of their
        acceptance probability, in which errors in both directions cancel, and the mean of the rows.
    batch_sizes, epsilons, boundaries
        The tests that are tried, by default those that published designs were chosen from.
    all_rows_from
        Share of the rows from which a look reads all of them: by default 0.5 for a step, as
        :class:`AustereMH` does, and else 1, as published.
    random_seed
        Seed of the moves, for a step.

    Returns
    -------
    SequentialDesign
        For `design=` of :class:`AustereMH`.

    Raises
    ------
    SettingError
        If an argument is out of range, or no test has an error that is tolerated.

    References
    ----------
    Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
    budget", ICML, doi:10.48550/arXiv.1304.5299, section 5.2.
    """
    tolerance, grid = tolerance_of(tolerance), grid_of(batch_sizes, epsilons, boundaries)
    if kind not in ("worst", "average"):
        raise SettingError(f"kind={kind!r} is unknown. Use 'worst' or 'average'.")
    given = step_or_numbers
    if not isinstance(given, TriedMoves | int | np.integer):
        step, all_rows = step_of(given), SHIPPED_ALL_ROWS_FROM
        worst = kind == "worst"
        given = step.prepared.n_drawn if worst else tried_moves(step, random_seed=random_seed)
    else:
        all_rows = PUBLISHED_ALL_ROWS_FROM
    share = all_rows if all_rows_from is None else all_rows_from
    if kind == "worst":
        n_rows = given.n_rows if isinstance(given, TriedMoves) else given
        n_rows = whole("step_or_numbers", n_rows, 2)
        return best_design(worst_case_designs(n_rows, grid, share), tolerance)
    if not isinstance(given, TriedMoves):
        raise SettingError(
            f"kind='average' needs moves, of which {given!r} rows tell nothing. Give a step, or "
            "what tried_moves(step) returns."
        )
    return best_design(average_designs(given, grid, share), tolerance)


def tried_moves(step: MinibatchStep, moves: int = MOVES, random_seed: Any = None) -> TriedMoves:
    """Measure moves that a chain of a step tries, each with all rows.

    A chain of its own is adapted on 500 draws; every fifth draw after that proposes a move.
    Proposals to where the density is zero before a row is read are left out. Variables of other
    steps stay where the chain starts, as in :func:`explain`.

    Parameters
    ----------
    step
        The step; its own chain goes on as if no move had been tried.
    moves
        Number of moves, 2 or more. All rows are read once for each.
    random_seed
        Seed of the chain.

    Returns
    -------
    TriedMoves

    Raises
    ------
    SettingError
        If an argument is invalid, or the chain proposes nothing of positive density.
    """
    step, moves = step_of(step), integer("moves", moves, 2)
    model, rng = model_behind(step), generator_of("random_seed", random_seed)
    split, others = step.target.split, step.target.source.others
    before = others.copy()
    try:
        copied = fresh_chain(step, rng, TUNE)
        point = first_point(step, model, rng)
        for _ in range(TUNE):
            point, _ = copied.step(point)
        copied.stop_tuning()
        probe = Probe(copied.chain, rng.spawn(1)[0])
        probe.given(split.ravel_others(point))
        found = []
        for _ in range(moves):
            for _ in range(GAP):
                point, _ = copied.step(point)
            move = probe.propose(copied.chain.position.copy())
            if np.isfinite(move.cheap):
                found.append(probe.rows(move))
    finally:
        others[:] = before
    beta, n_rows = copied.surrogate.inverse_temperature, copied.chain.prepared.n_drawn
    finite = [rows for rows in found if np.isfinite(rows.log_ratio)]
    if not finite:
        raise SettingError(
            f"step={type(step).__name__} proposed no move to a positive density in {moves} tries. "
            "Use another proposal, or a smaller scale."
        )
    return TriedMoves(
        n_rows,
        np.array([rows.log_ratio for rows in finite]),
        beta * np.sqrt(n_rows * np.array([rows.variance for rows in finite])),
    )
