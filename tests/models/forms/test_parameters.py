"""A parameter that is given is bounded as it is free, however it is given."""

import numpy as np
import pytensor
import pytest

from helpers.tiers import fast
from model.evaluation import positions, split_of, whole_rows
from models.forms.certificate import certificate
from models.forms.parameters import FAMILIES, FREE, SPELLINGS
from pymc_minibatch_mh.structure.row_function import row_functions
from structure.recomposed import put_together

CASES = [(name, parameter) for name, one in FAMILIES.items() for parameter in one.parameters]
#: Functions of a normal distribution, in which branches are equal but for rounding.
FAST = [(name, "sigma") for name in ("censored", "truncated", "brackets", "ex_gaussian")]


def read(model):
    """Return how far a model's rows are bounded, after comparing them with PyMC's."""
    parts = split_of(model)
    for position in positions(parts, 2):
        whole = whole_rows(model, parts, "y")(position)
        (function,) = row_functions(parts)
        np.testing.assert_allclose(put_together(function, position), whole, rtol=1e-9, atol=1e-11)
    return certificate(parts)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytensor.config.change_flags(cxx="", traceback__limit=0)
@pytest.mark.parametrize("others", [FREE, "number"])
@pytest.mark.parametrize(("name", "parameter"), fast(CASES, FAST))
def test_bounds_do_not_ask_how_a_parameter_is_given(name, parameter, others):
    family = FAMILIES[name]
    free = read(family.model(parameter, FREE, others))
    given = [read(family.model(parameter, spelling, others)) for spelling in SPELLINGS]
    orders = [one.order for one in given]
    assert len(set(orders)) == 1, given
    assert orders[0] is free.order or orders[0] >= (free.order or 0), (free, given)
