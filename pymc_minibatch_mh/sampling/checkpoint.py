"""Checkpoints of a run: a folder of NumPy archives that is complete at every moment.

``run.npz`` has the settings and the digests of step, model and data, ``chain-K.npz`` the state of
chain K after its last block, and ``chain-K-B.npz`` its draws of block B. A state lists its blocks
and their digests. It replaces the previous state only after these blocks are on the disk. A killed
process may leave blocks that no state lists; the next run overwrites them. Nothing is pickled: a
state consists of numbers, arrays and text. A background thread writes while chains continue.
"""

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from importlib import import_module
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.data.archive import read_archive, sync_folder, write_archive
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.sampling.workers import Record, Workers
from pymc_minibatch_mh.steps.base import MinibatchStep, key_difference
from pymc_minibatch_mh.threads import wait_for_result

_log = logging.getLogger("pymc")

#: Module for file locks; Windows lacks it.
fcntl: Any = import_module("fcntl") if os.name == "posix" else None

#: Pause between two blocks of a chain: minimum and maximum seconds, and maximum share of the run.
#: `MAX_WRITING_SHARE`: maximum share of the time spent on writing.
MIN_SECONDS, MAX_SECONDS, MAX_BLOCK_SHARE, MAX_WRITING_SHARE = 1.0, 60.0, 0.02, 0.01
#: Identifier of the file format; it changes with the contents of the files.
FORMAT = "pymc_minibatch_mh checkpoint 3"
#: `TEXT`: archive member with the text. `KINDS`: NumPy kinds of writable unstructured arrays.
TEXT, KINDS = "text", "biufcU"
#: Name of the file with the settings.
RUN_FILE = "run.npz"
#: Final state of a chain: its state record, position and random generator.
FinalState = tuple[Any, np.ndarray, np.random.Generator]


def write_with_text(path: Path, arrays: Mapping[str, np.ndarray], text: Any) -> str:
    """Write arrays and text completely or not at all, and return their digest."""
    encoded = np.frombuffer(json.dumps(text, default=np.ndarray.tolist).encode(), np.uint8)
    return write_archive(path, {**arrays, TEXT: encoded})


def read_with_text(path: Path, digest: str = "") -> tuple[dict[str, np.ndarray], Any, str]:
    """Arrays, text and digest of a file; SettingError if the file is damaged or altered.

    A non-empty `digest` is compared with the digest of the file.
    """
    try:
        arrays, found = read_archive(path)
        if digest not in ("", found):
            raise ValueError("its chain wrote another file of that name")
        return arrays, json.loads(arrays.pop(TEXT).tobytes()), found
    # A damaged archive raises many types of errors.
    except Exception as error:
        raise SettingError(
            f"resume={str(path.parent)!r}: {path.name} is damaged, altered or missing ({error}). "
            "Restore the folder from a copy, or begin another run with checkpoint=."
        ) from error


