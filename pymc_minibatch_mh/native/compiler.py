"""Compile the library: at installation, and in a checkout whose sources have changed.

Each file is a unit. Its object file is kept under a digest of all that it depends on, so that an
edit compiles one unit. Nothing of the package is imported here: the build hook runs this file by
its path.

Variables of the environment: CC names a compiler, MH_CC_OPTIONS adds options for it, as for
sanitizers, and MH_SOURCES is a folder with other sources. The libraries of these have names of
their own.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

#: Where the sources are, and the library.
FOLDER = Path(os.environ.get("MH_SOURCES") or Path(__file__).parent)
#: For the processor that all of a platform have, and without fused operations: draws then agree on
#: all of them, bit for bit. Without -O3 gcc leaves sums of eight lanes half as fast.
FLAGS = (
    "-std=c17", "-O3", "-fPIC", "-fno-semantic-interposition", "-ffp-contract=off",
    # No result changes by these: nobody looks at errno, or at traps.
    "-fno-math-errno", "-fno-trapping-math",
)  # fmt: skip
#: How leaves.c is compiled once more: processor -> instruction set -> options. One set is chosen
#: when the library is loaded: see instruction_sets.c.
#: AVX-512 was as fast as AVX2 at 50 coordinates, and 5 % faster at 200.
SETS: dict[str, dict[str, tuple[str, ...]]] = {"x86_64": {"avx2": ("-mavx2",)}}
#: What is linked. Calls from file to file go straight there, where nothing else could be meant.
_LINKED = {".dll": (), ".dylib": ("-lm",), ".so": ("-Wl,-Bsymbolic", "-lm")}
#: Seconds after which libraries and object files of other sources are removed: another process may
#: be about to load them.
_KEPT = 86_400.0


class Compiler(NamedTuple):
    """A command that compiles, what it says of its version, and the processor it compiles for."""

    command: tuple[str, ...]
    version: str
    processor: str


class Unit(NamedTuple):
    """A file to compile, and the options that it has beside those of all."""

    source: Path
    options: tuple[str, ...]


def options() -> tuple[str, ...]:
    """Return the options of all units."""
    return (*FLAGS, *shlex.split(os.environ.get("MH_CC_OPTIONS", "")))


def _text(path: Path) -> bytes:
    """Return a source, the same whatever Git makes of ends of lines."""
    return path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n")


def _digest(*parts: bytes) -> str:
    return sha256(b"\0".join(parts)).hexdigest()[:16]


@cache
def digest() -> str:
    """Return a digest of everything that is compiled, and how."""
    sources = sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")])
    return _digest(repr((options(), SETS)).encode(), *map(_text, sources))


def library() -> Path | None:
    """Return the library of these sources, if it is there and whole: to load a part ends Python."""
    for found in FOLDER.glob(f"libmh-{digest()}-*"):
        if found.suffix == suffix() and found.stem.endswith(f"-{found.stat().st_size}"):
            return found
    return None


def suffix(platform: str = sys.platform) -> str:
    """Return how names of libraries end."""
    return {"win32": ".dll", "darwin": ".dylib"}.get(platform, ".so")


def compilers() -> Iterator[Compiler]:
    """Yield the machine's own compilers that run."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        command = shlex.split(name or "")
        version, machine = _said(command, "--version"), _said(command, "-dumpmachine")
        if version and machine:
            yield Compiler(tuple(command), version, machine.partition("-")[0])


