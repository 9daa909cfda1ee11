"""What a smooth change point costs, by its width.

Counts over 100 units of time, 20,000 rows, whose mean falls from 3 to another level at time 40. A
step at ``tau`` has no bounds; a sigmoid does.

    PYTHONPATH=.:tests python -m benchmarks.change_point
"""

import arviz as az
import numpy as np
import pymc as pm

from pymc_minibatch_mh import TunaMH, sample

ROWS, END, CHANGE = 20_000, 100.0, 40.0
EARLY, LATE = 3.0, (1.5, 2.5)
WIDTHS = 5.0, 1.0, 0.2
CHAINS, TUNE, DRAWS = 2, 1_000, 4_000


def change_point(width, level, rows=ROWS, seed=41):
    """Return a model of counts whose mean goes over from one to another at `tau`."""
    rng = np.random.default_rng(seed)
    time = rng.uniform(0.0, END, rows)
    counts = rng.poisson(np.where(time < CHANGE, EARLY, level))
    with pm.Model() as model:
        tau = pm.Uniform("tau", 0.0, END)
        early, late = pm.Exponential("early", 0.3), pm.Exponential("late", 0.3)
        mean = late + (early - late) * pm.math.sigmoid((tau - time) / width)
        pm.Poisson("count", mean, observed=counts)
    return model


def line(width, level, rows=ROWS, draws=DRAWS):
    """Return a line of the table."""
    step = TunaMH(model=change_point(width, level, rows))
    trace = sample(step, draws=draws, tune=TUNE, chains=CHAINS, random_seed=4, progressbar=False)
    stats, tau = trace["sample_stats"], trace["posterior"]["tau"].to_numpy()
    read, full, accepted = (float(stats[n].mean()) for n in ("n_obs", "full_pass", "accept"))
    return (
        f"{level:10} {width:6} {tau.mean():8.2f} {tau.std():5.2f} {float(az.rhat(tau)):6.3f} "
        f"{read:6.1f} {full:5.1%} {accepted:10.2f}"
    )


def main():
    """Print the table."""
    print("later mean  width      tau    sd  R-hat   rows  full acceptance")
    for level in LATE:
        for width in WIDTHS:
            print(line(width, level), flush=True)


if __name__ == "__main__":
    main()
