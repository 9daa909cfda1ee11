"""Measured costs of observations, updates, draws and gradients, in seconds on one core.

Settings are chosen by their ratios. Only speed depends on them: a chain has the same invariant
distribution for all costs. Updates were timed on machines with caches of a few MiB.
"""

#: Cost of an observation drawn at random: from data of at least `MIN_UNCACHED_BYTES`, and from
#: smaller data, which caches hold. Timed in updates of TunaMH. Used to choose χ and κ (steps.tuna).
OBSERVATION, CACHED_OBSERVATION, MIN_UNCACHED_BYTES = 0.5e-6, 0.2e-6, 2**24
#: Cost of a row of a group at one node, at both ends of a proposal and at the centre. Timed in
#: updates of TunaMH with Bernoulli rows. Used to choose χ (plan.groups).
NODE = 0.09e-6
#: Cost of a candidate that its separable bound rejects. Timed in updates of TunaMH. Used to choose
#: κ (steps.tuna) and influential observations (bounds.tables).
CANDIDATE = 0.06e-6
#: Cost of a cached observation in every update. Used to choose the influential observations
#: (reference.influential, bounds.tables).
INCLUDED_OBSERVATION = 0.2e-6
#: Cost of an observation in a full-data evaluation, which is in order, and at a random place in a
#: file (`FETCHED_OBSERVATION`). Both determine the maximum size of minibatches (plan.method).
OBSERVATION_IN_ORDER = 0.25e-6
FETCHED_OBSERVATION = 400 * OBSERVATION_IN_ORDER
#: `UPDATE`: fixed cost of an update, without its observations. `LOOP`: PyMC's loop, per draw. Timed
#: in updates of TunaMH. Used to choose χ and κ (steps.tuna).
UPDATE, LOOP = 1.2e-6, 17e-6
#: Cost of an update per pair of coordinates, with more than 30 of them: of proposals, whitening,
#: priors and expansions. Timed in updates of TunaMH with 41 to 113 coordinates. Used to choose κ
#: (steps.tuna).
PAIR = 4e-9
#: `DRAW`: fixed cost of a draw in PyMC's loop. `OBSERVATION_OF_DRAW`: cached observation. Used to
#: choose weights of a mixture (proposals.mixture) and a parametrization (plan.parametrization).
DRAW, OBSERVATION_OF_DRAW = 19.5e-6, 0.13e-6
#: Overhead of ``pm.sample`` per draw of one chain. Used in forecasts (diagnostics.forecast).
RECORDING = 12e-6
#: Updates of effects, one at a time. `ITERATION`: fixed cost. `ELEMENT_NUMBER`: one number of a
#: level, which has `OTHER_NUMBERS` plus one per common effect. `BORDER_PAIR`: two common effects,
#: one indexed by data. `CELL`: two levels with shared observations. Fitted to times of three
#: problems of benchmarks/groups.py. Used to choose κ (samplers.componentwise).
ITERATION, ELEMENT_NUMBER, OTHER_NUMBERS, BORDER_PAIR, CELL = 10e-6, 4e-9, 10, 3e-9, 1.5e-9
ELEMENT_OBSERVATION, ELEMENT_CANDIDATE = 0.25e-6, 0.13e-6
#: Cost of the rows of an effect in an iteration, without its numbers: from the table of groups of
#: 6.7 to 100 rows in docs/background/groups.md. For forecasts (plan.group_forecast).
ELEMENT = 0.2e-6
#: Cost of a leapfrog step of PyMC's NUTS, without gradient. For forecasts (diagnostics.forecast).
LEAPFROG = 25e-6
#: Minimum time of the gradient of an observation: about one exponential. Used to decide whether
#: NUTS could be faster in the best case (sampling.choose).
MIN_GRADIENT = 1e-9
