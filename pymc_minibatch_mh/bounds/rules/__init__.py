"""Enclosures of functions and their derivatives; importing a family's module registers it."""

from pymc_minibatch_mh.bounds.rules import exponential
from pymc_minibatch_mh.bounds.rules.base import NoRuleError, derivatives
from pymc_minibatch_mh.bounds.rules.composite import gamma_ratio_derivatives
from pymc_minibatch_mh.bounds.rules.elementary import power_derivatives
from pymc_minibatch_mh.bounds.rules.gamma import gamma_rise_derivatives

__all__ = [
    "NoRuleError",
    "derivatives",
    "exponential",
    "gamma_ratio_derivatives",
    "gamma_rise_derivatives",
    "power_derivatives",
]
