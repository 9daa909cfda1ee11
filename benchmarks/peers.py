"""Samplers of tall data side by side: this project's, PyMC, nutpie and NumPyro.

    python benchmarks/peers.py --out FILE [--cells PATTERN ...] [--budget 120] [--repeats 3]
        [--data FOLDER] [--caches FOLDER]

needs what the dependency group ``bench`` lists. Every run is a process of its own, in one thread on
one core: `peers_cell`. A cell of the table, one sampler on one problem, is run once with empty
caches of compiled code and then, in turns with the others, as often as asked with those that the
first run left. JAX keeps such a cache only where it is told to, as it is here. What is over the
budget is not repeated.

Results are written after each run. A file that exists is gone on with: runs that it has are not
made again, those that failed are. ``python benchmarks/peers_page.py`` makes the tables and
the figure of benchmarks/README.md from the stored results.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: The longest first, so that no core waits for one of them at the end.
PROBLEMS = (
    "logistic-10-1e7", "logistic-10-1e6", "student-1e6", "covertype", "flights",
    "hierarchy-12-1e5", "negative-binomial-1e5", "logistic-50-1e5", "logistic-10-1e5",
    "logistic-10-1e4", "wide-500", "wide-200", "wide-100", "wide-50", "wide-20", "wide-10",
)  # fmt: skip
SAMPLERS = (
    "reference", "numpyro", "nutpie", "pymc", "metropolis", "hmcecs-30", "hmcecs-300",
    "hmcecs-100", "advi", "barker", "penalty", "tuna", "driver",
    "without-copy",
)  # fmt: skip
#: What all runs are compared with: one is enough.
REFERENCE = "reference"
THREADS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)  # fmt: skip
ONE_THREAD = dict.fromkeys(THREADS, "1") | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
#: Seconds beyond the budget after which a run is ended: data are made, code is compiled, and what
#: cannot be cut ends in them.
GRACE = 240.0

type Cell = tuple[str, str]
type Record = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What is run, and how; see the module."""

    out: Path
    cells: Sequence[Cell]
    caches: Path
    budget: float = 120.0
    repeats: int = 3


def cells_like(patterns: Sequence[str]) -> list[Cell]:
    """Return the cells whose "problem:sampler" is like one of the patterns, the references too."""
    found = [
        (problem, sampler)
        for problem in PROBLEMS
        for sampler in SAMPLERS
        if any(fnmatch(f"{problem}:{sampler}", pattern) for pattern in patterns)
    ]
    if not found:
        raise SystemExit(
            f"no cell is like {' or '.join(patterns)}. Cells are PROBLEM:SAMPLER, of "
            f"{', '.join(PROBLEMS)} and {', '.join(SAMPLERS)}."
        )
    return found


def stored(file: Path) -> list[Record]:
    """Return the runs of a file, but those that failed."""
    if not file.is_file():
        return []
    return [run for run in json.loads(file.read_text())["runs"] if run["status"] != "failed"]


def of(runs: Sequence[Record], cell: Cell) -> list[Record]:
    """Return the runs of a cell."""
    return [run for run in runs if (run["problem"], run["sampler"]) == cell]


def wanted(runs: Sequence[Record], cell: Cell, repeats: int) -> bool:
    """Whether a further run of a cell is to be made."""
    made = of(runs, cell)
    if cell[1] == REFERENCE or any(run["status"] != "ok" for run in made):
        return not made
    return not made or sum(not run["cold"] for run in made) < repeats


def next_cell(runs: Sequence[Record], settings: Settings) -> Cell | None:
    """Return a cell that was run least often, in an order that alternates; None at the end."""
    left = [cell for cell in settings.cells if wanted(runs, cell, settings.repeats)]
    turn = min((len(of(runs, cell)) for cell in left), default=0)
    least = [cell for cell in left if len(of(runs, cell)) == turn]
    return least[-(turn % 2)] if least else None


def store(runs: Sequence[Record], file: Path) -> None:
    """Store the runs, one a line: a file that can be compared and merged."""
    text = json.dumps({"runs": runs}, indent=None, separators=(",", ":"))
    part = file.with_suffix(".part")
    part.write_text(text.replace('{"problem"', '\n{"problem"') + "\n", encoding="utf-8")
    part.replace(file)


def environment(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a run, with its own caches."""
    paths = [str(ROOT), str(ROOT / "tests"), str(ROOT / "examples"), given.get("PYTHONPATH", "")]
    flags = [given.get("PYTENSOR_FLAGS", ""), f"base_compiledir={folder / 'pytensor'}"]
    own = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTENSOR_FLAGS": ",".join(filter(None, flags)),
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_ENABLE_X64": "1",
        "JAX_PLATFORMS": "cpu",
    }
    kept = {name: value for name, value in given.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | ONE_THREAD | own


def run(cell: Cell, seed: int, settings: Settings) -> Record:
    """Run a cell in a process of its own on one core, and return its record."""
    core = min(os.sched_getaffinity(0))
    folder = settings.caches / "-".join(cell)
    filled = folder / "filled"
    cold = not filled.exists()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "record.json"
    file.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "benchmarks.peers_cell", *cell, "--record", str(file),
        "--seed", str(seed), "--budget", str(settings.budget), "--core", str(core),
    ]  # fmt: skip
    about = {"cold": cold, "seed": seed, "budget": settings.budget, "jobs": 1}
    try:
        ended = subprocess.run(
            command,
            env=environment(folder, os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=settings.budget + GRACE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"status": "limit", **about}
    if not file.is_file():
        # Killed, for want of memory for example.
        return {"status": "failed", "error": f"{ended.returncode}: {ended.stderr[-500:]}", **about}
    record = json.loads(file.read_text())
    if record["status"] in ("ok", "limit"):
        filled.touch()
    return record | about | {"processor": processor()}


def processor() -> str:
    """Return the processor's name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "unknown")


def line(cell: Cell, record: Record) -> str:
    """Return what is printed of a run."""
    parts = [f"{':'.join(cell):<34}", record["status"], "cold" if record["cold"] else "warm"]
    parts += [f"{k} {v:.2f}" for k, v in record.get("seconds", {}).items()]
    if record.get("bulk"):
        parts.append(f"ESS {record['bulk']:,.0f} of {record['draws']:,}")
        parts.append(f"{record['bulk'] / record['seconds']['sampling']:,.1f}/s")
        parts.append(f"share of the core {record['share']:.0%}")
    return " ".join([*parts, record.get("error", "")])


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cells", nargs="*", default=["*"], help="such as 'logistic-10-*:tuna'")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of a run")
    parser.add_argument("--repeats", type=int, default=3, help="runs with filled caches")
    parser.add_argument("--data", type=Path, help="folder of covtype.npz and nycflights13.npz")
    parser.add_argument("--caches", type=Path, help="folder of the caches of compiled code")
    asked = parser.parse_args()
    if asked.data:
        os.environ["PYMC_MINIBATCH_MH_DATA"] = str(asked.data.resolve())
    caches = (asked.caches or Path(tempfile.gettempdir()) / "peers_caches").resolve()
    settings = Settings(asked.out, cells_like(asked.cells), caches, asked.budget, asked.repeats)
    runs = stored(asked.out)
    while (cell := next_cell(runs, settings)) is not None:
        seed = 1 + len(of(runs, cell)) + 1_000 * (cell[1] == REFERENCE)
        record = run(cell, seed, settings)
        runs.append({"problem": cell[0], "sampler": cell[1], **record})
        store(runs, asked.out)
        print(line(cell, record), flush=True)


if __name__ == "__main__":
    main()
