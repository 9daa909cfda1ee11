"""Invalid arguments of moves of published work."""

import math

from inputs.case import Section
from pymc_minibatch_mh import Langevin

moves = Section("To reproduce published work")

#: Class or function, argument, values.
REFUSED = [
    (Langevin, "step_size", (0.0, math.nan, "wide", True)),
    (Langevin, "batch_size", (-1, 2.5, True)),
    (Langevin, "preconditioner", ("rms",)),
    (Langevin, "adapt", (1,)),
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

CASES = moves.cases
