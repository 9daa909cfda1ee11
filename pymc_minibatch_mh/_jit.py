"""The package's numba decorator, its options and its cache."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import CPUDispatcher

from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.progress import compiling

_log = logging.getLogger("pymc")
_PACKAGE = "pymc_minibatch_mh"


#: Functions compiled, or compiled into others: numba looks at one file for each.
_COMPILED = ("_jit.py", "data", "functions", "kernels", "proposals", "steps")


def sources(root: Path = Path(__file__).parent, rooms: Sequence[str] = _COMPILED) -> str:
    """Return a digest of some rooms of the package in a folder, by default of all compiled code."""
    whole = sha256()
    for name in rooms:
        for path in sorted([root / name, *(root / name).rglob("*.py")]):
            if path.is_file():
                whole.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return whole.hexdigest()[:16]


_VERSION = f"{version('pymc-minibatch-mh')} {sources()}"

#: Folder of source files -> whether numba keeps its compiled functions on disk.
_KEPT: dict[Path, bool] = {}


def compiled(
    signature: Any = None,
    *,
    reassociate: bool = False,
    inlined: bool = False,
    spliced: bool = False,
    kept: bool = True,
) -> Callable[[Callable], Any]:
    """Compile a module-level function once per installation and keep it on disk.

    It releases the GIL, divides by zero as IEEE has it, and must not raise: a first-class function
    cannot carry an exception to its caller.

    Parameters
    ----------
    signature
        Numba signature, for which alone the function is compiled: it is then first-class.
    reassociate
        Let LLVM reorder sums, which vectorises dot products. Never for differences of
        log-likelihoods, compensated sums or outward rounding.
    inlined
        Have the function compiled into its callers: a call that hands over records costs as many
        words as their arrays have, some 200 ns for a whole posterior.
    spliced
        Have the statements of the function take the place of each call before anything is
        compiled: less work for a large one with a single caller. Not with `reassociate`.
    kept
        False keeps the function on disk with its callers alone: for one that takes records of
        others' types, which no other process might know.
    """
    if config.DISABLE_JIT:
        raise MinibatchError(
            "NUMBA_DISABLE_JIT turns numba's compiler off, but this package needs it. Unset that "
            "environment variable, and start Python anew."
        )

    def decorate(function: Callable) -> Any:
        # Functions that are always inlined are kept with their callers.
        keeps = kept and not (inlined or spliced) and _is_kept(function)
        dispatcher = njit(
            nogil=True,
            error_model="numpy",
            fastmath={"reassoc", "contract"} if reassociate else False,
            forceinline=inlined,
            inline="always" if spliced else "never",
        )(function)
        if keeps:
            dispatcher._cache = _Cache(function)
        if signature is not None:
            dispatcher.__class__, dispatcher.declared = _OfOneSignature, signature
        return dispatcher

    return decorate


class _Watch(event.Listener):
    """Has the line of progress say that numba compiles, PyTensor's functions included."""

    _depth = 0

    def on_start(self, _: Any) -> None:
        """Begin a function, or one that another calls."""
        self._depth += 1
        if self._depth == 1:
            compiling(True)

    def on_end(self, _: Any) -> None:
        """End it."""
        self._depth -= 1
        if self._depth == 0:
            compiling(False)


event.register("numba:compile", _Watch())


class _OfOneSignature(CPUDispatcher):
    """A function that is compiled when it is first used, for the signature that it declares."""

    declared: Any

    def compile(self, sig: Any) -> Any:
        """Compile for the declared signature in the place of another."""
        return super().compile(self.declared)

    @property
    def nopython_signatures(self) -> list[Any]:
        """The declared signature."""
        self.compile(self.declared)
        return super().nopython_signatures


def _modules_of(types: Iterable[Any]) -> Iterator[str]:
    """Yield the modules of the records that some types of numba hold."""
    for one in types:
        if hasattr(one, "instance_class"):
            yield one.instance_class.__module__
        yield from _modules_of(getattr(one, "types", ()))


_DIGEST_SIZE = sha256().digest_size


@cache
def _digest(path: str) -> str:
    return sha256(Path(path).read_bytes()).hexdigest()


