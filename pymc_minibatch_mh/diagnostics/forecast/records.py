"""The parts of the record of what is known of a model before it is sampled."""

from dataclasses import dataclass

from pymc_minibatch_mh.steps.base import MinibatchStep


@dataclass(frozen=True)
class DataArray:
    """A data array that rows of a term are read from.

    Parameters
    ----------
    name
        Its name in the model, or of which variable it is an array.
    dtype
        Type of its numbers, as stored.
    row_shape
        Shape of one row.
    bytes_per_row
        Size of one row.
    """

    name: str
    dtype: str
    row_shape: tuple[int, ...]
    bytes_per_row: int


@dataclass(frozen=True)
class SubsampledTerm:
    """A likelihood term whose rows are subsampled.

    Parameters
    ----------
    name
        The observed variable.
    n_rows
        Number of its rows.
    arguments
        The linear forms of the parameters that the log-likelihood of one row depends on; empty
        where it cannot be taken apart.
    not_apart
        Why it cannot be taken apart, or is not computed by these forms; empty where it is.
    arrays
        The data arrays that its rows are read from.
    """

    name: str
    n_rows: int
    arguments: tuple[str, ...]
    not_apart: str
    arrays: tuple[DataArray, ...]


@dataclass(frozen=True)
class NotSubsampled:
    """A part of the model whose rows are not subsampled, or that has none.

    Parameters
    ----------
    name
        The variable.
    reason
        Why.
    """

    name: str
    reason: str


@dataclass(frozen=True)
class InCoordinates:
    """A variable in whose place the chain has other coordinates, or why it has none.

    Parameters
    ----------
    name
        The variable.
    words
        What stands in its place; empty for nothing.
    refused
        Why rows are not linear in it, and are in nothing else; empty where they are.
    """

    name: str
    words: str
    refused: str = ""


@dataclass(frozen=True)
class BoundTable:
    """Bounds c_i of all rows over one trust region.

    Parameters
    ----------
    radius
        Radius of the region in posterior standard deviations.
    left_with_probability
        Probability with which a normal posterior is outside the region.
    kind
        Which bound it is: see docs/bounds.md.
    total
        C = Σ c_i.
    drawn
        The same over the rows that are drawn: all but the heavy ones.
    """

    radius: float
    left_with_probability: float
    kind: str
    total: float
    drawn: float


@dataclass(frozen=True)
class Certificate:
    """Whether the draws are exact, and by which bounds.

    Parameters
    ----------
    guarantee
        What the method promises, given valid bounds or not, and which error it controls.
    certified
        Whether that makes the draws exact, by bounds that were derived from the model.
    reason
        By what, or why not: the message of the :class:`BoundsError` where there was one.
    order
        Order of the expansion that the bounds belong to.
    tables
        The bounds; empty for methods without.
    looseness
        Σ c_i over that of enclosures of zero radius, at the smallest radius; NaN without derived
        bounds.
    n_heavy
        Rows that are read at every update, instead of being drawn at nearly every one, or, by
        batches, hardly ever.
    """

    guarantee: str
    certified: bool
    reason: str
    order: int
    tables: tuple[BoundTable, ...]
    looseness: float
    n_heavy: int = 0


@dataclass(frozen=True)
class Memory:
    """Bytes that a step holds.

    Parameters
    ----------
    data
        The model's own data arrays, which are not copied.
    tables
        Bounds of all rows and what rows are drawn by.
    sums
        Sums over all rows: gradient, Hessian and the shape of the posterior.
    stored
        Whether the data are of ``Rows(...)``, where the step does not hold them.
    """

    data: int
    tables: int
    sums: int
    stored: bool = False


@dataclass(frozen=True)
class Forecast:
    """What a short pilot run has shown.

    Parameters
    ----------
    draws, tune
        Draws that the figures rest on, and those of warm-up before them.
    updates_per_draw
        Updates between two draws.
    rows_per_update, rows_error
        Mean number of rows that an update reads, and its standard error by batch means.
    acceptance
        Share of the updates that were accepted.
    acceptance_error
        Estimated error of the probability of accepting; 0 for exact methods.
    full_pass_share
        Share of the updates that read all rows.
    microseconds_per_update
        Time of an update within the step, its share of the step's own overhead included.
    ess, ess_low, ess_high
        Bulk effective sample size of the pilot, of the worst coordinate; and the lower and the
        higher of twice that of each half of the pilot, which shows its noise.
    worst
        That coordinate, on the unconstrained scale.
    ess_per_second
        Effective draws a second of one chain in :func:`pymc.sample`, after warm-up.
    ess_per_second_in_blocks
        The same in :func:`pymc_minibatch_mh.sample`; 0 where other steps move variables as well,
        beside which it does not run.
    memory
        Bytes that the step holds.
    preparation_seconds
        Seconds that building the step took; NaN for a step that was built before.
    held
        Variables of other steps, which the pilot held where they were.
    warning
        What the chain warned of; empty if it did not.
    """

    draws: int
    tune: int
    updates_per_draw: int
    rows_per_update: float
    rows_error: float
    acceptance: float
    acceptance_error: float
    full_pass_share: float
    microseconds_per_update: float
    ess: float
    ess_low: float
    ess_high: float
    worst: str
    ess_per_second: float
    ess_per_second_in_blocks: float
    memory: Memory
    preparation_seconds: float
    held: tuple[str, ...]
    warning: str


@dataclass(frozen=True)
class NutsForecast:
    """What NUTS would take, from the time of one gradient and a rule.

    Parameters
    ----------
    gradient_microseconds
        Least time of one gradient of the log-density of all rows, on one core.
    compile_seconds
        Seconds until that gradient was built, compiled and evaluated once.
    condition_number
        κ of the posterior's correlation matrix at the mode; NaN where no mode is known, and κ is
        then taken to be 1.
    gradients_per_effective_draw
        By the rule 5 √κ.
    ess_per_second
        Effective draws a second of one chain, after warm-up.
    """

    gradient_microseconds: float
    compile_seconds: float
    condition_number: float
    gradients_per_effective_draw: float
    ess_per_second: float


@dataclass(frozen=True)
class NutsUntimed:
    """The gradients that NUTS would take; how long one takes was not asked for.

    Parameters
    ----------
    condition_number, gradients_per_effective_draw
        As in :class:`NutsForecast`.
    """

    condition_number: float
    gradients_per_effective_draw: float


@dataclass(frozen=True)
class Approximate:
    """An approximate step beside an exact one that reads all rows at most of its updates.

    Parameters
    ----------
    method
        Its step method.
    step
        The step, on what the exact one has prepared: it needs no passes and no compilation.
    forecast
        Of a pilot of its own.
    """

    method: str
    step: MinibatchStep
    forecast: Forecast
