"""Rotations of variables that leave a posterior unchanged, and the warning about them."""

import logging

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_minibatch_mh import PenaltyMH
from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.reference.rotations import rotated_together
from pymc_minibatch_mh.reference.target import Target

ROWS, USERS, FILMS = 1_200, 12, 9


def ratings(kind):
    """Return a model of ratings by two factors of users and of films."""
    rng = np.random.default_rng(4)
    user, film = rng.integers(0, USERS, ROWS), rng.integers(0, FILMS, ROWS)
    with pm.Model() as model:
        widths = {"widths": np.array([1.0, 2.0])}.get(kind, 1.0)
        A = pm.Normal("A", 0.0, widths, shape=(USERS, 2))
        by_row = kind == "by row"
        B = pm.Normal("B", 0.0, 1.0, shape=(2, FILMS) if by_row else (FILMS, 2))
        loadings = B.T if by_row else B
        if kind == "fixed":
            loadings = pt.concatenate([np.eye(2), B[2:]])
        if kind == "scaled":
            A = pm.HalfNormal("sd", 1.0) * A
        part = A[user] * loadings[film]
        mean = part[:, 0] if kind == "one factor" else part.sum(axis=1)
        pm.Normal("y", mean, pm.HalfNormal("s", 1.0), observed=rng.normal(size=ROWS))
    return model


def places(prior):
    """Return a model of links between people by their distance in a plane."""
    rng = np.random.default_rng(5)
    i = rng.integers(0, USERS, ROWS)
    j = (i + rng.integers(1, USERS, ROWS)) % USERS
    with pm.Model() as model:
        z = pm.Normal("z", prior, 1.0, shape=(USERS, 2))
        apart = ((z[i] - z[j]) ** 2).sum(axis=1)
        pm.Bernoulli("link", logit_p=pm.Normal("a") - apart, observed=rng.integers(0, 2, ROWS))
    return model


def regression():
    """Return a regression on columns of two kinds for each group, which both are normal."""
    rng = np.random.default_rng(6)
    group, X = rng.integers(0, USERS, ROWS), rng.normal(size=(ROWS, 2))
    with pm.Model() as model:
        first, second = (pm.Normal(name, 0.0, 1.0, shape=(USERS, 2)) for name in "bc")
        mean = (first[group] * X).sum(axis=1)
        pm.Normal("y", mean, pm.math.exp((second[group] * X).sum(axis=1)), observed=X[:, 0])
    return model


def turned(model):
    target = Target(CompiledModel(factorize(model, model.value_vars)))
    return rotated_together(target, target.factorization.ravel(model.initial_point()))


@pytest.mark.parametrize("kind", ["rotated", "by row", "scaled"])
def test_factors_and_loadings_are_rotated_together(kind):
    assert turned(ratings(kind)) == ("A", "B")


@pytest.mark.parametrize("kind", ["widths", "fixed", "one factor"])
def test_factors_that_data_or_priors_fix_are_not_rotated(kind):
    assert turned(ratings(kind)) == ()


def test_places_in_a_plane_are_rotated_unless_their_prior_has_a_direction():
    assert turned(places(0.0)) == ("z",)
    assert turned(places(1.0)) == ()


def test_coefficients_of_data_are_not_rotated():
    assert turned(regression()) == ()


def test_matrices_that_no_observation_depends_on_are_left_out():
    with regression() as model:
        pm.Normal("of the prior", 0.0, 1.0, shape=(3, 2))
    assert turned(model) == ()


def test_rotations_are_told_before_rows_are_compiled(monkeypatch):
    messages, handler = [], logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())

    def forbidden(*_):
        raise AssertionError("rows are compiled")

    monkeypatch.setattr(FormRows, "_compile", forbidden)
    logging.getLogger("pymc").addHandler(handler)
    try:
        with pytest.raises(AssertionError, match="rows are compiled"):
            PenaltyMH(model=ratings("rotated"))
    finally:
        logging.getLogger("pymc").removeHandler(handler)
    text = "PenaltyMH: the posterior does not change if 'A' and 'B' are rotated together."
    assert [message[: len(text)] for message in messages] == [text]
    assert "Fix as many rows of 'B' as it has columns" in messages[0]
