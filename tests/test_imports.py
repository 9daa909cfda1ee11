"""What `import pymc_minibatch_mh` costs, and that nobody can tell that the rest comes later."""

import ast
import importlib
import inspect
import json
import pickle
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

import pymc_minibatch_mh

PACKAGE = "pymc_minibatch_mh"
ROOT = Path(__file__).parents[1]
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

#: What takes long to import, each more than the step classes together.
HEAVY = {"arviz", "arviz_base", "arviz_plots", "arviz_stats", "llvmlite", "matplotlib", "numba"}
HEAVY_PARTS = {"scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats"}
#: Of these a step that is built needs no more than the compiler and some of SciPy.
NEVER_IN_A_STEP = {"arviz", "arviz_plots", "arviz_stats", "matplotlib", "scipy.optimize"}

#: Statements that are run in turn, and the modules that each of them adds to those of PyMC.
STAGES = {
    "package": "import pymc_minibatch_mh as mb\ndir(mb)",
    "rows": "from pymc_minibatch_mh.model.rows import Rows",
    "step": "from pymc_minibatch_mh import RandomWalk, TunaMH",
}
PROBE = """
import json, sys
import pymc
found, before = {}, set(sys.modules)
for name, statements in json.loads(sys.argv[1]).items():
    exec(statements, {})
    found[name] = sorted(sys.modules.keys() - before)
    before |= {*found[name]}
print(json.dumps(found))
"""

#: What rows are stored by: name -> extra, what it imports, and the call that needs it.
EXTRAS = {
    "zarr": ("zarr", "zarr", "from_zarr('rows.zarr')"),
    "arrow": ("arrow", "pyarrow", "from_parquet('rows.parquet')"),
    "dask": ("dask", "dask", "from_dask(X=0)"),
}

WITHOUT = """
import json, sys
extras = json.loads(sys.argv[1])
sys.modules |= {library: None for _, library, _ in extras.values()}
from pymc_minibatch_mh.model.rows import Rows
found = {}
for name, (_, _, call) in extras.items():
    try:
        eval(f"Rows.{call}")
    except ValueError as error:
        found[name] = f"{type(error).__name__} {error}"
print(json.dumps(found))
"""


def answer(code, question):
    """Return what a new process prints, both as JSON."""
    command = [sys.executable, "-c", code, json.dumps(question)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def imported():
    """What each stage imports beyond what PyMC and the stages before have imported."""
    return {stage: {*found} for stage, found in answer(PROBE, STAGES).items()}


def test_the_package_is_imported_without_compiler_or_plots(imported):
    found = imported["package"]
    assert PACKAGE in found
    assert not found & (HEAVY | HEAVY_PARTS | {"pytensor.link.numba.dispatch"})


def test_rows_are_there_without_what_they_may_be_stored_by(imported):
    found = imported["package"] | imported["rows"]
    assert not found & {library for _, library, _ in EXTRAS.values()}


def test_a_step_is_built_without_plots_or_distributions(imported):
    found = set().union(*imported.values())
    assert "numba" in found
    assert not found & (NEVER_IN_A_STEP | {"scipy.stats"})


def test_a_storage_that_is_not_installed_is_named():
    refused = answer(WITHOUT, EXTRAS)
    for name, (extra, library, call) in EXTRAS.items():
        assert refused[name].startswith(f"SettingError Rows.{call.split('(')[0]}() needs")
        assert f"'pymc-minibatch-mh[{extra}]'" in refused[name]
        assert any(library in one for one in METADATA["project"]["optional-dependencies"][extra])


def test_type_checkers_read_the_names_where_python_finds_them():
    tree = ast.parse(inspect.getsource(pymc_minibatch_mh))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    places = pymc_minibatch_mh._ON_FIRST_USE
    assert seen == {name: f"pymc_minibatch_mh.{place}" for name, place in places.items()}


@pytest.mark.parametrize("name", pymc_minibatch_mh.__all__)
def test_every_public_name_is_there(name):
    thing = getattr(pymc_minibatch_mh, name)
    assert getattr(importlib.import_module(thing.__module__), name) is thing
    assert pickle.loads(pickle.dumps(thing)) is thing


def test_the_package_shows_its_names_and_its_version():
    shown = dir(pymc_minibatch_mh)
    assert [name for name in shown if not name.startswith("__")] == pymc_minibatch_mh.__all__
    assert "__version__" in shown
    assert pymc_minibatch_mh.__version__ == METADATA["project"]["version"]


def sources(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def imported_distributions(paths, own):
    """Return the distributions that files import from, beside the standard library and `own`."""
    packages = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                packages |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                packages.add(node.module.split(".")[0])
    where = packages_distributions()
    # What only benchmarks need is not installed, and has the name that it is imported by.
    return {where.get(name, [name])[0] for name in packages - own - sys.stdlib_module_names}


def of_script(path):
    """Requirements of a script with an environment of its own, from the comment on top."""
    head = path.read_text(encoding="utf-8").partition("# ///\n")[0]
    return re.findall(r'^#     "(.+)"', head, re.MULTILINE) if "# /// script" in head else []


def declared(requirements):
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


def test_what_the_package_imports_is_declared_and_nothing_else():
    found = imported_distributions(sources(PACKAGE), own={PACKAGE})
    extras = METADATA["project"]["optional-dependencies"].values()
    # ArviZ stores traces by the first two, and Zarr decodes by the last.
    found |= {"h5netcdf", "h5py", "numcodecs"}
    assert found == declared([*METADATA["project"]["dependencies"], *chain(*extras)])


def test_what_tests_and_examples_import_is_declared():
    paths = [p for f in ("benchmarks", "docs/tools", "examples", "tests") for p in sources(f)]
    folders = {part for path in paths for part in path.relative_to(ROOT).parts}
    own = {PACKAGE} | {path.stem for path in paths} | folders
    groups = METADATA["dependency-groups"]
    asked = METADATA["project"]["dependencies"] + groups["dev"] + groups["bench"]
    asked = asked + [name for path in paths for name in of_script(path)]
    assert imported_distributions(paths, own) <= declared(asked)
