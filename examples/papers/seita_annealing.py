"""Seita et al. (2017), section 6.2: logistic regression of MNIST's 1 against 7, annealed.

Figure 3, right: Barker's test at temperature 100 for 400 draws, and then at temperature 1. The
panels beside it are those of :mod:`papers.seita_logistic` and :mod:`papers.seita_steps`.

The text says that the step has to decrease with the temperature, not to what. Here it falls like
the temperature, from .05 to .0005, which leaves the noise of a batch as it is; and to .001. A run
with `temperature=[(0, 100), (400, 1)]`, whose walk finds its own steps in warm-up, stands beside
them. Other settings are those of :mod:`papers.seita_logistic`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from papers.data import Digits, ones_and_sevens
from papers.report import Cell, Claim, Curve, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from papers.seita_logistic import TEMPERATURE, WALK, regression, starts, walk
from pymc_minibatch_mh import BarkerPaperMH, RandomWalk, sample

SWITCH, END = 400, 1_000
SMALLER = (0.0005, 0.001)
HOT, COLD = "temperature 100 throughout", "temperature 1 throughout, step .0005"
ANNEALED = "100, then 1 and step {:g}"
SCHEDULED = "100, then 1, steps adapted"


@dataclass(frozen=True)
class Learned:
    """Rows that every draw read, and the accuracy of every draw, shape (trials, draws)."""

    rows: Array
    accuracy: Array

    def then(self, later: "Learned") -> "Learned":
        """Return these draws and later ones."""
        pairs = (self.rows, later.rows), (self.accuracy, later.accuracy)
        return Learned(*(np.concatenate(pair, axis=1) for pair in pairs))


def learned(run: Run, digits: Digits) -> Learned:
    """Return what a run learned."""
    return Learned(run.rows, np.stack([digits.accuracy(chain) for chain in run.values("beta")]))


def barker(model: pm.Model, temperature: Any, proposal: RandomWalk) -> BarkerPaperMH:
    """Return the published step at a temperature."""
    return BarkerPaperMH(
        batch_size=100,
        sigma=1.0,
        model=model,
        centre="start",
        temperature=temperature,
        proposal=proposal,
        full_pass_above=np.inf,
    )


def scheduled(
    model: pm.Model, digits: Digits, first: list[dict[str, Array]], length: int, seed: int
) -> tuple[Learned, Array]:
    """Run one step that changes its temperature in warm-up; return also the steps of its walk."""
    switch = SWITCH * length // END
    step = barker(model, [(0, TEMPERATURE), (switch, 1.0)], RandomWalk(WALK, "identity"))
    trace = sample(
        step,
        1,
        tune=length,
        chains=len(first),
        initvals=first,
        random_seed=seed,
        progressbar=False,
        compute_convergence_checks=False,
        discard_tuned_samples=False,
    )
    rows = np.asarray(trace["warmup_sample_stats"]["n_obs"], float)
    draws = np.asarray(trace["warmup_posterior"]["beta"], float)
    scales = np.asarray(trace["warmup_sample_stats"]["scaling"], float)
    return Learned(rows, np.stack([digits.accuracy(chain) for chain in draws])), scales


def experiment(size: Size, seed: int) -> Report:
    """Anneal, and stay hot or cold to compare."""
    digits = ones_and_sevens()
    model, count = regression(digits.X, digits.y), size.of(2, 4, 10)
    length = size.of(300, END, END)
    switch = SWITCH * length // END
    first = starts(count, seed, digits.X.shape[1])
    begun = trials(barker(model, TEMPERATURE, walk(WALK)), length, starts=first, seed=seed)
    hot = learned(begun, digits)
    warm = Learned(hot.rows[:, :switch], hot.accuracy[:, :switch])
    found = {HOT: hot}
    last = [{"beta": chain[switch - 1]} for chain in begun.values("beta")]
    for scale in SMALLER:
        step = barker(model, 1.0, walk(scale))
        later = trials(step, length - switch, starts=last, seed=seed + 1)
        found[ANNEALED.format(scale)] = warm.then(learned(later, digits))
    cold = trials(barker(model, 1.0, walk(SMALLER[0])), length, starts=first, seed=seed)
    found[COLD] = learned(cold, digits)
    found[SCHEDULED], scales = scheduled(model, digits, first[:2], length, seed)
    return Report(
        "Seita et al. (2017), section 6.2: figure 3 (right)",
        claims(found, switch),
        [table(found, switch, scales)],
        drawn(found),
        [
            "The data are MNIST's 13,007 digits only, with 2 trials of adapted steps",
            *digits.differences,
        ],
    )


def unrest(accuracy: Array) -> float:
    """Return the mean change of the accuracy from draw to draw."""
    return float(np.abs(np.diff(accuracy, axis=1)).mean())


def claims(found: dict[str, Learned], switch: int) -> list[Claim]:
    """Return what the figure says."""
    result = []
    annealed = found[ANNEALED.format(SMALLER[0])].accuracy
    cold = found[COLD].accuracy[:, -1].mean()
    what = "share classified correctly at the switch, at least as at temperature 1 at the end"
    at_switch = mean_sd(annealed[:, switch - 1])
    # The cold chain never moves, which any other beats.
    result.append(Claim(what, "-", float(cold), None, *at_switch, chosen=True))
    for scale in SMALLER:
        accuracy = found[ANNEALED.format(scale)].accuracy
        change = unrest(accuracy[:, switch:]) - unrest(accuracy[:, :switch])
        what = f"change of the accuracy from draw to draw, after the switch less before, {scale:g}"
        # The paper has one smaller step, and does not give it.
        again = scale != SMALLER[0]
        result.append(Claim(what, "below 0", None, 0.0, change, chosen=again))
    return result


def table(found: dict[str, Learned], switch: int, scales: Array) -> Table:
    """Return rows and accuracies before and after the switch."""
    lines: list[list[Cell]] = []
    for name, one in found.items():
        steps: list[Cell] = [None, None]
        if name == SCHEDULED:
            steps = [mean_sd(scales[:, switch - 1]), mean_sd(scales[:, -1])]
        lines.append(
            [
                name,
                mean_sd(one.rows[:, :switch].mean(axis=1)),
                mean_sd(one.rows[:, switch:].mean(axis=1)),
                mean_sd(one.accuracy[:, switch - 1]),
                mean_sd(one.accuracy[:, -1]),
                *steps,
            ]
        )
    head = ["Barker's test", f"rows a test, first {switch} draws", "later"]
    head += ["classified correctly at the switch", "at the end"]
    head += ["adapted step at the switch", "at the end"]
    return Table("Annealed, and not", head, lines)


def drawn(found: dict[str, Learned]) -> list[Panel]:
    """Return the figure: means over trials, and a standard deviation to either side."""
    by_draw: list[Curve] = []
    by_rows: list[Curve] = []
    for name, one in found.items():
        mean, sd = one.accuracy.mean(axis=0), one.accuracy.std(axis=0, ddof=1)
        read, draws = one.rows.cumsum(axis=1).mean(axis=0), np.arange(1, mean.size + 1)
        by_rows.append(curve(name, read, mean, sd=sd))
        by_draw.append(curve(name, draws, mean, sd=sd))
    share = "share that is classified correctly"
    return [
        Panel("Annealing", "rows read", share, by_rows, log_x=True),
        Panel("The same by draws", "draws", share, by_draw),
    ]


if __name__ == "__main__":
    main(experiment)
