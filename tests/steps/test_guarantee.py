"""What a method declares: everything that tells of it says the same, and its draws follow."""

import inspect
import pkgutil
from importlib import import_module

import pytest

from docs.claims.sentences import section_of
from helpers.zoo import APPROXIMATE, EXACT, METHODS, sample
from pymc_minibatch_mh import audit, explain
from pymc_minibatch_mh import steps as methods
from pymc_minibatch_mh.native import compiler
from pymc_minibatch_mh.plan.bound_sources import DerivedBounds
from pymc_minibatch_mh.plan.method import Guarantee, Method, Promise
from pymc_minibatch_mh.plan.plan import Requirements
from pymc_minibatch_mh.steps import penalty
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.settings import SharedSettings, takes_settings

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

PAGE = "\n".join(
    section_of("docs/choose.md", f"## {heading}")
    for heading in ("What is guaranteed", "To reproduce published work")
)


class BoundedBatches(penalty.PenaltyMethod):
    """A test on batches that carries bounds of all rows."""

    guarantee = Guarantee(Promise.APPROXIMATE, "noise of a batch")
    requirements = Requirements(calibration=True, bounds=DerivedBounds())


class BoundedPenaltyMH(MinibatchStep):
    """A user's own approximate method."""

    name = "bounded_penalty_mh"

    @takes_settings(SharedSettings)
    def __init__(self, settings):
        self._prepare(settings, BoundedBatches(penalty.penalty_test(batch_size=100)))


@pytest.fixture(scope="module")
def bounded(model_of):
    step = BoundedPenaltyMH(model=model_of("logistic"))
    assert step.tables is not None
    assert step.tables.verified
    return step


@pytest.fixture(scope="module")
def trace(model_of, bounded):
    return sample(model_of("logistic"), bounded, 100, 100, random_seed=3)


def test_draws_of_an_approximate_test_with_bounds_are_not_certified(trace, bounded):
    assert not trace.sample_stats["certified"].any()
    assert not bounded.chain.certified
    assert bounded.chain.exactness == "approximate; it controls the noise of a batch"


def test_an_approximate_test_with_bounds_is_not_explained_as_exact(bounded):
    found = explain(bounded, draws=100, tune=50, nuts=False, random_seed=1)
    assert not found.certificate.certified
    assert found.certificate.guarantee == str(bounded.guarantee)
    assert "approximate: " in str(found)
    text = str(found.details)
    assert "no proved bounds" in text
    assert "approximate; it controls the noise of a batch" in text
    # The bounds are there, and are shown.
    assert "table 1" in text


def test_an_approximate_test_with_bounds_is_audited_as_one(bounded, trace):
    found = audit(trace, bounded, pairs=8, random_seed=1)
    assert found.attrs["guarantee"] == bounded.chain.exactness
    messages = dict(zip(found["check"].values, found["message"].values, strict=True))
    assert "does not assume normal sums" not in messages["normality"]
    assert "exact" not in messages["bias"]
    assert "proved" not in messages["trace"]


@pytest.mark.parametrize("name", METHODS)
def test_docstrings_say_what_is_declared(prepared, name):
    assert f"Guarantee: *{prepared('logistic', name).guarantee.promise}*" in METHODS[name].__doc__


@pytest.mark.parametrize("name", METHODS)
def test_the_page_says_what_is_declared(prepared, name):
    lines = [line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}`" in line]
    converges, *controlled = [line.strip("|").split("|")[-1].strip() for line in lines]
    promise = prepared("logistic", name).guarantee
    assert (converges == "**the posterior**, given valid bounds") == (name in EXACT)
    plain = [text.replace("`", "").replace("*", "").replace(";", ",") for text in controlled]
    assert plain == ([promise.controls] if name in APPROXIMATE else [])


def test_derived_bounds_make_draws_exact_until_a_row_exceeds_its_own(prepared):
    step = prepared("logistic", "TunaMH")
    assert step.chain.exactness == "exact given valid bounds, which were derived from the model"
    assert step.guarantee.is_certified(step.tables, "")
    assert not step.guarantee.is_certified(step.tables, "'y': row 3 changes")
    assert step.guarantee.of_draws(step.tables, "'y': row 3 changes").startswith("not exact")


MODULES = [
    import_module(f"{methods.__name__}.{found.name}")
    for found in pkgutil.iter_modules(methods.__path__)
]
CLASSES = [
    each
    for module in MODULES
    for _, each in inspect.getmembers(module, inspect.isclass)
    if issubclass(each, Method) and each.__module__ == module.__name__
]


def draws_by_bounds(method):
    """Return whether the source in C of a method's decisions draws rows by their bounds."""
    records = vars(inspect.getmodule(method)).values()
    decide = {each.decide for each in records if isinstance(getattr(each, "decide", None), str)}
    sources = [path.read_text("utf-8") for path in compiler.FOLDER.glob("*.c")]
    own = [text for text in sources if any(f"mh_status {name}(" in text for name in decide)]
    return any(draw in text for text in own for draw in ("mh_draw_alias(", "mh_draw_rows("))


@pytest.mark.parametrize("method", CLASSES, ids=lambda method: method.__name__)
def test_who_draws_rows_by_their_bounds_says_so(method):
    # C does not check places in arrays: those of other methods are empty.
    assert method.draws_by_bounds == draws_by_bounds(method)
