"""Plausible mistakes, made by handing other roles or numbers to the shipped update."""

from dataclasses import replace

import numpy as np

from helpers.altered import FixedProgram, with_program
from pymc_minibatch_mh.native.library import ffi


def fixed_program(step, prepared=None):
    """Return a program that a new centre does not replace."""
    own = step.program
    return FixedProgram(prepared or own.plan, own.sampler, own.updates_per_draw)


def with_prior(step, altered):
    """Return a copy of a step with another prior part, of the shipped one and the position."""
    program = fixed_program(step)
    plain, rows = program._compiled_functions
    prior = ffi.cast("mh_log_prior", plain.address)
    called = ffi.callback("mh_log_prior", lambda here, context: altered(prior(here, context), here))
    program.__dict__["_compiled_functions"] = called, rows
    return with_program(step, program)


def with_reference(step, **fields):
    """Return a copy of a step whose reference is altered, and stays so after warm-up."""
    altered = step.plan.reference._replace(**fields)
    return with_program(step, fixed_program(step, replace(step.plan, reference=altered)))


def with_prior_times(step, factor):
    return with_prior(step, lambda prior, _: factor * prior)


def without_jacobian(step, name):
    place = next(block.start for block in step.target.factorization.blocks if block.name == name)
    return with_prior(step, lambda prior, position: prior - position[place])


def with_stale_prior(step):
    """Return the prior of the position that was asked for before."""
    last = [0.0]

    def stale(prior, _):
        last.append(prior)
        return last.pop(0)

    return with_prior(step, stale)


def without_second_order(step):
    return with_reference(step, hessian=np.zeros_like(step.plan.reference.hessian))


def without_first_order(step):
    return with_reference(step, gradient=np.zeros_like(step.plan.reference.gradient))


def with_moved_centre(step):
    reference = step.plan.reference
    return with_reference(step, centre=reference.centre + reference.factor.sum(axis=1))


def without_temperature(step):
    return with_reference(step, inverse_temperature=1.0)


#: name -> (model, what makes the mutant)
MUTANTS = {
    "prior counted twice": ("two_likelihoods", lambda s: with_prior_times(s, 2.0)),
    "prior left out": ("two_likelihoods", lambda s: with_prior_times(s, 0.0)),
    "stale prior": ("two_likelihoods", with_stale_prior),
    "Jacobian dropped": ("student", lambda s: without_jacobian(s, "tau_log__")),
    "second order dropped in the expansion alone": ("logistic", without_second_order),
    "first order dropped in the expansion alone": ("two_likelihoods", without_first_order),
    "centre moved without its sums": ("poisson", with_moved_centre),
}
TEMPERED_MUTANTS = {
    "temperature applied to the prior": lambda s: with_prior_times(s, 0.25),
    "inverse temperature missing": without_temperature,
}
