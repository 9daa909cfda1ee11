"""Leave-one-out cross-validation from a sample of the rows."""

from collections.abc import Mapping
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from pymc_minibatch_mh.diagnostics.after.chosen_rows import (
    posterior_draws,
    row_dimension,
    row_numbers,
)
from pymc_minibatch_mh.diagnostics.after.loglikelihood import RowLogLikelihood
from pymc_minibatch_mh.diagnostics.after.traces import require_same_data
from pymc_minibatch_mh.errors import MinibatchError, SettingError
from pymc_minibatch_mh.model.reading.inputs import generator_of, model_of


class LazyLogLikelihood(BackendArray):
    """Log-likelihoods of shape (chain, draw, N) that are evaluated where they are indexed.

    ArviZ chooses the rows and indexes an array of all of them; xarray reads such an array as it
    reads one in a file.
    """

    def __init__(self, likelihood: RowLogLikelihood, draws: Mapping[str, np.ndarray]) -> None:
        self._likelihood = likelihood
        self._draws = draws
        chains, count = next(iter(draws.values())).shape[:2]
        self.shape = chains, count, likelihood.n_rows
        self.dtype = np.dtype(float)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        """Evaluate what a key of xarray selects."""
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._evaluate)

    def _evaluate(self, key: tuple[Any, ...]) -> np.ndarray:
        chain, draw, row = (
            np.arange(n)[k] if isinstance(k, slice) else np.asarray(k)
            for k, n in zip(key, self.shape, strict=True)
        )
        chosen = {
            name: values[np.ix_(np.atleast_1d(chain), np.atleast_1d(draw))]
            for name, values in self._draws.items()
        }
        values = self._likelihood.at_draws(chosen, np.atleast_1d(row))
        return values.reshape(chain.shape + draw.shape + row.shape)


def loo_subsample(
    trace: xr.DataTree,
    observations: int | np.ndarray = 400,
    *,
    model: pm.Model | None = None,
    var_name: str | None = None,
    **settings: Any,
) -> Any:
    """Estimate the expected log predictive density of all rows from a few of them.

    The log-likelihood is evaluated at every draw for the chosen rows, and at the posterior mean
    for all rows. The sum of the latter is corrected by the mean difference that the chosen rows
    show: the difference estimator of Magnusson et al., computed by ArviZ. The result is
    *approximate*; its error from choosing rows is estimated in ``subsampling_se``, and vanishes
    where all rows are chosen. Memory is that of one number a row, and of one number for each draw
    of a chosen row.

    Parameters
    ----------
    trace
        What :func:`pymc.sample` returned.
    observations
        How many rows to choose at random, or their numbers. Rows that were not chosen at random
        make the estimate biased.
    model
        The model; by default that of the context.
    var_name
        Name of the observed variable; by default the only one.
    **settings
        Passed on to :func:`arviz.loo_subsample`: ``pointwise``, ``reff``, ``seed``, ...

    Returns
    -------
    ELPDData
        ArviZ's result, for :func:`arviz.compare` among others.

    Raises
    ------
    UnsplittableModelError
        If the rows cannot be proven to be independent given the parameters.
    StaleDataError
        If the model's data are not those in the groups ``observed_data`` and ``constant_data``.
    MinibatchError
        If a row has no finite log-likelihood at the posterior mean.
    SettingError
        If `var_name` or `trace` do not fit the model.

    References
    ----------
    Magnusson, Andersen, Jonasson, Vehtari (2019), "Bayesian leave-one-out cross-validation for
    large data", ICML, doi:10.48550/arXiv.1904.10679.
    """
    model = model_of(model)
    generator_of("seed", settings.get("seed"))
    likelihood = RowLogLikelihood(model, var_name)
    draws = posterior_draws(trace, model)
    require_same_data(trace, likelihood.arrays)
    chosen = _checked(observations, likelihood)
    at_mean = likelihood.at_point(posterior_mean(draws))
    if not np.isfinite(at_mean).all():
        raise MinibatchError(
            f"{likelihood.name!r} has no finite log-likelihood at the posterior mean, first in "
            f"row {int(np.flatnonzero(~np.isfinite(at_mean))[0])}, so that differences from it "
            "cannot be averaged. Correct that row, or use az.loo()."
        )
    name, dim = likelihood.name, row_dimension(model, likelihood.name)
    lazy = LazyLogLikelihood(likelihood, draws)
    # What ArviZ reads of the observations is their number.
    unread = np.broadcast_to(np.float64(0.0), at_mean.shape)
    tree = xr.DataTree.from_dict(
        {
            "/posterior": trace["posterior"].to_dataset()[list(draws)],
            "/log_likelihood": xr.Dataset({name: (("chain", "draw", dim), in_memory_once(lazy))}),
            "/observed_data": xr.Dataset({name: (dim, unread)}),
        }
    )
    return az.loo_subsample(
        tree,
        chosen,
        var_name=name,
        method="plpd",
        log_lik_fn=lambda *_: xr.DataArray(at_mean, dims=dim),
        **settings,
    )


def _checked(observations: Any, likelihood: RowLogLikelihood) -> Any:
    if isinstance(observations, int | np.integer) and not isinstance(observations, bool):
        if not 0 < observations <= likelihood.n_rows:
            raise SettingError(
                f"observations={observations} is no number of rows of {likelihood.name!r}. Choose "
                f"from 1 to {likelihood.n_rows:,}, or give row numbers."
            )
        return int(observations)
    return row_numbers(observations, likelihood.n_rows, likelihood.name, "observations")


def in_memory_once(array: BackendArray) -> indexing.MemoryCachedArray:
    """Keep what was indexed of an array, as xarray does with files."""
    return indexing.MemoryCachedArray(indexing.LazilyIndexedArray(array))


def posterior_mean(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the mean of every variable, rounded where the variable is discrete."""
    means = {name: values.mean(axis=(0, 1)) for name, values in draws.items()}
    return {
        name: mean if draws[name].dtype.kind == "f" else np.rint(mean)
        for name, mean in means.items()
    }
