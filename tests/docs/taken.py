"""The names that the examples of docstrings and pages take as given."""

import numpy as np
import pymc as pm
from scipy.special import expit

import pymc_minibatch_mh


def taken():
    """Return public names, a model of a tall logistic regression, and its data."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(2_000), rng.uniform(-1.0, 1.0, (2_000, 2))])
    late = (rng.random(2_000) < expit(X @ [-0.5, 1.0, 0.5])).astype(np.int8)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=3)
        pm.Bernoulli("late", logit_p=X @ beta, observed=late)
    public = {name: getattr(pymc_minibatch_mh, name) for name in pymc_minibatch_mh.__all__}
    own = {"pm": pm, "np": np, "model": model, "beta": beta, "X": X, "late": late}
    return own | public
