"""Sampling in processes that are told to stop.

Usage: ``python tests/robustness/endurance/signals.py ROUNDS SEED``. SIGINT comes at a random moment
of each round. Prints a JSON list, one object per round. Steps are built once; each round forks.
"""

import json
import logging
import multiprocessing
import os
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from helpers.models import poisson
from helpers.zoo import METHODS, sample

TUNE, DRAWS, CORES = 100, 80_000, 2
#: Seconds in which a signal comes, and after which a process hangs.
LATEST, PATIENCE = 1.6, 120.0
fork = multiprocessing.get_context("fork")


def kept_of(recorded):
    """Return how many draws PyMC keeps of chains of different lengths, or None of none."""
    lengths = sorted((max(0, n - TUNE) for n in recorded), reverse=True)
    most = max((k + 1) * n for k, n in enumerate(lengths))
    return most or None


def workers_left():
    """Return how many workers are left, after a while for those that were told to end."""
    deadline = time.monotonic() + PATIENCE / 2
    for worker in multiprocessing.active_children():
        worker.join(max(0.0, deadline - time.monotonic()))
    return len(multiprocessing.active_children())


def coordinates(trace):
    """Return the draws of every chain, shape (chains, draws, d)."""
    variables = [trace.posterior[name].to_numpy() for name in sorted(trace.posterior.data_vars)]
    return np.concatenate([v.reshape(*v.shape[:2], -1) for v in variables], axis=2)


def begins(whole, kept):
    """Return whether a chain of the uninterrupted run begins with these draws."""
    # PyMC numbers the chains anew if it keeps only one of them.
    return any(np.array_equal(chain[: len(kept)], kept) for chain in coordinates(whole))


def outcome(model, step, whole):
    """Sample until something comes between, and return what is left of it."""
    recorded = [0] * CORES

    def callback(trace, draw):
        recorded[draw.chain] += 1

    report = {"error": "", "kept": None, "alike": True}
    try:
        trace = sample(
            model, step, DRAWS, TUNE, random_seed=1, cores=CORES, mp_ctx="fork", callback=callback
        )
    except (Exception, KeyboardInterrupt) as error:
        report["error"] = f"{type(error).__name__}: {error}"
    else:
        report["alike"] = all(begins(whole, kept) for kept in coordinates(trace))
        report["kept"] = trace.posterior.sizes["chain"] * trace.posterior.sizes["draw"]
    report |= {"recorded": recorded, "expected": kept_of(recorded)}
    return report | {"workers": workers_left()}


def stack_of(frame):
    """Return the innermost calls, innermost first."""
    return reversed(traceback.extract_stack(frame, limit=6))


def creates_workers(frame):
    """Return whether PyMC is creating the processes of a run."""
    return any(
        f.name == "__init__" and Path(f.filename).name == "parallel.py"
        for f in traceback.extract_stack(frame)
    )


def interruptible(pipe, model, step, whole):
    """Run in a process group of its own, as under a terminal."""
    os.setsid()
    places, creating = [], []

    def interrupt(number, frame):
        places.append(" < ".join(f"{f.name}:{f.lineno}" for f in stack_of(frame)))
        creating.append(creates_workers(frame))
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        pipe.send("ready")
        result = outcome(model, step, whole)
    except KeyboardInterrupt:
        # The interrupt came before PyMC could take it, or after it had returned.
        result = {"error": "outside", "workers": workers_left()}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe.send(result | {"places": places, "creating": any(creating)})


def group_is_empty(group):
    """Return whether no process of a group is left, after a moment for zombies to be reaped."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def round_of(target, arguments, send):
    """Fork, let `send` do its part, and return what became of the processes."""
    ours, theirs = fork.Pipe()
    process = fork.Process(target=target, args=(theirs, *arguments))
    process.start()
    theirs.close()
    ours.recv()
    send(process.pid)
    hangs = not ours.poll(PATIENCE)
    result = {"hangs": hangs} if hangs else ours.recv() | {"hangs": False}
    if not hangs:
        process.join(PATIENCE)
    result["orphans"] = hangs or not group_is_empty(process.pid)
    if result["orphans"]:
        os.killpg(process.pid, signal.SIGKILL)
    return result


def main(rounds, seed):
    """Run all rounds, with one method after another."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    rng, model, results = np.random.default_rng(seed), poisson(rows=2_000), []
    cases = []
    for cls in METHODS.values():
        step = cls(model=model)
        cases.append((model, step, sample(model, step, DRAWS, TUNE, random_seed=1)))
    for k in range(rounds):
        case = cases[k % len(cases)]
        delay, whole_group = float(rng.uniform(0.0, LATEST)), bool(k % 2)

        def send(pid, delay=delay, whole_group=whole_group):
            time.sleep(delay)
            # A terminal interrupts all processes of the group, a notebook only the first.
            (os.killpg if whole_group else os.kill)(pid, signal.SIGINT)

        results.append(round_of(interruptible, case, send) | {"delay": delay, "all": whole_group})
    print(json.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
