"""NumPy archives without pickle, written completely or not at all.

An archive is written to a temporary file beside its path, and renamed once it is on the disk. Its
comment is a digest of its members, so that every byte is verified before use.
"""

import glob
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import IO, Any
from zipfile import ZipFile

import numpy as np

#: Module for file locks. Windows lacks it, so temporary files of killed processes stay there.
_LOCKS: Any = import_module("fcntl") if find_spec("fcntl") else None


def write_archive(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Write arrays through to the disk and return their digest; an OSError names the file."""
    # Links are followed; pipes and other special files are written in place.
    place = path.resolve()
    try:
        if place.exists() and not place.is_file():
            with open(place, "wb") as file:
                return _write_members(file, arrays)
        _remove_orphans(place)
        digest = _write_beside(place, arrays)
        sync_folder(place.parent)
    except OSError as error:
        error.filename = str(path)
        raise
    return digest


def _write_beside(place: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Write a locked temporary file beside the target, and rename it to the target."""
    while True:
        part = place.with_name(f"{place.name}.{token_hex(4)}.part")
        with open(part, "xb") as file:
            try:
                if not _is_locked(file) or not part.exists():
                    # Another process removed the file before it was locked: make another.
                    continue
                digest = _write_members(file, arrays)
                file.flush()
                os.fsync(file.fileno())
                if _LOCKS is None:
                    file.close()
                part.replace(place)
                return digest
            except BaseException:
                part.unlink(missing_ok=True)
                raise


def _write_members(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> str:
    """Write arrays like np.savez, without its two copies of every array; return their digest."""
    with ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _write_array(member, array)
        archive.comment = _members_digest(archive).encode()
    return archive.comment.decode()


def _write_array(member: Any, array: np.ndarray) -> None:
    if not array.flags.c_contiguous:
        np.lib.format.write_array(member, array, allow_pickle=False)
        return
    np.lib.format.write_array_header_1_0(member, np.lib.format.header_data_from_array_1_0(array))
    member.write(array.reshape(-1).view(np.uint8).data)


def _is_locked(file: IO[bytes]) -> bool:
    """Whether this process holds the lock of an open file."""
    if _LOCKS is None:
        return True
    try:
        _LOCKS.flock(file, _LOCKS.LOCK_EX | _LOCKS.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # On a disk without locks no process removes orphans, so the file counts as locked.
        return True
    return True


def _remove_orphans(place: Path) -> None:
    """Remove unlocked temporary files beside a path: their processes were killed."""
    pattern = f"{glob.escape(place.name)}.{'[0-9a-f]' * 8}.part"
    for part in place.parent.glob(pattern) if _LOCKS else ():
        with suppress(OSError), open(part, "rb+") as file:
            _LOCKS.flock(file, _LOCKS.LOCK_EX | _LOCKS.LOCK_NB)
            part.unlink()


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk, if the system supports that."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _members_digest(archive: ZipFile) -> str:
    """Digest of the names, sizes and cyclic redundancy checks of the members."""
    members = [(one.filename, one.file_size, one.CRC) for one in archive.infolist()]
    return blake2b(repr(members).encode(), digest_size=16).hexdigest()


def read_archive(path: Path) -> tuple[dict[str, np.ndarray], str]:
    """Arrays and digest of a file; raises exceptions of any type if it is damaged or altered."""
    with ZipFile(path) as archive:
        digest = _members_digest(archive)
        if archive.comment.decode() != digest:
            raise ValueError("its arrays are not those that were written")
        members = {one.removesuffix(".npy"): archive.read(one) for one in archive.namelist()}
    read = np.lib.format.read_array
    return {n: read(BytesIO(data), allow_pickle=False) for n, data in members.items()}, digest
