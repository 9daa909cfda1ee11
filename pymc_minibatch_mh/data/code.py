"""Digests of users' functions, which tell them from others in every process."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from pymc_minibatch_mh.data.contents import digest


def code_digest(function: Callable[..., Any]) -> str:
    """Return the digest of what a function does: code, defaults, and what it uses and calls.

    Parameters
    ----------
    function
        A Python function, or one that numba has compiled.
    """
    return sha256("\n".join(_function(function, set())).encode()).hexdigest()[:16]


def _function(function: Any, seen: set[int]) -> Iterator[str]:
    plain = getattr(function, "py_func", function)
    if not isinstance(plain, FunctionType) or id(plain) in seen:
        yield type(plain).__name__
        return
    seen.add(id(plain))
    yield from _code(plain.__code__)
    used = [plain.__globals__.get(name) for name in plain.__code__.co_names]
    used += [cell.cell_contents for cell in plain.__closure__ or ()]
    for value in (*used, *(plain.__defaults__ or ())):
        yield from _value(value, seen)


def _value(value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiubc":
        yield digest(value)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _value(part, seen)
    elif isinstance(value, frozenset):
        yield repr(sorted(map(repr, value)))
    elif isinstance(value, FunctionType) or hasattr(value, "py_func"):
        yield from _function(value, seen)
    elif isinstance(value, bool | int | float | complex | str | bytes | np.generic | None):
        yield repr(value)


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield from _value(constant, set())
