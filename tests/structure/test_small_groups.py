"""Effects that are integrated out: the forms that are found, and the reasons of all others."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from helpers.small_groups import read
from pymc_minibatch_mh.structure.random_effects import NotSeparableError
from pymc_minibatch_mh.structure.small_groups import EffectLaw

N, G = 40, 5
_RNG = np.random.default_rng(5)
#: Level 3 has no rows.
GROUP = _RNG.choice([0, 1, 2, 4], N)
OTHER = _RNG.integers(0, 3, N)
X, Y, COUNTS = _RNG.normal(size=N), _RNG.normal(size=N), _RNG.poisson(2.0, N)
OF_GROUP = _RNG.normal(size=G)


def tau(name="tau"):
    return pm.HalfNormal(name, 1.0)


def mu():
    return pm.Normal("mu", 0.0, 1.0)


def rows(effect, group=GROUP, sigma=1.0, name="y"):
    """Write observations with an effect, and a slope of their own."""
    slope = pm.Normal(f"slope of {name}", 0.0, 1.0)
    pm.Normal(name, slope * X + effect[group], sigma, observed=Y)


def normal(mean=0.0, sd=None, **settings):
    return pm.Normal("a", mean, tau() if sd is None else sd, **{"shape": G, **settings})


def read_of(write, *args):
    with pm.Model() as model:
        write(*args)
    return read(model)


# ---- Location, offset, spread and scale. ----


def constant_mean():
    rows(normal(0.3))


def free_mean():
    rows(normal(mu()))


def affine_mean():
    m = pm.Normal("m", 0.0, 1.0, shape=3)
    rows(normal(1.0 + 2.0 * m[0] - m[2] / 4.0))


def mean_of_another_factor():
    other = pm.Normal("other", 0.0, 1.0, shape=3)
    rows(normal(other[1])[GROUP] + other[OTHER], slice(None))


def mean_in_rows_as_well():
    m = mu()
    rows(normal(m)[GROUP] + m * X**2, slice(None))


def twice_the_scale():
    rows(normal(0.0, 2.0 * tau()))


def half_the_scale():
    rows(pm.Logistic("a", mu(), tau() / 2.0, shape=G))


def scale_is_an_exponential():
    rows(normal(0.0, pm.math.exp(pm.Normal("log tau", 0.0, 1.0) + 0.5)))


def scale_of_a_vector():
    scales = pm.HalfNormal("tau", 1.0, shape=2)
    rows(normal(0.0, scales[1]), sigma=scales[0])


def scale_of_two_factors():
    """The prior of the other factor, which is not integrated out, keeps the scale."""
    t = tau()
    other = pm.Normal("other", 0.0, t, shape=3)
    rows(normal(0.0, t)[GROUP] + other[OTHER], slice(None))


def scale_in_an_interval():
    rows(normal(0.0, 2.0 * pm.Uniform("tau", 0.0, 3.0)))


def precision():
    rows(pm.Normal("a", 0.0, tau=pm.Gamma("tau", 1.0, 1.0), shape=G))


def precision_of_an_interval():
    rows(pm.Normal("a", 0.0, tau=1.0 / pm.Uniform("tau", 0.0, 3.0) ** 2, shape=G))


def variance():
    rows(normal(0.0, pm.math.sqrt(pm.InverseGamma("tau", 2.0, 1.0))))


def student():
    rows(pm.StudentT("a", nu=4, mu=mu(), sigma=tau(), shape=G))


def logistic():
    rows(pm.Logistic("a", 0.0, tau(), shape=G))


def constant_scale():
    rows(normal(mu(), 1.3))


def hyperpriors():
    mean = pm.Normal("mu", pm.Normal("top", 0.0, 1.0), tau("sd of mu"))
    rows(normal(mean, pm.HalfNormal("tau", pm.Exponential("top of tau", 1.0))))


def column():
    rows(normal(shape=(G, 1))[:, 0])


NORMAL = EffectLaw("normal")
CENTRED = {
    "constant mean": (constant_mean, {}, 0.3, 1.0, "tau_log__", NORMAL),
    "free mean": (free_mean, {"mu": 1.0}, 0.0, 1.0, "tau_log__", NORMAL),
    "affine mean": (affine_mean, {"m[0]": 2.0, "m[2]": -0.25}, 1.0, 1.0, "tau_log__", NORMAL),
    "mean of another factor": (
        mean_of_another_factor, {"other[1]": 1.0}, 0.0, 1.0, "tau_log__", NORMAL,
    ),
    "mean in rows as well": (mean_in_rows_as_well, {"mu": 1.0}, 0.0, 1.0, "tau_log__", NORMAL),
    "twice the scale": (twice_the_scale, {}, 0.0, 2.0, "tau_log__", NORMAL),
    "half the scale": (
        half_the_scale, {"mu": 1.0}, 0.0, 0.5, "tau_log__", EffectLaw("logistic"),
    ),
    "exponential": (scale_is_an_exponential, {}, 0.0, 1.0, "log tau", NORMAL),
    "interval": (scale_in_an_interval, {}, 0.0, 6.0, "tau_interval__", NORMAL),
    "precision": (precision, {}, 0.0, 1.0, "tau_log__", NORMAL),
    "precision of an interval": (
        precision_of_an_interval, {}, 0.0, 1.0, "tau_interval__", NORMAL,
    ),
    "variance": (variance, {}, 0.0, 1.0, "tau_log__", NORMAL),
    "scale of a vector": (scale_of_a_vector, {}, 0.0, 1.0, "tau_log__[1]", NORMAL),
    "scale of two factors": (scale_of_two_factors, {}, 0.0, 1.0, "tau_log__", NORMAL),
    "Student's t": (student, {"mu": 1.0}, 0.0, 1.0, "tau_log__", EffectLaw("t", 4.0)),
    "logistic": (logistic, {}, 0.0, 1.0, "tau_log__", EffectLaw("logistic")),
    "constant scale": (constant_scale, {"mu": 1.0}, 0.0, 1.3, None, NORMAL),
    "hyperpriors": (hyperpriors, {"mu": 1.0}, 0.0, 1.0, "tau_log__", NORMAL),
    "column": (column, {}, 0.0, 1.0, "tau_log__", NORMAL),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CENTRED))
def test_centred_effects_are_found(name):
    write, location, offset, spread, scale, law = CENTRED[name]
    reading = read_of(write)
    groups = reading.groups
    (effect,), (entry,) = groups.effects, groups.scales
    assert effect.block.name == "a"
    assert groups.n_groups == G
    assert groups.law == law
    assert reading.location == location
    assert effect.offset == offset
    assert entry.spread == pytest.approx(spread, rel=1e-15)
    names = reading.whole.coordinate_names
    assert (None if entry.is_constant else names[entry.coordinate]) == scale
    assert effect.width == 0.0


def standard(sd=1.0):
    return pm.Normal("z", 0.0, sd, shape=G)


def bambi():
    """Write an intercept, and an offset that is a product."""
    offset = pm.Deterministic("1|group", standard() * tau())
    intercept = pm.Normal("Intercept", 0.0, 1.0)
    pm.Normal("y", intercept + offset[GROUP], 1.0, observed=Y)


NON_CENTRED = {
    "product": (lambda: rows(standard() * tau()), {}, 1.0, 1.0, "normal"),
    "with a mean": (lambda: rows(mu() + tau() * standard()), {"mu": 1.0}, 1.0, 1.0, "normal"),
    "narrow": (lambda: rows(tau() * standard(0.25)), {}, 0.25, 0.25, "normal"),
    "Bambi": (bambi, {"Intercept": 1.0}, 1.0, 1.0, "normal"),
    "Student's t": (
        lambda: rows(tau() * pm.StudentT("z", nu=3, sigma=2.0, shape=G)), {}, 2.0, 2.0, "t",
    ),
    "logistic": (lambda: rows(tau() * pm.Logistic("z", 0.0, 1.0, shape=G)), {}, 1.0, 1.0,
                 "logistic"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(NON_CENTRED))
def test_effects_that_are_products_are_found(name):
    write, location, spread, width, law = NON_CENTRED[name]
    reading = read_of(write)
    groups = reading.groups
    (effect,), (entry,) = groups.effects, groups.scales
    assert effect.block.name == "z"
    assert groups.law.name == law
    assert reading.location == location
    assert effect.offset == 0.0
    assert (entry.spread, effect.width) == (spread, width)
    assert reading.whole.coordinate_names[entry.coordinate] == "tau_log__"


# ---- Levels of rows. ----


def test_levels_are_those_of_the_rows():
    (levels,) = read_of(free_mean).groups.levels
    assert np.array_equal(levels, GROUP)
    assert 3 not in levels


def test_levels_of_two_observed_variables():
    def write():
        effect = normal()
        rows(effect)
        pm.Poisson("w", pm.math.exp(0.3 * effect[OTHER]), observed=COUNTS)

    first, second = read_of(write).groups.levels
    assert np.array_equal(first, GROUP)
    assert np.array_equal(second, OTHER)


@pytest.mark.parametrize(
    ("index", "level"),
    [(2 * GROUP, 2 * GROUP), (-1 - GROUP, 2 * G - 1 - GROUP), (3 + GROUP, 3 + GROUP)],
    ids=["gaps", "from the end", "from the third"],
)
def test_levels_are_numbers_of_effects(index, level):
    reading = read_of(lambda: rows(normal(shape=2 * G), index))
    assert reading.groups.n_groups == 2 * G
    assert np.array_equal(reading.groups.levels[0], level)


def test_effects_may_be_slopes():
    reading = read_of(lambda: pm.Normal("y", normal(mu())[GROUP] * X, 1.0, observed=Y))
    assert reading.location == {"mu": 1.0}
    assert np.array_equal(reading.groups.levels[0], GROUP)


def test_the_factor_with_most_levels_is_taken():
    def write():
        few, many = pm.Normal("few", 0.0, tau("s"), shape=3), normal()
        rows(few[OTHER] + many[GROUP], slice(None))

    assert [block.name for block in read_of(write).groups.blocks] == ["a"]


# ---- Refusals. ----


def with_potential(potential):
    effect = normal()
    pm.Potential("p", potential(effect))
    rows(effect)


def with_child(mean):
    effect = normal()
    pm.Normal("child", mean(effect), 1.0)
    rows(effect)


def scale_in_the_likelihood(predictor):
    t = tau()
    effect = normal(0.0, t)
    pm.Normal("y", effect[GROUP] + (0.0 if predictor else 1.0) * t * X, t, observed=Y)


def log_scale_as_mean():
    t = tau()
    rows(normal(pm.math.log(t), t))


def scale_shared_by_products():
    t = tau()
    other = pm.Normal("other", 0.0, 1.0, shape=3)
    rows((t * standard())[GROUP] + (t * other)[OTHER], slice(None))


def rows_without():
    rows(normal())
    pm.Normal("w", pm.Normal("slope", 0.0, 1.0) * X, 1.0, observed=Y)


def rows_with_two():
    effect = normal()
    rows(effect[GROUP] - effect[OTHER], slice(None))


def no_groups():
    pm.Normal("y", pm.Normal("b", 0.0, 1.0) * X, 1.0, observed=Y)


REFUSED = {
    "no groups": (no_groups, "no parameter is indexed"),
    "nothing else": (
        lambda: pm.Normal("y", normal(sd=1.0)[GROUP], 1.0, observed=Y),
        "no parameters beside 'a'",
    ),
    "free nu": (
        lambda: rows(pm.StudentT("a", nu=pm.Gamma("nu", 2.0, 0.1), sigma=tau(), shape=G)),
        "free shape",
    ),
    "Laplace": (lambda: rows(pm.Laplace("a", 0.0, tau(), shape=G)), "prior laplace"),
    "truncated": (
        lambda: rows(pm.TruncatedNormal("a", 0.0, tau(), lower=-2.0, shape=G)),
        "prior truncated_normal",
    ),
    "zero sum": (lambda: rows(pm.ZeroSumNormal("a", tau(), shape=G)), "no parameter is indexed"),
    "random walk": (
        lambda: rows(pm.GaussianRandomWalk("a", 0.0, tau(), init_dist=pm.Normal.dist(), shape=G)),
        "not a vector with one effect for each group",
    ),
    "autoregression": (
        lambda: rows(pm.AR("a", [0.5], tau(), init_dist=pm.Normal.dist(), shape=G)), "'a'",
    ),
    "neighbours": (
        lambda: rows(pm.ICAR("a", W=np.ones((G, G)) - np.eye(G), sigma=tau())), "not a vector",
    ),
    "mean by group": (lambda: rows(normal(mu() * OF_GROUP)), "differs between groups"),
    "scale by group": (
        lambda: rows(normal(0.0, tau() * np.linspace(1.0, 2.0, G))), "differs between groups",
    ),
    "mean not affine": (lambda: rows(normal(pm.HalfNormal("mu", 1.0))), "mean that is not affine"),
    "log scale as mean": (log_scale_as_mean, "'tau_log__' is in the mean"),
    "absolute scale": (lambda: rows(normal(0.0, abs(mu()))), "monotone"),
    "even scale": (lambda: rows(normal(0.0, 1.0 + mu() ** 2)), "monotone"),
    "hyperbola": (lambda: rows(normal(0.0, 1.0 / (1.0 + mu()))), "monotone"),
    "scale that may be negative": (
        lambda: rows(normal(0.0, pm.Uniform("tau", -1.0, 3.0))), "monotone",
    ),
    "two scales": (lambda: rows(normal(0.0, tau() * tau("s"))), "positive, monotone"),
    "scale of the noise": (lambda: scale_in_the_likelihood(True), "likelihood by itself"),
    "scale in the predictor": (lambda: scale_in_the_likelihood(False), "likelihood by itself"),
    "scale shared by products": (scale_shared_by_products, "'other' depends on the scale"),
    "standardised with a mean": (
        lambda: rows(tau() * pm.Normal("z", 0.3, 1.0, shape=G)), "standardised prior with a mean",
    ),
    "part of a vector": (lambda: rows(normal(shape=G + 2)[2:]), "not a vector"),
    "rows without": (rows_without, "'w' does not have one effect"),
    "rows with two": (rows_with_two, "no factor has one effect for each row"),
    "potential of all": (lambda: with_potential(lambda a: -(a**2)), "in the density of 'p'"),
    "potential of one": (lambda: with_potential(lambda a: -(a[0] ** 2)), "in the density of 'p'"),
    "child of all": (lambda: with_child(lambda a: a), "in the density of 'child'"),
    "child of one": (lambda: with_child(lambda a: a[2]), "in the density of 'child'"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_other_forms_are_refused_with_the_reason(name):
    write, reason = REFUSED[name]
    with pytest.raises(NotSeparableError, match=reason):
        read_of(write)


def test_observations_that_are_not_subsampled_are_part_of_the_prior():
    """They would be left out with the effects' prior."""
    with pm.Model() as model:
        effect = normal()
        rows(effect)
        pm.Normal("means", effect, 1.0, observed=OF_GROUP)
    with pytest.raises(NotSeparableError, match="in the density of 'means'"):
        read(model, ["y"])


