"""Custom tests on batches of observations, exact if they evaluate the full data."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import carray, cfunc, njit, types
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.checks import as_floats, check_positive
from pymc_minibatch_mh.data import code_digest
from pymc_minibatch_mh.native.library import LaidOut
from pymc_minibatch_mh.native.looks import BatchTest
from pymc_minibatch_mh.plan.method import Guarantee, Promise
from pymc_minibatch_mh.proposals.user_functions import compiled_once
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.batches import BatchMethod
from pymc_minibatch_mh.steps.settings import (
    SharedSettings,
    setting_field,
    takes_settings,
    value_check,
)


class CustomTest(NamedTuple):
    """Settings of a custom test; :class:`BarkerTest` documents the shared fields."""

    skewness: float
    third_moment: float
    kappa: float
    numbers: np.ndarray


class LinkedCustomTest(NamedTuple):
    """Kernel settings with compiled functions, ``mh_custom_test``."""

    #: Addresses of the compiled functions.
    sample_size: Any
    decide_batch: Any
    numbers: np.ndarray


_NUMBERS = types.CPointer(types.float64)


def _guarded_sample_size(plain: Callable[..., int]) -> Any:
    inner = njit(nogil=True, error_model="numpy")(plain)

    @cfunc(types.int64(types.float64, types.int64, types.int64, _NUMBERS, types.int64))
    def sample_size(noise, n, total, numbers, n_numbers):
        try:
            return inner(noise, n, total, carray(numbers, (n_numbers,)))
        except Exception:
            # At an error value C evaluates the full data, which the statistic full_pass counts.
            return -1

    return sample_size


def _guarded_decide_batch(plain: Callable[..., tuple[float, float, float]]) -> Any:
    inner = njit(nogil=True, error_model="numpy")(plain)
    look = *[types.float64] * 3, *[types.int64] * 2, types.float64

    @cfunc(types.int64(*look, _NUMBERS, types.int64, _NUMBERS))
    def decide_batch(log_ratio, variance, skewness, n, total, uniform, numbers, n_numbers, said):
        try:
            settings = carray(numbers, (n_numbers,))
            verdict, accept, error = inner(
                log_ratio, variance, skewness, n, total, uniform, settings
            )
        except Exception:
            # C has no exceptions: an error value stops the chain.
            return -1
        found = carray(said, (3,))
        found[0], found[1], found[2] = verdict, accept, error
        return 0

    return decide_batch


def _compile_function(name: str, function: Any, guarded: Callable[[Any], Any]) -> Any:
    plain = getattr(function, "py_func", function)
    words = f"{name}={getattr(plain, '__name__', plain)!r}"
    way = "with NumPy operations and loops only, and let it return floats."
    return compiled_once(words, way, plain, guarded)


@dataclass(frozen=True, eq=False)
class CustomTestMethod(BatchMethod):
    """Method of :class:`CustomTestMH`."""

    sample_size: Callable[..., int]
    decide_batch: Callable[..., tuple[float, float, float]]
    controls: str
    walk_target: float = 0.234
    _functions: tuple[Any, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        functions = (
            _compile_function("sample_size", self.sample_size, _guarded_sample_size),
            _compile_function("decide_batch", self.decide_batch, _guarded_decide_batch),
        )
        object.__setattr__(self, "_functions", functions)

    def __reduce__(self) -> tuple:
        made = partial(CustomTestMethod, full_pass_above=self.full_pass_above)
        functions = self.sample_size, self.decide_batch
        return made, (self.settings, *functions, self.controls, self.walk_target)

    @property
    def guarantee(self) -> Guarantee:
        """Approximate draws, with the controlled error as the user describes it."""
        return Guarantee(Promise.APPROXIMATE, self.controls)

    def linked(self, record: CustomTest) -> BatchTest:
        """Kernel settings with the functions compiled in this process."""
        settings = LaidOut("mh_custom_test", LinkedCustomTest(*self._functions, record.numbers))
        return BatchTest("mh_own_sample_size", "mh_own_decide", record.kappa, settings)


_check_controls = value_check(
    lambda value: isinstance(value, str) and value != "",
    "names no error. Say in words which one your test controls.",
)


@dataclass(frozen=True)
class CustomTestSettings(SharedSettings):
    """Settings of :class:`CustomTestMH`.

    Parameters
    ----------
    sample_size : function
        ``sample_size(noise, n, total, numbers) -> int``: batch size at the next look, after `n`
        observations. V(1/b - 1/N), with V `noise` and N `total`, is the predicted variance of the
        log ratio from b observations, the same for the forward and the reverse proposal.
        Observations that every update evaluates do not count. A size of `full_pass_above` or more
        means the full data.
    decide_batch : function
        ``decide_batch(log_ratio, variance, skewness, n, total, uniform, numbers)`` returns three
        floats: 1 to accept, 0 to reject or -1 for a larger batch; the acceptance probability; an
        error estimate. `uniform` is one number in [0, 1) for all looks; the full data have
        variance 0.
    controls : str
        The error that the test controls, in words.
    numbers : sequence of float
        Settings that both functions receive.
    walk_target : float
        Target acceptance of a random walk in warm-up.
    vars : list of variables, optional
        Variables to update; by default all continuous ones. Other steps update the rest.
    """

    # The step's key has digests of their code and globals, which numba freezes.
    sample_size: Callable[..., int] = setting_field(key=code_digest, described=False)
    decide_batch: Callable[..., tuple[float, float, float]] = setting_field(
        key=code_digest, described=False
    )
    _: KW_ONLY
    controls: str = setting_field(_check_controls)
    numbers: Sequence[float] = setting_field(as_floats, default=())
    walk_target: float = setting_field(check_positive, default=0.234)
    vars: Sequence[Variable] | None = setting_field(default=None, described=False)


class CustomTestMH(MinibatchStep):
    """Minibatch Metropolis–Hastings with a custom acceptance test.

    Guarantee: *approximate*. You name the error that your test controls, and :func:`audit` measures
    its effect. Numba compiles both functions; the page "Extending" has an example.

    Raises
    ------
    SettingError
        If numba cannot compile a function.
    """

    name = "custom_test_mh"

    @takes_settings(CustomTestSettings)
    def __init__(self, settings: CustomTestSettings) -> None:
        functions = settings.sample_size, settings.decide_batch
        numbers = np.array(settings.numbers, dtype=np.float64)
        test, target = CustomTest(0.0, 1.0, np.inf, numbers), settings.walk_target
        self._prepare(settings, CustomTestMethod(test, *functions, settings.controls, target))
