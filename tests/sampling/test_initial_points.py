import numpy as np
import pytest
from pymc.initial_point import make_initial_point_fns_per_chain

from pymc_minibatch_mh import overdispersed_initvals
from pymc_minibatch_mh.errors import MinibatchError, SettingError
from pymc_minibatch_mh.sampling.initial_points import starting_positions
from sampling import models
from sampling.walking import Walk

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")
CHAINS = 3


def generator():
    return np.random.default_rng(8)


class Holder:
    """What starts_of reads of a step, for models that need no step."""

    def __init__(self, model):
        self._model = model
        self.target = self
        self.factorization = Walk(model=model).factorization

    def __getnewargs_ex__(self):
        return (), {"model": self._model}


@pytest.fixture(scope="module")
def constrained():
    return models.constrained()


@pytest.fixture(scope="module")
def holder(constrained):
    return Holder(constrained)


def pymc_starts(model, factorization, initvals):
    """Return the positions at which pm.sample starts chains."""
    functions = make_initial_point_fns_per_chain(
        model=model, overrides=initvals, jitter_rvs=set(), chains=CHAINS
    )
    return np.array([factorization.ravel(function(0)) for function in functions])


WHOLE = {
    "sigma": 2.0,
    "tau": [0.5, 1.5],
    "low": -1.0,
    "between": 0.25,
    "simplex": [0.2, 0.3, 0.5],
    "cuts": [-2.0, 0.0, 3.0],
    "chol": [1.0, 0.1, 0.9],
    "shares": np.full((2, 2), 0.3),
}


@pytest.mark.parametrize(
    "initvals",
    [
        {},
        WHOLE,
        {"low": 4.0},
        {"sigma": 3, "simplex": (0.1, 0.1, 0.8)},
        {"sigma_log__": np.array(0.5)},
        {"sigma_log__": np.array(0.5), "sigma": None},
        {"sigma": 2.0, "sigma_log__": np.array(0.5)},
        [{"low": 1.0}, {}, {"low": 2.0, "between": 3.5}],
        ({"low": 1.0},) * 3,
    ],
)
def test_chains_start_where_pymc_starts_them(initvals, constrained, holder):
    found = starting_positions(holder, initvals, CHAINS, generator())
    np.testing.assert_array_equal(found, pymc_starts(constrained, holder.factorization, initvals))


def test_draws_of_the_prior_differ_from_chain_to_chain_and_repeat(holder):
    first, again = (
        starting_positions(holder, {"sigma": "prior"}, CHAINS, generator()) for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first[:, 0])) == CHAINS
    assert len(np.unique(first[:, 3])) == 1


def test_what_find_map_returns_can_be_given():
    model = models.computed()
    point = {"b": [1.0, 2.0], "sigma": 2.0, "sigma_log__": np.log(2.0), "scalar": 9.0, "y": 0.0}
    holder = Holder(model)
    found = starting_positions(holder, point, 2, generator())
    np.testing.assert_allclose(found, [[1.0, 2.0, np.log(2.0)]] * 2)


@pytest.mark.parametrize(
    ("initvals", "said"),
    [
        ({"sgima": 1.0}, r"have 'sgima', which is not a variable .* Choose from \['sigma'"),
        ({3: 1.0}, "have '3', which is not a variable"),
        ({"sigma": -1.0}, "start 'sigma' outside its support: nan"),
        ({"sigma": np.inf}, "start 'sigma' outside its support: inf"),
        ({"between": 5.0}, "start 'between' outside its support"),
        ({"tau": [1.0, 2.0, 3.0]}, r"start 'tau' with .* of shape \(3,\) instead of \(2,\)"),
        ({"shares": [0.5, 0.5]}, r"'shares' of type float64 and shape \(2,\)"),
        ({"tau": 1.0}, r"'tau' of type float64 and shape \(\), .* Give real numbers of shape"),
        ({"sigma": "large"}, "'sigma' of type <U5"),
        ({"sigma": 1j}, "'sigma' of type complex128"),
        ({"low": np.ma.masked_array([1.0], [True])}, "'low' with masked entries"),
        ([{}], "are 1 dictionaries for 3 chains"),
        ("prior", "initvals=str is not a set of starting values"),
        (1.0, "initvals=float is not a set of starting values"),
        ([{}, {}, 2.0], "contain float, which is not a dictionary"),
    ],
)
def test_what_cannot_be_a_start_is_refused(initvals, said, holder):
    with pytest.raises(SettingError, match=said):
        starting_positions(holder, initvals, CHAINS, generator())


def test_values_along_dims_cannot_be_given_to_a_transform():
    holder = Holder(models.with_dims())
    given = {"slope": [1.0, 2.0], "sigma": 2.0}
    found = starting_positions(holder, given, 1, generator())
    np.testing.assert_allclose(found, [[1.0, 2.0, 0.0, 0.0, np.log(2.0)]])
    with pytest.raises(SettingError, match="'scales', which has values along the dims"):
        starting_positions(holder, {"scales": [1.0, 2.0]}, 1, generator())


def test_without_starts_chains_are_dispersed(prepared):
    step = prepared("student", "TunaMH")
    found = starting_positions(step, None, CHAINS, np.random.default_rng(4))
    given = overdispersed_initvals(step, CHAINS, random_seed=4)
    np.testing.assert_allclose(
        found, starting_positions(step, given, CHAINS, generator()), rtol=1e-10
    )
    deviations = (found - step.reference.centre) / np.linalg.norm(step.reference.factor, axis=1)
    assert 1.0 < deviations.std() < 3.0


def test_dispersed_starts_have_a_density(prepared, monkeypatch):
    step = prepared("student", "TunaMH")
    factorization, honest = step.target.factorization, step.near_position
    calls = []

    def often_outside(rng, scale):
        calls.append(scale)
        return honest(rng, scale) + (np.nan if len(calls) % 3 else 0.0)

    monkeypatch.setattr(step, "near_position", often_outside)
    found = starting_positions(step, None, 2, generator())
    assert len(calls) == 6
    assert np.isfinite(found).all()
    assert found.shape == (2, factorization.size)


def test_dispersed_starts_are_where_potentials_let_them(prepared, monkeypatch):
    step = prepared("student", "TunaMH")
    refused = []

    def excluding(position):
        if len(refused) < 5:
            refused.append(position)
            raise MinibatchError("a potential excludes it")

    monkeypatch.setattr(step.target, "require_finite_start", excluding)
    (found,) = starting_positions(step, None, 1, generator())
    assert len(refused) == 5
    assert not any(np.array_equal(found, position) for position in refused)
