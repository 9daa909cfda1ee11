"""The function that the page on extending adds."""

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.tensor.elemwise import Elemwise

from pymc_minibatch_mh.bounds.jets import Jets
from pymc_minibatch_mh.functions.enclosures import enclose_derivatives
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.fixture
def softsign(tmp_path, monkeypatch):
    """The operation that the page writes down as a file."""
    page = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"would be:\n\n```python\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "softsign.py"
    path.write_text(code, encoding="utf-8")
    spec = spec_from_file_location("softsign", path)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "softsign", module)
    spec.loader.exec_module(module)
    return module.softsign


def test_its_derivative_is_right(softsign):
    x = pt.dscalar("x")
    y = Elemwise(softsign)(x)
    for here in (-3.0, -0.1, 0.7, 20.0):
        size = 1.0 + abs(here)
        assert float(y.eval({x: here})) == pytest.approx(here / size)
        assert float(pt.grad(y, x).eval({x: here})) == pytest.approx(size**-2)


def test_its_enclosures_hold_the_values_at_all_points(softsign):
    ends = np.sort(np.random.default_rng(1).normal(0.0, 3.0, (2, 500)), axis=0)
    enclosures = enclose_derivatives(softsign, Interval(*ends), 4)
    for x in np.linspace(*ends, 9):
        size, sign = 1.0 + np.abs(x), np.sign(x)
        exact = x / size, size**-2, -2 * sign * size**-3, 6 * size**-4, -24 * sign * size**-5
        for enclosure, value in zip(enclosures, exact, strict=True):
            assert ((enclosure.lo < value) & (value < enclosure.hi)).all()
    apart = (ends[0] > 0.0) | (ends[1] < 0.0)
    assert all(
        (np.isfinite(e.magnitude) == (apart | (n < 3))).all() for n, e in enumerate(enclosures)
    )


def test_rows_with_it_are_enclosed(softsign):
    x, y = np.random.default_rng(2).normal(0.0, 1.0, (2, 50))
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Normal("y", Elemwise(softsign)(x * slope), 1.0, observed=y)
    (function,) = row_functions(factorize(model, model.value_vars, min_rows=1))
    box = Interval(np.full(50, 0.4), np.full(50, 0.6))
    jet = Jets(RowData(function, np.arange(50)), [box], 3).of(function.root)
    assert all(np.isfinite(enclosure.magnitude).all() for enclosure in jet.values())