class _CacheFile(IndexDataCacheFile):
    """Numba's own, for processes that write at the same time and for files copied or damaged.

    Numba numbers the files of compiled functions: two processes that begin with an empty cache
    would both write the first. Here a file is named after its contents, and a source is known by
    its contents, as a copy of it has another time. Every file ends with its digest: one that was
    cut or altered is absent, and written anew.
    """

    told = False

    def __init__(self, numbas: IndexDataCacheFile, source: str) -> None:
        self.__dict__.update(vars(numbas))
        self._source_stamp = _digest(source)
        self._version += f" {_VERSION}"
        self._shared_index = Path(self._index_path)

    def load(self, key: Any) -> Any:
        """Return a compiled function, or None."""
        self._index_path = self._index_of(key)
        return super().load(key)

    def _index_of(self, key: Any) -> str:
        """Return the index of a function: one that takes records of others has one of its own.

        Whoever reads an index imports the modules of its records, whose contents name it.
        """
        taken = getattr(key[0], "args", key[0])
        others = {name for name in _modules_of(taken) if name.split(".")[0] != _PACKAGE}
        files = [str(sys.modules[name].__file__) for name in sorted(others)]
        own = "".join(f".{_digest(file)[:12]}" for file in files)
        return str(self._shared_index.with_suffix(f"{own}{self._shared_index.suffix}"))

    def save(self, key: Any, data: Any) -> None:
        """Keep a compiled function."""
        self._index_path = self._index_of(key)
        overloads = self._load_index()
        if key not in overloads:
            digest = sha256(self._dump(key)).hexdigest()
            overloads[key] = self._data_name(int(digest[:15], 16))
            self._save_index(overloads)
        self._save_data(overloads[key], data)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[BytesIO]:
        content = BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue() + sha256(content.getvalue()).digest())

    def _load_index(self) -> dict:
        return super()._load_index() if self._is_undamaged(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        return super()._load_data(name) if self._is_undamaged(self._data_path(name)) else None

    def _is_undamaged(self, path: str) -> bool:
        """Return whether a file ends with its digest, or is missing, for numba to find out."""
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError:
            return True
        except OSError:
            content = b""
        if sha256(content[:-_DIGEST_SIZE]).digest() == content[-_DIGEST_SIZE:]:
            return True
        if not _CacheFile.told:
            _log.warning(
                "A file of compiled functions is damaged or cannot be read: %s. Compiling such "
                "functions anew and replacing their files.",
                path,
            )
        _CacheFile.told = True
        return False


class _Cache(FunctionCache):
    """Numba's own, for one version of this package, and for disks that are full.

    Numba compiles again the functions of a file that has changed, and not their callers.
    """

    told = compiles = False

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        numbas: Any = self._cache_file  # type: ignore[has-type]
        self._cache_file = _CacheFile(numbas, function.__code__.co_filename)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a compiled function; None if it has to be compiled, logged once for a model."""
        found = super().load_overload(sig, target_context)
        if found is None and not _Cache.compiles:
            _Cache.compiles = True
            _log.info("Compiling functions for this kind of model, once; this can take a minute.")
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function, where there is room; half-written files are removed."""
        try:
            super().save_overload(sig, data)
        except OSError as reason:
            if not _Cache.told:
                _log.warning(
                    "Numba cannot store compiled functions in %s (%s), so every process compiles "
                    "them anew, for about a minute. Make room there, or set the environment "
                    "variable NUMBA_CACHE_DIR to another folder.",
                    self.cache_path,
                    reason.strerror,
                )
            _Cache.told = True


def announce_anew() -> None:
    """Have the next function that is compiled announced: a model may need others than the last."""
    _Cache.compiles = False


def _is_kept(function: Callable) -> bool:
    folder = Path(function.__code__.co_filename).parent
    if folder not in _KEPT:
        _KEPT[folder] = _has_cache(function)
    return _KEPT[folder]


def _has_cache(function: Callable) -> bool:
    """Ask numba for a place to keep a function in, and say once per process if there is none."""
    try:
        FunctionCache(function)
    except RuntimeError as reason:
        if all(_KEPT.values()):
            _log.warning(
                "Numba has no folder for compiled functions (%s), so every process compiles them "
                "anew, for about a minute. Set the environment variable NUMBA_CACHE_DIR to a "
                "writable folder.",
                reason,
            )
        return False
    return True
