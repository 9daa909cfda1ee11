"""Nodes of groups: where they are placed, how many there are, and the error that they leave."""

import pickle
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, special, stats

from helpers.group_families import FAMILIES, made
from helpers.small_groups import moments_of, read, target_of
from helpers.small_groups import placed_at as placed_well
from pymc_minibatch_mh.reference import node_rule
from pymc_minibatch_mh.reference.effect_nodes import EffectMoments, first_moments, first_nodes
from pymc_minibatch_mh.reference.node_rule import GroupTarget, effect_moments, with_placed_nodes
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.random_effects import NotSeparableError
from pymc_minibatch_mh.structure.small_groups import EffectLaw

LAWS = {
    "normal": (EffectLaw("normal"), stats.norm),
    "logistic": (EffectLaw("logistic"), stats.logistic),
    "t": (EffectLaw("t", 30.0), stats.t(30)),
}


def intercepts(kind, n, n_groups, level=0.0, tau=0.8, seed=6, law="normal", extreme=None):
    """Return a model of rows that have an intercept, and an effect each; one may be far off."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    u = level + tau * rng.standard_normal(n_groups)[group]
    if extreme is not None:
        u[group == 1] = extreme
    with pm.Model() as model:
        mean, scale = pm.Normal("mu", level, 2.0), pm.HalfNormal("tau", 2.0)
        if law == "normal":
            effect = pm.Normal("a", mean, scale, shape=n_groups)
        else:
            effect = pm.StudentT("a", nu=4, mu=mean, sigma=scale, shape=n_groups)
        if kind == "poisson":
            pm.Poisson("y", pm.math.exp(effect[group]), observed=rng.poisson(np.exp(u)))
        elif kind == "bernoulli":
            y = (rng.random(n) < 1.0 / (1.0 + np.exp(-u))).astype(int)
            pm.Bernoulli("y", logit_p=effect[group], observed=y)
        else:
            pm.Normal("y", effect[group], kind, observed=u + kind * rng.standard_normal(n))
    return model


def chosen(model):
    """Return the posterior at frozen nodes, a position near its mode, and the choice."""
    target = target_of(model)
    start = target.factorization.ravel(model.initial_point())
    return with_placed_nodes(target, start, np.random.default_rng(1))


@cache
def choices(*key, **settings):
    """Return a posterior at frozen nodes, a position, the choice, and an expansion for draws."""
    model = made(*key)[3] if key[0] in FAMILIES and not settings else intercepts(*key, **settings)
    target, position, choice = chosen(model)
    return target, position, choice, target.expand(position, np.random.default_rng(2))


def error_over_draws(target, reference, count=12, seed=7):
    """Standard deviation of the error over draws, against nodes that are placed at each."""
    rng = np.random.default_rng(seed)
    draws = reference.centre + rng.standard_normal((count, len(reference.centre))) @ (
        reference.factor.T
    )
    draws = target.factorization.in_support(draws)
    errors = [
        target.log_likelihood(x) - placed_well(target, x, 81).log_likelihood(x) for x in draws
    ]
    return np.std(errors)


# ---- Rules. ----


@pytest.mark.parametrize("name", list(LAWS))
def test_nodes_integrate_polynomials_times_the_law(name):
    law, expected = LAWS[name]
    nodes = moments_of(np.array([0.0, 0.3]), np.array([1.0, 1.4])).nodes(law, 61)
    weights = np.exp(nodes.log_weights)
    tolerance = 1e-12 if name == "normal" else 2e-6
    for power in (0, 1, 2, 4):
        moments = (weights * nodes.z[:, 0] ** power).sum(axis=1)
        np.testing.assert_allclose(moments, expected.moment(power) if power else 1.0,
                                   atol=tolerance * 30**power)  # fmt: skip


def test_first_nodes_are_those_of_the_law():
    nodes = first_nodes(read(intercepts(1.0, 9, 3)).groups)
    x, weights = np.polynomial.hermite_e.hermegauss(node_rule.FIRST_COUNT[1])
    np.testing.assert_allclose(nodes.z[:, 0], np.tile(x, (3, 1)))
    np.testing.assert_allclose(np.exp(nodes.log_weights[1]), weights / np.sqrt(2 * np.pi))


def test_nodes_of_two_effects_have_their_moments():
    """Weights times the density of their own normal law integrate polynomials of it."""
    mean, factor = np.array([[0.3, -0.5]]), np.array([[[0.8, 0.0], [0.5, 0.6]]])
    nodes = EffectMoments(mean, factor).nodes(EffectLaw("normal"), 9)
    law = stats.multivariate_normal(mean[0], factor[0] @ factor[0].T)
    ratio = law.logpdf(nodes.z[0].T) - stats.norm.logpdf(nodes.z[0]).sum(axis=0)
    shares = np.exp(nodes.log_weights[0] + ratio)
    assert shares.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(nodes.z[0] @ shares, mean[0], atol=1e-12)
    covariance = np.cov(nodes.z[0], aweights=shares, ddof=0)
    np.testing.assert_allclose(covariance, factor[0] @ factor[0].T, rtol=1e-12)


def test_narrow_integrands_are_integrated_by_nodes_that_are_placed_there():
    law, mean, sd = EffectLaw("normal"), np.array([1.7]), np.array([0.003])
    nodes = moments_of(mean, sd).nodes(law, 15)
    values = nodes.log_weights + stats.norm.logpdf(nodes.z[:, 0], 1.7004, 0.0029)
    expected = stats.norm.logpdf(1.7004, 0.0, np.hypot(1.0, 0.0029))
    assert np.logaddexp.reduce(values, axis=1) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("nu", [4.0, 10.0])
@pytest.mark.parametrize(("count", "error"), [(31, 1e-5), (41, 1.5e-6)])
def test_many_nodes_integrate_tails_of_students_t(nu, count, error):
    """A few rows of zeros and ones do not decay in one direction."""
    law = EffectLaw("t", nu)

    def likelihood(z):
        return special.expit(1.5 * z) ** 4

    mean, sd = np.array([0.9]), np.array([1.1])
    nodes = moments_of(mean, sd).nodes(law, count)
    moments = [np.exp(nodes.log_weights) @ f for f in (np.ones(count), likelihood(nodes.z[0, 0]))]
    expected = integrate.quad(lambda z: stats.t.pdf(z, nu) * likelihood(z), -np.inf, np.inf,
                              epsabs=1e-12, epsrel=1e-12)[0]  # fmt: skip
    np.testing.assert_allclose(np.ravel(moments), [1.0, expected], rtol=error)


# ---- Closed form. ----


def test_normal_rows_have_the_marginal_likelihood_of_a_one_way_model():
    n_groups, tau, sigma = 12, 0.7, 0.6
    model = intercepts(sigma, 60, n_groups, level=0.4)
    target = target_of(model)
    position = np.array([0.3, tau])
    target = placed_well(target, position, 31)
    y = model.rvs_to_values[model["y"]].data
    (levels,) = target.compiled.layout.groups.levels
    found = target.full_data.values(position)
    for g in range(n_groups):
        own = y[levels == g]
        cov = sigma**2 * np.eye(own.size) + tau**2
        expected = stats.multivariate_normal.logpdf(own, np.full(own.size, 0.3), cov)
        assert found[g] == pytest.approx(expected, rel=1e-9, abs=1e-9)


# ---- The error that is said. ----

ORDINARY = [
    ("bernoulli", 1_200, 200), ("poisson", 1_200, 200), ("normal", 1_200, 200),
    ("negative binomial", 1_200, 200), ("student", 1_200, 200), ("slopes", 1_200, 200),
    ("two terms", 1_200, 200),
]  # fmt: skip


@pytest.mark.parametrize("key", ORDINARY, ids=lambda key: key[0])
def test_errors_are_small_and_true(key):
    target, _, choice, (reference, _) = choices(*key)
    assert choice.n_nodes in node_rule.COUNTS[1]
    assert choice.error < 1e-6 or choice.n_nodes == node_rule.COUNTS[1][-1]
    error = error_over_draws(target, reference)
    assert error < 5.0 * choice.error + 1e-10


HARD = {
    "narrow": (("poisson", 3_000, 1_000), {"level": 2.5}),
    "narrower": (("poisson", 3_000, 1_000), {"level": 4.0}),
    "counts of thousands": (("poisson", 3_000, 1_000), {"level": 7.0}),
    "one far off": (("poisson", 1_200, 400), {"extreme": 6.0}),
    "wide": (("bernoulli", 600, 150), {"tau": 3.0}),
    "heavy tails": (("bernoulli", 600, 150), {"law": "t"}),
}


@pytest.mark.parametrize("name", list(HARD))
def test_errors_of_narrow_and_wide_effects_are_true(name):
    arguments, settings = HARD[name]
    target, _, choice, (reference, _) = choices(*arguments, **settings)
    error = error_over_draws(target, reference)
    assert error < 5.0 * choice.error + 1e-10
    assert choice.error < (1e-5 if name == "heavy tails" else node_rule.MAX_LAST_ERROR)


@pytest.mark.parametrize("name", ["narrow", "narrower"])
def test_narrow_effects_do_not_fix_the_scale(name):
    """Nodes do not follow the scale: the posterior would be as wide as the nodes are far apart."""
    arguments, settings = HARD[name]
    target, _, _, (reference, _) = choices(*arguments, **settings)
    at = target.compiled.layout.scales[0].coordinate
    sd = np.linalg.norm(reference.factor[at])
    n_groups = arguments[2]
    assert reference.centre[at] == pytest.approx(0.8, abs=4.0 * 0.8 / np.sqrt(2 * n_groups))
    assert sd == pytest.approx(0.8 / np.sqrt(2 * n_groups), rel=0.3)
    # The derivative of the exact density is zero at the centre.
    lines = reference.centre + 0.1 * np.outer([-1.0, 1.0], reference.factor[:, at])
    rise = [placed_well(target, x, 41).log_likelihood(x) + target.log_prior(x) for x in lines]
    assert abs(rise[1] - rise[0]) / 0.2 < 0.1


@pytest.mark.parametrize("extreme", [6.0, 4.5])
def test_a_group_that_moves_most_decides_on_the_number_of_nodes(extreme, monkeypatch):
    """It would be in no evenly spaced sample. The further one has equally spaced nodes."""
    every = choices("poisson", 1_200, 400, extreme=extreme)[2]
    monkeypatch.setattr(node_rule, "ERROR_GROUPS", 50)
    some = chosen(intercepts("poisson", 1_200, 400, extreme=extreme))[2]
    assert some.n_nodes == every.n_nodes > choices("poisson", 1_200, 400)[2].n_nodes
    assert some.error == pytest.approx(every.error, rel=0.5)


def test_effects_that_are_too_narrow_are_refused():
    """Counts of 10,000 tell an effect much better than its scale is known."""
    with pytest.raises(NotSeparableError, match="'a' has effects that are too narrow or too wide"):
        chosen(intercepts("poisson", 180, 60, level=9.0))


@pytest.mark.parametrize(("surely", "level"), [(0.1, 9.0), (3.0, 9.0), (0.1, 1.0)])
def test_many_narrow_effects_are_refused_before_all_groups_are_evaluated(
    surely, level, monkeypatch
):
    """If some groups show more of them than may be parameters."""
    for name, value in {"SEARCH_GROUPS": 50, "FIRST_GROUPS": 40, "SURELY": surely}.items():
        monkeypatch.setattr(node_rule, name, value)

    def choose(*_):
        raise NotSeparableError("all groups are evaluated")

    monkeypatch.setattr(node_rule, "_choose_nodes", choose)
    early = surely < 1.0 < level
    text = "'a' has effects that are too narrow or too wide for 81 nodes" if early else "all groups"
    with pytest.raises(NotSeparableError, match=text):
        chosen(intercepts("poisson", 180, 60, level=level))


def test_the_group_with_the_narrowest_effect_is_named():
    with pytest.raises(NotSeparableError, match=r"in group 1: .* blocks=True accepts effects one"):
        chosen(intercepts("poisson", 180, 60, extreme=14.0))


def test_wider_effects_have_more_nodes():
    few = choices("bernoulli", 1_200, 200)[2].n_nodes
    arguments, settings = HARD["wide"]
    assert choices(*arguments, **settings)[2].n_nodes > few


# ---- Frozen nodes. ----


def test_nodes_are_at_the_mean_and_the_width_of_the_effects():
    target, position, choice, _ = choices("bernoulli", 1_200, 200)
    z, (x, _) = target.group_rows.nodes.z[:, 0], np.polynomial.hermite_e.hermegauss(choice.n_nodes)
    moments = effect_moments(placed_well(target, position, 61).group_rows, position)
    mean, sd = moments.mean[:, 0], moments.factor[:, 0, 0]
    np.testing.assert_allclose((z[:, -1] + z[:, 0]) / 2.0, mean, atol=0.03)
    np.testing.assert_allclose((z[:, -1] - z[:, 0]) / (x[-1] - x[0]), sd, rtol=0.05)


def test_nodes_without_a_share_have_no_weight():
    target, position, choice, _ = choices("poisson", 1_200, 200)
    rows, law = target.group_rows, target.compiled.layout.groups.law
    z, (x, _) = rows.nodes.z[:, 0], np.polynomial.hermite_e.hermegauss(choice.n_nodes)
    mean, sd = (z[:, -1] + z[:, 0]) / 2.0, (z[:, -1] - z[:, 0]) / (x[-1] - x[0])
    every = moments_of(mean, sd).nodes(law, choice.n_nodes)
    light = np.isneginf(rows.nodes.log_weights)
    assert light.any()
    # Effects that move much have equally spaced nodes, all of them.
    wide = np.ptp(np.diff(z, axis=1), axis=1) < 1e-9
    assert not light[wide].any()
    light[wide] = True
    np.testing.assert_allclose(every.z[~wide, 0], z[~wide], atol=1e-12)
    np.testing.assert_allclose(every.log_weights[~light], rows.nodes.log_weights[~light])
    light = light[~wide]
    values = rows.at_nodes(every).values_at(position, np.arange(len(z)))
    shares = np.exp(values - np.logaddexp.reduce(values, axis=1)[:, None])[~wide]
    assert shares[light].max() < 1e-8
    assert shares[~light].min() < 1e-6


def test_other_nodes_leave_these_as_they_are():
    target, position, _, (reference, _) = choices("bernoulli", 1_200, 200)
    far = reference.centre + 0.1
    before = [target.full_data.values(x) for x in (position, far)]
    other = target.at_nodes(first_nodes(target.compiled.layout.groups))
    other.full_data.values(position)
    with_placed_nodes(other, far, np.random.default_rng(3))
    after = [target.full_data.values(x) for x in (position, far)]
    assert np.array_equal(before, after)
    assert not np.array_equal(other.full_data.values(position), before[0])


def test_pickled_targets_have_the_same_nodes():
    target, position, _, _ = choices("bernoulli", 1_200, 200)
    copy = pickle.loads(pickle.dumps(target))
    assert isinstance(copy, GroupTarget)
    assert np.array_equal(copy.full_data.values(position), target.full_data.values(position))


def test_targets_at_other_nodes_keep_their_settings():
    target = made("bernoulli", 70, 9)[4]
    tempered = GroupTarget(target.compiled, 1, 0.25)
    groups = target.compiled.layout.groups
    other = tempered.at_nodes(first_moments(groups).nodes(groups.law, 7))
    assert (other.taylor_order, other.inverse_temperature) == (1, 0.25)
    assert other.group_rows.nodes.z.shape == (9, 1, 7)


def test_nodes_of_tasks_are_those_of_all_together(monkeypatch):
    target = made("bernoulli", 70, 9)[4]
    position = target.factorization.ravel(made("bernoulli", 70, 9)[3].initial_point())

    def placed():
        before = first_moments(target.compiled.layout.groups)
        there, moments = node_rule.placed_at(target, position, before)
        again = effect_moments(there.group_rows, position)
        return [*there.group_rows.nodes, *moments, *again]

    together = placed()
    monkeypatch.setattr(node_rule, "GROUPS_IN_TASK", 4)
    assert all(map(np.array_equal, placed(), together))


def test_scales_are_those_on_which_no_group_depends():
    """Derivatives of all groups at some positions tell the same."""
    rng, group = np.random.default_rng(1), np.arange(60) // 3
    x = rng.standard_normal((60, 3))
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, pm.HalfNormal("spread"), shape=3)
        tau = pm.HalfNormal("tau")
        effect = pm.Normal("a", 0.0, tau, shape=20)
        # Groups depend on their scale, whose slope these change.
        pm.Normal("other", 0.0, tau, shape=2)
        pm.Bernoulli("y", logit_p=x @ b + effect[group], observed=rng.random(60) < 0.4)
    target = target_of(model)
    start = target.factorization.ravel(model.initial_point())
    assert target.scales(start) == Target.scales(target, start) == (0, 5, 6)
