"""Effects of groups in models that Bambi builds, a scale times z by default, run as they are."""

from functools import cache

import pytest

from helpers.tiers import fast
from models.bambi_models import figures
from models.bambi_models.groups import (
    EFFECTS,
    FARTHEST,
    NOISE,
    RESPONSES,
    distances_from_zero,
    drawn,
    gradients,
)

# Said by pandas of what Bambi asks it.
pytestmark = pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes")
#: Rows of the slow cases and of the fast one.
MANY, FEW = 50_000, 5_000
#: Rows that an update may read and the share of full passes, where it is not a thousand and none.
MOST = {"t-slopes": (6_000.0, 0.02)}
CASES = [f"{family}-{effect}" for family in RESPONSES for effect in EFFECTS]


@cache
def run_of(case, rows):
    return drawn(*case.split("-"), rows, 4_000, 1_000)


def require_the_posterior(run, most_rows, most_full=0.0):
    assert bool(run.trace.sample_stats["certified"].all())
    assert run.full_passes <= most_full
    assert run.rows_per_update <= most_rows
    distances, noise = distances_from_zero(gradients(run))
    assert (distances <= FARTHEST).all()
    assert (noise <= NOISE).all()


def test_few_rows_with_levels_of_groups():
    require_the_posterior(run_of("bernoulli-levels", FEW), 200.0)


@pytest.mark.parametrize("case", fast(CASES, ()))
def test_many_rows_with_effects_of_groups(case):
    run = run_of(case, MANY)
    require_the_posterior(run, *MOST.get(case, (1_000.0, 0.0)))
    assert run.worst_rhat < 1.01


@pytest.mark.parametrize(("name", "sds"), [("Intercept", 0.5), ("x", 0.5), ("1|group_sigma", 1.0)])
def test_draws_that_are_off_are_noticed(name, sds):
    run = run_of("bernoulli-levels", FEW)
    shifted = run.trace.posterior.to_dataset()
    shifted[name] = shifted[name] + sds * shifted[name].std()
    distances, _ = distances_from_zero(gradients(run, shifted))
    assert distances.max() > FARTHEST


@pytest.mark.slow
def test_the_figures_are_printed(monkeypatch):
    monkeypatch.setattr(figures, "ROWS", FEW)
    monkeypatch.setattr(figures, "DRAWS", 200)
    monkeypatch.setattr(figures, "TUNE", 200)
    family, effect, *_, certified = figures.line("bernoulli", "levels").split()
    assert (family, effect, certified) == ("bernoulli", "(1|group)", "yes")
    assert figures.line("cumulative", "levels").endswith("yes")
