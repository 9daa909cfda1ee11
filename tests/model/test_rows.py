"""A model on stored rows is read as the model on the same arrays in memory.

So are several likelihoods of the same rows, and their weights.
"""

import numpy as np
import pymc as pm
import pytensor
import pytest
from pytensor.compile.mode import Mode

from model.evaluation import at_points
from pymc_minibatch_mh import Rows
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.errors import SettingError, UnsupportedModelError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.plan.dense import DensePlan
from pymc_minibatch_mh.plan.identity import split_digests
from pymc_minibatch_mh.plan.plan import Requirements
from pymc_minibatch_mh.reference.target import Target

N, GROUPS = 9_000, 5
RNG = np.random.default_rng(8)
ARRAYS = {
    "X": RNG.standard_normal((N, 2)).astype(np.float32),
    "g": RNG.integers(0, GROUPS, N).astype(np.int16),
    "offset": RNG.random(N),
    "y": RNG.poisson(1.5, N).astype(np.uint8),
    "grade": RNG.integers(0, 3, N).astype(np.int8),
}
ARRAYS |= {
    "t": ARRAYS["X"] @ [0.3, -0.2] + RNG.standard_t(4, N),
    "w": RNG.integers(0, 3, N).astype(np.float32),
}


def poisson(data):
    """Declare counts with slopes, groups and an offset."""
    with pm.Model() as model:
        beta, a = pm.Normal("beta", shape=2), pm.Normal("a", shape=GROUPS)
        eta = data("X") @ beta + a[data("g")] + data("offset")
        pm.Poisson("y", pm.math.exp(eta), observed=data("y"))
    return model


def normal(data):
    """Declare counts as if they were normal, with a scale."""
    with pm.Model() as model:
        beta, sigma = pm.Normal("beta", shape=2), pm.HalfNormal("sigma")
        pm.Normal("y", (data("X") * beta).sum(axis=1), sigma, observed=data("y"))
    return model


def categorical(data):
    """Declare grades, whose number the density asks of the probabilities of all rows."""
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=(2, 3))
        pm.Categorical("grade", logit_p=data("X") @ beta, observed=data("grade"))
    return model


def ordered(data):
    """Declare grades in an order."""
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=2)
        ends = pm.Normal(
            "ends", [-0.5, 0.5], shape=2, transform=pm.distributions.transforms.ordered
        )
        pm.OrderedLogistic("grade", data("X") @ beta, ends, observed=data("grade"), compute_p=False)
    return model


def counts_and_times(data):
    """Declare counts and times with the same slopes, and intercepts of groups."""
    with pm.Model() as model:
        beta, a = pm.Normal("beta", shape=2), pm.Normal("a", shape=GROUPS)
        eta = data("X") @ beta + a[data("g")]
        pm.Poisson("y", pm.math.exp(eta), observed=data("y"))
        sigma = pm.HalfNormal("sigma")
        pm.StudentT("t", nu=4, mu=data("X") @ beta, sigma=sigma, observed=data("t"))
    return model


def target_of(model, weights=None):
    return Target(CompiledModel(factorize(model, model.value_vars, weights=weights)))


#: Models, each with the likelihoods that have weights.
READ = [
    *((build, ()) for build in (poisson, normal, categorical, ordered, counts_and_times)),
    *((build, ("y",)) for build in (poisson, counts_and_times)),
]
#: Those of the fast tier have an index, weights and several likelihoods between them.
FAST = [(normal, ()), (categorical, ()), (counts_and_times, ("y",))]


@pytest.fixture(
    scope="module",
    params=[pytest.param(case, marks=[] if case in FAST else pytest.mark.slow) for case in READ],
    ids=lambda case: " ".join([case[0].__name__, *("weighted" for _ in case[1])]),
)
def pair(request):
    """The same model on stored rows and in memory, and where it is evaluated."""
    build, weighted = request.param
    rows = Rows(**ARRAYS)
    stored, held = build(rows.data), build(ARRAYS.get)
    ours, theirs = (dict.fromkeys(weighted, w) for w in (rows.data("w"), ARRAYS["w"]))
    found = target_of(stored, ours or None), target_of(held, theirs or None)
    return stored, *found, np.linspace(-0.3, 0.4, found[0].factorization.size)


