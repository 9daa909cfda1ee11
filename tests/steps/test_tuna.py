"""TunaMH: what thinning leaves of the intensities, and χ, which is given or chosen in warm-up."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit
from scipy.stats import norm

from helpers.altered import with_method
from helpers.grouped import target_of
from helpers.in_library import decide_by_width, rate, thin
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.chain.starts import rows_of_trial
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.plan.plan import EffectMoves
from pymc_minibatch_mh.steps import many_rows
from pymc_minibatch_mh.steps import tuna as poisson
from pymc_minibatch_mh.steps.tuna import TunaSettings

FORMS = [("best", 0.0), ("best", 0.4), ("best", 30.0), ("paper", 0.0), ("paper", 0.4)]
FORMS += [("paper", 30.0), ("factorized", 0.0)]


def rows(n=300):
    """Return dU, c M and C M of rows on all scales, tight bounds among them."""
    rng = np.random.default_rng(241)
    bounds = 10.0 ** rng.uniform(-12.0, 1.0, size=n)
    shares = rng.choice([-1.0, 1.0], size=n) * np.minimum(1.0, rng.exponential(size=n))
    sizes = bounds * 10.0 ** rng.uniform(0.0, 4.0, size=n)
    return zip(shares * bounds, bounds, sizes, strict=True)


def intensity(form, change, bound, size, chi):
    """Return φ as published, in rational numbers."""
    change, bound, size, chi = (Fraction(float(x)) for x in (change, bound, size, chi))
    ceiling = bound * (1 + chi * size)
    return {
        "best": ceiling + min(Fraction(0), change),
        "paper": chi * bound * size + (change + bound) / 2,
        "factorized": max(Fraction(0), change),
    }[form]


def ceiling(bound, size, settings):
    """Return φ̄ of a row, a share of the rate."""
    return rate(size, settings) * bound / size


@pytest.mark.parametrize(("form", "chi"), FORMS)
def test_thinning_leaves_the_published_intensity(form, chi):
    settings = poisson.poisson_test(form, chi)
    for change, bound, size in rows():
        keep, _ = thin(change, bound, size, settings)
        assert 0.0 <= keep <= 1.0
        left = keep * ceiling(bound, size, settings)
        expected = float(intensity(form, change, bound, size, chi))
        assert left == pytest.approx(expected, rel=1e-13, abs=1e-15 * bound * (1 + chi * size))


@pytest.mark.parametrize(("form", "chi"), FORMS)
def test_intensities_differ_by_the_change(form, chi):
    settings = poisson.poisson_test(form, chi)
    for change, bound, size in rows():
        there, _ = thin(change, bound, size, settings)
        back, _ = thin(-change, bound, size, settings)
        top = ceiling(bound, size, settings)
        assert (there - back) * top == pytest.approx(change, rel=1e-12, abs=1e-15 * top)


@pytest.mark.parametrize(("form", "chi"), FORMS)
def test_log_ratio_is_that_of_the_intensities(form, chi):
    settings = poisson.poisson_test(form, chi)
    for change, bound, size in rows():
        keep, log_ratio = thin(change, bound, size, settings)
        back, log_back = thin(-change, bound, size, settings)
        if keep > 0.0 and back > 0.0:
            assert log_ratio == pytest.approx(math.log(back / keep), rel=1e-9, abs=1e-12)
            assert log_ratio == -log_back
        elif keep > 0.0:
            assert log_ratio == -math.inf
        else:
            assert log_ratio == 0.0


@pytest.mark.parametrize("form", ["best", "paper"])
def test_small_changes_keep_their_digits(form):
    bound, size, chi = 0.3, 2.0, 0.4
    settings = poisson.poisson_test(form, chi)
    for change in (1e-20, -1e-20, 3e-9, -3e-9):
        there = intensity(form, change, bound, size, chi)
        back = intensity(form, -change, bound, size, chi)
        # log(1 + z) to third order, in rational numbers.
        z = back / there - 1
        expected = float(z - z**2 / 2 + z**3 / 3)
        assert thin(change, bound, size, settings)[1] == pytest.approx(expected, rel=4e-16)


@pytest.mark.parametrize(("form", "chi"), FORMS)
def test_rows_that_cannot_change_are_never_kept(form, chi):
    settings = poisson.poisson_test(form, chi)
    assert thin(0.0, 0.0, 2.0, settings) == (0.0, 0.0)
    assert thin(0.0, 0.0, 0.0, settings) == (0.0, 0.0)
    assert thin(-0.0, 0.0, 0.0, settings) == (0.0, 0.0)
    assert rate(0.0, settings) == 0.0


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_undefined_log_ratios_reject(bad):
    assert decide_by_width(bad, 0.0, 0.5) == (0.0, 0.0)


def efficiency(chi, sizes, mean_square, row_cost, max_rate=math.inf):
    raised = 1.0 + chi[:, None] * sizes
    rows = sizes * raised
    acceptance = 2.0 * norm.cdf(-0.5 * np.sqrt(mean_square * sizes / raised))
    acceptance[rows > max_rate] = 1.0
    effective = acceptance / (2.0 - acceptance)
    return (effective / (1.0 + row_cost * np.minimum(rows, max_rate))).mean(axis=1)


@pytest.mark.parametrize("row_cost", [1e-3, 1e-2, 0.3])
@pytest.mark.parametrize("mean_square", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("scale", [1e-3, 0.3, 5.0, 200.0])
@pytest.mark.parametrize("max_rate", [math.inf, 3_000.0])
def test_best_chi_is_the_best(scale, mean_square, row_cost, max_rate):
    sizes = scale * np.random.default_rng(5).gamma(3.0, 0.3, size=40)
    sizes, points = (sizes, 4_000) if max_rate == math.inf else (sizes[:1], 40_000)
    case = sizes, mean_square, row_cost, max_rate
    best = efficiency(np.append(0.0, np.geomspace(1e-7, 1e6, points)), *case).max()
    chi = poisson.best_chi(*case)
    assert isinstance(chi, float)
    # Where moves begin to read all rows, the best χ is an end that is found up to its precision.
    precision = 1e-9 if max_rate == math.inf else 1e-6
    assert efficiency(np.array([chi]), *case)[0] >= best * (1.0 - precision)


@pytest.mark.parametrize("sizes", [[], [0.0], [math.inf, math.nan]])
def test_best_chi_is_0_without_a_move_to_judge_by_and_where_rows_are_dear(sizes):
    assert poisson.best_chi(sizes, 0.1, 0.01) == poisson.best_chi([0.5], 0.01, 1e3) == 0.0


def test_best_chi_reads_all_rows_only_where_that_pays():
    limit = 3_000.0
    quiet, loud = (poisson.best_chi([700.0], noise, 0.01, limit) for noise in (1e-4, 0.5))
    assert rate(700.0, poisson.poisson_test("best", quiet)) < limit
    assert rate(700.0, poisson.poisson_test("best", loud)) > limit


def test_largest_chi_reads_as_many_rows_as_a_pass():
    for size in (1e-3, 7.0, 99.0):
        chi = poisson.largest_chi(size, 100.0)
        assert rate(size, poisson.poisson_test("best", chi)) == pytest.approx(100.0)
    assert poisson.largest_chi(0.0, 100.0) == math.inf
    assert poisson.largest_chi(100.0, 100.0) == poisson.largest_chi(math.inf, 100.0) == 0.0


def test_best_chi_leaves_out_moves_that_read_all_rows():
    with_full = poisson.best_chi([0.3, 2.0, math.inf], 0.1, 0.01)
    assert with_full == poisson.best_chi([0.3, 2.0], 0.1, 0.01)
    with_larger = poisson.best_chi([0.3, 2.0, 90.0], 0.1, 0.01, 80.0)
    assert with_larger == poisson.best_chi([0.3, 2.0], 0.1, 0.01, 80.0)


def test_chi_for_gap():
    assert poisson.chi_for_gap(0.5) == pytest.approx(8.0 / math.log(2.0), rel=1e-15)
    for ratio in (0.0, 1.0, -0.5, math.nan):
        with pytest.raises(SettingError, match="spectral_gap_ratio"):
            poisson.chi_for_gap(ratio)


ROWS, COLUMNS = 3_000, 40


@pytest.fixture(scope="module")
def many_columns():
    """A logistic regression in which χ = 1 makes every move read all rows."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(ROWS), rng.standard_normal((ROWS, COLUMNS - 1))])
    y = rng.random(ROWS) < expit(X @ rng.normal(0.0, 0.2, COLUMNS))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=COLUMNS)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y.astype(np.int8))
    return model


