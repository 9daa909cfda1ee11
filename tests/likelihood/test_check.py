"""The comparison of a split model with the model, before anything relies on the split."""

import numpy as np
import pymc as pm
import pytest

from likelihood.reading import split_of
from pymc_minibatch_mh.errors import SplitCheckError
from pymc_minibatch_mh.likelihood import check
from pymc_minibatch_mh.likelihood.check import check_split, model_log_density


def censored():
    rng = np.random.default_rng(31)
    with pm.Model() as model:
        mu = pm.Normal("mu")
        normal = pm.Normal.dist(mu, 1.0)
        pm.Censored("y", normal, lower=-1.0, upper=1.0, observed=rng.normal(size=50).clip(-1, 1))
    return model


def test_constants_of_a_model_are_only_made_more_precise():
    model = censored()
    log_density = model_log_density(model, split_of(model))
    position, others = np.array([0.3]), np.empty(0)
    written = float(model.compile_logp()({"mu": np.array(0.3)}))
    assert log_density(position, others) == pytest.approx(written, rel=1e-7)


def test_other_constants_are_noticed(monkeypatch):
    monkeypatch.setattr(check, "in_double", lambda graph: graph * (1.0 + 1e-5))
    model = censored()
    log_density = model_log_density(model, split_of(model))
    with pytest.raises(SplitCheckError, match=r"^'y': constants in double precision change"):
        log_density(np.array([0.3]), np.empty(0))


@pytest.mark.parametrize("off", [1e-6, np.nan])
def test_parts_that_do_not_add_up_are_noticed(off):
    points = [np.zeros(1)]
    check_split(lambda _: -3.0, lambda _: (-1.0, -2.0), points, ["y"])
    with pytest.raises(SplitCheckError, match=r"^'y': prior part -1.0 and rows .* report it"):
        check_split(lambda _: -3.0, lambda _: (-1.0, -2.0 + off), points, ["y"])
