"""What is recorded of a model that people asked about: how it is built, and where they asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pymc as pm


@dataclass(frozen=True, eq=False)
class Report:
    """A model of simulated data.

    Its function takes a random generator and numbers of rows and groups, and by keyword the values
    that data are simulated with, under the names of the model's variables.
    """

    build: Callable[..., pm.Model]
    #: A link in Markdown, or the words that lead to the place.
    source: str

    @property
    def name(self) -> str:
        """Name in the table."""
        return self.build.__name__

    @property
    def kind(self) -> str:
        """The kind of model, in a few words."""
        return self.build.__doc__.removesuffix(".")

    @property
    def truth(self) -> Mapping[str, object]:
        """The values that data are simulated with: name of a free variable -> value."""
        return self.build.__kwdefaults__ or {}


def asked_in(source: str):
    """Describe a function that builds a model, by the place where people asked about it."""

    def decorate(build):
        build.report = Report(build, source)
        return build

    return decorate


def on_github(repository: str, number: int):
    """Describe a function that builds a model of a thread on GitHub."""
    address = f"https://github.com/{repository}/issues/{number}"
    return asked_in(f"[{repository.split('/')[1]} #{number}]({address})")
