"""The step methods that users touch, and their plumbing into PyMC.

Classes are named, documented and shown in more processes than steps are built in. ``machinery`` is
what only a step that is built needs, and is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pymc_minibatch_mh.collection import collection_paused

if TYPE_CHECKING:
    from pymc_minibatch_mh.step import machinery

__all__ = ["machinery"]


def __getattr__(name: str) -> Any:
    if name != "machinery":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with collection_paused():
        return import_module(f"{__name__}.machinery")
