"""Enclosures of functions and their derivatives; importing a family's module registers it."""

from pymc_minibatch_mh.bounds.rules import (
    composite,
    error,
    exponential,
    gamma,
    logistic,
    piecewise,
    power,
    trigonometric,
)
from pymc_minibatch_mh.bounds.rules.base import NoRuleError, derivatives
from pymc_minibatch_mh.bounds.rules.composite import gamma_ratio_derivatives
from pymc_minibatch_mh.bounds.rules.error import log_erfc_derivatives
from pymc_minibatch_mh.bounds.rules.power import power_derivatives
from pymc_minibatch_mh.bounds.rules.rise import gamma_rise_derivatives

__all__ = [
    "NoRuleError",
    "composite",
    "derivatives",
    "error",
    "exponential",
    "gamma",
    "gamma_ratio_derivatives",
    "gamma_rise_derivatives",
    "log_erfc_derivatives",
    "logistic",
    "piecewise",
    "power",
    "power_derivatives",
    "trigonometric",
]
