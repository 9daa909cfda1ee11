"""Costs in seconds on one core: of an observation, an update, a draw, a gradient.

Decisions compare them, so that only their ratios matter, and only speed depends on them: a chain
has the same distribution for all costs. Updates were timed on machines with caches of a few MiB.
"""

#: Observation that a batch draws: from data of at least `MIN_UNCACHED_BYTES`, or from smaller ones.
#: Timed in updates of TunaMH. Chooses χ and κ (steps.tuna).
OBSERVATION, CACHED_OBSERVATION, MIN_UNCACHED_BYTES = 0.5e-6, 0.2e-6, 2**24
#: Candidate that is drawn and dropped by its separable bound. Timed like these. Chooses κ
#: (steps.tuna) and influential observations (bounds.tables).
CANDIDATE = 0.06e-6
#: Observation that every update evaluates, from a cache. Chooses influential observations
#: (reference.influential, bounds.tables).
INCLUDED_OBSERVATION = 0.2e-6
#: Observation in a pass over all in order, and one that is fetched from anywhere in a file. Timed
#: in full-data evaluations. Both limit batches (plan.method).
OBSERVATION_IN_ORDER = 0.25e-6
FETCHED_OBSERVATION = 400 * OBSERVATION_IN_ORDER
#: Update without its observations, and PyMC's loop for each draw. Timed like `OBSERVATION`.
#: Chooses χ and κ (steps.tuna).
UPDATE, LOOP = 1.2e-6, 17e-6
#: Draw besides its observations, and an observation, in PyMC's loop with cached data. Chooses
#: weights of a mixture (proposals.mixture), and logarithms or reciprocals (plan.parametrization).
DRAW, OBSERVATION_OF_DRAW = 19.5e-6, 0.13e-6
#: Draw of ``pm.sample`` outside of the step, with one chain. Forecasts (diagnostics.forecast).
RECORDING = 12e-6
#: Iteration over effects one at a time: fixed; for each number of an element, which has those of
#: the border and some others; for each pair of coordinates of the border, and each of elements
#: with common observations; an observation, and a candidate. Fitted to times of three problems of
#: benchmarks/groups.py. Chooses κ (samplers.componentwise).
ITERATION, ELEMENT_NUMBER, OTHER_NUMBERS, BORDER_PAIR, CELL = 10e-6, 4e-9, 10, 3e-9, 1.5e-9
ELEMENT_OBSERVATION, ELEMENT_CANDIDATE = 0.25e-6, 0.13e-6
#: Leapfrog step of PyMC's NUTS besides the gradient. Forecasts (diagnostics.forecast).
LEAPFROG = 25e-6
#: Least time of the gradient of an observation: about one exponential. Tells whether NUTS could
#: be faster in the best case (sampling.choose).
MIN_GRADIENT = 1e-9
