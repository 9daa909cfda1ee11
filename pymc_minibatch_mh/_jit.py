"""The one numba decorator of the package and the options that it owns."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache

_log = logging.getLogger("pymc")

#: Folder of source files -> whether numba keeps on disk what it compiles of them.
_KEPT: dict[Path, bool] = {}


def compiled(signature: Any = None, *, reassociate: bool = False) -> Callable[[Callable], Any]:
    """Compile a module-level function once per installation and keep it on disk.

    Where numba can write neither beside the sources nor to the user's cache, the function is
    compiled once per process.

    Parameters
    ----------
    signature
        Numba signature. With one, the function is compiled when its module is imported and can
        be handed around as a first-class function; without one, on its first call.
    reassociate
        Let LLVM reorder sums, which vectorises dot products. Never for differences of
        log-likelihoods, compensated sums or outward rounding.

    Returns
    -------
    Callable
        A decorator. The compiled function releases the GIL, follows IEEE semantics for division
        by zero, and must not raise: a first-class function cannot carry an exception to its
        caller.
    """

    def decorate(function: Callable) -> Any:
        return njit(
            signature,
            cache=_is_kept(function),
            nogil=True,
            error_model="numpy",
            fastmath={"reassoc", "contract"} if reassociate else False,
        )(function)

    return decorate


def _is_kept(function: Callable) -> bool:
    folder = Path(function.__code__.co_filename).parent
    if folder not in _KEPT:
        _KEPT[folder] = _has_cache(function)
    return _KEPT[folder]


def _has_cache(function: Callable) -> bool:
    """Ask numba for a place to keep a function in, and say once per process if there is none."""
    try:
        FunctionCache(function)
    except RuntimeError as reason:
        if all(_KEPT.values()):
            _log.warning(
                "Numba has no folder to keep compiled functions in (%s). They are compiled anew in "
                "every process, which takes half a minute. Set the environment variable "
                "NUMBA_CACHE_DIR to a folder that can be written to.",
                reason,
            )
        return False
    return True
