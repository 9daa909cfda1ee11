"""The package's numba decorator, for functions that PyTensor compiles into a model's functions."""

from collections.abc import Callable
from typing import Any

from numba import config, njit
from numba.core import event

from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.progress import show_compiling


def compile_by_numba(*, inlined: bool = False) -> Callable[[Callable], Any]:
    """Compile a function with numba, at the first call with each combination of argument types.

    The function releases the GIL and follows IEEE for division by zero. With `inlined` it is
    compiled into its callers. The disk cache stores it with the functions of a model that call it.
    """
    if config.DISABLE_JIT:
        raise MinibatchError(
            "NUMBA_DISABLE_JIT turns numba's compiler off, but this package needs it. Unset that "
            "environment variable, and start Python anew."
        )
    return njit(nogil=True, error_model="numpy", forceinline=inlined)


class _Watch(event.Listener):
    """Listener that shows numba's compilations, including PyTensor's, in the progress line."""

    _depth = 0

    def on_start(self, _: Any) -> None:
        """Count the start of a compilation, which may be nested."""
        self._depth += 1
        if self._depth == 1:
            show_compiling(True)

    def on_end(self, _: Any) -> None:
        """Count the end of a compilation."""
        self._depth -= 1
        if self._depth == 0:
            show_compiling(False)


event.register("numba:compile", _Watch())