@pytest.fixture(scope="module")
def step(many_columns):
    return TunaMH(model=many_columns)


def share_of_full_passes(step, tune, draws, before=None):
    """Return the share of updates after warm-up that read all rows."""
    step.setup_chain(np.random.default_rng(3), tune, draws)
    if before is not None:
        step.chain.change(test=step.chain.state.records.test._replace(chi=before))
    point = step.gaussian_draw(np.random.default_rng(2), 1.0)
    full = 0
    for draw in range(tune + draws):
        if draw == tune:
            step.stop_tuning()
        point, (stats,) = step.step(point)
        full += stats["full_pass"] if draw >= tune else 0
    return full / draws


def test_chi_of_one_makes_every_move_read_all_rows_and_is_kept(step):
    fixed = with_method(step, chi=1.0)
    assert share_of_full_passes(fixed, 100, 50, before=1.0) == 1.0
    assert fixed.chain.state.records.test.chi == 1.0


def test_an_automatic_chi_needs_no_full_passes(step):
    assert share_of_full_passes(step, 200, 200) < 0.05


def test_an_automatic_chi_that_reads_all_rows_is_found_to_be_too_large(step):
    assert share_of_full_passes(step, 200, 200, before=1.0) < 0.05


def choices(alternatives):
    """Return choices by coefficients of 25 persons, which multiply data of some alternatives."""
    rng = np.random.default_rng(3)
    person, data = rng.integers(0, 25, 1_000), rng.normal(size=(1_000, 3))
    data[:, alternatives:] = 0.0
    with pm.Model() as model:
        effect = pm.Normal("effect", 0.0, 1.0, shape=25)[person]
        columns = [effect * x if k < alternatives else 0.0 * x for k, x in enumerate(data.T)]
        value = pm.Normal("level", 0.0, 1.0, shape=3) + pm.math.stack(columns, axis=1)
        pm.Categorical("y", p=pm.math.softmax(value, axis=1), observed=rng.integers(0, 3, 1_000))
    return model


