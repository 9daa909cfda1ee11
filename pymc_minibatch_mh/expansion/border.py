"""The centre of a posterior that lies at the end of its support.

A shape parameter that data do not tell from infinity has a reciprocal κ near 0, and the maximum of
the likelihood may lie below it. Where the density times κ has its maximum, κ is near its mean: for
a normal density with mean m and standard deviation s that is cut off at 0 the maximum is
[m + √(m² + 4 s²)]/2, which is s for m = 0 (mean .8 s) and .303 s for m = -3 s (mean .283 s), and
m + s²/m for large m. There the expansion is made, its gradient included.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.expansion.mode import Mode
from pymc_minibatch_mh.expansion.passes import Derivatives, Passes
from pymc_minibatch_mh.model.compiled.graph_prior import GraphPrior
from pymc_minibatch_mh.model.compiled.graphs import PlacedRows
from pymc_minibatch_mh.model.compiled.scalar_prior import ScalarPrior


class BorderPasses(Passes):
    """Passes with a density that is multiplied by coordinates that begin at 0.

    Parameters
    ----------
    rows, prior, source
        See :class:`pymc_minibatch_mh.expansion.passes.Passes`.
    places
        Those coordinates.
    """

    def __init__(
        self,
        rows: PlacedRows,
        prior: ScalarPrior | GraphPrior,
        source: ArrayRows,
        places: Sequence[int],
    ) -> None:
        super().__init__(rows, prior, source)
        self._places = np.array(places)

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Return derivatives of the prior part and of the logarithms of these coordinates."""
        plain, at = super().prior(theta, hessian=hessian), theta[self._places]
        if not (at > 0.0).all():
            return replace(plain, value=-np.inf)
        gradient, second = plain.gradient.copy(), plain.hessian.copy()
        gradient[self._places] += 1.0 / at
        if hessian:
            second[self._places, self._places] -= 1.0 / at**2
        return Derivatives(plain.value + float(np.log(at).sum()), gradient, second)


def without_border(passes: Passes, mode: Mode, inverse_temperature: float) -> Mode:
    """Return a mode of the density times coordinates with the precision of the density alone.

    Where that is none, as where the prior part is not concave there, that of both stays.

    Parameters
    ----------
    passes
        Passes with the density itself.
    mode
        Its mode, with :class:`BorderPasses`.
    inverse_temperature
        β, which multiplies the log-likelihood.
    """
    prior = passes.prior(mode.position, hessian=True)
    precision = -inverse_temperature * mode.likelihood.hessian - prior.hessian
    positive = np.isfinite(precision).all() and np.linalg.eigvalsh(precision)[0] > 0.0
    return replace(mode, precision=precision) if positive else mode
