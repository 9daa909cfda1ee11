"""Elements of a model, and the proof that the prior is a sum over them."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from helpers.grouped import SUMMED, target_of
from models.bambi_models.groups import EFFECTS, built, table
from pymc_minibatch_mh.model.constant_data import IN_PYTHON
from pymc_minibatch_mh.structure import random_effects as elements
from pymc_minibatch_mh.structure.random_effects import NotSeparableError

pytestmark = pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes")

_RNG = np.random.default_rng(1)
N, G = 1_200, 12
GROUP, OTHER = _RNG.integers(0, G, N), _RNG.integers(0, G, N)
X, Y, WIDE = _RNG.normal(size=N), _RNG.normal(size=N), _RNG.normal(size=(G, 2))


def made_of(write):
    with pm.Model(coords={"group": range(G)}) as model:
        write()
    return model


def normal(predictor):
    pm.Normal("y", predictor, 1.0, observed=Y)


def centred():
    effect = pm.Normal("effect", pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("tau", 1.0), shape=G)
    normal(pm.Normal("b", 0.0, 1.0) * X + effect[GROUP])


def non_centred():
    z = pm.Normal("z", 0.0, 1.0, shape=G)
    normal(pm.Normal("mu", 0.0, 1.0) + pm.HalfNormal("tau", 1.0) * z[GROUP])


def with_dims():
    effect = pm.StudentT("effect", nu=4.0, sigma=pm.HalfNormal("tau", 1.0), dims="group")
    normal(effect[GROUP])


def by_data():
    region = pm.Normal("region", 0.0, 1.0, shape=3)
    of = pm.Data("of", np.arange(G) % 3)
    town = pm.Normal("town", region[of], pm.HalfNormal("tau", 1.0), shape=G)
    normal(town[pm.Data("town of", GROUP)])


def difference():
    team = pm.Normal("team", 0.0, 1.0, shape=G)
    normal(team[GROUP] - team[OTHER])


def interaction():
    cell = pm.Normal("cell", 0.0, pm.HalfNormal("tau", 1.0), shape=3 * G)
    normal(cell[3 * GROUP + OTHER % 3])


def scales_of_their_own():
    own = pm.HalfCauchy("own", 1.0, shape=G)
    normal(pm.Normal("effect", 0.0, own, shape=G)[GROUP])


def two_in_one_array():
    low, high = pm.Normal("low", 0.0, 1.0, shape=5), pm.Normal("high", 0.0, 2.0, shape=G - 5)
    normal(pt.concatenate([low, high])[GROUP])


def beside_a_reference():
    effect = pm.Normal("effect", 0.0, pm.HalfNormal("tau", 1.0), shape=G - 1)
    normal(pt.concatenate([[0.0], effect])[GROUP])


def seen_themselves():
    """Effects that few data are of, beside the rows: those data are part of the prior."""
    effect = pm.Laplace("effect", 0.0, pm.HalfNormal("tau", 1.0), shape=G)
    pm.Normal("seen", effect[::-1], 0.5, observed=np.arange(G) / G)
    normal(effect[GROUP])


def between_ends():
    normal(pm.TruncatedNormal("effect", 0.0, 1.0, lower=-2.0, shape=G)[GROUP])


def bambi(effects):
    return built("bernoulli", f"x + {EFFECTS[effects]}", table(N)).backend.model


def nested():
    region = pm.Normal("region", 0.0, 1.0, shape=3)
    town = pm.Normal("town", region[np.arange(G) % 3], pm.HalfNormal("tau", 1.0), shape=G)
    normal(town[GROUP])


def regression():
    gamma = pm.Normal("gamma", 0.0, 1.0, shape=2)
    z = pm.Normal("z", 0.0, 1.0, shape=G)
    normal((WIDE @ gamma)[GROUP] + pm.HalfNormal("tau", 1.0) * z[GROUP])


def with_potential():
    effect = pm.Normal("effect", 0.0, pm.HalfNormal("tau", 1.0), shape=G)
    pm.Potential("bound", -(effect**4))
    pm.Potential("less", 1.0 - (effect**2).sum())
    pm.Potential("negative", -pt.exp(effect).sum())
    normal(effect[GROUP])


def matrix():
    tau = pm.HalfNormal("tau", 1.0, shape=2)
    effect = pm.Normal("effect", 0.0, tau, shape=(G, 2))
    normal(effect[GROUP, 0] + effect[GROUP, 1] * X)


def in_pairs():
    effect = pm.MvNormal("effect", np.zeros(2), np.eye(2) + 0.5, shape=(G, 2))
    normal(effect[GROUP, 0] + effect[GROUP, 1] * X)


def of_outcomes():
    effect = pm.MvNormal("effect", np.zeros(4), np.eye(4) + 0.5, shape=(G, 4)).T
    normal(effect[OTHER % 4, GROUP])


def cells():
    effect = pm.Normal("effect", 0.0, pm.HalfNormal("tau", 1.0), shape=(6, G))
    normal(effect[OTHER % 6, GROUP])


def correlated():
    scale = pm.HalfNormal.dist(1.0, shape=2)
    root, _, _ = pm.LKJCholeskyCov("root", n=2, eta=2.0, sd_dist=scale)
    effect = pm.MvNormal("effect", np.zeros(2), chol=root, shape=(G, 2))
    normal(effect[GROUP, 0] + effect[GROUP, 1] * X)


def by_a_root():
    scale = pm.HalfNormal.dist(1.0, shape=2)
    root, _, _ = pm.LKJCholeskyCov("root", n=2, eta=2.0, sd_dist=scale)
    effect = pm.Normal("effect", 0.0, 1.0, shape=(G, 2)) @ root.T
    normal(effect[GROUP, 0] + effect[GROUP, 1] * X)


def by_a_product():
    effect = pm.Normal("effect", 0.0, 1.0, shape=(2, G))
    pm.Potential("pairs", -pt.sum(pt.dot(np.array([[1.0, 0.5], [0.0, 1.0]]), effect) ** 2))
    normal(effect[0][GROUP] + effect[1][GROUP] * X)


def both_levels():
    """Rows read regions, and the towns that are around them as well."""
    region = pm.Normal("region", 0.0, 1.0, shape=3)
    town = pm.Normal("town", region[np.arange(G) % 3], 1.0, shape=G)
    normal(town[GROUP] + region[GROUP % 3] * X)


def over_time():
    normal(pm.GaussianRandomWalk("walk", sigma=1.0, init_dist=pm.Normal.dist(), shape=G)[GROUP])


def smooth():
    walk = pm.Normal("walk", 0.0, 1.0, shape=G)
    pm.Potential("bent", -((walk[2:] - 2.0 * walk[1:-1] + walk[:-2]) ** 2))
    normal(walk[GROUP])


#: Model -> factors with their sizes, the border, and coordinates that no row reads.
SEPARABLE = {
    centred: ("effect 12", "b", "mu tau_log__"),
    non_centred: ("z 12", "", "mu tau_log__"),
    with_dims: ("effect 12", "", "tau_log__"),
    by_data: ("town 12", "", "region tau_log__"),
    nested: ("town 12", "", "region tau_log__"),
    regression: ("z 12", "gamma", "tau_log__"),
    interaction: ("cell 36", "", "tau_log__"),
    with_potential: ("effect 12", "", "tau_log__"),
    matrix: ("effect 12, effect 12", "", "tau_log__"),
    in_pairs: ("effect 12, effect 12", "", ""),
    of_outcomes: ("effect 12, effect 12, effect 12, effect 12", "", ""),
    cells: ("effect 72", "", "tau_log__"),
    correlated: ("effect 12, effect 12", "", "root_cholesky-cov-packed__"),
    by_a_root: ("effect 12, effect 12", "", "root_cholesky-cov-packed__"),
    by_a_product: ("effect 12, effect 12", "", ""),
    both_levels: ("town 12, region 3", "", ""),
    over_time: ("walk 4, walk 4, walk 4", "", ""),
    smooth: ("walk 3, walk 3, walk 2, walk 2, walk 2", "", ""),
    scales_of_their_own: ("effect 12", "", "own_log__"),
    two_in_one_array: ("low 12", "", ""),
    beside_a_reference: ("effect 11", "", "tau_log__"),
    seen_themselves: ("effect 12", "", "tau_log__"),
    between_ends: ("effect 12", "", ""),
    difference: ("", "team", ""),
    "at_grounds": ("z 14", "b skill", "b tau_log__"),
    "logistic": ("u 20, v 7", "b", "b omega_log__ tau_log__"),
    "student": ("u 20, v 7", "b sigma_log__", "b omega_log__ tau_log__"),
    "slopes": ("a 15, c 15", "", "mu tau_log__"),
    "three_factors": ("z1 9, z0 6, z2 4", "b", ""),
    "other_index": ("z 10", "b sigma_log__", "tau_log__"),
    "two_terms": ("a 15", "b", "tau_log__"),
    "levels of groups": ("1|group_offset 30", "x", "1|group_sigma_log__ Intercept"),
    "slopes of groups": (
        "1|group_offset 30, x|group_offset 30", "x",
        "1|group_sigma_log__ Intercept x|group_sigma_log__",
    ),
}  # fmt: skip


@cache
def separable(case):
    """Return the target of a case, and a position near its initial point."""
    if case in SUMMED:
        model = SUMMED[case]()
    elif isinstance(case, str):
        model = bambi(case.partition(" ")[0])
    else:
        model = made_of(case)
    target = target_of(model)
    start = target.factorization.ravel(model.initial_point())
    return target, start + np.random.default_rng(3).uniform(0.1, 0.6, size=start.size)


@cache
def of_graphs(target):
    """Return the prior and the densities of all elements, as functions of the position."""
    parts, elements = target.factorization, target.elements
    graphs = target.compiled.element_prior.densities
    found = pytensor.function(
        [parts.position, parts.other_values], [parts.prior, *graphs], mode=IN_PYTHON,
        on_unused_input="ignore",
    )  # fmt: skip

    def at(position):
        prior, *own = found(position, target.source.others)
        assert [one.size for one in own] == [factor.places.size for factor in elements.factors]
        return float(prior), own

    return at


@pytest.mark.parametrize("case", SEPARABLE)
def test_factors_border_and_others_are_all_coordinates(case):
    target, _ = separable(case)
    found, names = target.elements, target.factorization.coordinate_names
    factors = ", ".join(f"{factor.name} {factor.places.size}" for factor in found.factors)
    border, others = (
        " ".join(sorted({names[k].partition("[")[0] for k in places}))
        for places in (found.border, found.others)
    )
    assert (factors, border, others) == SEPARABLE[case]
    every_one = np.concatenate([found.labels, found.border, found.others])
    assert sorted(every_one) == list(range(len(names)))


@pytest.mark.parametrize("case", SEPARABLE)
def test_prior_is_a_sum_over_the_elements_of_each_factor(case):
    """Each element changes its own density alone of its factor, and nothing else of the prior."""
    target, position = separable(case)
    at, rng = of_graphs(target), np.random.default_rng(2)
    for f, factor in enumerate(target.elements.factors):
        prior, own = at(position)
        for number in rng.choice(factor.places.size, 2, replace=False):
            moved = position.copy()
            moved[factor.places[number]] += 0.3
            assert np.flatnonzero(at(moved)[1][f] != own[f]).tolist() == [number]
        for border in (0.0, 0.2):
            position += border
            prior, own = at(position)
            moved = position.copy()
            moved[factor.places] += rng.uniform(0.1, 0.5, size=factor.places.size)
            other, there = at(moved)
            assert (there[f] != own[f]).all()
            change = (there[f] - own[f]).sum()
            assert other - prior == pytest.approx(change, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("case", SEPARABLE)
def test_pairs_that_the_prior_couples_are_found(case):
    """Of other factors, an element changes the densities of those that it is paired with."""
    target, position = separable(case)
    at, elements = of_graphs(target), target.elements
    starts = np.cumsum([0, *(factor.places.size for factor in elements.factors)])
    pairs = {tuple(sorted(map(int, pair))) for pair in elements.coupled}
    assert len(pairs) == len(elements.coupled)
    own = np.concatenate([[], *at(position)[1]])
    found = set()
    for number, place in enumerate(elements.labels):
        moved = position.copy()
        moved[place] += 0.3
        changed = np.flatnonzero(np.concatenate(at(moved)[1]) != own)
        f = np.searchsorted(starts, number, side="right") - 1
        outside = changed[(changed < starts[f]) | (changed >= starts[f + 1])]
        found |= {tuple(sorted((number, int(k)))) for k in outside}
    assert found == pairs


def one_of_all_rows():
    effect = pm.Normal("effect", 0.0, 1.0, shape=G)
    normal(effect[GROUP] + effect[0] * X)


def part_of_all():
    effect = pm.Normal("effect", 0.0, 1.0, shape=G)
    normal(effect[GROUP] + effect[:5][GROUP % 5] * X)


def zero_sum():
    normal(pm.ZeroSumNormal("effect", 1.0, shape=G)[GROUP])


def summed():
    effect = pm.Normal("effect", 0.0, 1.0, shape=G)
    pm.Potential("sum", -(effect.sum() ** 2))
    normal(effect[GROUP])


def by_sign():
    """Which of two numbers is added is the sign of an element, in the opposite order."""
    effect = pm.Normal("effect", 0.0, 1.0, shape=G)
    pm.Potential("sign", pt.switch((effect > 0.0)[::-1], -1.0, -2.0))
    normal(effect[GROUP])


def alone():
    normal(pm.Normal("b", 0.0, 1.0) * X)


REFUSED = {
    one_of_all_rows: "'effect' has effects that observations use in two ways, for example by two",
    part_of_all: "'effect' has effects that observations use in two ways, for example by two",
    zero_sum: "'effect' has effects that observations use in two ways",
    summed: "'effect' has a prior in which Sum.* couples effects",
    by_sign: "'effect' has a prior that goes through Subtensor.* of no reals",
    alone: "no parameter is indexed by data",
}


@pytest.mark.parametrize("made", REFUSED)
def test_what_is_not_separable_is_refused_by_name(made):
    target = target_of(made_of(made))
    with pytest.raises(NotSeparableError, match=f"^{REFUSED[made]}"):
        _ = target.elements


def test_so_many_choices_move_with_all_others(monkeypatch):
    monkeypatch.setattr(elements, "MAX_CROSSED_LEVELS", G - 1)
    told = rf"^'team' .* {G} effects, .* more than {G - 1}"
    with pytest.raises(NotSeparableError, match=told):
        _ = target_of(made_of(difference)).elements
