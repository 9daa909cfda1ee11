"""Random numbers of compiled code are those of NumPy, bit for bit, by every method in use."""

import ast
import platform
from pathlib import Path

import numpy as np
import pytest

import pymc_minibatch_mh
from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import integer_below, poisson

PACKAGE = Path(pymc_minibatch_mh.__file__).parent
EXAMPLES = PACKAGE.parent / "examples"
METHODS = {
    name
    for name, method in vars(np.random.Generator).items()
    if not name.startswith("_") and callable(method)
}
#: What compiles the functions that it decorates, or that it is called with.
COMPILERS = {"compiled", "njit", "OwnMove", "OwnTestMH", "role_of"}
#: NumPy's modules, whose functions have names of methods of generators.
MODULES = {"np", "math"}


@compiled()
def _random(rng, a, b, out):
    for i in range(out.size):
        out[i] = rng.random()


@compiled()
def _uniform(rng, a, b, out):
    for i in range(out.size):
        out[i] = rng.uniform(a, b)


@compiled()
def _standard_normal(rng, a, b, out):
    for i in range(out.size):
        out[i] = rng.standard_normal()


@compiled()
def _standard_exponential(rng, a, b, out):
    for i in range(out.size):
        out[i] = rng.standard_exponential()


@compiled()
def _standard_gamma(rng, a, b, out):
    for i in range(out.size):
        out[i] = rng.standard_gamma(a)


@compiled()
def _chisquare(rng, a, b, out):
    for i in range(out.size):
        out[i] = rng.chisquare(a)


@compiled()
def _integers(rng, a, b, out):
    low, high = np.int64(a), np.int64(b)
    half = out.size // 2
    for i in range(half):
        out[i] = rng.integers(low, high)
    out[half:] = rng.integers(low, high, out.size - half)


@compiled()
def _integers_below(rng, a, b, out):
    for i in range(out.size):
        out[i] = integer_below(rng, np.int64(b))


@compiled()
def _poisson(rng, a, b, out):
    for i in range(out.size):
        out[i] = poisson(rng, a)


@compiled()
def _poisson_of_numba(rng, a, b, out):
    for i in range(out.size):
        out[i] = rng.poisson(a)


SHAPES = [1e-8, 1e-3, 0.01, 0.1, 0.5, 0.99, 1.0, 1.01, 1.5, 2.0, 10.0, 1e3, 1e6, 1e9]
# Floats below 2^53 hold integers as they are.
SIZES = [1, 2, 3, 5, 1_000, 2**31, 3 * 2**30, 2**32 - 1, 2**32, 2**32 + 1, 2**40, 2**53 - 1]
#: Method that compiled functions may call -> the compiled stream, and its parameters.
STREAMS = {
    "random": (_random, [()]),
    "uniform": (_uniform, [(0.0, 1.0), (-1.0, 1.0), (1e-300, 1e300), (-1e9, 1e-9)]),
    "standard_normal": (_standard_normal, [()]),
    "standard_exponential": (_standard_exponential, [()]),
    "standard_gamma": (_standard_gamma, [(shape,) for shape in SHAPES]),
    "chisquare": (_chisquare, [(shape,) for shape in SHAPES]),
    "integers": (_integers, [(0, size) for size in SIZES] + [(-5, 7), (-(2**40), 2**40)]),
}
MEANS = [
    0.0, 1e-12, 0.1, 1.0, 5.0, 9.5, np.nextafter(10.0, 0.0), 10.0, 10.5, 11.0, 12.0, 15.0, 20.0,
    35.0, 100.0, 1e3, 1e5, 1e7, 1e9, 1e12, 1e15,
]  # fmt: skip
#: Stands before what the package calls in the place of a method of generators.
OWN = {
    "poisson": (_poisson, [(mean,) for mean in MEANS]),
    "integers": (_integers_below, [(0, size) for size in SIZES]),
}
CASES = [
    pytest.param(function, name, parameters, id=f"{function.__name__}{parameters}")
    for streams in (STREAMS, OWN)
    for name, (function, cases) in streams.items()
    for parameters in cases
]
#: Elsewhere compilers of NumPy fuse products and sums, or libraries round a logarithm otherwise.
BIT_FOR_BIT = (platform.system(), platform.machine()) == ("Linux", "x86_64")
ROUNDING = 0.0 if BIT_FOR_BIT else 1e-11
#: Draws of a case: seven in a million normal ones lie in the tails, which have a branch of theirs.
DRAWS = 200_000


