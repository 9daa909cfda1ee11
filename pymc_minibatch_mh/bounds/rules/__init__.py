"""Enclosures of functions and their derivatives; importing a family's module registers it."""

from pymc_minibatch_mh.bounds.rules import composite, exponential, gamma
from pymc_minibatch_mh.bounds.rules import elementary as piecewise
from pymc_minibatch_mh.bounds.rules import elementary as power
from pymc_minibatch_mh.bounds.rules import elementary as trigonometric
from pymc_minibatch_mh.bounds.rules import exponential as error
from pymc_minibatch_mh.bounds.rules import exponential as logistic
from pymc_minibatch_mh.bounds.rules.base import NoRuleError, derivatives
from pymc_minibatch_mh.bounds.rules.composite import gamma_ratio_derivatives
from pymc_minibatch_mh.bounds.rules.elementary import power_derivatives
from pymc_minibatch_mh.bounds.rules.exponential import log_erfc_derivatives
from pymc_minibatch_mh.bounds.rules.gamma import gamma_rise_derivatives

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