@pytest.mark.parametrize(("alternatives", "by_elements"), [(3, "where possible"), (1, "never")])
def test_effects_in_several_alternatives_move_one_at_a_time_even_if_few(alternatives, by_elements):
    settings = TunaSettings()
    moves = settings.moves_for(settings.method("best", None), target_of(choices(alternatives)))
    assert moves == EffectMoves("never", by_elements)


@pytest.mark.parametrize(
    ("blocks", "how"),
    [
        (False, "Of the effects, blocks=True accepts each alone"),
        (True, "the 25 effects 'effect' are accepted one at a time"),
    ],
)
def test_many_rows_of_effects_are_told_when_the_step_is_built(blocks, how, caplog, monkeypatch):
    model = choices_of_people()
    with caplog.at_level("WARNING", logger="pymc"):
        TunaMH(model=model, blocks=blocks)
        assert not caplog.records, "fewer than a thousand rows are no news"
        monkeypatch.setattr(many_rows, "MIN_MANY", 0)
        monkeypatch.setattr(many_rows, "MANY_ROWS", 1e-6)
        TunaMH(model=model, blocks=blocks)
        (message,) = caplog.messages
    assert how in message


def test_a_trial_evaluates_as_many_rows_as_updates_do():
    step = TunaMH(model=choices_of_people(), blocks=True, rng=1)
    rows = step.chain.copy().advance(1_000).counts["n_obs"].mean()
    assert 0.5 * rows < rows_of_trial(step.program, 100) < 2.0 * rows


@cache
def choices_of_people():
    return choices(3)
