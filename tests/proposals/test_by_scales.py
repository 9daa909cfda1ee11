"""Moves of hierarchies: their map, their densities, and which models have them."""

import numpy as np
import pymc as pm
import pytest

from proposals.proposing import proposed
from pymc_minibatch_mh import Laplace, Mixture, TunaMH
from pymc_minibatch_mh.native.elements import ScaleConditional
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.proposals.mixture import MixtureNumbers, TransformedNumbers
from pymc_minibatch_mh.reference.scale_tables import KNOT_GAP, NORMALS, _quantiles_of_knots

#: Two scales and a rest in between, as the three coordinates of `proposing`.
SCALES, REST = np.array([2, 0]), np.array([1])
#: Knots of z, of which the fifth is 0; each table is one that nothing else has.
KNOTS = KNOT_GAP * (np.arange(9.0) - 4.0)


def tables():
    """Return tables of a skewed distribution of two scales, and of a rest that follows them."""
    rng = np.random.default_rng(11)
    heights = [-0.5 * KNOTS**2 + bend * KNOTS**3 for bend in (0.03, -0.04)]
    points, slopes = np.array([_quantiles_of_knots(height, -4) for height in heights]).swapaxes(
        0, 1
    )
    spread = np.array([[0.6, 0.2], [0.2, 0.9]])
    means, whiteners = 0.5 * rng.standard_normal((2, 2, KNOTS.size, 1))
    means[:, 4] = whiteners[:, 4] = 0.0
    return ScaleConditional(
        SCALES,
        REST,
        np.array([0.4, -1.1]),
        spread,
        np.linalg.inv(spread),
        float(NORMALS[0]),
        float(NORMALS[1] - NORMALS[0]),
        np.ascontiguousarray(points),
        np.ascontiguousarray(slopes),
        float(KNOTS[0]),
        KNOT_GAP,
        np.array([0.7]),
        np.array([0.3]),
        means,
        whiteners,
    )


def numbers(component, rho=0.0, scale=0.7):
    weights = np.array([1.0, 0.0] if component == 0 else [0.0, 1.0])
    return TransformedNumbers(MixtureNumbers(scale, weights, np.array([rho])), tables(), None)


def place_of(white, of):
    place, volume = np.empty(white.size), np.empty(1)
    function("mh_place_given_scales")(of, white, place, volume)
    return place, volume[0]


def white_of(place, of):
    white, volume = np.empty(place.size), np.empty(1)
    function("mh_whiten_given_scales")(of, place, white, volume)
    return white, volume[0]


#: Within the tables, near their ends, and beyond all knots.
REACHES = [0.3, 1.5, 4.0, 9.0]


@pytest.mark.parametrize("reach", REACHES)
def test_map_is_inverted(reach):
    of = tables()
    for white in reach * np.random.default_rng(1).standard_normal((50, 3)):
        place, there = place_of(white, of)
        back, here = white_of(place, of)
        assert back == pytest.approx(white, rel=1e-10, abs=1e-10)
        assert here == pytest.approx(there, abs=1e-9)


@pytest.mark.parametrize("reach", REACHES)
def test_volume_is_that_of_differences(reach):
    """The determinant is computed from the positions alone, without anything of the map."""
    of, step = tables(), 1e-6
    volumes = []
    for white in reach * np.random.default_rng(2).standard_normal((20, 3)):
        sides = [[place_of(white + side * step * e, of)[0] for e in np.eye(3)] for side in (1, -1)]
        jacobian = (np.array(sides[0]) - sides[1]) / (2.0 * step)
        volumes.append(place_of(white, of)[1] + np.linalg.slogdet(jacobian)[1])
    # Up to the determinant of A, which is constant.
    assert np.ptp(volumes) < 1e-4


def log_density(here, there, rho, scale, of):
    """Return log q(there|here), from the density of the normal numbers and the differences."""
    (start, _), (end, volume) = white_of(here, of), white_of(there, of)
    if rho is None:
        return -0.5 * np.sum((end - start) ** 2) / scale**2 + volume
    return -0.5 * np.sum((end - rho * start) ** 2) / (1.0 - rho**2) + volume


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.95, None])
def test_density_ratio_is_that_of_the_moves(rho):
    own = numbers(0) if rho is None else numbers(1, rho)
    rng = np.random.default_rng(3)
    positions = np.array([place_of(w, own.tables)[0] for w in 1.5 * rng.standard_normal((40, 3))])
    new, log_q, components = proposed(positions, own, rng)
    assert (components == (0 if rho is None else 1)).all()
    for here, there, found in zip(positions, new, log_q, strict=True):
        forth = log_density(here, there, rho, own.mixture.scale, own.tables)
        back = log_density(there, here, rho, own.mixture.scale, own.tables)
        assert found == pytest.approx(back - forth, abs=1e-8)


ROWS, GROUPS = 1_200, 8


def hierarchy(*, scale=True, noise=1.0):
    """Return normal rows with known noise, whose effects are normal given their scale."""
    rng = np.random.default_rng(5)
    group = rng.integers(0, GROUPS, ROWS)
    y = 0.4 + 0.3 * rng.standard_normal(GROUPS)[group] + noise * rng.standard_normal(ROWS)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        tau = pm.HalfNormal("tau", 1.0) if scale else 0.3
        alpha = pm.Normal("alpha", mu, tau, shape=GROUPS)
        pm.Normal("y", alpha[group], noise, observed=y)
    return model


@pytest.fixture(scope="module")
def step():
    with hierarchy(noise=2.0):
        return TunaMH()


def log_ratios(step, white):
    """Return log π - log q where numbers lead, from where they are found again."""
    ratios = []
    for numbers in white:
        place, volume = place_of(numbers, step.plan.scale_conditional)
        back, _ = white_of(place, step.plan.scale_conditional)
        assert back == pytest.approx(numbers, rel=1e-7, abs=1e-7)
        log_q = volume - 0.5 * numbers @ numbers
        ratios.append(step.target.log_prior(place) + step.target.log_likelihood(place) - log_q)
    return ratios


def test_draws_are_those_of_the_posterior_where_effects_are_normal():
    """The posterior of the effects given their scale is normal, and only the scale is tabled."""
    with hierarchy(noise=2.0):
        step = TunaMH()
    white = np.random.default_rng(6).standard_normal((300, GROUPS + 2))
    assert np.std(log_ratios(step, white)) < 0.05


def test_effects_follow_their_mean_also_between_knots_of_small_scales():
    """An effect has hardly any room beside the mean there."""
    with hierarchy(noise=20.0):
        step = TunaMH()
    white = np.random.default_rng(7).standard_normal((50, GROUPS + 2))
    for quantile in (-3.7, -3.4, -3.1, -2.8, -2.5, -2.2, -1.9):
        white[:, 0] = quantile
        assert np.std(log_ratios(step, white)) < 0.02


def test_moves_are_drawn_by_the_tables_where_there_are_some(step):
    record = Mixture().record(GROUPS + 2)
    assert isinstance(Mixture().linked(record, step.plan), TransformedNumbers)
    for plain in (Mixture(scale_conditional=False), Laplace()):
        assert isinstance(plain.linked(record, step.plan), MixtureNumbers)
        assert plain.scales(step.plan) == ()
