"""Libraries that are imported when they are first used, as few processes use them."""

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType

#: Seconds to import, and used by few tests.
SLOW = ("arviz", "bambi", "polars", "zarr")


class Later(ModuleType):
    """A module that is executed when it is first asked for what it does not have yet.

    It has a file from the start: `inspect` asks all modules for theirs, also while one is half
    imported that a library here imports. A library whose import draws from NumPy's own generators
    draws as at collection: within a test they would be seeded by its name, and the next of them
    with other seeds.
    """

    def __getattr__(self, name):
        random = sys.modules["numpy"].random
        within = random.default_rng
        random.default_rng = getattr(within, "seeded", within)
        self.__class__ = ModuleType
        if self.__spec__.submodule_search_locations is not None:
            self.__path__ = self.__spec__.submodule_search_locations
        try:
            self.__spec__.loader.exec_module(self)
        finally:
            random.default_rng = within
        return getattr(self, name)


def import_later(names=SLOW):
    """Have libraries imported when an attribute of theirs is first asked for."""
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            module = sys.modules[name] = module_from_spec(spec)
            # A submodule cannot be imported before the package has been.
            vars(module).pop("__path__", None)
            module.__class__ = Later
