"""Plausible mistakes, made by handing other roles or numbers to the shipped update."""

import copy

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.signatures import LOGP_SIGNATURE


@intrinsic
def pointer(typing_context, address):
    """Return the pointer to an address, so that a role can have a memory."""

    def generate(context, builder, _signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


#: Roles in the order of their addresses; a test's own come last.
ROLES = ("propose", "test", "prior", "evaluate")


def with_role(step, role, function):
    """Return a copy of a step in which one role is another function."""
    place = ROLES.index(role)
    mutant = copy.copy(step)
    functions = list(mutant._functions)
    functions[place] = function
    mutant._functions = tuple(functions)
    mutant._addresses = np.array([address_of(f) for f in functions], dtype=np.int64)
    # A new centre would bring the shipped roles back.
    mutant._refresh_centre = lambda: None
    return mutant


def with_surrogate(step, **fields):
    """Return a copy of a step whose surrogate is altered, and stays so after warm-up."""
    mutant = copy.copy(step)
    mutant._surrogate = step._surrogate._replace(**fields)
    mutant._refresh_centre = lambda: None
    return mutant


def with_prior_times(step, factor):
    prior = step.target.prior

    @njit(LOGP_SIGNATURE)
    def scaled(position, context):
        return factor * prior(position, context)

    return with_role(step, "prior", scaled)


def without_jacobian(step, name):
    place = next(block.start for block in step.target.split.blocks if block.name == name)
    prior = step.target.prior

    @njit(LOGP_SIGNATURE)
    def bare(position, context):
        return prior(position, context) - position[place]

    return with_role(step, "prior", bare)


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

    mutant = with_role(step, "prior", stale)
    mutant.memory = memory
    return mutant


def without_second_order(step):
    return with_surrogate(step, hessian=np.zeros_like(step._surrogate.hessian))


def without_first_order(step):
    return with_surrogate(step, gradient=np.zeros_like(step._surrogate.gradient))


def with_moved_centre(step):
    surrogate = step._surrogate
    return with_surrogate(step, centre=surrogate.centre + surrogate.factor.sum(axis=1))


def without_temperature(step):
    return with_surrogate(step, inverse_temperature=1.0)


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
