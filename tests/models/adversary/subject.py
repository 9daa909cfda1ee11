"""A random model under trial: its rows by the package, and by PyMC alone."""

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import toposort

from compiled.fitted import run
from helpers.in_library import ULPS
from model.evaluation import pieces
from pymc_minibatch_mh.compiled.form_rows import FormRows, evaluate_predictors
from pymc_minibatch_mh.compiled.graphs import row_source
from pymc_minibatch_mh.model.check import rounding_error, stabilise_graph
from pymc_minibatch_mh.model.constant_data import with_double_constants
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

# The rewrites that keep digits, without which PyMC's own graph is no reference; run in Python.
STABLE = Mode(
    linker="py",
    optimizer=RewriteDatabaseQuery(
        include=["canonicalize", "stabilize", "specialize"],
        exclude=["fusion", "inplace", "BlasOpt", "cxx_only"],
    ),
)


def quietly(function, *values):
    """Call a compiled function without NumPy's warnings of what is not finite."""
    with np.errstate(all="ignore"):
        return function(*values)


class Subject:
    """A model with one likelihood ``y``, split and unsplit.

    Parameters
    ----------
    model
        The model.
    """

    def __init__(self, model):
        self.model = model
        self.parts = factorize(model, model.value_vars, min_rows=1)
        (self.term,) = self.parts.terms
        # Compiled by PyMC, which makes switches to -inf of its checks of parameters.
        (rows,) = model.logp(vars=[model["y"]], sum=False)
        self._own = model.compile_fn(
            [with_double_constants(model.logp()), with_double_constants(rows)], mode=STABLE
        )
        self._rows = rows
        batches = [batch for _, batch in self.term.batches]
        self._batch = self._function([self.parts.position, self.term.length, *batches], self.term)

    def _function(self, inputs, term):
        outputs = [with_double_constants(term.logp), self.parts.prior]
        return pytensor.function(inputs, outputs, mode=STABLE, on_unused_input="ignore")

    def point(self, position):
        """Return a position as PyMC's functions take it."""
        names = [block.name for block in self.parts.blocks]
        return dict(zip(names, pieces(self.parts, position), strict=True))

    def density(self, position):
        """Return the log-density of the whole model, by PyMC alone."""
        return float(quietly(self._own, self.point(position))[0])

    def rows(self, position):
        """Return the log-likelihood of every row, by PyMC alone."""
        _, values = quietly(self._own, self.point(position))
        return np.asarray(values, dtype=np.float64).reshape(self.term.n_rows, -1).sum(axis=1)

    def rounding(self, position, row):
        """Return the rounding error that PyMC's log-likelihood of one row may have.

        It is infinite where an intermediate result is, as is the logarithm of what is left of a
        probability that rounds to 1.
        """
        one = stabilise_graph(
            with_double_constants(self._rows).reshape((self.term.n_rows, -1))[row].sum()
        )
        results = [x for node in toposort([one]) for x in node.outputs if x.type.dtype == "float64"]
        lost = pt.any([pt.any(pt.isinf(x)) for x in results])
        error = pt.switch(lost, np.inf, rounding_error(one))
        inputs = [block.variable for block in self.parts.blocks]
        plain = Mode(linker="py", optimizer=None)
        function = pytensor.function(inputs, error, mode=plain, on_unused_input="ignore")
        return float(quietly(function, *pieces(self.parts, position)))

    def batch(self, position, rows):
        """Return the log-likelihood of some rows and the prior part, as they were split."""
        data = [column.rows_first[rows].astype(b.dtype) for column, b in self.term.batches]
        values, prior = quietly(self._batch, position, len(rows), *data)
        return np.asarray(values), float(prior)


class Formed:
    """The row function of a subject, compiled.

    Parameters
    ----------
    subject
        The model, whose rows are functions of a few linear forms.
    """

    def __init__(self, subject):
        self.subject = subject
        (self.function,) = row_functions(subject.parts)
        self.compiled = FormRows([self.function], subject.parts.size)
        self.source = row_source(subject.parts)
        n = np.arange(subject.term.n_rows)
        data = RowData(self.function, n)
        columns = [np.broadcast_to(data.value(x), n.size) for x in self.compiled.leaves[0]]
        self._leaves = np.stack([np.empty(n.size), *columns], axis=1)[:, 1:].astype(np.float64)
        self._numbers = n

    def arguments(self, position):
        """Return the arguments of every row at a position, or of a direction, shape (n, m)."""
        factor = np.eye(position.size)
        return evaluate_predictors(
            self.function, self._numbers, position, factor, directions=False
        ).values

    def values(self, position):
        """Return the log-likelihood of every row."""
        m = len(self.function.arguments)
        width = 1 + m + m * (m + 1) // 2
        (slopes,) = self.compiled.slopes()
        return run(slopes, self.arguments(position), self._leaves, width=width)[:, 0]

    def changes(self, here, there, order=0, centre=None):
        """Return what the remainder of every row changes by in a move, and its error."""
        centre = np.zeros(here.size) if centre is None else centre
        ends = [self.arguments(x) for x in (centre, here - centre, there - centre)]
        (differences,) = self.compiled.differences(order)
        change, doubt = run(differences, *ends, self._leaves, width=2).T
        return change, ULPS * doubt
