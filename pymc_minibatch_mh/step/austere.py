"""The austere sequential test."""

from collections.abc import Sequence
from typing import Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.methods import austere
from pymc_minibatch_mh.methods.tables.designs import PerUpdate, SequentialDesign
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.shared import SharedSettings

#: Rows of a look, level and boundary, where nothing else is asked for.
USUAL_BATCH, USUAL_EPSILON, USUAL_BOUNDARY = 500, 0.05, 0.5


class AustereMH(MinibatchStep):
    """Metropolis–Hastings decided by a sequential t-test on growing batches.

    Guarantee: *approximate*. `epsilon` is the level of the t-test at one look; it is neither the
    error of the acceptance probability nor a bias of the posterior, and no such figure follows
    from it alone: :func:`sequential_error` has the error of a decision, and
    :func:`design_sequential_test` chooses a test by it. With ``epsilon=0`` every update reads all
    rows: the usual Metropolis–Hastings test, which is *exact*.

    Parameters
    ----------
    vars
        Variables to move; by default all continuous ones. Other steps move the rest.
    batch_size
        Rows that each look adds.
    epsilon
        Tail probability below which a look decides, in [0, 0.5]. At 0 all rows decide, at 0.5 the
        first look.
    boundary
        α in the limits G_0 π^(0.5 - α) of the looks' statistics, in [0.5, 1], with π the share of
        the rows that was read and G_0 the normal quantile of 1 - `epsilon`. At 0.5 every look has
        the level `epsilon`; above, early looks have a smaller one.
    design
        What :func:`design_sequential_test` returned, which sets the three above; or a
        :class:`PerUpdate`, with which every update scans all rows to choose a test of its own. The
        scan is counted: `n_obs` is the number of all rows and what the test has read besides, so
        that this variant never saves anything.
    **settings
        What all step methods take: see :class:`SharedSettings`.

    Raises
    ------
    SettingError
        If a setting is invalid; or if the model's rows are stored and more than one of 10,000
        updates is forecast to read all of them.

    Notes
    -----
    Batches of stored rows, of :class:`Rows`, are drawn and fetched ahead, in an order that does
    not depend on where the chain is.

    References
    ----------
    Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
    budget", ICML, doi:10.48550/arXiv.1304.5299.
    """

    name = "austere_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = USUAL_BATCH,
        epsilon: float = USUAL_EPSILON,
        boundary: float = USUAL_BOUNDARY,
        design: "SequentialDesign | PerUpdate | None" = None,
        **settings: Unpack[SharedSettings],
    ) -> None:
        if design is not None:
            _require_usual("batch_size", batch_size, USUAL_BATCH)
            _require_usual("epsilon", epsilon, USUAL_EPSILON)
            _require_usual("boundary", boundary, USUAL_BOUNDARY)
        size = check.integer("batch_size", batch_size, 2)
        method = austere.method_of(size, epsilon, boundary, design)
        self._prepare(vars, method, **settings)


def _require_usual(name: str, value: object, usual: float) -> None:
    if value != usual:
        raise SettingError(f"{name}={value!r} and design= both set the test. Give one of them.")