def zig(target: str | None = None) -> Compiler | None:
    """Return the compiler that the package ziglang is, for this or another machine."""
    command = [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline", "-s"]
    command += ["-target", target] if target else []
    # Of a target with the version of a system it does not say the machine.
    version, machine = _said(command, "--version"), target or _said(command, "-dumpmachine")
    return Compiler(tuple(command), version, machine.partition("-")[0]) if version else None


def _said(command: list[str], question: str) -> str:
    """Return what a command answers, "" if it does not run."""
    if not command or not shutil.which(command[0]):
        return ""
    done = subprocess.run([*command, question], capture_output=True, text=True, check=False)
    return "" if done.returncode else done.stdout.strip()


def units(compiler: Compiler) -> Iterator[Unit]:
    """Yield what a library consists of."""
    for source in sorted(FOLDER.glob("*.c")):
        if source.name == "leaves.c":
            for name, wider in {"baseline": (), **SETS.get(compiler.processor, {})}.items():
                yield Unit(source, (*wider, *_renamed(name)))
        else:
            own = (f"-DMH_DIGEST={digest()}",) if source.name == "library.c" else ()
            yield Unit(source, own)


def _renamed(name: str) -> Iterator[str]:
    """Yield options that give leaf functions the name of their instruction set at the end."""
    listed = (FOLDER / "leaves.h").read_text("utf-8")
    for leaf in re.findall(r"^LEAF\(.*?(mh_\w+),", listed, flags=re.MULTILINE):
        yield f"-D{leaf}={leaf}_{name}"


def compile_units(compiler: Compiler) -> list[Path]:
    """Return the object files of all units, which are compiled where they are not there."""
    objects = FOLDER / ".objects"
    objects.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=objects) as name, ThreadPoolExecutor() as threads:
        return [*threads.map(lambda unit: _object(compiler, unit, Path(name)), units(compiler))]


def _object(compiler: Compiler, unit: Unit, folder: Path) -> Path:
    how = [*compiler.command, *options(), *unit.options]
    depends = map(_text, sorted(_included(unit.source)))
    key = _digest(compiler.version.encode(), " ".join(how).encode(), *depends)
    made = FOLDER / ".objects" / f"{unit.source.stem}-{key}.o"
    if made.exists():
        os.utime(made)  # it is in use: see _remove_older
    else:
        new = folder / made.name
        _run([*how, "-c", str(unit.source), "-o", str(new)])
        new.replace(made)
    return made


def _included(source: Path) -> set[Path]:
    """Return a file, and the headers of this folder that it includes, and that these include."""
    found, left = {source}, [source]
    for path in left:
        names = re.findall(r'^#include "(.+)"', path.read_text("utf-8"), flags=re.MULTILINE)
        new = {FOLDER / name for name in names} - found
        found |= new
        left += new
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")


def compile_library(place: Path, compiler: Compiler, platform: str = sys.platform) -> Path:
    """Compile the library into a folder; its name has the digest of its sources and its length.

    Files are made where no other process sees them, and put in their places at once: several may
    compile at a time. Raises an OSError with everything that the compiler says, if it fails.
    """
    ending, found = suffix(platform), compile_units(compiler)
    with tempfile.TemporaryDirectory(dir=FOLDER / ".objects") as name:
        new = Path(name, f"libmh{ending}")
        link = [*compiler.command, *options(), "-shared", *map(str, found), "-o", str(new)]
        _run([*link, *_LINKED[ending]])
        made = place / f"libmh-{digest()}-{new.stat().st_size}{ending}"
        new.replace(made)
    return made


def build() -> Path:
    """Compile the library of these sources, if it is not there; return where it is.

    Raises an OSError if it is not there and cannot be compiled.
    """
    if found := library():
        return found
    made = compile_library(FOLDER, _some_compiler())
    _remove_older(made)
    return made


def compile_file(source: Path) -> Path:
    """Compile a file that includes the library's headers; return where its own library is.

    It is compiled again where it or the library's sources have changed. It calls no function of the
    library but by an address: what it is linked with is elsewhere when it is loaded.
    """
    key = _digest(_text(source), digest().encode())
    made = FOLDER / ".objects" / f"{source.stem}-{key}{suffix()}"
    if not made.exists():
        made.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            new = Path(folder, made.name)
            command = [*_some_compiler().command, *options(), "-shared", f"-I{FOLDER}"]
            _run([*command, str(source), "-o", str(new)])
            new.replace(made)
    return made


def _some_compiler() -> Compiler:
    """Return a compiler of this machine."""
    compiler = next(compilers(), None) or zig()
    if compiler is None:
        raise OSError(
            f"there is none of these sources in {FOLDER}, or not a whole one, and no C compiler to "
            "make it with. Install a compiler, as gcc or clang, or the Python package ziglang; or "
            "install pymc_minibatch_mh from a wheel."
        )
    return compiler


def _remove_older(made: Path) -> None:
    """Remove what other sources have left behind, unless others may still look for it."""
    for old in [*FOLDER.glob("libmh-*"), *(FOLDER / ".objects").iterdir()]:
        try:
            if old != made and time.time() - old.stat().st_mtime > _KEPT:
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        except OSError:  # another process removes it, or Windows has it loaded
            pass