# ---- Laws. ----


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (NORMAL, stats.norm),
        (EffectLaw("logistic"), stats.logistic),
        (EffectLaw("t", 2.5), stats.t(2.5)),
    ],
    ids=["normal", "logistic", "t"],
)
def test_laws_have_their_density(law, expected):
    z = np.array([-800.0, -30.0, -1.5, 0.0, 0.2, 4.0, 60.0])
    np.testing.assert_allclose(law.log_density(z), expected.logpdf(z), rtol=1e-13)


# ---- Two effects. ----


def cholesky(name="chol"):
    return pm.LKJCholeskyCov(name, n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))[0]


def pair(first, second, group=GROUP):
    pm.Normal("y", first[GROUP] + second[group] * X, 1.0, observed=Y)


def columns(effect):
    pair(effect[:, 0], effect[:, 1])


def means():
    return pm.Normal("m", 0.0, 1.0, shape=2)


def two_vectors():
    pair(normal(mu()), pm.Normal("b", 0.5, 2.0 * tau("s"), shape=G))


def a_vector_and_a_product():
    pair(normal(mu()), tau("s") * pm.Normal("z", 0.0, 0.5, shape=G))


def two_columns():
    effect = pm.Normal("a", means(), pm.HalfNormal("tau", 1.0, shape=2), shape=(G, 2))
    columns(effect)


