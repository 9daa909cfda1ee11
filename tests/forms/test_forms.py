"""Every form of the catalogue is read rightly or refused with its reason, and the page says so."""

from pathlib import Path

import pytest
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular

from forms.catalogue import ACCEPTED, FORMS, REFUSED, SECTIONS
from forms.reading import assert_form_is_read_rightly, refusal_of
from forms.table import MARKERS, PAGE, between, table
from pymc_minibatch_mh.likelihood import axis, batch, terms

# PyMC's own call, for a pm.MatrixNormal.
pytestmark = pytest.mark.filterwarnings("ignore:pytensor.tensor.linalg.trace:FutureWarning")


def sizes(form):
    """Return numbers of rows, and whether data are in pm.Data."""
    return ((37, True), (form.trap, False), (form.trap, True))


@pytest.mark.parametrize("name", ACCEPTED)
def test_rows_of_an_accepted_form_are_those_of_its_model(name):
    for rows, mutable in sizes(FORMS[name]):
        assert_form_is_read_rightly(ACCEPTED[name], rows, mutable=mutable)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_form_is_refused_with_its_reason(name):
    for rows, mutable in sizes(FORMS[name]):
        message = refusal_of(REFUSED[name], rows, mutable=mutable)
        assert message.startswith(REFUSED[name].reason)
        assert message.endswith(".")


def test_the_catalogue_is_broad():
    assert len(ACCEPTED) >= 45
    assert len(REFUSED) >= 25
    assert len(FORMS) == sum(len(section.forms) for section in SECTIONS)
    assert len({(form.section, form.name) for form in FORMS.values()}) == len(FORMS)


def test_the_page_says_what_the_tests_find():
    page = Path(PAGE).read_text(encoding="utf-8")
    assert between(page, MARKERS) == table()


# Without one safeguard each, a form is read wrongly, or accepted that must not be.


def test_mutant_that_reads_computed_data_backwards_is_caught(monkeypatch):
    computed = batch.computed
    monkeypatch.setattr(batch, "computed", lambda variable: computed(variable)[::-1])
    with pytest.raises(AssertionError):
        test_rows_of_an_accepted_form_are_those_of_its_model("rows_of_data")


def test_mutant_that_reads_solutions_across_rows_is_caught(monkeypatch):
    rebuilt = axis.batch_of.dispatch(Blockwise)

    def reversed_cores(op, node, axis, walk):
        found = rebuilt(op, node, axis, walk)
        return found[:, ::-1] if isinstance(op.core_op, SolveTriangular) else found

    monkeypatch.setattr(
        batch,
        "batch_of",
        lambda op, *rest: (reversed_cores if isinstance(op, Blockwise) else axis.batch_of)(
            op, *rest
        ),
    )
    with pytest.raises(AssertionError):
        test_rows_of_an_accepted_form_are_those_of_its_model("whitened")


def test_mutant_that_takes_other_observations_for_data_is_caught(monkeypatch):
    whole = terms.batch_term
    monkeypatch.setattr(terms, "batch_term", lambda *settings: whole(*settings[:4]))
    with pytest.raises(AssertionError):
        test_a_refused_form_is_refused_with_its_reason("neighbours")


def test_mutant_without_the_look_for_sums_is_caught(monkeypatch):
    monkeypatch.setattr(batch, "_refuse_sums_over_rows", lambda walk: None)
    with pytest.raises(AssertionError):
        test_a_refused_form_is_refused_with_its_reason("centred")
