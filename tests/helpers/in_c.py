"""Functions of tests in C, compiled as those of the library are, by their addresses."""

import ctypes
from functools import cache
from pathlib import Path

import pytest

from pymc_minibatch_mh.native import compiler


def require_compiler() -> None:
    """Skip the tests of a module whose functions in C cannot be compiled here."""
    if next(compiler.find_compilers(), None) is None and compiler.zig_compiler() is None:
        pytest.skip("there is no C compiler", allow_module_level=True)


@cache
def library(source: Path) -> ctypes.CDLL:
    """Return what a file compiles to."""
    require_compiler()
    return ctypes.CDLL(str(compiler.compile_file(source)))


def address(source: Path, name: str) -> int:
    """Return where a function of a file is; what is compiled is never forgotten."""
    found = ctypes.cast(getattr(library(source), name), ctypes.c_void_p).value
    assert found is not None
    return found
