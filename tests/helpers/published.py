"""Functions of published methods in the library, as tests call them."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import GeneratorRecord, function, load_library
from pymc_minibatch_mh.native.moves import Move
from pymc_minibatch_mh.native.statistics import COUNTS

# Rows of a firefly sampler: firefly.c.

log_odds = function("mh_log_odds")
chance_to_be_bright = function("mh_chance_to_be_bright")
ANEW, DARK, BRIGHT = (getattr(load_library(), f"MH_{kind}") for kind in ("ANEW", "DARK", "BRIGHT"))


class Place(NamedTuple):
    """A position as the end of a move from the centre, with its table and M."""

    move: Move
    table: int
    m: float


def log_ratio_of_bright(cheap, sizes, odds):
    """Return the log ratio of a move by C m and the bright rows' log odds at both of its ends."""
    return function("mh_log_ratio_of_bright")(cheap, *sizes, *odds)


def update_brightness(brightness, place, posterior, rng):
    """Update which rows are bright; return the sum of their log odds, rows read, and counts."""
    counts, odds, read = np.zeros(1, COUNTS), np.empty(1), np.empty(1, np.int64)
    records = brightness, place, posterior, GeneratorRecord(rng)
    assert function("mh_update_brightness")(*records, counts, odds, read) == load_library().MH_OK
    return odds[0], read[0], counts[0]


def odds_of_bright(brightness, place, posterior):
    """Return the sum of the log odds of the bright rows at a place."""
    odds = np.empty(1)
    given = brightness, place, posterior, np.zeros(1, COUNTS), odds
    assert function("mh_odds_of_bright")(*given) == load_library().MH_OK
    return odds[0]


# Rows by their levels: poisson_mh.c.

keep_by_level = function("mh_keep_by_level")
growth_of_level = function("mh_growth_of_level")