def test_passes_find_the_same(pair):
    """A row is the sum of the likelihoods of that row."""
    _, stored, held, place = pair
    ours, theirs = (t.full_data.likelihood(place, hessian=True) for t in (stored, held))
    assert ours.value == pytest.approx(theirs.value, rel=1e-13)
    np.testing.assert_allclose(ours.gradient, theirs.gradient, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(ours.hessian, theirs.hessian, rtol=1e-11, atol=1e-9)
    assert stored.source.n_rows == N
    first, *others = held.full_data.values(place).reshape(-1, N)
    rtol = 1e-12 if others else 0.0
    np.testing.assert_allclose(stored.full_data.values(place), sum(others, first), rtol=rtol)


def test_the_parts_are_compared_with_the_model(pair):
    model, stored, _, _ = pair
    rng = np.random.default_rng(2)
    reference = stored.expand(np.zeros(stored.factorization.size), rng)[0]
    near = DensePlan(stored, Requirements(), reference)
    stored.check(model, lambda: near.gaussian_draw(rng, 1.0))


def changed(**arrays):
    return Rows(**{**ARRAYS, **arrays})


@pytest.mark.parametrize("number", [GROUPS, -1, -GROUPS])
def test_an_index_out_of_range_is_named_with_its_array_and_its_file(tmp_path, number):
    wrong = ARRAYS["g"].copy()
    wrong[8_123] = number
    np.save(tmp_path / "g.npy", wrong)
    mapped = np.load(tmp_path / "g.npy", mmap_mode="r")
    said = rf"^'y' uses entry {number} in row 8123 \(row 8,123 of .*g.npy\) of .* Correct 'g', w"
    with pytest.raises(UnsupportedModelError, match=said):
        target_of(poisson(changed(g=mapped).data))


def test_a_number_of_rows_in_a_likelihood_is_the_same_in_every_process(tmp_path):
    """Digests tell whether a prepared step in a file is of the same model."""
    np.save(tmp_path / "y.npy", ARRAYS["y"])

    def digests():
        y = Rows.from_npy(y=tmp_path / "y.npy").data("y")
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("a") * pm.math.log(y.shape[0]), observed=y)
        return split_digests(factorize(model, model.value_vars))

    assert digests() == digests()


def declare(build):
    with pm.Model() as model:
        build(Rows(**ARRAYS))
    return model


def of_two(rows):
    other = Rows(X=ARRAYS["X"]).data("X")
    pm.Poisson("y", pm.math.exp(other @ pm.Normal("beta", shape=2)), observed=rows.data("y"))


def with_a_summary(rows):
    X = rows.data("X")
    eta = (X - X.mean(axis=0)) @ pm.Normal("beta", shape=2)
    pm.Poisson("y", pm.math.exp(eta), observed=rows.data("y"))


def in_a_potential(rows):
    beta = pm.Normal("beta", shape=2)
    pm.Poisson("y", pm.math.exp(rows.data("X") @ beta), observed=rows.data("y"))
    pm.Potential("p", (rows.data("X") @ beta).sum() ** 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (of_two, "which is not in the same Rows"),
        (with_a_summary, "'X'"),
        (in_a_potential, "'p' uses 'X', data of Rows"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_stored_rows_cannot_do_is_refused(build, message):
    model = declare(build)
    with pytest.raises(UnsupportedModelError, match=message):
        factorize(model, model.value_vars)


# Several likelihoods, and weights.


def test_several_likelihoods_of_a_row_are_added():
    model = counts_and_times(Rows(**ARRAYS).data)
    parts = factorize(model, model.value_vars)
    (term,) = parts.terms
    assert {column.name for column, _ in term.batches} == {"X", "g", "y", "t"}
    assert len(term.batches) == 4
    density = logp_of_rows(parts)
    held = counts_and_times(ARRAYS.get)
    point = {"beta": np.array([0.2, 0.1]), "a": np.zeros(GROUPS), "sigma_log__": np.array(0.3)}
    expected = at_points(held, held.logp(vars=held.observed_RVs, jacobian=False), [point])[0]
    # Without the rewrites that save digits.
    assert density(point) == pytest.approx(expected, rel=1e-9)


def logp_of_rows(parts):
    """Return the summed log-likelihood of all rows as a function of a point."""
    (term,) = parts.terms
    batches = [batch for _, batch in term.batches]
    read = [np.asarray(column.read(slice(0, N))).astype(b.type.dtype) for column, b in term.batches]
    inputs = [parts.position, *batches, term.length]
    mode = Mode(linker="py", optimizer="fast_compile")
    function = pytensor.function(inputs, term.logp.sum(), mode=mode, on_unused_input="ignore")
    return lambda point: float(function(parts.ravel(point), *read, N))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda rows: ARRAYS["w"], "are given for 'y', whose data are in Rows.*not in the same"),
        (lambda rows: Rows(w=ARRAYS["w"]).data("w"), "are not in the same Rows"),
        (lambda rows: rows.data("t"), r"are -[\d.]+ in row \d+\. Give finite numbers"),
        (lambda rows: rows.data("X"), r"of type float32 and shape \(9000, 2\)"),
        (lambda rows: rows.data("none"), "are all 0"),
    ],
)
def test_weights_that_are_none_are_refused(weights, message):
    rows = Rows(**ARRAYS, none=np.zeros(N))
    model = poisson(rows.data)
    with pytest.raises(SettingError, match=message):
        factorize(model, model.value_vars, weights=weights(rows))


def test_one_of_two_likelihoods_is_not_subsampled_alone():
    model = counts_and_times(Rows(**ARRAYS).data)
    with pytest.raises(UnsupportedModelError, match=r"'t' uses .*, data of Rows.* Name it in"):
        factorize(model, model.value_vars, observed=["y"])
