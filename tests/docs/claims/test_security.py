"""What SECURITY.md promises: no network, no code from files, and little memory for an update."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pymc_minibatch_mh
from helpers.tiers import fast

ROOT = Path(pymc_minibatch_mh.__file__).parent
TREES = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
    for path in ROOT.rglob("*.py")
}
#: Imports, prepares, samples in threads and in PyMC's loop, and audits; a use of a network ends it.
OFFLINE = """
import sys

LOCAL = ("socket.__new__", "socket.gethostname")

def refuse(event, arguments):
    if event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.")):
        if event not in LOCAL:
            raise SystemExit(f"{event}{arguments}")

sys.addaudithook(refuse)
if "socket" in sys.argv:
    import socket
    socket.create_connection(("127.0.0.1", 9))
import pymc_minibatch_mh as mb
from helpers.models import logistic
from helpers.zoo import sample

model = logistic()
step = mb.TunaMH(model=model)
with model:
    trace = mb.sample(step, 100, tune=100, chains=2, cores=2, random_seed=1, progressbar=False)
    sample(model, step, 60, 60, random_seed=1)
mb.audit(trace, step, 4, 1, model=model)
print("done")
"""
#: Counts the pages of fresh memory that updates touch, and those of one byte for each row.
LITTLE = """
import sys
from resource import RUSAGE_SELF, getrusage
import numpy as np
import pymc_minibatch_mh as mb
from helpers.models import logistic

rows, updates = 300_000, 500
step = getattr(mb, sys.argv[1])(model=logistic(rows))
step.setup_chain(np.random.default_rng(1), 100, 1_000)
chain = step.chain
chain.place(step.target.factorization.ravel(step.gaussian_draw(chain.rng, 1.0)), np.empty(0))
step.start(chain)
chain.advance(200)
chain.stop_adapting()
chain.advance(updates)
# Gaps that preparations left in the heap would be used again, and touch no fresh page.
gaps = [np.ones(rows, np.int8) for _ in range(200)]
before = getrusage(RUSAGE_SELF).ru_minflt
chain.advance(updates)
between = getrusage(RUSAGE_SELF).ru_minflt
for _ in range(updates):
    np.ones(rows, np.int8)
after = getrusage(RUSAGE_SELF).ru_minflt
print(between - before, after - between)
"""


def run(program, *arguments):
    """Return what a program prints, and what it says where it fails."""
    paths = [str(ROOT.parent), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    return done.stdout, done.stderr


def test_no_connection_is_opened_on_import_or_while_sampling():
    printed, said = run(OFFLINE)
    assert "done" in printed, said
    # What would be seen.
    printed, said = run(OFFLINE, "socket")
    assert "done" not in printed
    assert "socket.getaddrinfo" in said


def calls(tree):
    """Yield the names of what a module calls, with their modules, and the calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_no_text_is_evaluated_as_code():
    found = [
        f"{name}: {called}"
        for name, tree in TREES.items()
        for called, _ in calls(tree)
        if called in ("eval", "exec", "compile", "__import__", "os.system")
    ]
    assert found == []


def test_no_file_is_unpickled():
    loads = ("pickle.load", "pickle.loads", "cloudpickle.load", "cloudpickle.loads", "marshal.load")
    found = {
        name
        for name, tree in TREES.items()
        for called, _ in calls(tree)
        if called in loads or called.endswith(("Unpickler", "read_pickle"))
    }
    # A worker of a cluster loads what its own scheduler sent.
    assert found == {os.path.join("data", "dask.py")}
    archives = [
        (name, {k.arg: ast.unparse(k.value) for k in node.keywords})
        for name, tree in TREES.items()
        for called, node in calls(tree)
        if called in ("np.load", "numpy.load")
    ]
    assert len(archives) >= 3
    assert [name for name, given in archives if given.get("allow_pickle") != "False"] == []


@pytest.mark.parametrize("method", fast(["TunaMH", "PenaltyMH"], ["TunaMH"]))
def test_an_update_takes_no_memory_for_each_row(method):
    printed, said = run(LITTLE, method)
    assert printed, said
    pages, of_rows = map(int, printed.split())
    # A byte for each row would be 74 pages of 4 KiB in each of 500 updates.
    assert pages < 500
    assert of_rows > 20 * 500
