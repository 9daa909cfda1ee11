"""Moves of hierarchies: their map, their densities, and which models have them."""

import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm

from helpers.ends import background_beside_groups
from helpers.shapes import own
from proposals.proposing import COVARIANCE, gaussian, proposed
from pymc_minibatch_mh import Laplace, Mixture, TunaMH
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.native.elements import ScaleConditional, Truncated
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.proposals.mixture import MixtureNumbers, TransformedNumbers
from pymc_minibatch_mh.reference.scale_tables import (
    KNOT_GAP,
    NORMALS,
    _quantiles_of_knots,
    scale_conditional,
)
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.reparametrize.inverse_shape import in_inverse_shape

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
        None,
    )


#: Mean and standard deviation of a coordinate that is truncated at 0, where its number is 0.
LOW, WIDTH, TILT = 0.2, 0.5, -0.8


def tables_of_one():
    """Return tables of one scale and a rest, which follow a coordinate that is truncated at 0."""
    both = tables()
    shifts = np.array([[0.3], [0.0], [-0.4]])
    truncated = Truncated(
        np.array([1]), np.array([LOW]), np.array([[WIDTH]]), np.array([TILT]), shifts
    )
    first = {name: np.ascontiguousarray(getattr(both, name)[:1]) for name in OF_SCALES}
    spread, narrow = np.array([[0.6]]), np.array([[1.0 / 0.6]])
    return both._replace(
        **first, rest=np.array([0]), spread=spread, narrow=narrow, truncated=truncated
    )


#: Fields of which each scale has a line.
OF_SCALES = "scales", "middle", "points", "slopes", "means", "whiteners"
KINDS = {"two scales": tables, "beside a truncated coordinate": tables_of_one}


def numbers(component, rho=0.0, scale=0.7, kind="two scales"):
    weights = np.array([1.0, 0.0] if component == 0 else [0.0, 1.0])
    mixture = MixtureNumbers(scale, weights, np.array([rho]))
    return TransformedNumbers(mixture, KINDS[kind](), None)


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reach", REACHES)
def test_map_is_inverted(reach, kind):
    of = KINDS[kind]()
    for white in reach * np.random.default_rng(1).standard_normal((50, 3)):
        place, there = place_of(white, of)
        back, here = white_of(place, of)
        assert back == pytest.approx(white, rel=1e-10, abs=1e-10)
        assert here == pytest.approx(there, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reach", REACHES)
def test_volume_is_that_of_differences(reach, kind):
    """The determinant is computed from the positions alone, without anything of the map."""
    of, step = KINDS[kind](), 1e-6
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
    rho, scale = (1.0, scale) if rho is None else (rho, np.sqrt(1.0 - rho**2))
    middle = np.zeros(3)
    if of.truncated is not None:
        middle[-1] = TILT
    mean = middle + rho * (start - middle)
    found = norm.logpdf(end, mean, scale).sum() + volume
    return found - (of.truncated is not None) * norm.logsf(-LOW / WIDTH, mean[-1], scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.95, None])
def test_density_ratio_is_that_of_the_moves(rho, kind):
    moves = numbers(0 if rho is None else 1, rho or 0.0, kind=kind)
    rng = np.random.default_rng(3)
    white = 1.5 * rng.standard_normal((40, 3))
    if moves.tables.truncated is not None:
        white[:, -1] = np.abs(white[:, -1]) - LOW / WIDTH
    positions = np.array([place_of(w, moves.tables)[0] for w in white])
    new, log_q, components = proposed(positions, moves, rng)
    assert (components == (0 if rho is None else 1)).all()
    assert moves.tables.truncated is None or (new[:, 1] > 0.0).all()
    for here, there, found in zip(positions, new, log_q, strict=True):
        forth = log_density(here, there, rho, moves.mixture.scale, moves.tables)
        back = log_density(there, here, rho, moves.mixture.scale, moves.tables)
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
    ratios, tabled = [], step.plan.scale_conditional
    assert tabled is not None
    for numbers in white:
        place, volume = place_of(numbers, tabled)
        back, _ = white_of(place, tabled)
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


def test_a_truncated_coordinate_shifts_all_others_as_their_covariance_says():
    reference, slope = gaussian(0).reference, np.array([0.7, -0.4])
    places, rest = np.array([1, 2]), np.array([0])
    truncated = Truncated.around(reference, places, slope)
    factor, whole = truncated.factor, np.zeros((3, 2))
    whole[places], whole[rest] = factor, truncated.shifts[rest]
    np.testing.assert_allclose(whole @ factor.T, COVARIANCE[:, places])
    np.testing.assert_allclose(factor @ truncated.tilt, COVARIANCE[np.ix_(places, places)] @ slope)
    np.testing.assert_array_equal(truncated.shifts[places], np.zeros((2, 2)))


def test_tables_are_of_all_but_coordinates_near_their_bound():
    """Effects are normal given their scale, and a background of counts is nearly truncated so."""
    model, _ = background_beside_groups()
    target = Target(CompiledModel(in_inverse_shape(own(model), "u_log__", -1)))
    start = target.factorization.ravel(model.initial_point())
    reference, _ = target.expand(start, np.random.default_rng(0))
    tables = scale_conditional(target, reference)
    assert tables is not None
    assert tables.truncated is not None
    names = target.factorization.coordinate_names
    assert [names[k] for k in tables.truncated.places] == ["u_log__"]
    truncated, logs = tables.truncated, []
    low = -float(truncated.centre[0] / truncated.factor[0, 0] + truncated.tilt[0])
    for white in np.random.default_rng(6).standard_normal((100, reference.size)):
        kept = norm.isf(norm.sf(low) * norm.sf(white[-1]))
        white[-1] = truncated.tilt[0] + kept
        place, volume = place_of(white, tables)
        log_q = volume - 0.5 * (white[:-1] @ white[:-1] + kept**2)
        logs.append(target.log_prior(place) + target.log_likelihood(place) - log_q)
    assert np.std(logs) < 0.2


def test_moves_are_drawn_by_the_tables_where_there_are_some(step):
    record = Mixture().record(GROUPS + 2)
    assert isinstance(Mixture().linked(record, step.plan), TransformedNumbers)
    for plain in (Mixture(scale_conditional=False), Laplace()):
        assert isinstance(plain.linked(record, step.plan), MixtureNumbers)
        assert plain.scales(step.plan) == ()
