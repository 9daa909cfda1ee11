"""Whether the remainders of a form's rows can be bounded. Nothing is compiled."""

import re
from dataclasses import dataclass

import numpy as np

from models.forms.form import Form
from models.forms.reading import parts_of
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.structure.row_function import row_functions

#: Rows of the model, and rows that its posterior is as narrow as that of.
ROWS, AS_NARROW_AS = 37, 10_000
ORDERS = (2, 1, 0)


@dataclass(frozen=True)
class Certificate:
    """The highest order of control variates with bounds, None without any, and why not 2."""

    order: int | None
    reason: str


def split_form(form: Form) -> Factorization:
    """Split the model that a certificate is sought for."""
    return parts_of(form.build(ROWS, mutable=True), form)


def certificate(parts: Factorization) -> Certificate:
    """Try to bound a form's rows around the origin of the unconstrained variables."""
    try:
        functions = row_functions(parts)
    except BoundsError as error:
        return Certificate(None, shortened(str(error)))
    reasons = []
    for order in ORDERS:
        search = BoundsPass(functions, reference(parts, order), (parts.lower, parts.upper))
        try:
            search.tables()
        except BoundsError as error:
            reasons.append(shortened(str(error)))
        else:
            return Certificate(order, reasons[0] if reasons else "")
    return Certificate(None, reasons[0])


def reference(parts: Factorization, order: int) -> Reference:
    """Return control variates around the origin, for a posterior of ordinary width."""
    size = parts.size
    width = np.eye(size) / np.sqrt(AS_NARROW_AS)
    nothing = np.zeros((size, size))
    centre = np.zeros(size)
    return Reference(centre, width, np.linalg.inv(width), centre, nothing, order, 1.0)


def shortened(message: str) -> str:
    """Return the cause of a refusal, without the variable and the ways on."""
    message = re.sub(r"^'[^']*' (has no proved bound: )?", "", message)
    message = re.sub(
        r"(goes through )(?:Blockwise\{)?(\w+).*?(?=, wh(?:ich|ose))", r"\1\2", message
    )
    message = re.sub(r"^in row \d+ ", "", message)
    return re.split(r"\. Use |, so no bound|; bounds are derived", message)[0]