def one_scale():
    t = tau()
    pair(normal(0.0, t), pm.Normal("b", 0.0, t, shape=G))


def correlated():
    effect = pm.MvNormal("a", means(), chol=cholesky(), shape=(G, 2))
    columns(effect)


def correlated_products():
    columns(pm.Normal("z", 0.0, 0.5, shape=(G, 2)) @ cholesky().T)


def correlated_lines():
    effect = means()[:, None] + cholesky() @ pm.Normal("z", 0.0, 1.0, shape=(2, G))
    pair(effect[0], effect[1])


def slope_of_another_row():
    """The second observed variable has the slope alone."""
    effect, slope = normal(), pm.Normal("b", 0.0, tau("s"), shape=G)
    pair(effect, slope)
    pm.Poisson("w", pm.math.exp(slope[OTHER]), observed=COUNTS)


DIAGONAL = {(0, 0): ("tau_log__", 1.0), (1, 1): ("s_log__", 1.0)}
PACKED = "chol_cholesky-cov-packed__"
TRIANGLE = {(0, 0): (f"{PACKED}[0]", 1.0), (1, 0): (f"{PACKED}[1]", 1.0),
            (1, 1): (f"{PACKED}[2]", 1.0)}  # fmt: skip
PAIRS = {
    two_vectors: ([("a", "mu", 0.0), ("b", None, 0.0)], {**DIAGONAL, (1, 1): ("s_log__", 2.0)}),
    a_vector_and_a_product: (
        [("a", "mu", 0.0), ("z", None, 0.5)], {**DIAGONAL, (1, 1): ("s_log__", 0.5)},
    ),
    two_columns: (
        [("a", "m[0]", 0.0), ("a", "m[1]", 0.0)],
        {(0, 0): ("tau_log__[0]", 1.0), (1, 1): ("tau_log__[1]", 1.0)},
    ),
    one_scale: ([("a", None, 0.0), ("b", None, 0.0)], {**DIAGONAL, (1, 1): ("tau_log__", 1.0)}),
    correlated: ([("a", "m[0]", 0.0), ("a", "m[1]", 0.0)], TRIANGLE),
    correlated_products: (
        [("z", None, 0.5), ("z", None, 0.5)], {k: (name, 0.5) for k, (name, _) in TRIANGLE.items()},
    ),
    correlated_lines: ([("z", "m[0]", 1.0), ("z", "m[1]", 1.0)], TRIANGLE),
    slope_of_another_row: ([("a", None, 0.0), ("b", None, 0.0)], DIAGONAL),
}  # fmt: skip


