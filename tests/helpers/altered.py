"""Steps that differ from a shipped one in what was prepared or in what is run."""

from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.program import SamplerSpec
from pymc_minibatch_mh.samplers.metropolis import Metropolis


class FixedProgram(SamplerSpec):
    """A program that serves every centre, so that what was altered in it stays."""

    def with_plan(self, plan):
        return self


def with_program(step, program):
    """Return a copy of a step that runs on another program, with a chain of its own."""
    other = object.__new__(type(step))
    other.__dict__.update(step.__dict__)
    other.program = program
    other.chain = Chain(program, np.random.default_rng(0), step.adapts)
    other.__dict__.pop("key", None)
    return other


def with_prepared(step, prepared):
    """Return a copy of a step on which something else was prepared."""
    own = step.program
    program = SamplerSpec(prepared, own.sampler, own.updates_per_draw)
    return with_program(step, program)


def scaled_tables(prepared, factor, headers=(1.0, 1.0, 1.0)):
    """Return what was prepared with bounds, and headers of tables, multiplied."""
    tables = prepared.tables
    altered = replace(tables, c=tables.c * np.float32(factor), headers=tables.headers * headers)
    return replace(prepared, tables=altered)


def with_proposal(step, proposal, updates=1):
    """Return a copy of a step that moves by another proposal, on what was prepared for its own."""
    sampler = Metropolis(step.program.method, proposal)
    program = SamplerSpec(step.plan, sampler, updates)
    return with_program(step, program)


def with_tables(step, factor, headers=(1.0, 1.0, 1.0)):
    """Return a copy of a step whose bounds, and whose headers of tables, are multiplied."""
    return with_prepared(step, scaled_tables(step.plan, factor, headers))


def in_the_same_state(step, factor, **test):
    """Return a copy of a step whose chain goes on with bounds multiplied and another test."""
    chain, own = step.chain.copy(), step.chain.program
    prepared = scaled_tables(own.plan, factor)
    other = with_prepared(step, prepared)
    chain.program = FixedProgram(prepared, own.sampler, own.updates_per_draw)
    chain.change(test=chain.state.records.test._replace(**test))
    other.chain = chain
    return other


def with_method(step, **fields):
    """Return a copy of a step whose method has other settings, which nobody checks."""
    own = step.program
    sampler = replace(own.sampler, method=replace(own.method, **fields))
    program = SamplerSpec(own.plan, sampler, own.updates_per_draw)
    return with_program(step, program)
