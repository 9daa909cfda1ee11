"""A model on stored rows is read as the model on the same arrays in memory."""

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode

from every import every
from pymc_minibatch_mh import Rows, TunaMH
from pymc_minibatch_mh.data.storage import ArrayStorage
from pymc_minibatch_mh.errors import SettingError, SourceError, UnsupportedModelError
from pymc_minibatch_mh.likelihood.factorization import factorize
from pymc_minibatch_mh.plan.file import split_digests
from pymc_minibatch_mh.plan.plan import gaussian_draw
from pymc_minibatch_mh.reference import full_data
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


def target_of(model):
    return Target(factorize(model, model.value_vars), 2, 1.0, None)


@pytest.fixture(
    scope="module", params=[poisson, normal, categorical, ordered], ids=lambda build: build.__name__
)
def pair(request):
    """The same model on stored rows and in memory, and where it is evaluated."""
    stored, held = request.param(Rows(**ARRAYS).data), request.param(ARRAYS.get)
    found = target_of(stored), target_of(held)
    return stored, *found, np.linspace(-0.3, 0.4, found[0].factorization.size)


def test_passes_find_the_same(pair):
    _, stored, held, place = pair
    ours, theirs = (t.full_data.likelihood(place, hessian=True) for t in (stored, held))
    assert ours.value == pytest.approx(theirs.value, rel=1e-13)
    np.testing.assert_allclose(ours.gradient, theirs.gradient, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(ours.hessian, theirs.hessian, rtol=1e-11, atol=1e-9)
    np.testing.assert_array_equal(stored.full_data.values(place), held.full_data.values(place))


def test_chosen_rows_are_those_of_their_numbers(pair):
    _, stored, held, place = pair
    rows = np.array([8_999, 17, 17, 4_096, 0])
    ours, theirs = (t.full_data.likelihood(place, hessian=False, rows=rows) for t in (stored, held))
    assert ours.value == pytest.approx(theirs.value, rel=1e-13)


def test_the_parts_are_compared_with_the_model(pair):
    model, stored, _, _ = pair
    rng = np.random.default_rng(2)
    reference = stored.expand(np.zeros(stored.factorization.size), rng)[0]
    stored.check(model, lambda: gaussian_draw(reference, rng, 1.0))


def test_the_model_is_small_and_is_not_evaluated_as_a_whole(pair):
    model = pair[0]
    density = model.compile_logp(mode=Mode(linker="py", optimizer=None))
    with pytest.raises(SourceError, match="is data of Rows"):
        density(model.initial_point())


def changed(**arrays):
    return Rows(**{**ARRAYS, **arrays})


@pytest.mark.parametrize("number", [GROUPS, -1, -GROUPS])
def test_an_index_out_of_range_is_named_with_its_array_and_its_file(tmp_path, number):
    wrong = ARRAYS["g"].copy()
    wrong[8_123] = number
    np.save(tmp_path / "g.npy", wrong)
    mapped = np.load(tmp_path / "g.npy", mmap_mode="r")
    said = rf"^'y' chooses entry {number} in row 8123 \(row 8,123 of .*g.npy\) of .* Correct 'g', w"
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


class Counted(ArrayStorage):
    """Arrays that keep what was asked for."""

    def __init__(self, arrays):
        super().__init__(arrays)
        self.asked = []

    def read(self, names, rows):
        found = super().read(names, rows)
        self.asked += found
        return found


def test_no_more_than_the_index_is_read_to_check_it():
    storage = Counted(ARRAYS)
    model = poisson(Rows.of(storage).data)
    factorize(model, model.value_vars)
    assert set(storage.asked) == {"g"}


def test_a_missing_number_is_sought_some_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(full_data, "SOUGHT_ROWS", 1_000)
    wrong = ARRAYS["offset"].copy()
    wrong[[7_321, 8_000]] = np.nan
    target = target_of(poisson(changed(offset=wrong).data))
    asked, values = [], target.full_data.values

    def counted(theta, rows):
        asked.append(len(rows))
        return values(theta, rows)

    monkeypatch.setattr(target.full_data, "values", counted)
    with pytest.raises(ValueError, match=r"first in row 7321"):
        target.require_finite(np.zeros(target.factorization.size))
    assert max(asked) == 1_000


def test_a_missing_number_is_named_with_its_file(tmp_path):
    wrong = ARRAYS["offset"].copy()
    wrong[7_321] = np.nan
    np.save(tmp_path / "offset.npy", wrong)
    mapped = np.load(tmp_path / "offset.npy", mmap_mode="r")
    place = r"row 7321 \(row 7,321 of .*offset.npy\)\. Correct"
    with poisson(changed(offset=mapped).data), pytest.raises(ValueError, match=place):
        TunaMH()


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
    pm.Potential("p", (rows.data("X") @ beta).sum())


@every(
    ("build", "message"),
    [
        (of_two, "which is not of the same Rows"),
        (with_a_summary, "'X'"),
        (in_a_potential, "'p' uses 'X', data of Rows"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_stored_rows_cannot_do_is_refused(build, message):
    model = declare(build)
    with pytest.raises(UnsupportedModelError, match=message):
        factorize(model, model.value_vars)


def test_rows_say_what_they_are():
    rows = Rows(**ARRAYS)
    assert repr(rows).startswith("Rows of 'X' (float32, 2 columns) and 'g' (int16)")
    assert rows.n_rows == N
    assert rows.names == list(ARRAYS)
    assert rows.data("X") is rows.data("X")
    assert rows.stamp == Rows(**ARRAYS).stamp
    assert rows.stamp != changed(offset=ARRAYS["offset"] + 1.0).stamp


def test_an_array_that_could_have_masked_entries_and_has_none_is_taken():
    X = np.ma.masked_greater(ARRAYS["X"], 99.0)
    assert Rows(X=X).n_rows == N


def test_what_numpy_cannot_see_without_a_copy_is_refused():
    with pytest.raises(SettingError, match="is of type float64, which NumPy cannot see without"):
        Rows(X=np.float64(2.0))
