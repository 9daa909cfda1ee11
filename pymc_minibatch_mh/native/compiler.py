"""Compiler of the library, at installation and in a checkout with changed sources.

Each source file is a unit. Its object file is stored under a digest of everything that it depends
on, so that an edit compiles one unit. The module imports nothing of the package: the build hook
runs this file by its path.

Environment variables: CC names a compiler, MH_CC_OPTIONS adds options such as sanitizers, and
MH_SOURCES is a folder with other sources. The name of the library depends on these options.
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

#: Folder of the sources, and of the library.
FOLDER = Path(os.environ.get("MH_SOURCES") or Path(__file__).parent)
#: Options for the baseline processor of a platform, without fused operations: draws then agree bit
#: for bit on all processors. Without -O3 gcc makes sums of eight lanes half as fast.
FLAGS = (
    "-std=c17", "-O3", "-fPIC", "-fno-semantic-interposition", "-ffp-contract=off",
    # No result depends on these: nothing uses errno or traps.
    "-fno-math-errno", "-fno-trapping-math",
)  # fmt: skip
#: Further compilations of leaves.c: processor -> instruction set -> options. The library selects a
#: set when it is loaded: see instruction_sets.c.
SETS: dict[str, dict[str, tuple[str, ...]]] = {"x86_64": {"avx2": ("-mavx2",)}}
#: Linker options: calls between files go directly to their targets.
_LINKED = {".dll": (), ".dylib": ("-lm",), ".so": ("-Wl,-Bsymbolic", "-lm")}
#: Minimum age in seconds of outdated libraries and object files that are removed: another process
#: may be about to load younger ones.
_KEPT = 86_400.0


class Compiler(NamedTuple):
    """Command of a compiler, with its version and target processor."""

    command: tuple[str, ...]
    version: str
    processor: str


class Unit(NamedTuple):
    """A source file, and the compiler options that it needs besides the common options."""

    source: Path
    options: tuple[str, ...]


def compiler_options() -> tuple[str, ...]:
    """Compiler options common to all units."""
    return (*FLAGS, *shlex.split(os.environ.get("MH_CC_OPTIONS", "")))


def _source_text(path: Path) -> bytes:
    """Name and text of a source, independent of Git's conversion of line ends."""
    return path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n")


def _digest_of_parts(*parts: bytes) -> str:
    return sha256(b"\0".join(parts)).hexdigest()[:16]


@cache
def digest() -> str:
    """Digest of all sources and compiler options, a part of the library's name."""
    sources = sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")])
    return _digest_of_parts(repr((compiler_options(), SETS)).encode(), *map(_source_text, sources))


def library() -> Path | None:
    """Path of the library of these sources; None if it is missing or incomplete."""
    for found in FOLDER.glob(f"libmh-{digest()}-*"):
        if found.suffix == library_suffix() and found.stem.endswith(f"-{found.stat().st_size}"):
            return found
    return None


def library_suffix(platform: str = sys.platform) -> str:
    """Suffix of library names on a platform."""
    return {"win32": ".dll", "darwin": ".dylib"}.get(platform, ".so")


