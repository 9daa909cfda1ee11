"""Exceptions of the package. Every message names the variable, the cause and the fix."""


class MinibatchError(ValueError):
    """Base class of this package's errors."""


class SettingError(MinibatchError):
    """An invalid setting of a step method."""


class UnsupportedModelError(MinibatchError):
    """A model whose observations cannot be proven independent given the parameters."""


class FactorizationError(MinibatchError):
    """Terms of a model that do not add up to its log-density."""


class ModeError(MinibatchError):
    """A posterior without a mode for the control variates."""


class BoundsError(MinibatchError):
    """A model without the bounds that exact methods need."""


class BoundViolationError(MinibatchError):
    """An observation that exceeded its bound while a chain ran."""


class NotWorthwhileError(MinibatchError):
    """A model that NUTS is forecast to sample faster."""


class StaleDataError(MinibatchError):
    """Data that changed after the step was built."""


class SourceError(MinibatchError):
    """Stored observations that cannot be read, or have changed."""


def refusal_message(variable: str, cause: str, fix: str) -> UnsupportedModelError:
    """UnsupportedModelError of a variable, with the cause as a clause and the remedy `fix`."""
    return UnsupportedModelError(f"{variable!r} {cause}, so it cannot be subsampled. {fix}")