def record_leaves(name: str, part: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield copies of the numbers and arrays in a nested record, with their names.

    SettingError for other types, which the record of a custom proposal may contain.
    """
    if isinstance(part, tuple):
        for field, value in zip(getattr(part, "_fields", range(len(part))), part, strict=True):
            yield from record_leaves(f"{name}.{field}", value)
    elif part is not None:
        array = np.array(part)
        if array.dtype.kind not in KINDS and array.dtype.names is None:
            raise SettingError(
                f"checkpoint= cannot write {name!r} of a chain, which is of type "
                f"{type(part).__name__}. Let the record of a proposal or a test hold only numbers "
                "and NumPy arrays of numbers."
            )
        yield name, array


def fill_record(name: str, like: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Record of the type of `like`, filled with arrays named as in :func:`record_leaves`."""
    if isinstance(like, tuple):
        fields = getattr(like, "_fields", range(len(like)))
        values = [
            fill_record(f"{name}.{field}", value, arrays)
            for field, value in zip(fields, like, strict=True)
        ]
        return type(like)(*values) if hasattr(like, "_fields") else tuple(values)
    if like is None:
        return None
    found = arrays[name]
    if isinstance(like, np.ndarray):
        if (found.dtype, found.ndim) != (like.dtype, like.ndim):
            raise KeyError(name)
        return found
    return found.item()


def run_key(step: MinibatchStep) -> dict[str, str]:
    """Digests or descriptions of the step, the model and the data of a run, by name."""
    own = {
        "updates_per_draw": str(step.updates_per_draw),
        "tune": str(step.adapts),
        # Free memory decides whether data are copied, which changes both draws and statistics.
        "its statistics": ", ".join(step.program.statistics),
    }
    return step.key | own


def starts_digest(chains: list[Chain]) -> dict[str, str]:
    """Digests of the starting positions and of the generators, by the names of their settings."""
    positions = b"".join(chain.position.tobytes() for chain in chains)
    generators = [
        json.dumps(_generator_state(chain.rng), default=np.ndarray.tolist) for chain in chains
    ]
    return {
        "initvals": blake2b(positions, digest_size=16).hexdigest(),
        "random_seed": blake2b("".join(generators).encode(), digest_size=16).hexdigest(),
    }


def _generator_state(rng: np.random.Generator) -> Any:
    name = type(rng.bit_generator).__name__
    if type(rng.bit_generator) is not getattr(np.random, name, None):
        raise SettingError(
            f"random_seed= has the bit generator {name}, but checkpoint= supports only those of "
            "NumPy. Use numpy.random.default_rng, or leave out checkpoint=."
        )
    return rng.bit_generator.state


def _restored_generator(state: Mapping[str, Any]) -> np.random.Generator:
    rng = np.random.Generator(getattr(np.random, state["bit_generator"])())
    rng.bit_generator.state = state
    return rng


class Checkpoint:
    """Folder of a run, made by :meth:`create` or read by :meth:`open`."""

    def __init__(self, folder: Path, run: Mapping[str, Any]) -> None:
        # An absolute path, because the process may change its working directory.
        self.folder, self.run = folder.absolute(), run
        #: Seconds that the run took in earlier processes.
        self.seconds = 0.0
        self._began = time.perf_counter()
        self._digest = blake2b(json.dumps(run).encode(), digest_size=16).hexdigest()
        n = run["settings"]["chains"]
        #: Per chain: names and digests of its blocks; counts of written draws in and after warm-up.
        self._blocks: list[list[list[str]]] = [[] for _ in range(n)]
        self._written = [(0, 0)] * n
        #: Digests of the states of chains in the folder.
        self._states = [""] * n
        self._lock: int | None = None
        self._due = [self._began + MIN_SECONDS] * n
        self._last: list[Future[None] | None] = [None] * n
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        #: Error message of the last block of each chain; empty after a success.
        self._failed = [""] * n

    @classmethod
    def create(cls, path: str | PathLike, step: MinibatchStep, workers: Workers) -> Self:
        """Make the folder, and write the settings and the initial states of the chains."""
        folder, settings = new_folder(path), workers.settings
        run = {
            "format": FORMAT,
            "version": version("pymc-minibatch-mh"),
            "key": run_key(step),
            "settings": {
                "tune": settings.tune,
                "chains": settings.chains,
                "discard_tuned_samples": not workers.keeps_warm_up,
            },
            "starts": starts_digest(workers.chains),
        }
        found = cls(folder, run)
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.absolute().parent)
        found.lock()
        try:
            for number in range(settings.chains):
                found._write_block(number, workers, *found._chain_snapshot(workers, number))
            # This file comes last: its presence means that all chains are written.
            write_with_text(folder / RUN_FILE, {}, run)
        except BaseException:
            found.close()
            raise
        return found

    @classmethod
    def open(cls, path: str | PathLike) -> Self:
        """Read the settings of a run."""
        folder = Path(path)
        if not (folder / RUN_FILE).is_file():
            raise SettingError(
                f"resume={str(path)!r} has no run: the folder does not exist, or its run ended "
                "before it began. Begin one with checkpoint=."
            )
        _, run, _ = read_with_text(folder / RUN_FILE)
        if run["format"] != FORMAT:
            raise SettingError(
                f"resume={str(path)!r} was written by another version of this package, in another "
                "format. Use that version, or begin another run with checkpoint=."
            )
        return cls(folder, run)

    def require_fitting(self, step: MinibatchStep, given: Mapping[str, Any]) -> None:
        """Raise a SettingError if step, model, data or settings differ from those of the run."""
        what = key_difference(self.run["key"], run_key(step))
        if what:
            raise SettingError(
                f"resume={str(self.folder)!r} is the run of a step that differs in {what}. Build "
                "the same step as for that run, on the same model and data."
            )
        for name, value in given.items():
            own = self.run["settings"][name]
            if value is not None and value != own:
                raise SettingError(
                    f"{name}={value!r} is not that of the run in {str(self.folder)!r}, {own!r}. "
                    "Pass that, or begin another run with checkpoint=."
                )
        if self.run["version"] != version("pymc-minibatch-mh"):
            _log.warning(
                "The run in %r was begun with version %s of this package. Other versions may "
                "give other draws.",
                str(self.folder),
                self.run["version"],
            )

    def require_same_starts(self, chains: list[Chain], given: Mapping[str, Any]) -> None:
        """Raise a SettingError if the user's starts or seed differ from those of the run."""
        found = starts_digest(chains)
        for name, value in given.items():
            if value is not None and found[name] != self.run["starts"][name]:
                raise SettingError(
                    f"{name}= is for new chains, but the chains of the run in "
                    f"{str(self.folder)!r} continue as they are. Leave it out."
                )

    def ends(self, step: MinibatchStep) -> list[FinalState]:
        """Read the states, positions and generators of all chains."""
        like = Chain(step.program, np.random.default_rng(0), adapting=False).state
        found = []
        for number in range(len(self._blocks)):
            path = self._file_of(number)
            arrays, text, self._states[number] = read_with_text(path)
            if text["run"] != [self._digest, number]:
                raise SettingError(
                    f"resume={str(self.folder)!r}: {path.name} is a chain of another run. Restore "
                    "the folder from a copy."
                )
            self._blocks[number] = text["blocks"]
            self._written[number] = text["tuned"], text["drawn"]
            self.seconds = max(self.seconds, text["seconds"])
            try:
                fields = {k: fill_record(f"state.{k}", x, arrays) for k, x in vars(like).items()}
            except (KeyError, ValueError) as error:
                raise SettingError(
                    f"resume={str(self.folder)!r}: {path.name} has no {error} of this version of "
                    "the package. Use the version that wrote it."
                ) from error
            found.append(
                (type(like)(**fields), arrays["position"], _restored_generator(text["rng"]))
            )
        return found

    def most_drawn(self) -> int:
        """Number of draws of the longest chain."""
        return max(drawn for _, drawn in self._written)

    def fill_records(self, workers: Workers) -> None:
        """Read the draws of all chains into the records of `workers`."""
        for number, blocks in enumerate(self._blocks):
            progress = workers.progress[number]
            for name, digest in blocks:
                arrays, where, _ = read_with_text(self.folder / name, digest)
                for phase, (first, last) in where.items():
                    _fill_columns(
                        _phase_records(workers)[phase], (number, slice(first, last)), phase, arrays
                    )
            progress.tuned, progress.drawn = self._written[number]
        settings = workers.settings
        made = sum(tuned + drawn for tuned, drawn in self._written)
        _log.info(
            "Continuing the run in %r, which has %s of %s draws.",
            str(self.folder),
            f"{made:,}",
            f"{settings.chains * (settings.tune + settings.draws):,}",
        )

    def keep(self, workers: Workers, number: int, ended: bool) -> None:
        """Write the new draws of a chain if a block is due or the chain has ended."""
        last, progress = self._last[number], workers.progress[number]
        if last is None or last.done():
            is_new = self._written[number] != (progress.tuned, progress.drawn)
            if not (is_new or self._failed[number]):
                return
            if not (ended or time.perf_counter() >= self._due[number]):
                return
        elif not ended:
            return
        taken = self._chain_snapshot(workers, number)
        self._last[number] = self._writer.submit(self._try, number, workers, *taken)

    def lock(self) -> None:
        """Lock the folder, so that no other process continues the run before :meth:`close`.

        SettingError if another process has the lock, or has written since the folder was read.
        """
        if fcntl is None or self._lock is not None:
            return
        self._lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            paths = [self._file_of(number) for number in range(len(self._states))]
            same = all(
                not digest or read_with_text(path)[2] == digest
                for path, digest in zip(paths, self._states, strict=True)
            )
        except BlockingIOError:
            same = False
        if not same:
            raise SettingError(
                f"Another process continues the run in {str(self.folder)!r}. Wait until it ends, "
                "or end it."
            )

    def close(self) -> None:
        """Wait until all blocks are written, then release the lock."""
        try:
            for last in self._last:
                if last is not None:
                    wait_for_result(last)
        finally:
            self._writer.shutdown()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None
        if any(self._failed):
            _log.error(
                "The last draws are not in the checkpoint %r: %s. The trace has them.",
                str(self.folder),
                max(self._failed),
            )

    def _chain_snapshot(self, workers: Workers, number: int) -> tuple[dict[str, np.ndarray], Any]:
        """Copy of a chain's state, because the chain continues while the copy is written."""
        chain, progress = workers.chains[number], workers.progress[number]
        arrays = {"position": chain.position.copy()}
        for name, part in vars(chain.state).items():
            arrays |= record_leaves(f"state.{name}", part)
        text = {
            "run": [self._digest, number],
            "rng": _generator_state(chain.rng),
            "tuned": progress.tuned,
            "drawn": progress.drawn,
            "seconds": self.seconds + time.perf_counter() - self._began,
        }
        return arrays, text

    def _try(self, number: int, workers: Workers, arrays: dict[str, np.ndarray], text: Any) -> None:
        """Write a block, or warn of a failure; the next block then contains these draws too."""
        began = time.perf_counter()
        try:
            self._write_block(number, workers, arrays, text)
            self._failed[number] = ""
        except OSError as error:
            if not any(self._failed):
                _log.warning(
                    "The checkpoint cannot be written: %s. Sampling continues, and the next "
                    "block will contain these draws as well.",
                    error,
                )
            self._failed[number] = str(error)
        now = time.perf_counter()
        pause = max(MIN_SECONDS, min(MAX_SECONDS, MAX_BLOCK_SHARE * text["seconds"]))
        self._due[number] = now + max(pause, (now - began) / MAX_WRITING_SHARE)

    def _write_block(
        self, number: int, workers: Workers, arrays: dict[str, np.ndarray], text: Any
    ) -> None:
        """Write the draws since the last block, and then the state that lists them."""
        before, now = self._written[number], (text["tuned"], text["drawn"])
        draws: dict[str, np.ndarray] = {}
        where = {}
        for (phase, record), first, last in zip(
            _phase_records(workers).items(), before, now, strict=True
        ):
            if record is not None and last > first:
                where[phase] = first, last
                draws |= _stored_columns(record, (number, slice(first, last)), phase)
        if where:
            path = self._file_of(number, len(self._blocks[number]))
            self._blocks[number].append([path.name, write_with_text(path, draws, where)])
        self._written[number] = now
        text |= {"blocks": self._blocks[number]}
        self._states[number] = write_with_text(self._file_of(number), arrays, text)

    def _file_of(self, number: int, block: int | None = None) -> Path:
        return self.folder / f"chain-{number}{'' if block is None else f'-{block}'}.npz"


