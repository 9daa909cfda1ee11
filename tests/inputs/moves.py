"""Invalid arguments of moves and tables of published work."""

import math

from inputs.case import Section
from pymc_minibatch_mh import Langevin, StiefelWalk, correction_errors

moves = Section("To reproduce published work")

#: Class or function, argument, values.
REFUSED = [
    (Langevin, "step_size", (0.0, math.nan, "wide", True)),
    (Langevin, "batch_size", (-1, 2.5, True)),
    (Langevin, "preconditioner", ("rms",)),
    (Langevin, "adapt", (1,)),
    (StiefelWalk, "scale", (0.0, math.inf, "wide", None)),
    (StiefelWalk, "adapt", (1,)),
    (correction_errors, "points", ([0],)),
    (correction_errors, "ridges", ([math.nan],)),
    (correction_errors, "sigmas", ([-1.0],)),
    (correction_errors, "ridges", (3.0,)),
]
for kind, name, values in REFUSED:
    for value in values:
        moves.gives(
            f"{kind.__name__}({name}={value!r})",
            lambda g, kind=kind, name=name, value=value: kind(**{name: value}),
        )
moves.setting("BarkerMinibatchMH", "skew_correction", "yes")
moves.gives(
    "BarkerMinibatchMH(skew_correction=True, batch_rule='grow')",
    lambda g: g.build("BarkerMinibatchMH", skew_correction=True, batch_rule="grow"),
)
moves.gives("Langevin(preconditioner='identity')", lambda g: Langevin(preconditioner="identity"))
moves.gives(
    "TunaMH(proposal=Langevin(batch_size=0), taylor_order=1)",
    lambda g: g.build("PenaltyMH", proposal=Langevin(batch_size=0), taylor_order=1),
)
moves.gives(
    "TunaMH(proposal=StiefelWalk()) without a matrix",
    lambda g: g.build("PenaltyMH", proposal=StiefelWalk()),
)
moves.gives("correction_errors(sigmas=[0.5])", lambda g: correction_errors(sigmas=[0.5]))

CASES = moves.cases
