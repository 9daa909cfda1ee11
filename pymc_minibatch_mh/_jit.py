"""The package's numba decorator: for functions that PyTensor compiles into those of a model."""

from collections.abc import Callable
from typing import Any

from numba import config, njit
from numba.core import event

from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.progress import compiling


def compiled(signature: Any = None, *, inlined: bool = False) -> Callable[[Callable], Any]:
    """Compile a function by numba, for a signature or for all types that it is called with.

    It releases the GIL, and divides by zero as IEEE has it. An `inlined` one is compiled into its
    callers. Functions are kept on disk with the functions of a model that call them.
    """
    if config.DISABLE_JIT:
        raise MinibatchError(
            "NUMBA_DISABLE_JIT turns numba's compiler off, but this package needs it. Unset that "
            "environment variable, and start Python anew."
        )
    return njit(signature, nogil=True, error_model="numpy", forceinline=inlined)


class _Watch(event.Listener):
    """Has the line of progress say that numba compiles, PyTensor's functions included."""

    _depth = 0

    def on_start(self, _: Any) -> None:
        """Begin a function, or one that another calls."""
        self._depth += 1
        if self._depth == 1:
            compiling(True)

    def on_end(self, _: Any) -> None:
        """End it."""
        self._depth -= 1
        if self._depth == 0:
            compiling(False)


event.register("numba:compile", _Watch())