def find_compilers() -> Iterator[Compiler]:
    """Working compilers of this machine."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        command = shlex.split(name or "")
        version, machine = _reply_to(command, "--version"), _reply_to(command, "-dumpmachine")
        if version and machine:
            yield Compiler(tuple(command), version, machine.partition("-")[0])


def zig_compiler(target: str | None = None) -> Compiler | None:
    """Compiler of the package ziglang, for this or another machine."""
    command = [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline", "-s"]
    command += ["-target", target] if target else []
    # zig does not report the machine if the target contains a system version.
    version, machine = _reply_to(command, "--version"), target or _reply_to(command, "-dumpmachine")
    return Compiler(tuple(command), version, machine.partition("-")[0]) if version else None


def _reply_to(command: list[str], question: str) -> str:
    """Output of a command with one option, "" if it fails."""
    if not command or not shutil.which(command[0]):
        return ""
    done = subprocess.run([*command, question], capture_output=True, text=True, check=False)
    return "" if done.returncode else done.stdout.strip()


def units(compiler: Compiler) -> Iterator[Unit]:
    """Source files with their options, from which the library is compiled."""
    for source in sorted(FOLDER.glob("*.c")):
        if source.name == "leaves.c":
            for name, wider in {"baseline": (), **SETS.get(compiler.processor, {})}.items():
                yield Unit(source, (*wider, *_leaf_renamings(name)))
        else:
            yield Unit(source, _own_options() if source.name == "library.c" else ())


def _own_options() -> tuple[str, ...]:
    """Options of library.c: digest of the sources, and names of their records."""
    records = re.findall(r"^} (mh_\w+);$", (FOLDER / "mh.h").read_text("utf-8"), flags=re.MULTILINE)
    layouts = " ".join(f"LAYOUT({name})" for name in records if name != "mh_status")
    return f"-DMH_DIGEST={digest()}", f"-DMH_RECORDS={layouts}"


def _leaf_renamings(name: str) -> Iterator[str]:
    """Options that append the instruction set to the names of leaf functions."""
    listed = (FOLDER / "leaves.h").read_text("utf-8")
    for leaf in re.findall(r"^LEAF\(.*?(mh_\w+),", listed, flags=re.MULTILINE):
        yield f"-D{leaf}={leaf}_{name}"


def compile_units(compiler: Compiler) -> list[Path]:
    """Object files of all units; missing ones are compiled."""
    objects = FOLDER / ".objects"
    objects.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=objects) as name, ThreadPoolExecutor() as threads:
        return [*threads.map(lambda unit: _object_of(compiler, unit, Path(name)), units(compiler))]


def _object_of(compiler: Compiler, unit: Unit, folder: Path) -> Path:
    how = [*compiler.command, *compiler_options(), *unit.options]
    depends = map(_source_text, sorted(_included_headers(unit.source)))
    key = _digest_of_parts(compiler.version.encode(), " ".join(how).encode(), *depends)
    made = FOLDER / ".objects" / f"{unit.source.stem}-{key}.o"
    if made.exists():
        os.utime(made)  # a new date, so that _remove_older keeps it
    else:
        new = folder / made.name
        _run_command([*how, "-c", str(unit.source), "-o", str(new)])
        new.replace(made)
    return made


def _included_headers(source: Path) -> set[Path]:
    """A file with all headers of this folder that it includes, directly or indirectly."""
    found, left = {source}, [source]
    for path in left:
        names = re.findall(r'^#include "(.+)"', path.read_text("utf-8"), flags=re.MULTILINE)
        new = {FOLDER / name for name in names} - found
        found |= new
        left += new
    return found


def _run_command(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")


def compile_library(place: Path, compiler: Compiler, platform: str = sys.platform) -> Path:
    """Compile the library into a folder; its name has the digest of its sources and its length.

    Files are written under temporary names and renamed at once, because several processes may
    compile at a time. OSError with all messages of the compiler if it fails.
    """
    ending, found = library_suffix(platform), compile_units(compiler)
    with tempfile.TemporaryDirectory(dir=FOLDER / ".objects") as name:
        new = Path(name, f"libmh{ending}")
        link = [*compiler.command, *compiler_options(), "-shared", *map(str, found), "-o", str(new)]
        _run_command([*link, *_LINKED[ending]])
        made = place / f"libmh-{digest()}-{new.stat().st_size}{ending}"
        new.replace(made)
    return made


def build() -> Path:
    """Path of the library of these sources, compiled if it is missing.

    OSError if it cannot be compiled.
    """
    if found := library():
        return found
    made = compile_library(FOLDER, _some_compiler())
    _remove_older(made)
    return made


def compile_file(source: Path) -> Path:
    """Path of the library of a file that includes the library's headers.

    The file is compiled again after a change of it or of the library's sources. It calls functions
    of the library by address only, because its own link does not contain them.
    """
    key = _digest_of_parts(_source_text(source), digest().encode())
    made = FOLDER / ".objects" / f"{source.stem}-{key}{library_suffix()}"
    if not made.exists():
        made.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            new = Path(folder, made.name)
            command = [*_some_compiler().command, *compiler_options(), "-shared", f"-I{FOLDER}"]
            _run_command([*command, str(source), "-o", str(new)])
            new.replace(made)
    return made


def _some_compiler() -> Compiler:
    """A working compiler of this machine."""
    compiler = next(find_compilers(), None) or zig_compiler()
    if compiler is None:
        raise OSError(
            f"there is none of these sources in {FOLDER}, or not a whole one, and no C compiler to "
            "make it with. Install a compiler, as gcc or clang, or the Python package ziglang; or "
            "install pymc_minibatch_mh from a wheel."
        )
    return compiler


def _remove_older(made: Path) -> None:
    """Remove files of older sources, unless other processes may still load them."""
    for old in [*FOLDER.glob("libmh-*"), *(FOLDER / ".objects").iterdir()]:
        try:
            if old != made and time.time() - old.stat().st_mtime > _KEPT:
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        except OSError:  # another process removes it, or Windows has it loaded
            pass
