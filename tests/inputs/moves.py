"""Invalid arguments of moves and tables of published work."""

import math

from inputs.case import Section
from pymc_minibatch_mh import Langevin, StiefelWalk, correction_errors

moves = Section("To reproduce published work")

FLAG = ("is neither True nor False.", "Give one of them.")
#: Class, argument, value, what is wrong with it, and what to do.
REFUSED = [
    *(
        (Langevin, "step_size", value, "is not a positive number.", "Give one, or None.")
        for value in (0.0, math.nan, "wide", True)
    ),
    *(
        (Langevin, "batch_size", value, "is no number of rows.", "Give an integer of 0 or more.")
        for value in (-1, 2.5, True)
    ),
    (Langevin, "preconditioner", "rms", "is unknown.", "Use 'laplace' or 'identity'."),
    (Langevin, "adapt", 1, *FLAG),
    *(
        (StiefelWalk, "scale", value, "is not a positive number.", "Give an angle.")
        for value in (0.0, math.inf, "wide", None)
    ),
    (StiefelWalk, "adapt", 1, *FLAG),
    *(
        (
            correction_errors, name, value,
            "are no positive numbers.", "Give numbers above 0.",
        )
        for name, value in (("points", [0]), ("ridges", [math.nan]), ("sigmas", [-1.0]))
    ),
    (correction_errors, "ridges", 3.0, "are no numbers.", "Give a sequence of them."),
]  # fmt: skip
for kind, name, value, cause, fix in REFUSED:
    moves.refuses(
        f"{kind.__name__}({name}={value!r})",
        f"{name}={value!r}",
        cause,
        fix,
        call=lambda g, kind=kind, name=name, value=value: kind(**{name: value}),
    )
moves.setting("BarkerMinibatchMH", "skew_correction", "yes", *FLAG)
moves.refuses(
    "BarkerMinibatchMH(skew_correction=True, batch_rule='grow')",
    "skew_correction=True",
    "is for batches that are sized before they are drawn, which those of batch_rule='grow' are "
    "not.",
    "Use 'predict'.",
    call=lambda g: g.build("BarkerMinibatchMH", skew_correction=True, batch_rule="grow"),
)
moves.refuses(
    "Langevin(preconditioner='identity')",
    "step_size=None",
    "has no default with preconditioner='identity', which knows no scale.",
    "Give a number, or use 'laplace'.",
    call=lambda g: Langevin(preconditioner="identity"),
)
moves.refuses(
    "TunaMH(proposal=Langevin(batch_size=0), taylor_order=1)",
    "batch_size=0",
    "leaves Langevin() without a gradient of the likelihood at taylor_order=1.",
    "Give a batch_size such as 500, or use taylor_order=2.",
    call=lambda g: g.build("PenaltyMH", proposal=Langevin(batch_size=0), taylor_order=1),
)
moves.refuses(
    "TunaMH(proposal=StiefelWalk()) without a matrix",
    "proposal=StiefelWalk()",
    "moves one matrix, and this step moves 'level' of shape (), 'slope' of shape ().",
    "Pass vars=[...] with the matrix, and let other steps move the rest.",
    call=lambda g: g.build("PenaltyMH", proposal=StiefelWalk()),
)
moves.refuses(
    "correction_errors(sigmas=[0.5])",
    "sigmas=[0.5]",
    "has 0.5, which is outside (0.5, 1.7].",
    "Leave it out.",
    call=lambda g: correction_errors(sigmas=[0.5]),
)

CASES = moves.cases
