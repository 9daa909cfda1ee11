"""Sampling ten million rows: python tests/robustness/rows/memory.py TunaMH 10000000.

Prints a JSON object: MiB of the rows, the MiB by which the memory of the process grew at most while
a step was built and two chains were sampled, the seconds of both, and how far the posterior is
from the one in closed form and from that of the first half of the rows.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

import pymc_minibatch_mh

sys.path.insert(0, str(Path(__file__).parents[2]))
from diagnostics.memory import growth
from helpers.zoo import sample
from law.statistical.comparison import distance
from robustness.rows.conjugate import drawn, model_of, posterior

MIB = 2**20


def main(method, n_rows):
    # Everything is compiled and imported before the memory is looked at.
    small = model_of(drawn(2_000))
    sample(small, getattr(pymc_minibatch_mh, method)(model=small), 10, 10, random_seed=1)
    rows = drawn(n_rows)
    rows = rows.at(np.argsort(rows.counts, kind="stable"))
    arrays = rows.exposure, rows.second, rows.counts
    made = {}

    def run():
        model = model_of(rows)
        began = time.perf_counter()
        step = getattr(pymc_minibatch_mh, method)(model=model)
        made["build_seconds"] = round(time.perf_counter() - began, 1)
        made["trace"] = sample(model, step, 10_000, 500, random_seed=2)

    figures = growth(run)
    trace = made.pop("trace")
    truth = posterior(rows)
    half = posterior(rows.at(slice(n_rows // 2)), 2.0)
    found = distance(trace, truth), distance(trace, half)
    figures |= {"data_mib": sum(a.nbytes for a in arrays) / MIB, **made}
    figures |= {"small": found[0].small, "seen": found[0].seen, "half_small": found[1].small}
    figures["rows_a_draw"] = float(trace.sample_stats["n_obs"].mean())
    print(json.dumps({k: bool(v) if isinstance(v, np.bool_) else v for k, v in figures.items()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
