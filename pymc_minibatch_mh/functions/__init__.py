"""Scalar functions: each file has an operation, its kernel, its derivative and its enclosure.

Importing this package registers the functions of all files.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
