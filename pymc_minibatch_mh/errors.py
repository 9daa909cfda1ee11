"""The exceptions of the package. Every message names the variable, the cause and the fix."""


class MinibatchError(ValueError):
    """Base class of everything that this package refuses."""


class SettingError(MinibatchError):
    """An invalid setting of a step method."""


class UnsupportedModelError(MinibatchError):
    """A model whose likelihood cannot be proven to be a sum over independent rows."""


class FactorizationError(MinibatchError):
    """The parts of a model do not add up to the model's own log-density."""


class ModeError(MinibatchError):
    """The posterior mode that control variates expand around cannot be found."""


class BoundsError(MinibatchError):
    """A model whose remainders cannot be bounded, as exact methods need."""


class BoundViolationError(MinibatchError):
    """A row that exceeded its bound while a chain ran."""


class NotWorthwhileError(MinibatchError):
    """A model that NUTS is forecast to sample faster."""


class StaleDataError(MinibatchError):
    """The model's data changed after the step method was built."""


class SourceError(MinibatchError):
    """Stored rows that cannot be read, or are not those that were there."""


def refuse(variable: str, cause: str, fix: str) -> UnsupportedModelError:
    """Return the refusal of a likelihood: the rest of a sentence on it, and a way out."""
    return UnsupportedModelError(f"{variable!r} {cause}, so it cannot be subsampled. {fix}")
