"""Functions of tests in C, compiled as those of the library are, by their addresses."""

import ctypes
from functools import cache
from pathlib import Path

from pymc_minibatch_mh.native.compiler import compile_file


@cache
def library(source: Path) -> ctypes.CDLL:
    """Return what a file compiles to."""
    return ctypes.CDLL(str(compile_file(source)))


def address(source: Path, name: str) -> int:
    """Return where a function of a file is; what is compiled is never forgotten."""
    found = ctypes.cast(getattr(library(source), name), ctypes.c_void_p).value
    assert found is not None
    return found
