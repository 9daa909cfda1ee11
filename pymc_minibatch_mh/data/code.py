"""Digests of users' functions, which tell them from others in every process."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from types import CodeType
from typing import Any

#: What is compared by what it is, and not by where it lies.
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def code_digest(function: Callable[..., Any]) -> str:
    """Return the digest of what a function does: its code, defaults, and the numbers that it uses.

    Of what it calls, the names count and not the code.

    Parameters
    ----------
    function
        A Python function; of something else that can be called, its type counts.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return sha256(repr(type(function)).encode()).hexdigest()[:16]
    parts = [*_code(code), repr(function.__defaults__)]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    known = [function.__globals__.get(name) for name in code.co_names]
    parts += [repr(value) for value in (*cells, *known) if isinstance(value, _PLAIN)]
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield repr(constant)
