"""Every form of the catalogue is read rightly or refused with its reason, and the page says so."""

import pytest
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular

from forms.catalogue import ACCEPTED, FORMS, REFUSED, SECTIONS
from forms.certificate import ROWS
from forms.reading import assert_form_is_read_rightly, refusal_of
from forms.table import MARKERS, PAGE, between, line, table
from pymc_minibatch_mh.model.reading import axis, batch, terms

# PyMC's own call, for a pm.MatrixNormal.
pytestmark = pytest.mark.filterwarnings("ignore:pytensor.tensor.linalg.trace:FutureWarning")


def sizes(form):
    """Return numbers of rows, and whether data are in pm.Data."""
    return ((ROWS, True), (form.trap, False), (form.trap, True))


def assert_rows_are_those_of_the_model(form):
    """Return the form's model as it is split without a trap."""
    split = [assert_form_is_read_rightly(form, rows, mutable=data) for rows, data in sizes(form)]
    return split[0]


def assert_refused_with_its_reason(form):
    for rows, mutable in sizes(form):
        message = refusal_of(form, rows, mutable=mutable)
        assert message.startswith(form.reason)
        assert message.endswith(".")


def line_on_the_page(form):
    """Return what the page says of a form: the line that begins with its name, in its section."""
    section = between(PAGE.read_text(encoding="utf-8"), MARKERS).split(f"### {form.section}\n")[1]
    lines = section.split("\n### ")[0].splitlines(keepends=True)
    return "".join(text for text in lines if text.startswith(f"| {form.name} |"))


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_accepted_form_is_read_rightly_and_as_the_page_says(name):
    form = ACCEPTED[name]
    parts = assert_rows_are_those_of_the_model(form)
    assert line(form, parts) == line_on_the_page(form)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_form_is_refused_with_its_reason(name):
    assert_refused_with_its_reason(REFUSED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_the_page_has_the_reason_of_a_refusal(name):
    assert line(REFUSED[name]) == line_on_the_page(REFUSED[name])


def test_the_catalogue_is_broad():
    assert len(ACCEPTED) >= 45
    assert len(REFUSED) >= 25
    assert len(FORMS) == sum(len(section.forms) for section in SECTIONS)
    assert len({(form.section, form.name) for form in FORMS.values()}) == len(FORMS)


def test_the_page_holds_every_form_and_nothing_else():
    page = PAGE.read_text(encoding="utf-8")
    assert between(page, MARKERS) == table(line_on_the_page)


# Without one safeguard each, a form is read wrongly, or accepted that must not be.


def test_mutant_that_reads_computed_data_backwards_is_caught(monkeypatch):
    computed = batch.computed
    monkeypatch.setattr(batch, "computed", lambda variable: computed(variable)[::-1])
    with pytest.raises(AssertionError):
        assert_rows_are_those_of_the_model(FORMS["rows_of_data"])


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
        assert_rows_are_those_of_the_model(FORMS["whitened"])


def test_mutant_that_takes_other_observations_for_data_is_caught(monkeypatch):
    whole = terms.batch_term
    monkeypatch.setattr(terms, "batch_term", lambda *settings: whole(*settings[:4]))
    with pytest.raises(AssertionError):
        assert_refused_with_its_reason(FORMS["neighbours"])


def test_mutant_without_the_look_for_sums_is_caught(monkeypatch):
    monkeypatch.setattr(batch, "_refuse_sums_over_rows", lambda walk: None)
    with pytest.raises(AssertionError):
        assert_refused_with_its_reason(FORMS["centred"])
