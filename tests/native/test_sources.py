"""Compilers have nothing to say about the C sources, and functions are short."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from pymc_minibatch_mh.native import compiler

SOURCES = sorted(compiler.FOLDER.glob("*.c"))
WARNINGS = (
    "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wmissing-prototypes", "-Werror",
)  # fmt: skip
#: Arguments besides scratch.
LONGEST_FUNCTION, MOST_ARGUMENTS = 40, 10
#: What is compiled again by each compiler that is there.
COMPILERS = {"own": next(compiler.find_compilers(), None), "zig": compiler.zig_compiler()}
COMPILERS = {name: one for name, one in COMPILERS.items() if one}


@pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
@pytest.mark.parametrize("name", COMPILERS)
def test_compilers_do_not_warn(name, tmp_path):
    own = COMPILERS[name]

    def compiled(source):
        made = str(tmp_path / f"{source.stem}.o")
        # Warnings about the flow of values need an optimisation, of any level.
        how = [*own.command, *compiler.FLAGS, "-O1", *WARNINGS, "-c", str(source), "-o", made]
        try:
            compiler._run_command(how)
        except OSError as said:
            return str(said)
        return ""

    with ThreadPoolExecutor() as threads:
        assert [*filter(None, threads.map(compiled, SOURCES))] == []


def functions(text):
    """Yield the name, the arguments and the lines of the body of each function of a source."""
    # Comments may hold anything, but for ends of lines.
    text = re.sub(r"/\*.*?\*/", lambda found: re.sub(".", " ", found[0]), text, flags=re.DOTALL)
    head = r"^(?!#|typedef|enum|struct)\w[^;{}#]*?\b(\w+)\(([^;{}]*)\)\s*\{(.*?\n\}|.*\}$)"
    for name, arguments, body in re.findall(head, text, flags=re.MULTILINE | re.DOTALL):
        yield name, re.sub(r"\([^()]*\)", "", arguments).split(","), body.splitlines()[1:-1]


def test_functions_are_short_and_take_few_arguments():
    every = [one for path in SOURCES for one in functions(path.read_text("utf-8"))]
    assert len(every) > 200
    assert [name for name, _, body in every if len(body) > LONGEST_FUNCTION] == []
    taken = {name: len([a for a in given if "scratch" not in a]) for name, given, _ in every}
    assert [name for name, n in taken.items() if n > MOST_ARGUMENTS] == []


def test_functions_are_measured():
    head = "/* f(x) { */\nstatic int one(double a,\n    double (*f)(int, int))\n"
    text = f"{head}{{\n    a;\n\n    b;\n}}\n"
    ((name, arguments, body),) = functions(text)
    assert (name, len(arguments), body) == ("one", 2, ["    a;", "", "    b;"])
