"""The one numba decorator of the package and the options that it owns."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(signature: Any = None, *, reassociate: bool = False) -> Callable[[Callable], Any]:
    """Compile a module-level function once per installation and keep it on disk.

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
    options = {
        "cache": True,
        "nogil": True,
        "error_model": "numpy",
        "fastmath": {"reassoc", "contract"} if reassociate else False,
    }
    if signature is None:
        return njit(**options)
    return njit(signature, **options)
