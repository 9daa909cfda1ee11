"""Libraries that are imported when they are first used, as few processes use them."""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

#: Seconds to import, and used by few tests.
SLOW = ("arviz", "bambi", "polars", "zarr")


class AsOutsideOfTests:
    """A loader of a library whose import draws from NumPy's own generators, as at collection.

    Within a test they would be seeded by its name, and the next of them with other seeds.
    """

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        """Return the module to load into."""
        return self._loader.create_module(spec)

    def exec_module(self, module):
        """Load the module."""
        random = sys.modules["numpy"].random
        within = random.default_rng
        random.default_rng = getattr(within, "seeded", within)
        try:
            self._loader.exec_module(module)
        finally:
            random.default_rng = within

    def __getattr__(self, name):
        return getattr(self._loader, name)


def import_later(names=SLOW):
    """Have libraries imported when an attribute of theirs is first asked for."""
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            loader = spec.loader = LazyLoader(AsOutsideOfTests(spec.loader))
            sys.modules[name] = module = module_from_spec(spec)
            loader.exec_module(module)