@pytest.mark.parametrize("write", PAIRS, ids=lambda write: write.__name__)
def test_two_effects_of_the_same_levels_are_found(write):
    reading, (effects, entries) = read_of(write), PAIRS[write]
    groups, names = reading.groups, reading.whole.coordinate_names
    found = [
        (effect.block.name, names[effect.location[0][0]] if effect.location else None, effect.width)
        for effect in groups.effects
    ]
    assert found == effects
    assert entries == {(x.row, x.column): (names[x.coordinate], x.spread) for x in groups.scales}
    assert [x.is_log for x in groups.scales] == [x.row == x.column for x in groups.scales]
    np.testing.assert_array_equal(groups.levels[0], GROUP)


def test_effects_of_other_levels_are_no_second_effects():
    groups = read_of(
        lambda: pair(normal(), pm.Normal("b", 0, tau("s"), shape=G), GROUP[::-1])
    ).groups
    assert [effect.block.name for effect in groups.effects] == ["a"]


def triangle():
    second = pt.stack([pm.Normal("r") * tau("s"), tau("t")])
    return pt.stack([pt.stack([tau(), 0.0]), second])


REFUSED_PAIRS = {
    "three": (
        lambda: pm.Normal("y", normal()[GROUP] + (pm.Normal("b", 0.0, 1.0, shape=G)[GROUP] * X)
                          + pm.Normal("c", 0.0, 1.0, shape=G)[GROUP] * X**2, 1.0, observed=Y),
        "3 effects of each group: 'a', 'b', 'c'",
    ),
    "of other laws": (
        lambda: pair(normal(), pm.StudentT("b", nu=4, sigma=tau("s"), shape=G)),
        "'b' and others have a prior that is not Normal",
    ),
    "a covariance": (
        lambda: columns(pm.MvNormal("a", [0.0, 0.0], cov=np.eye(2) * tau(), shape=(G, 2))),
        "'a' has a covariance without a factor: pass chol= instead",
    ),
    "a correlation": (
        lambda: columns(pm.MvNormal("a", [0.0, 0.0], chol=triangle(), shape=(G, 2))),
        "correlations that are no parameters by themselves",
    ),
    "one of two columns": (
        lambda: rows(pm.Normal("a", 0.0, tau(), shape=(G, 2))[:, 0]), "'a' is not a vector",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_PAIRS)
def test_other_pairs_are_refused_with_the_reason(name):
    write, reason = REFUSED_PAIRS[name]
    with pytest.raises(NotSeparableError, match=reason):
        read_of(write)