def both(function, name, parameters):
    """Return what a compiled function draws and what NumPy does, and the next number of either."""
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    drawn = np.empty(DRAWS)
    function(ours, *map(float, (*parameters, 0.0, 0.0)[:2]), drawn)
    expected = getattr(theirs, name)(*parameters, size=DRAWS)
    return np.append(drawn, ours.random()), np.append(expected, theirs.random())


@pytest.mark.parametrize(("function", "name", "parameters"), CASES)
def test_compiled_numbers_are_those_of_numpy(function, name, parameters):
    np.testing.assert_allclose(*both(function, name, parameters), rtol=ROUNDING, atol=0.0)


def test_poisson_numbers_of_numba_are_others():
    """Else there would be no need of numbers of our own."""
    drawn, expected = both(_poisson_of_numba, "poisson", (10.0,))
    first = int(np.flatnonzero(drawn != expected)[0])
    assert drawn[first] == 0.0 < expected[first]


def name_of(node):
    """Return the last name of what is called or decorates."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def compiled_in(tree):
    """Yield the functions of a module that are compiled: decorated, or handed to a compiler."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and name_of(n) in COMPILERS]
    handed = {name_of(one) for call in calls for one in [*call.args]}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            decorators = {name_of(one) for one in function.decorator_list}
            if decorators & COMPILERS or function.name in handed:
                yield function


def called_in(source):
    """Return the methods of generators that compiled functions of a module call."""
    nodes = [node for function in compiled_in(ast.parse(source)) for node in ast.walk(function)]
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr in METHODS
        and name_of(node.value) not in MODULES
        # Settings have names of methods too.
        and (id(node) in called or name_of(node.value).endswith("rng"))
    }


def test_compiled_functions_call_no_method_without_a_comparison():
    files = [*PACKAGE.rglob("*.py"), *EXAMPLES.rglob("*.py")]
    called = {path: called_in(path.read_text(encoding="utf-8")) for path in files}
    assert {
        path.name: names - {*STREAMS} for path, names in called.items() if names - {*STREAMS}
    } == {}
    assert {"random", "standard_gamma", "chisquare", "integers"} <= set.union(*called.values())


def test_generators_of_numba_are_used_by_functions_that_are_compared():
    """What the package takes from inside of numba stands in `integer_below` and `poisson`."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert [name for name, source in sources.items() if "numba.np.random" in source] == ["draw.py"]
    taken = {
        one.name
        for node in ast.walk(ast.parse(sources["draw.py"]))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("numba.np.random")
        for one in node.names
    }
    assert taken == {"buffered_bounded_lemire_uint32", "random_loggam", "random_poisson_mult"}


@pytest.mark.parametrize(
    ("source", "called"),
    [
        ("@compiled(inlined=True)\ndef f(rng):\n    return rng.poisson(3.0)", {"poisson"}),
        ("def f(a, new, rng):\n    g = rng.beta\n    return g(1.0, 2.0)\nOwnMove(f)", {"beta"}),
        ("def f(rng):\n    return rng.choice(3)\ng = njit(f)", {"choice"}),
        ("@role_of(Test, 'decide')\ndef f(own):\n    return own.rng.gamma(2.0)", {"gamma"}),
        ("def f(rng):\n    return rng.poisson(3.0)", set()),
        ("@compiled()\ndef f(x):\n    return np.power(x, 2.0)", set()),
    ],
)
def test_methods_are_found(source, called):
    assert called_in(source) == called
