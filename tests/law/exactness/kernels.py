"""The small chains and the shipped tests that are enumerated."""

from dataclasses import replace

import numpy as np

from helpers.in_library import decide_batch, sample_size
from law.exactness.enumeration import Chain, Rule, audited_spread, sample_statistics
from pymc_minibatch_mh.published.barker_paper import growing
from pymc_minibatch_mh.steps import austere, barker, penalty

VALUES = np.array(
    [-1.31, 0.42, 0.08, 1.12, -0.63, 0.91, -0.17, -0.88, 0.57, 1.76, -0.29, 0.23, 0.69, -1.02]
)
PRIOR = np.log([0.25, 0.45, 0.3])
POSITIONS = np.array([-0.2, 0.1, 0.45])
BETA = 0.4


def gaussian_chain(values):
    return Chain(PRIOR, -0.5 * (values - POSITIONS[:, None]) ** 2, BETA)


def rare_event_chain():
    events = np.zeros(VALUES.size)
    events[7] = 1.0
    # A slope that is all but 0: no two rows without the event are quite alike.
    logits = 3.0 * POSITIONS[:, None] - 2.0 + 0.02 * VALUES
    return Chain(PRIOR, events * logits - np.log1p(np.exp(logits)), BETA)


CHAINS = {
    "clean": gaussian_chain(VALUES),
    "outlier": gaussian_chain(np.append(VALUES[:-1], 5.0)),
    "rare event": rare_event_chain(),
}


def rule(settings):
    return Rule(sample_size, decide_batch, settings, sample_statistics, audited_spread)


# The same with the row in question read at every update, and batches of all others.
CHAINS["outlier, read always"] = replace(CHAINS["outlier"], heavy=(13,))
CHAINS["rare event, read always"] = replace(CHAINS["rare event"], heavy=(7,))


RULES = {
    "barker": rule(barker.barker_test(batch_size=4)),
    "barker, sigma=1": rule(barker.barker_test(1.0, batch_size=4)),
    "barker, grow": rule(growing(barker.barker_test(batch_size=3))),
    "penalty": rule(penalty.penalty_test(batch_size=4)),
    "austere, eps=.05": rule(austere.austere_test(0.05, batch_size=3)),
    "austere, eps=.01": rule(austere.austere_test(0.01, batch_size=4)),
}

FULL_DATA_RULES = {
    "barker": rule(barker.barker_test(batch_size=7)),
    "barker, grow": rule(growing(barker.barker_test(batch_size=7))),
    "penalty": rule(penalty.penalty_test(batch_size=7)),
    "austere": rule(austere.austere_test(batch_size=7)),
    "austere, eps=0": rule(austere.austere_test(0.0, batch_size=3)),
}
