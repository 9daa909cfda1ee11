"""The record of what is known of a model before it is sampled."""

from dataclasses import dataclass

from pymc_minibatch_mh.diagnostics.forecast import wording
from pymc_minibatch_mh.diagnostics.forecast.records import (
    Approximate,
    Certificate,
    Forecast,
    InCoordinates,
    NotSubsampled,
    NutsForecast,
    NutsUntimed,
    SubsampledTerm,
)
from pymc_minibatch_mh.diagnostics.forecast.sheet import Section, as_html, as_text
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.deterministics import LargeDeterministic


@dataclass(frozen=True, repr=False)
class Explanation:
    """What subsampling makes of a model, forecast before sampling.

    Printed in a terminal or shown in a notebook, it is a table of everything below.

    Parameters
    ----------
    method
        Step method that the forecast is of; empty where the model is refused.
    step
        That step, ready for ``pm.sample(step=found.step)`` inside of the model: the one that was
        given, or that was built. None where the model is refused.
    recommended
        What to sample with.
    reason
        Why, with figures.
    refused
        Why the model cannot be subsampled; empty where it can.
    n_rows, size
        Number N of subsampled rows, and d of dimensions.
    terms
        What is subsampled.
    others
        What is not, and why.
    coordinates
        Variables in whose place the chain has others, in which rows are linear, and what stands
        against that for others; empty where it runs in the model's own.
    taylor_order
        Order of the control variates; None where the model is refused.
    order_reason
        Why this order.
    centre
        What the control variates are expanded around; empty where the model is refused.
    certificate
        Whether draws are exact; None where the model is refused.
    forecast
        Of the step; None where the model is refused.
    approximate
        An approximate step and its forecast, where the exact one reads all rows at more than half
        of its updates; else None.
    nuts
        Forecast of NUTS, or the gradients that it takes where none was timed; None where the model
        has no gradient.
    large_deterministics
        What :func:`pymc.sample` would evaluate and store at every draw, and is better left out.
    var_names
        All else, for ``pm.sample(var_names=found.var_names)``.
    given_scales
        Variables that moves draw by the density of scales, and all else given them; empty where
        they are drawn by one normal approximation.
    """

    method: str
    step: MinibatchStep | None
    recommended: str
    reason: str
    refused: str
    n_rows: int
    size: int
    terms: tuple[SubsampledTerm, ...]
    others: tuple[NotSubsampled, ...]
    coordinates: tuple[InCoordinates, ...]
    taylor_order: int | None
    order_reason: str
    centre: str
    certificate: Certificate | None
    forecast: Forecast | None
    approximate: Approximate | None
    nuts: NutsForecast | NutsUntimed | None
    large_deterministics: tuple[LargeDeterministic, ...]
    var_names: tuple[str, ...]
    given_scales: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a table in plain text."""
        return as_text(self._sections())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return as_html(self._sections())

    def _sections(self) -> tuple[Section, ...]:
        sections = [
            wording.verdict(self.recommended, self.reason, self.refused, self.n_rows, self.size),
            wording.subsampled(self.terms),
            wording.not_subsampled(self.others),
        ]
        if self.coordinates:
            sections.append(wording.coordinates(self.coordinates))
        if self.certificate is not None and self.taylor_order is not None:
            sections.append(wording.expansion(self.taylor_order, self.order_reason, self.centre))
            sections.append(wording.certificate(self.certificate))
        if self.given_scales:
            sections.append(wording.moves(self.given_scales))
        if self.forecast is not None:
            sections.append(wording.forecast(self.method, self.forecast))
        if self.approximate is not None:
            sections.append(wording.approximate(self.approximate))
        sections.append(wording.nuts(self.nuts))
        if self.large_deterministics:
            sections.append(wording.large(self.large_deterministics, self.var_names))
        return tuple(sections)
