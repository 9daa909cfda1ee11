"""Whether a form is read rightly, in Python mode: nothing is compiled."""

import numpy as np
import pytensor

from model.evaluation import assert_read_rightly
from models.forms.form import Form
from pymc_minibatch_mh.errors import UnsupportedModelError
from pymc_minibatch_mh.model.factorization import Factorization, factorize


# Without it PyMC compiles the initial points of some variables; tracing each variable takes longer
# than making it.
@pytensor.config.change_flags(cxx="", traceback__limit=0)
def parts_of(model, form: Form) -> Factorization:
    """Split a form's model."""
    continuous = [v for v in model.value_vars if np.dtype(v.dtype).kind == "f"]
    settings = {"min_rows": 1, **dict(form.settings)}
    return factorize(model, continuous, list(form.observed) or None, **settings)


@pytensor.config.change_flags(cxx="", traceback__limit=0)
def assert_form_is_read_rightly(
    form: Form, rows: int, *, mutable: bool
) -> tuple[Factorization, list[tuple[np.ndarray, list[np.ndarray]]]]:
    """Compare what is read of a form with its model.

    Returns what is read, and some positions with the log-likelihoods of all rows there.
    """
    model = form.build(rows, mutable=mutable)
    parts = parts_of(model, form)
    return parts, assert_read_rightly(model, parts, form.axis)


def refusal_of(form: Form, rows: int, *, mutable: bool) -> str:
    """Return the message that a form is refused with, empty if it is not."""
    try:
        parts_of(form.build(rows, mutable=mutable), form)
    except UnsupportedModelError as error:
        return str(error)
    return ""
