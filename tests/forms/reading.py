"""Whether a form is read rightly, in Python mode: nothing is compiled."""

import numpy as np
import pytensor
import pytensor.tensor as pt

from forms.form import Form
from model.reading.evaluation import pieces
from pymc_minibatch_mh.errors import UnsplittableModelError
from pymc_minibatch_mh.model.reading.derived import IN_PYTHON
from pymc_minibatch_mh.model.reading.dims import plain
from pymc_minibatch_mh.model.reading.precision import in_double
from pymc_minibatch_mh.model.reading.split import Split, split

#: Rows that are read as a batch, one of them twice.
BATCH = (2, 0, 1, 2)


# Without it PyMC compiles the initial points of some variables; tracing each variable takes longer
# than making it.
@pytensor.config.change_flags(cxx="", traceback__limit=0)
def parts_of(model, form: Form) -> Split:
    """Split a form's model."""
    continuous = [v for v in model.value_vars if np.dtype(v.dtype).kind == "f"]
    settings = {"min_rows": 1, **dict(form.settings)}
    return split(model, continuous, list(form.observed) or None, **settings)


def position_of(parts: Split) -> np.ndarray:
    """Return a position that is special in nothing."""
    return np.random.default_rng(5).normal(scale=0.3, size=parts.size)


@pytensor.config.change_flags(cxx="", traceback__limit=0)
def assert_form_is_read_rightly(form: Form, rows: int, *, mutable: bool) -> Split:
    """Compare a batch, all rows and their sum with the model's own log-density.

    Returns the model as it was split.
    """
    model = form.build(rows, mutable=mutable)
    parts = parts_of(model, form)
    position = position_of(parts)
    evaluate = evaluator(model, parts, [form.axis] * len(parts.terms))
    for some in (True, False):
        numbers = [np.array(BATCH) if some else np.arange(term.n_rows) for term in parts.terms]
        total, prior, *found = evaluate(position, numbers)
        batches, wholes = found[: len(numbers)], found[len(numbers) :]
        for term, chosen, batch, whole in zip(parts.terms, numbers, batches, wholes, strict=True):
            assert whole.shape == (term.n_rows,)
            assert np.isfinite(whole).all()
            np.testing.assert_allclose(batch, whole[chosen], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(prior + sum(map(np.sum, batches)), total, rtol=1e-10)
    return parts


def evaluator(model, parts: Split, axes: list[int]):
    """Return the function of a position and row numbers that evaluates all there is to compare.

    It returns the model's log-density, the prior part, the log-likelihoods of the rows of each
    term as they were rebuilt, and those of all rows from the model's own graph.
    """
    logps = dict(zip(model.basic_RVs, model.logp(model.basic_RVs, sum=False), strict=True))
    total = sum(plain(logp).sum() for logp in logps.values())
    total += sum(plain(factor).sum() for factor in model.logp(model.potentials, sum=False))
    inputs = [*model.value_vars, parts.position]
    wholes = []
    for term, axis in zip(parts.terms, axes, strict=True):
        inputs += [term.length, *(batch for _, batch in term.batches)]
        rows_first = pt.moveaxis(plain(logps[model[term.name]]), axis, 0)
        wholes.append(in_double(rows_first.sum(axis=tuple(range(1, rows_first.type.ndim)))))
    outputs = [in_double(total), parts.prior, *(term.logp for term in parts.terms), *wholes]
    function = pytensor.function(inputs, outputs, mode=IN_PYTHON, on_unused_input="ignore")

    def values(position: np.ndarray, numbers: list[np.ndarray]) -> list[np.ndarray]:
        given = [*pieces(parts, position), position]
        for term, chosen in zip(parts.terms, numbers, strict=True):
            given.append(len(chosen))
            given += [c.rows_first[chosen].astype(batch.dtype) for c, batch in term.batches]
        with np.errstate(all="ignore"):
            return function(*given)

    return values


def refusal_of(form: Form, rows: int, *, mutable: bool) -> str:
    """Return the message that a form is refused with, empty if it is not."""
    try:
        parts_of(form.build(rows, mutable=mutable), form)
    except UnsplittableModelError as error:
        return str(error)
    return ""