def _phase_records(workers: Workers) -> dict[str, Record | None]:
    return {"warmup": workers.warm_up, "draws": workers.kept}


def _stored_columns(record: Record, where: tuple[int, slice], phase: str) -> dict[str, np.ndarray]:
    """Positions and statistics of draws; a constant column is stored as a single number."""
    columns = {f"{phase}.positions": record.positions[where]}
    for name, stats in record.stats.items():
        column = stats[where]
        words = column.view(f"u{column.itemsize}")
        columns[f"{phase}.{name}"] = column[:1] if (words == words[0]).all() else column
    return columns


def _fill_columns(
    record: Record | None, where: tuple[int, slice], phase: str, columns: Mapping[str, np.ndarray]
) -> None:
    assert record is not None
    record.positions[where] = columns[f"{phase}.positions"]
    for name, stats in record.stats.items():
        stats[where] = columns[f"{phase}.{name}"]


def new_folder(path: Any) -> Path:
    """Folder for a new run; SettingError if the path already has a run or other files."""
    if not isinstance(path, str | PathLike):
        raise SettingError(f"checkpoint={path!r} is not a path. Give the folder of the run.")
    folder = Path(path)
    if (folder / RUN_FILE).exists():
        raise SettingError(
            f"checkpoint={str(path)!r} already has a run. Continue it with resume={str(path)!r}, "
            "or name another folder."
        )
    # A run that was killed during its creation leaves files of chains.
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    if any(not name.startswith(("chain-", RUN_FILE)) for name in names) or folder.is_file():
        raise SettingError(
            f"checkpoint={str(path)!r} is not an empty folder. Name one that is empty or does not "
            "exist."
        )
    return folder
