"""Effects of small groups whose rows are in files, sorted by group: as from arrays in memory."""

from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pymc as pm
import pytest
import xarray as xr

from helpers.tiers import fast
from pymc_minibatch_mh import Rows, TunaMH, draw_effects, sample
from pymc_minibatch_mh.bounds import effects
from pymc_minibatch_mh.compiled.group_rows import StoredGroupRows
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.plan.groups import GroupsPlan
from pymc_minibatch_mh.reference import full_data, node_rule
from pymc_minibatch_mh.sampling import later_effects
from pymc_minibatch_mh.sampling.initial_points import starting_positions

G, N = 400, 2_000
FAMILIES = ["bernoulli", "t"]


def columns():
    """Return the columns of a table, sorted by group; some groups have no rows."""
    rng = np.random.default_rng(4)
    group = np.sort(rng.integers(0, G, N))
    x = rng.standard_normal((N, 2))
    level = 0.3 + x @ [0.5, -0.4] + 0.8 * rng.standard_normal(G)[group]
    y = rng.random(N) < 1.0 / (1.0 + np.exp(-level))
    return {"group": group, "x": x, "y": y.astype(float), "level": level + rng.standard_t(4, N)}


def model_of(column, family):
    """Return a model of columns, each of which `column` returns by its name."""
    with pm.Model() as model:
        mu, b = pm.Normal("mu", 0.0, 2.0), pm.Normal("b", shape=2)
        effect = pm.Normal("effect", mu, pm.HalfNormal("tau", 1.0), shape=G)
        mean = effect[column("group")] + column("x") @ b
        if family == "t":
            pm.StudentT("y", nu=4.0, mu=mean, sigma=1.0, observed=column("level"))
        else:
            pm.Bernoulli("y", logit_p=mean, observed=column("y"))
    return model


def files(folder, columns):
    """Write columns to .npy files; return their rows."""
    for name, values in columns.items():
        np.save(folder / f"{name}.npy", values)
    return Rows(**{name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in columns})


def table(folder, columns):
    """Write columns to a Parquet file with small row groups; return its rows."""
    flat = {name: values for name, values in columns.items() if values.ndim == 1}
    flat |= {f"x{k}": columns["x"][:, k] for k in range(2)}
    pq.write_table(pa.table(flat), folder / "rows.parquet", row_group_size=300)
    names = {name: name for name in ("group", "y", "level")}
    return Rows.from_parquet(folder / "rows.parquet", {**names, "x": ["x0", "x1"]})


def drawn(model, **settings):
    """Return a step, and a chain's draws of everything."""
    step = TunaMH(model=model, **settings)
    assert isinstance(step.plan, GroupsPlan)
    trace = sample(
        step, 60, tune=60, chains=2, random_seed=2, progressbar=False,
        compute_convergence_checks=False,
    )  # fmt: skip
    return step, trace.posterior


@pytest.mark.parametrize(
    ("family", "write"),
    fast(product(FAMILIES, [files, table]), [("bernoulli", table)]),
)
def test_draws_are_those_of_rows_in_memory(family, write, tmp_path, monkeypatch):
    monkeypatch.setattr(effects, "GROUPS_IN_TASK", 150)
    monkeypatch.setattr(full_data, "CHUNK", 10_000)
    arrays = columns()
    expected_step, expected = drawn(model_of(arrays.__getitem__, family))
    step, found = drawn(model_of(write(tmp_path, arrays).data, family))
    assert isinstance(step.plan.target.group_rows, StoredGroupRows)
    assert np.array_equal(step.tables.c, expected_step.tables.c)
    for name in ("mu", "b", "tau", "effect"):
        assert np.array_equal(found[name], expected[name]), name


def test_rows_that_are_not_sorted_are_refused_with_a_way_to_sort_them(tmp_path):
    arrays = columns()
    arrays = {name: np.roll(values, 1_000, axis=0) for name, values in arrays.items()}
    model = model_of(files(tmp_path, arrays).data, "bernoulli")
    with pytest.raises(SettingError, match=r"not sorted by .* first in row 1,000. .*sort_by\("):
        TunaMH(model=model, blocks="groups")


def test_a_file_that_changes_ends_the_run_by_its_name(tmp_path):
    arrays = columns()
    model = model_of(files(tmp_path, arrays).data, "bernoulli")
    step = TunaMH(model=model)
    np.save(tmp_path / "y.npy", arrays["y"][::-1])
    settings = {"chains": 1, "progressbar": False, "compute_convergence_checks": False}
    with pytest.raises(SourceError, match=r"y\.npy"):
        sample(step, 200, tune=10, effects=False, **settings)


@pytest.mark.slow
def test_effects_of_some_groups_are_those_of_all(tmp_path, monkeypatch):
    monkeypatch.setattr(effects, "GROUPS_IN_TASK", 150)
    monkeypatch.setattr(later_effects, "EFFECTS_AT_ONCE", 2 * 2 * G)
    step, trace = drawn(model_of(files(tmp_path, columns()).data, "bernoulli"))
    shared = trace.to_dataset()[["mu", "b", "tau"]].isel(draw=slice(0, 3))
    data = xr.DataTree.from_dict({"posterior": shared})
    every, some = draw_effects(data, step), draw_effects(data, step, groups=[3, 399])
    assert np.array_equal(some.posterior["effect"], every.posterior["effect"][..., [3, 399]])


@pytest.mark.slow
def test_appended_rows_are_prepared_anew_with_the_reason(tmp_path, caplog):
    caplog.set_level("INFO", logger="pymc")
    arrays = columns()
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    first = {name: values[:-50] for name, values in arrays.items()}
    step = TunaMH(model=model_of(files(tmp_path / "old", first).data, "bernoulli"))
    longer = TunaMH(
        model=model_of(files(tmp_path / "new", arrays).data, "bernoulli"), prepared=step.plan
    )
    assert "effects 'effect' are integrated out, and appended rows" in caplog.text
    assert longer.plan.target.compiled.layout.n_rows == N


def test_starts_evaluate_some_groups_and_draw_no_effects(tmp_path, monkeypatch):
    step, _ = drawn(model_of(files(tmp_path, columns()).data, "bernoulli"))
    fetched, honest = [], StoredGroupRows.some

    def counted(rows, numbers):
        fetched.append(len(numbers))
        return honest(rows, numbers)

    monkeypatch.setattr(node_rule, "ERROR_GROUPS", 50)
    monkeypatch.setattr(StoredGroupRows, "some", counted)
    monkeypatch.setattr(GroupsPlan, "unravel", lambda *_: pytest.fail("effects are drawn"))
    starting_positions(step, None, 2, np.random.default_rng(6))
    assert fetched == [50, 50]
