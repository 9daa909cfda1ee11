"""Plausible mistakes, made by handing other roles or numbers to the shipped update."""

from dataclasses import replace

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from altered import FixedProgram, with_program
from pymc_minibatch_mh.kernels.roles import LOGP_SIGNATURE


@intrinsic
def pointer(typing_context, address):
    """Return the pointer to an address, so that a role can have a memory."""

    def generate(context, builder, _signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


def fixed_program(step, prepared=None):
    """Return a program that a new centre does not replace."""
    own = step.program
    return FixedProgram(prepared or own.plan, own.method, own.proposal, own.updates_per_draw)


def with_prior(step, function):
    """Return a copy of a step with another prior part."""
    program = fixed_program(step)
    program.__dict__["_compiled"] = (function, *program._compiled[1:])
    return with_program(step, program)


def with_reference(step, **fields):
    """Return a copy of a step whose reference is altered, and stays so after warm-up."""
    altered = step.plan.reference._replace(**fields)
    return with_program(step, fixed_program(step, replace(step.plan, reference=altered)))


def with_prior_times(step, factor):
    prior = step.target.prior

    @njit(LOGP_SIGNATURE)
    def scaled(position, context):
        return factor * prior(position, context)

    return with_prior(step, scaled)


def without_jacobian(step, name):
    place = next(block.start for block in step.target.factorization.blocks if block.name == name)
    prior = step.target.prior

    @njit(LOGP_SIGNATURE)
    def bare(position, context):
        return prior(position, context) - position[place]

    return with_prior(step, bare)


def with_stale_prior(step):
    """Return the prior of the position that was asked for before."""
    prior, memory = step.target.prior, np.zeros(1)
    address = memory.ctypes.data

    @njit(LOGP_SIGNATURE)
    def stale(position, context):
        last = carray(pointer(address), 1, np.float64)
        value = last[0]
        last[0] = prior(position, context)
        return value

    mutant = with_prior(step, stale)
    mutant.memory = memory
    return mutant


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
