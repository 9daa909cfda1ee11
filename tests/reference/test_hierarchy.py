"""Models with scales: their centres, and the density of scales with the rest integrated over."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from helpers.tiers import fast
from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.reference import hierarchy, mode
from pymc_minibatch_mh.reference.density import Density
from pymc_minibatch_mh.reference.full_data import FullData
from pymc_minibatch_mh.reference.hierarchy import find_marginal_mode
from pymc_minibatch_mh.reference.marginal import Marginal
from pymc_minibatch_mh.structure.scales import local_scales
from reference import hierarchies as models
from reference.formulas import hierarchy_passes

#: The prior of a Cholesky factor is a large graph, and takes long to compile.
QUICK = [
    models.normal, models.logistic, models.crossed, models.nested, models.robust_effects,
    models.horseshoe, models.lasso, models.scale_of_scales, models.alike,
]  # fmt: skip


def found(define, start=None):
    target, own = models.target_of(define)
    at = own if start is None else start(own, target.factorization.coordinate_names)
    return target.mode(at, np.random.default_rng(0)), target


#: The same from where PyMC starts, searched for once.
usual = cache(found)


def moments(grid):
    """Return mean and standard deviation of log tau in the normal model, by quadrature."""
    density = np.array([models.exact_log_density(spot) for spot in grid])
    weights = np.exp(density - density.max())
    mean = np.average(grid, weights=weights)
    return mean, np.sqrt(np.average((grid - mean) ** 2, weights=weights))


@pytest.fixture
def read(monkeypatch):
    """How many rows each pass read, None for all."""
    rows_read, likelihood = [], FullData.likelihood

    def counted(self, theta, *, hessian, rows=None):
        rows_read.append(None if rows is None else len(rows))
        return likelihood(self, theta, hessian=hessian, rows=rows)

    monkeypatch.setattr(FullData, "likelihood", counted)
    return rows_read


@pytest.mark.parametrize(
    "define", fast([*QUICK, models.varying_slopes], QUICK), ids=lambda define: define.__name__
)
def test_every_model_with_scales_has_a_centre(define):
    mode, target = usual(define)
    names = target.factorization.coordinate_names
    assert mode.marginal == target.scales(mode.position)
    assert all(
        "_log__" in names[k] or "chol" in names[k] or names[k] == "mu" for k in mode.marginal
    )
    assert np.linalg.eigvalsh(mode.precision)[0] > 0.0
    # Given the scales it is a mode of the rest.
    rest = np.setdiff1d(np.arange(len(names)), mode.marginal)
    slope = target.full_data.likelihood(mode.position, hessian=False).gradient
    slope = (slope + target.full_data.prior(mode.position, hessian=False).gradient)[rest]
    own = mode.precision[np.ix_(rest, rest)]
    assert np.sqrt(slope @ np.linalg.solve(own, slope)) < 0.02 * np.sqrt(len(names))
    reference = target.expand(mode.position, np.random.default_rng(0))[0]
    assert np.isfinite(reference.factor).all()


def test_the_scale_is_that_of_the_exact_marginal_density():
    mode, target = usual(models.normal)
    k = target.factorization.coordinate_names.index("tau_log__")
    grid = np.linspace(-3.0, 2.0, 2_001)
    best = grid[np.argmax([models.exact_log_density(spot) for spot in grid])]
    _, deviation = moments(grid)
    assert mode.position[k] == pytest.approx(best, abs=0.02 * deviation)
    assert np.sqrt(np.linalg.inv(mode.precision)[k, k]) == pytest.approx(deviation, rel=0.1)


def test_smoothing_moves_the_scale_to_its_mean():
    target, start = models.target_of(models.normal)
    reference = target.expand(start, np.random.default_rng(0))[0]
    k = target.factorization.coordinate_names.index("tau_log__")
    mean, deviation = moments(np.linspace(-4.0, 3.0, 2_001))
    assert reference.centre[k] == pytest.approx(mean, abs=0.06 * deviation)
    own = np.sqrt((reference.factor @ reference.factor.T)[k, k])
    assert own == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize("define", [models.logistic, models.crossed, models.nested])
def test_a_centre_takes_few_passes(define, read):
    target, start = models.target_of(define)
    target.expand(start, np.random.default_rng(0))
    assert len(read) <= 10


@pytest.mark.parametrize(
    ("log_tau", "spread"), [(-4.0, 0.0), (0.0, 10.0), (-4.0, 10.0), (2.5, 9.0), (-7.0, 0.0)]
)
def test_bad_starts_reach_the_same_point(log_tau, spread):
    near, _ = usual(models.logistic)

    def bad(start, names):
        away = np.random.default_rng(9).normal(size=start.size)
        effects = np.array([name.startswith("a[") for name in names])
        return np.where(effects, spread * away, start) + log_tau * (np.array(names) == "tau_log__")

    far, _ = found(models.logistic, bad)
    gap = far.position - near.position
    assert np.sqrt(gap @ near.precision @ gap) < 0.05


def take_few_rows(patch):
    """Let 240 of the 1,200 rows find the neighbourhood."""
    patch.setattr(mode, "SUBSAMPLE", 240)
    patch.setattr(mode, "SUBSAMPLE_PER_COORDINATE", 10)


def test_all_rows_have_the_last_word():
    whole, _ = usual(models.logistic)
    with pytest.MonkeyPatch.context() as patch:
        take_few_rows(patch)
        near, _ = found(models.logistic)
    gap = near.position - whole.position
    assert np.sqrt(gap @ whole.precision @ gap) < 0.1


def test_few_rows_without_a_mode_leave_it_to_all(monkeypatch):
    take_few_rows(monkeypatch)
    several = hierarchy._Search.found_from_several

    def fails(self, density, start, rng):
        if density.rows is not None:
            raise ModeError("few rows")
        return several(self, density, start, rng)

    monkeypatch.setattr(hierarchy._Search, "found_from_several", fails)
    assert found(models.logistic)[0].marginal


@pytest.mark.parametrize(
    ("tilt", "message"),
    [
        (0.0, "^'tau_log__': data and priors do not determine it, because"),
        (-1.0, "^'tau_log__' runs away: the scale 'tau' goes to 0, and its marginal density still"),
    ],
)
def test_a_scale_whose_density_has_no_maximum_is_named(tilt, message):
    passes, names = hierarchy_passes(np.full(8, 1e-3), 1.0), ["tau_log__", *"abcdefgh"]
    plain = passes.prior

    def prior(theta, *, hessian):
        found = plain(theta, hessian=hessian)
        gradient = found.gradient + tilt * (np.arange(9) == 0)
        return replace(found, value=found.value + tilt * theta[0], gradient=gradient)

    passes.prior = prior
    with pytest.raises(ModeError, match=message):
        find_marginal_mode(
            Density(passes, names, 1.0), np.full(9, 0.01), np.random.default_rng(0), (0,)
        )


def test_a_scale_far_from_the_start_does_not_run_away():
    means = 1e7 * np.random.default_rng(2).normal(0.0, 3.0, 30)
    names = ["tau_log__", *(f"a[{k}]" for k in range(30))]
    passes, rng = hierarchy_passes(means, 4.0), np.random.default_rng(0)
    mode = find_marginal_mode(Density(passes, names, 1.0), np.zeros(31), rng, (0,))
    assert np.exp(2 * mode.position[0]) == pytest.approx(np.mean(means**2), rel=0.01)


def test_a_temperature_counts_the_rows_only():
    means = np.random.default_rng(2).normal(0.0, 3.0, 30)
    names = ["tau_log__", *(f"a[{k}]" for k in range(30))]
    cold, hot = hierarchy_passes(means, 1.0), hierarchy_passes(means, 4.0)
    arguments = np.zeros(31), np.random.default_rng(0), (0,)
    one = find_marginal_mode(Density(cold, names, 1.0), *arguments)
    two = find_marginal_mode(Density(hot, names, 0.25), *arguments)
    np.testing.assert_allclose(one.position, two.position, atol=1e-6)
    np.testing.assert_allclose(two.likelihood.hessian, 4.0 * one.likelihood.hessian)


# Which search serves which model.


CHOLESKY = [f"chol_cholesky-cov-packed__[{k}]" for k in range(3)]
SCALES = {
    models.normal: ["tau_log__"],
    models.logistic: ["tau_log__"],
    models.crossed: ["tau_log__[0]", "tau_log__[1]"],
    models.nested: ["outer_log__", "inner_log__"],
    models.varying_slopes: CHOLESKY,
    # What moves the groups moves their curvature, unless they are normal.
    models.robust_effects: ["mu", "tau_log__"],
    models.horseshoe: ["local_log__[0]", "local_log__[1]", "local_log__[2]", "tau_log__"],
    models.lasso: ["tau_log__"],
    models.scale_of_scales: ["outer_log__", "tau_log__"],
    models.regression: [],
    models.unread: [],
    models.lasso_of_known_scale: [],
    models.scale_in_rows: [],
}


@pytest.mark.parametrize(
    "define", fast(SCALES, SCALES.keys() - {models.varying_slopes}), ids=lambda f: f.__name__
)
def test_scales_are_told_from_locations(define):
    target, start = models.target_of(define)
    names = target.factorization.coordinate_names
    for far in (0.0, 3.0):
        moved = start + far * np.random.default_rng(1).uniform(-1.0, 1.0, start.size)
        assert sorted(names[k] for k in target.scales(moved)) == sorted(SCALES[define])


def test_scales_of_one_coefficient_each_are_local():
    target, start = models.target_of(models.horseshoe)
    names, scales = target.factorization.coordinate_names, target.scales(start)
    read = {names.index(f"b[{k}]") for k in range(3)}
    local = local_scales(target.full_data.prior, scales, read, start)
    assert [names[k] for k in local] == [f"local_log__[{k}]" for k in range(3)]


def test_many_local_scales_are_refused_with_their_cure():
    with pytest.raises(ModeError, match=r"'local' has 20 scales .* one common scale"):
        found(models.wide_horseshoe)


def test_a_few_rows_of_groups_that_do_not_differ_have_a_marginal_mode():
    target, start = models.target_of(models.alike)
    rows = np.arange(target.source.n_rows)
    with pytest.raises(ModeError, match="the scale 'tau' goes to 0"):
        target.mode_of_few(start, rows, 0.1)
    found = target.mode_of_few(start, rows, 0.1, np.random.default_rng(0))
    assert found.marginal == target.scales(start)
    assert np.linalg.eigvalsh(found.precision)[0] > 0.0


SPOTS = np.array([-2.0, -1.0, -0.3, 0.4, 1.5])


def frozen(define, place=None):
    """Freeze the rows at a place, and return V with the best x for the scales there."""
    target, start = models.target_of(define)
    place = start if place is None else place(start.size)
    rows = target.full_data.likelihood(place, hessian=True)
    marginal = Marginal.freeze_rows(target.full_data.prior, target.scales(start), place, rows)
    return marginal, marginal.given(place[marginal.scales])


def off_centre(size):
    return 0.3 * np.random.default_rng(4).standard_normal(size)


def value(marginal, scales):
    return marginal.value_and_gradient(marginal.given(np.atleast_1d(scales)))[0]


def test_v_is_the_log_density_of_the_scale_for_normal_rows():
    marginal, _ = frozen(models.normal)
    found = np.array([value(marginal, spot) for spot in SPOTS])
    exact = np.array([models.exact_log_density(spot) for spot in SPOTS])
    np.testing.assert_allclose(np.diff(found), np.diff(exact), rtol=1e-9)


@pytest.mark.parametrize(
    "define",
    [models.normal, models.crossed, models.nested, models.robust_effects, models.horseshoe],
    ids=lambda define: define.__name__,
)
def test_slopes_and_curvature_are_those_of_v(define):
    marginal, given = frozen(define, off_centre)
    scales, h = given.position[marginal.scales], 1e-4
    _, gradient = marginal.value_and_gradient(given)
    ends = [
        [marginal.value_and_gradient(marginal.given(scales + side * h * unit)) for side in (1, -1)]
        for unit in np.eye(scales.size)
    ]
    slopes = [(up[0] - down[0]) / (2 * h) for up, down in ends]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4)
    curvature = -np.array([(up[1] - down[1]) / (2 * h) for up, down in ends])
    # Where the prior is not quadratic in x, the response is taken as linear.
    loose = 0.2 if define is models.robust_effects else 2e-3
    np.testing.assert_allclose(marginal.curvature_at(given), curvature, rtol=loose, atol=loose)


def test_the_precision_is_that_of_scales_and_of_the_rest_given_them():
    marginal, given = frozen(models.crossed, off_centre)
    curvature = np.array([[9.0, 2.0], [2.0, 4.0]])
    covariance = np.linalg.inv(marginal.precision(given, curvature))
    scales, rest = marginal.scales, marginal.rest
    np.testing.assert_allclose(covariance[np.ix_(scales, scales)], np.linalg.inv(curvature))
    slopes = covariance[np.ix_(rest, scales)] @ curvature
    np.testing.assert_allclose(slopes, marginal.response(given), atol=1e-10)
    own = np.linalg.inv(given.precision)
    spread = own + slopes @ np.linalg.solve(curvature, slopes.T)
    np.testing.assert_allclose(covariance[np.ix_(rest, rest)], spread, atol=1e-10)


def test_scales_are_not_sought_where_the_prior_has_no_curvature():
    marginal, given = frozen(models.normal)
    end = given.position[marginal.scales].item() + 0.5

    def cut(position, *, hessian):
        found = marginal.prior(position, hessian=hessian)
        known = position[marginal.scales].item() <= end
        return found if known else replace(found, hessian=np.full_like(found.hessian, np.nan))

    bounded = replace(marginal, prior=cut)
    best = bounded.best(bounded.given(given.position[marginal.scales]), np.array([5.0]))
    assert np.isfinite(best.value)
    assert best.position[marginal.scales].item() < end
    at_the_end = bounded.given(np.array([end]))
    assert bounded.value_and_gradient(at_the_end)[0] == -np.inf
