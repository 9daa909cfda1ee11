"""Several likelihoods of the same stored rows, and their weights, are those of rows in memory."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from pytensor.compile.mode import Mode

from every import every
from likelihood.evaluation import at_points
from pymc_minibatch_mh import Rows, TunaMH
from pymc_minibatch_mh.errors import SettingError, UnsupportedModelError
from pymc_minibatch_mh.likelihood.factorization import factorize
from pymc_minibatch_mh.plan.plan import gaussian_draw
from pymc_minibatch_mh.plan.violations import typical_moves
from pymc_minibatch_mh.reference.full_data import SpreadIn
from pymc_minibatch_mh.reference.target import Target

N = 6_000
RNG = np.random.default_rng(12)
X = RNG.standard_normal((N, 2))
ARRAYS = {
    "X": X,
    "g": RNG.integers(0, 3, N).astype(np.int8),
    "y": RNG.poisson(1.5, N).astype(np.uint8),
    "t": X @ [0.3, -0.2] + RNG.standard_t(4, N),
    "w": RNG.integers(0, 3, N).astype(np.float32),
}


def two(data):
    """Declare counts and times with the same slopes, and intercepts of groups."""
    with pm.Model() as model:
        beta, a, sigma = pm.Normal("beta", shape=2), pm.Normal("a", shape=3), pm.HalfNormal("sigma")
        eta = data("X") @ beta + a[data("g")]
        pm.Poisson("y", pm.math.exp(eta), observed=data("y"))
        pm.StudentT("t", nu=4, mu=data("X") @ beta, sigma=sigma, observed=data("t"))
    return model


def one(data):
    with pm.Model() as model:
        eta = data("X") @ pm.Normal("beta", shape=2)
        pm.Poisson("y", pm.math.exp(eta), observed=data("y"))
    return model


@pytest.fixture(scope="module", params=["two", "weighted", "one of two weighted"])
def pair(request):
    """The same model on stored rows and in memory, their targets, and the stored one's weights."""
    rows = Rows(**ARRAYS)
    build = one if request.param == "weighted" else two
    names = [] if request.param == "two" else ["y"]
    stored, held = build(rows.data), build(ARRAYS.get)
    ours = {name: rows.data("w") for name in names} or None
    theirs = dict.fromkeys(names, ARRAYS["w"]) or None
    targets = [
        Target(factorize(model, model.value_vars, weights=weights), 2, 1.0, None)
        for model, weights in ((stored, ours), (held, theirs))
    ]
    return stored, *targets


def test_passes_find_the_same(pair):
    _, stored, held = pair
    place = np.linspace(-0.3, 0.4, stored.factorization.size)
    ours, theirs = (t.full_data.likelihood(place, hessian=True) for t in (stored, held))
    assert ours.value == pytest.approx(theirs.value, rel=1e-13)
    np.testing.assert_allclose(ours.gradient, theirs.gradient, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(ours.hessian, theirs.hessian, rtol=1e-11, atol=1e-9)


def test_a_row_is_the_sum_of_the_likelihoods_of_that_row(pair):
    _, stored, held = pair
    place = np.linspace(-0.3, 0.4, stored.factorization.size)
    assert stored.source.n_rows == N
    apart = held.full_data.values(place).reshape(-1, N)
    np.testing.assert_allclose(stored.full_data.values(place), apart.sum(axis=0), rtol=1e-12)


def test_several_likelihoods_of_a_row_are_added():
    model = two(Rows(**ARRAYS).data)
    parts = factorize(model, model.value_vars)
    (term,) = parts.terms
    assert {column.name for column, _ in term.batches} == {"X", "g", "y", "t"}
    assert len(term.batches) == 4
    density = logp_of_rows(parts)
    held = two(ARRAYS.get)
    point = {"beta": np.array([0.2, 0.1]), "a": np.zeros(3), "sigma_log__": np.array(0.3)}
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


def test_the_parts_are_compared_with_the_model(pair):
    model, stored, _ = pair
    rng = np.random.default_rng(2)
    reference = stored.expand(np.zeros(stored.factorization.size), rng)[0]
    stored.check(model, lambda: gaussian_draw(reference, rng, 1.0))


def test_a_row_changes_by_no_more_than_its_bound():
    step = TunaMH(model=two(Rows(**ARRAYS).data))
    target, tables, reference = step.target, step.tables, step.reference
    assert [term.name for term in target.factorization.terms] == ["y and t"]
    rows, ratios = np.arange(N), []
    for move in typical_moves(target, reference, tables, np.random.default_rng(3)):
        asked = SpreadIn(move, 0, np.empty(0, np.int64), n_top=1)
        ratios.append(step.chain.plan.held.of_rows(rows, asked).ratio)
    assert 0.01 < max(ratios) <= 1.0


@every(
    ("weights", "message"),
    [
        (lambda rows: ARRAYS["w"], "are given for 'y', whose data are of Rows.*not of the same"),
        (lambda rows: Rows(w=ARRAYS["w"]).data("w"), "are not of the same Rows"),
        (lambda rows: rows.data("t"), r"are -[\d.]+ in row \d+\. Give finite numbers"),
        (lambda rows: rows.data("X"), r"of type float64 and shape \(6000, 2\)"),
        (lambda rows: rows.data("none"), "are all 0"),
    ],
)
def test_weights_that_are_none_are_refused(weights, message):
    rows = Rows(**ARRAYS, none=np.zeros(N))
    model = one(rows.data)
    with pytest.raises(SettingError, match=message):
        factorize(model, model.value_vars, weights=weights(rows))


def test_stored_weights_of_rows_in_memory_are_refused():
    model = one(ARRAYS.get)
    with pytest.raises(SettingError, match=r"'y' are 'w' of Rows\(...\), and its data are not"):
        factorize(model, model.value_vars, weights=Rows(**ARRAYS).data("w"))


def test_a_weight_in_a_file_is_named_with_it(tmp_path):
    wrong = ARRAYS["w"].copy()
    wrong[4_321] = np.nan
    np.save(tmp_path / "w.npy", wrong)
    rows = Rows(**{**ARRAYS, "w": np.load(tmp_path / "w.npy", mmap_mode="r")})
    model = one(rows.data)
    with pytest.raises(SettingError, match=r"nan in row 4321 \(row 4,321 of .*w\.npy\)\. Give"):
        factorize(model, model.value_vars, weights=rows.data("w"))


def test_one_of_two_likelihoods_is_not_subsampled_alone():
    model = two(Rows(**ARRAYS).data)
    with pytest.raises(UnsupportedModelError, match=r"'t' uses .*, data of Rows.* Name it in"):
        factorize(model, model.value_vars, observed=["y"])
