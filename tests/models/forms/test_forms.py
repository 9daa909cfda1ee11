"""Every form of the catalogue is read rightly or refused with its reason, and the page says so."""

import re
from functools import cache

import pymc as pm
import pytest

from docs.tools.forms_page import line, table, without_variable
from helpers.tiers import fast
from model.evaluation import assert_read_rightly, split_of
from models.forms.catalogue import ACCEPTED, FORMS, REFUSED, SECTIONS
from models.forms.certificate import ROWS
from models.forms.odd import ODD, READ, Data
from models.forms.odd import REFUSED as MIXED
from models.forms.page import MARKERS, PAGE, between
from models.forms.reading import assert_form_is_read_rightly, refusal_of
from pymc_minibatch_mh.errors import UnsupportedModelError
from pymc_minibatch_mh.structure.row_function import row_functions
from structure.recomposed import assert_rows_are

# PyMC's own call, for a pm.MatrixNormal.
pytestmark = pytest.mark.filterwarnings("ignore:pytensor.tensor.linalg.trace:FutureWarning")

#: Every third form, of every section; their neighbours are of the slow tier.
FAST = [*ACCEPTED][::3]


def line_on_the_page(form):
    """Return what the page says of a form: the line that begins with its name, in its section."""
    section = between(PAGE.read_text(encoding="utf-8"), MARKERS).split(f"## {form.section}\n")[1]
    lines = section.split("\n## ")[0].splitlines(keepends=True)
    return "".join(text for text in lines if text.startswith(f"| {form.name} |"))


@cache
def read(name):
    """Compare what is read of a form with its model, and return it."""
    form = ACCEPTED[name]
    parts, known = assert_form_is_read_rightly(form, ROWS, mutable=True)
    if "| yes | no |" not in line_on_the_page(form):
        assert_rows_are(row_functions(parts), known)
    return parts


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", fast(ACCEPTED, FAST))
def test_accepted_forms_are_read_rightly(name):
    read(name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", fast(ACCEPTED, FAST[::2]))
def test_accepted_forms_are_certified_as_the_page_says(name):
    form = ACCEPTED[name]
    assert line(form, read(name)) == line_on_the_page(form)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_form_is_refused_with_its_reason(name):
    form = REFUSED[name]
    assert line(form) == line_on_the_page(form)
    assert re.fullmatch(r"'.*\.", refusal_of(form, ROWS, mutable=False), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("mutable", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_forms_are_read_or_refused_where_lengths_coincide(name, mutable):
    form = FORMS[name]
    if not form.refused:
        assert_form_is_read_rightly(form, form.trap, mutable=mutable)
        return
    # Names of data and numbers of rows apart, the reason is that of other lengths.
    reasons = [
        re.split(r"['\d]", without_variable(refusal_of(form, rows, mutable=mutable)))[0]
        for rows in (form.trap, ROWS)
    ]
    assert reasons[0] == reasons[1] != ""


@pytest.mark.parametrize("rows", fast([7, 2, 1], [7]))
@pytest.mark.parametrize("name", ODD)
def test_an_odd_form_is_read_rightly_or_refused(name, rows):
    declare, outcome = ODD[name]
    with pm.Model() as model:
        declare(Data(rows))
    refusal = ""
    try:
        parts = split_of(model)
    except UnsupportedModelError as error:
        refusal = str(error)
    if refusal:
        assert refusal.startswith("'y' ")
        assert outcome != READ or rows < 3
        return
    assert outcome != MIXED or rows == 1
    assert {term.name for term in parts.terms} == {rv.name for rv in model.observed_RVs}
    known = assert_read_rightly(model, parts)
    if outcome == READ and name != "square_observations":
        assert_rows_are(row_functions(parts), known)


def test_the_catalogue_is_broad():
    assert len(ACCEPTED) >= 45
    assert len(REFUSED) >= 25
    assert len(FORMS) == sum(len(section.forms) for section in SECTIONS)
    assert [outcome for _, outcome in ODD.values()].count(READ) >= 20


def test_the_page_holds_every_form_and_nothing_else():
    page = PAGE.read_text(encoding="utf-8")
    assert between(page, MARKERS) == table(line_on_the_page)
