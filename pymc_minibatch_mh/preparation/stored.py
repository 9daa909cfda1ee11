"""What is asked of a method and a model whose rows are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.preparation.needs import Needs
from pymc_minibatch_mh.preparation.violations import sizes_of_many

if TYPE_CHECKING:
    from pymc_minibatch_mh.preparation.prepared import Prepared

#: Moves by which full passes are forecast, and how many of them may read all rows.
MOVES, MOST_PASSES = 10_000, 1


def require_drawn_ahead(needs: Needs, name: str) -> None:
    """Refuse methods that draw rows in another way than by derived bounds.

    Raises
    ------
    SettingError
        Naming the observed variable.
    """
    if not needs.only_derived_bounds:
        raise SettingError(
            f"{name!r}: data of Rows(...) are drawn ahead by bounds that are derived from the "
            "model, which this step does not use, or not alone. Use TunaMH() or "
            "ScalableSubsamplingMH() without bounds=, or give the model arrays in memory."
        )


def require_few_full_passes(prepared: Prepared, most_drawn: float, seed: int) -> None:
    """Refuse a model of which chains would read all stored rows again and again.

    Parameters
    ----------
    prepared
        Bounds of all rows.
    most_drawn
        Rows above which a move is decided by all of them.
    seed
        Draws pairs of points of the Gaussian approximation.

    Raises
    ------
    SettingError
        If more than one of 10,000 moves is forecast to read all rows; tells how many.
    """
    assert prepared.tables is not None
    sizes = sizes_of_many(
        prepared.target, prepared.surrogate, prepared.tables, np.random.default_rng(seed), MOVES
    )
    # One that is not bounded reads all rows, however many may be drawn.
    passes = np.count_nonzero(~((sizes <= most_drawn) & (sizes < np.inf)))
    if passes > MOST_PASSES:
        names = ", ".join(repr(term.name) for term in prepared.target.split.terms)
        raise SettingError(
            f"{names}: {passes:,} of {MOVES:,} moves would read all {prepared.n_rows:,} rows, "
            "which are stored, so that sampling would take longer than reading them as often. "
            "Use fewer parameters with more rows each, such as fewer groups; or give the model "
            "arrays in memory, where explain(model) tells more."
        )
