"""Tests of the library, called with numbers: verdicts are 1 to accept, 0 to reject, -1 to go on."""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit, vectorize

from pymc_minibatch_mh.native.library import LaidOut, dtype_of, ffi, function, load_library
from pymc_minibatch_mh.native.moves import Move

_LIBRARY = load_library()
_VERDICTS = {
    _LIBRARY.MH_REJECT: 0.0,
    _LIBRARY.MH_ACCEPT: 1.0,
    _LIBRARY.MH_READ_MORE: -1.0,
}
#: Settings by their identity, which nothing else can have while they are here; and laid out.
_LAID_OUT = {}


def laid_out(test):
    """Return the settings of a test as the library has them."""
    known = _LAID_OUT.get(id(test))
    if known is None:
        known = _LAID_OUT[id(test)] = test, LaidOut(test.LAYOUT, test)
    return known[1].at


def sample_size(noise, n, total, test):
    """Return the rows of the look of a test on batches after one at `n` of `total` rows."""
    return getattr(_LIBRARY, test.sample_size)(laid_out(test), noise, n, total)


def decide_batch(log_ratio, variance, skewness, n, total, uniform, test):
    """Return the verdict of a test on batches, the acceptance probability and the error."""
    look = ffi.new("mh_look *", (log_ratio, variance, skewness, n, total, uniform))
    said = ffi.new("mh_verdict *")
    assert getattr(_LIBRARY, test.decide_batch)(laid_out(test), look, said) == _LIBRARY.MH_OK
    return _VERDICTS[said.verdict], said.probability, said.error


def barker_probability(log_ratio, variance, test):
    """Return P(D* + X_nc + X_corr > 0)."""
    return _LIBRARY.mh_barker_probability(log_ratio, variance, laid_out(test))


def barker_error(variance, skewness, n, total, test):
    """Return the error that Barker's test estimates of itself."""
    return _LIBRARY.mh_barker_error(variance, skewness, n, total, laid_out(test))


def penalty_error(variance, skewness, n, total, test):
    """Return the error that the penalty test estimates of itself."""
    look = ffi.new("mh_look *", (0.0, variance, skewness, n, total, 0.5))
    return _LIBRARY.mh_penalty_error(look, laid_out(test))


def rate(size, test):
    """Return the expected number of rows of a Poisson test in a move of `size` C M."""
    return size * (1.0 + test.chi * size)


def thin(change, bound, size, test):
    """Return the probability of keeping a drawn row, and what a kept one adds to the log ratio."""
    found = ffi.new("double[2]")
    _LIBRARY.mh_thin(change, bound, size, laid_out(test), found, found + 1)
    return found[0], found[1]


def next_rows(n, total, most_drawn, test):
    """Return the rows of the look of the confidence sampler after one at `n` rows."""
    return _LIBRARY.mh_confidence_rows(n, total, most_drawn, laid_out(test))


def level(look, test):
    """Return the probability that a look of the confidence sampler decides wrongly."""
    return _LIBRARY.mh_confidence_level(look, laid_out(test))


def decide_by_width(log_ratio, width, uniform):
    """Return verdict and acceptance probability of the confidence sampler."""
    said = ffi.new("mh_verdict *")
    _LIBRARY.mh_confidence_decide(log_ratio, width, uniform, said)
    return _VERDICTS[said.verdict], said.probability


def skewness(n, second, third):
    """Return the sample skewness, by central sums."""
    return _LIBRARY.mh_skewness(ffi.new("mh_moments *", (n, 0.0, second, third)))


def predicted_noise(move, reference, kappa):
    """Return the predicted variance V of a move."""
    return function("mh_predicted_noise")(move, reference, kappa)


def scan_rows(posterior, move):
    """Return mean, variance and largest absolute value of all rows' differences."""
    found = np.empty((3, 1))
    function("mh_scan_rows")(posterior, move, *found)
    return tuple(found[:, 0])


# Compiled by numba, for sums over very many batches.


def _ctypes(name, result, *arguments):
    address = int(ffi.cast("intptr_t", getattr(_LIBRARY, name)))
    return ctypes.CFUNCTYPE(result, *arguments)(address)


_by_width = _ctypes("mh_confidence_decide", None, *[ctypes.c_double] * 3, ctypes.c_void_p)
_READ_MORE = _LIBRARY.MH_READ_MORE


@vectorize
def accept_many(cheap, log_product, delayed):
    """Return acceptance probabilities of a Poisson test."""
    log_ratio = cheap + log_product
    if not log_ratio > -np.inf:
        return 0.0
    return np.exp(min(0.0, cheap) + min(0.0, log_product) if delayed else min(0.0, log_ratio))


@njit
def _verdict_of(said):
    verdict = said[:1].view(np.int64)[0]
    return -1.0 if verdict == _READ_MORE else float(verdict)


@vectorize
def verdict_by_width(log_ratio, width, uniform):
    """Return verdicts of the confidence sampler."""
    said = np.empty(3)
    _by_width(log_ratio, width, uniform, said.ctypes)
    return _verdict_of(said)


@cache
def decide_at_once(name):
    """Return :func:`decide_batch` of a test for compiled code, which takes :func:`as_bytes`."""
    decide = _ctypes(name, ctypes.c_int, *[ctypes.c_void_p] * 3)

    @njit
    def decide_batch(log_ratio, variance, skewness, n, total, uniform, settings):
        look, said = np.empty(6), np.empty(3)
        look[0], look[1], look[2], look[5] = log_ratio, variance, skewness, uniform
        whole = look.view(np.int64)
        whole[3], whole[4] = n, total
        decide(settings.ctypes, look.ctypes, said.ctypes)
        return _verdict_of(said), said[1], said[2]

    return decide_batch


def as_bytes(test):
    """Return the settings of a test in the library's memory."""
    return np.frombuffer(ffi.buffer(laid_out(test)), np.uint8)


def expansion_change(reference, position, new):
    """Return by how much the expansion of the likelihood changes, tempered."""
    change = np.empty(1)
    assert function("mh_expansion_change")(reference, position, new, change) == 0
    return change[0]


#: Rounding error of a difference of log-likelihoods, in units of the larger of them: moves.c.
ULPS = 64 * 2.220446049250313e-16


class Products(NamedTuple):
    """Inner products of a move in whitened coordinates: |a|², |a'|², |b|², a·b and a'·b."""

    here: float
    there: float
    step: float
    along_here: float
    along_there: float


def move_between(reference: Any, position: np.ndarray, new: np.ndarray) -> Move:
    """Return the move between two positions."""
    move = Move(position, new, *(np.empty(new.size) for _ in range(3)))
    ends = (position, reference.centre), (new, reference.centre), (new, position)
    for (end, start), out in zip(ends, move[2:], strict=True):
        scratch = np.empty(new.size)
        function("mh_whiten")(reference.whitener, end, start, new.size, scratch, out)
    return move


def products(move: Move) -> Products:
    """Return the inner products of a move."""
    out = np.empty(1, dtype_of("mh_products"))
    function("mh_products_of_move")(move, move.step.size, out)
    return Products(*out[0].item())


def size_of_move(dots: Products, order: int, kind: int) -> float:
    """Return M for control variates of an order and a kind of table."""
    return function("mh_size_of_move")(dots, order, kind)


def ratio_to_bound(difference: float, scale: float, bound: float, beta: float) -> float:
    """Return |dU_i| / (c_i M), rounding errors of the difference taken off."""
    return function("mh_ratio_to_bound")(difference, scale, bound, beta)
