"""Models, steps and references that all tests share.

The process that hands the tests out to others reads this file as well: what is slow to import and
of no use to it is imported where it is used.
"""

import faulthandler
import gc
import json
import os
import sys
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

TESTS = Path(__file__).parent
FOLDER = TESTS / "law" / "statistical"
#: What unseeded generators of a test are seeded by: its name and that of its file.
SEED = pytest.StashKey[int]()
#: What PyTensor and numba compile, shared by all workers and kept from run to run.
COMPILED = TESTS / ".compiled"


def keep_what_is_compiled():
    """Name the folders of caches before anybody imports PyTensor or numba.

    Both tell versions of libraries apart by themselves, and the package tells its own sources.
    What Python compiles is kept too, whatever the shell says: some thirty processes import
    thousands of modules each.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["NUMBA_CACHE_DIR"] = str(COMPILED / "numba")
    given = os.environ.get("PYTENSOR_FLAGS", "")
    # Without a compiler of C, which PyMC would ask for the starting points of some variables.
    own = f"base_compiledir={COMPILED / 'pytensor'},cxx="
    os.environ["PYTENSOR_FLAGS"] = ",".join(filter(None, [given, own]))
    given = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTS), given]))


# The workers inherit what the process has named that hands the tests out.
if "PYTEST_XDIST_WORKER" not in os.environ:
    keep_what_is_compiled()


# Threads of BLAS wait for each other longer than matrices of this size take, and in every worker.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_addoption(parser):
    parser.addoption("--shard", metavar="K/N", help="the K-th of N parts: see tests/shards.py")


def pytest_configure():
    """Collect seldom: models and graphs are many objects, few of which are garbage."""
    gc.set_threshold(5_000, 20, 20)


def pytest_collection_finish():
    """Spare the tests what no test looks at.

    What was imported and collected lasts, some millions of objects that every full collection would
    go through again. And PyTensor would note, for every node of every graph, the lines of code that
    made it.
    """
    gc.collect()
    gc.freeze()
    if "pytensor" in sys.modules:
        sys.modules["pytensor"].config.traceback__limit = 0


def pytest_runtest_setup(item):
    """Give slow tests the time that they take: the others are taken to hang after a while."""
    if item.get_closest_marker("slow"):
        faulthandler.cancel_dump_traceback_later()


# Before pytest-xdist notes the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave the tests of a file to one worker, which builds its models and steps once.

    Those that are in groups of their own come first: between them they need every kernel, so that
    the workers compile different ones. With --shard, the tests of other parts are left out.
    """
    if config.getoption("shard"):
        from shards import part_of

        k, n = map(int, config.getoption("shard").split("/"))
        others = [item for item in items if part_of(item.nodeid, n) != k - 1]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if part_of(item.nodeid, n) == k - 1]
    for item in items:
        case = item.nodeid.partition("::")[2]
        item.stash[SEED] = crc32(f"{item.path.name}::{case}".encode())
    alone = [item for item in items if item.get_closest_marker("xdist_group") is None]
    for item in alone:
        item.add_marker(pytest.mark.xdist_group(item.location[0]))
    later = {*alone}
    items.sort(key=later.__contains__)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Seed the generators that nobody else seeds, by the name of the test that makes them.

    What a test says should not depend on the run.
    """
    import numpy as np

    seeded = np.random.default_rng
    seeds = np.random.SeedSequence(item.stash[SEED])

    def default_rng(seed=None):
        return seeded(seeds.spawn(1)[0] if seed is None else seed)

    np.random.default_rng = default_rng
    try:
        return (yield)
    finally:
        np.random.default_rng = seeded


@pytest.fixture(autouse=True)
def configuration_stays():
    """Fail where PyTensor is configured otherwise after a test: it is for the whole process."""
    before = _configuration()
    yield
    after = _configuration()
    changed = {name: after[name] for name, value in before.items() if after[name] is not value}
    assert not changed, f"pytensor.config was left changed: {changed}"


def _configuration():
    """Return the options that PyTensor has looked up; to look up others may take a compiler."""
    config = getattr(sys.modules.get("pytensor"), "config", None)
    known = {} if config is None else config._config_var_dict
    return {name: option.val for name, option in known.items() if hasattr(option, "val")}


@pytest.fixture(scope="session")
def model_of():
    """Name of a model of the zoo -> the model, one object per session."""
    from helpers.models import FAMILIES, MODELS, bounded

    return cache(lambda name: (MODELS | FAMILIES | {"bounded": bounded})[name]())


@pytest.fixture(scope="session")
def prepared(model_of, tmp_path_factory):
    """Names of a model and of a method, settings -> the step, built once for all workers.

    Sampling starts every chain of a step anew, so tests may share it; a test that changes more
    than a chain's state works on a copy.
    """
    from helpers.prepared import Steps
    from helpers.zoo import METHODS, PAPERS, RANGED

    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "steps"
    folder.mkdir(exist_ok=True)
    return Steps(folder, model_of, METHODS | RANGED | PAPERS)


@pytest.fixture(scope="session")
def references():
    """Figures of the long NUTS runs: model -> coordinate -> figures."""
    files = (FOLDER / "references.json", FOLDER / "family_references.json")
    stored = [json.loads(file.read_text())["models"] for file in files]
    return stored[0] | stored[1]


@pytest.fixture
def no_compilation(monkeypatch):
    """Fail on the first function that PyTensor is asked for."""
    import pytensor

    def compiled(*_args, **_kwargs):
        raise AssertionError("something was compiled")

    monkeypatch.setattr(pytensor, "function", compiled)
