"""Invalid arguments of moves of published work."""

import math

from docs.inputs.case import Section
from pymc_minibatch_mh import Langevin

moves = Section("To reproduce published work")

moves.argument(Langevin, "step_size", 0.0, math.nan, "wide", True)
moves.argument(Langevin, "batch_size", -1, 2.5, True)
moves.argument(Langevin, "preconditioner", "rms")
moves.argument(Langevin, "adapt", 1)
moves.setting("BarkerMinibatchMH", "skew_correction", "yes")
moves.argument(Langevin, "preconditioner", "identity")
moves.gives(
    "TunaMH(proposal=Langevin(batch_size=0), taylor_order=1)",
    lambda g: g.build("PenaltyMH", proposal=Langevin(batch_size=0), taylor_order=1),
)

CASES = moves.cases
