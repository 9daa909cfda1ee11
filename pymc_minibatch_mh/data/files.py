"""Files as they were when they were opened, so that others in their place are noticed."""

from dataclasses import dataclass
from pathlib import Path

from pymc_minibatch_mh.errors import SourceError

#: What to do where a file is not the one that it was.
AGAIN = "Build Rows(...), the model and the step again on the file as it shall be."


@dataclass(frozen=True)
class SourceFile:
    """A file, or an object of a store, as it was when it was opened.

    Parameters
    ----------
    path
        Where it lies.
    size
        In bytes.
    changed
        When it was last written to, in ns, or what else its store tells it by.
    """

    path: str
    size: int
    changed: int | str

    @classmethod
    def at(cls, path: str | Path) -> "SourceFile":
        """Look at a file.

        Raises
        ------
        SourceError
            If there is none.
        """
        try:
            found = Path(path).stat()
        except OSError as error:
            raise SourceError(
                f"the file {path} cannot be read: {error.strerror}. Give a path that can."
            ) from None
        return cls(str(path), found.st_size, found.st_mtime_ns)

    @property
    def stamp(self) -> str:
        """What tells the file from others."""
        return f"{Path(self.path).name}, {self.size} bytes, changed at {self.changed} ns"

    def require_unchanged(self) -> None:
        """Look at the file again: reading beyond the end of a mapped one would end the process.

        Raises
        ------
        SourceError
            If it is not the one that it was.
        """
        try:
            found = Path(self.path).stat()
        except OSError:
            self.require_same(None)
        else:
            self.require_same(SourceFile(self.path, found.st_size, found.st_mtime_ns))

    def require_same(self, found: "SourceFile | None") -> None:
        """Compare with what lies in the place now.

        Raises
        ------
        SourceError
            If it is not the one that it was.
        """
        if found is None:
            raise SourceError(f"the file {self.path} is no more. {AGAIN}")
        if found.size != self.size:
            raise SourceError(
                f"the file {self.path} has {found.size:,} bytes and had {self.size:,} when it was "
                f"opened. {AGAIN}"
            )
        if found.changed != self.changed:
            raise SourceError(f"the file {self.path} was written to after it was opened. {AGAIN}")
