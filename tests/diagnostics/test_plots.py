"""Plots draw what they are given, in ArviZ's call shape, on the backend that is asked for."""

import arviz as az
import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from arviz_plots import PlotCollection

from pymc_minibatch_mh import plot_audit, plot_bounds, plot_rows, plot_summary, sample
from pymc_minibatch_mh.errors import SettingError

RNG = np.random.default_rng(3)
PAIRS = 30


@pytest.fixture(autouse=True)
def no_window():
    with mpl.rc_context({"backend": "agg"}):
        yield
        mpl.pyplot.close("all")


def a_trace():
    rows = xr.DataArray(RNG.integers(0, 500, (2, 40)), dims=("chain", "draw"))
    stats = xr.Dataset({"n_obs": rows, "bound_ratio": rows / 500.0})
    coords = {"chain": [0, 1], "draw": np.arange(40)}
    return xr.DataTree.from_dict({"/sample_stats": stats.assign_coords(coords)})


def an_audit():
    pair = {name: ("pair", RNG.random(PAIRS)) for name in ("acceptance_error", "bound_ratio")}
    per_moment = (("moment", "coordinate"), np.array([[0.3, -0.2], [0.1, 0.0]]))
    return xr.Dataset(
        {
            **pair,
            "log_ratio": ("pair", np.append(RNG.standard_normal(PAIRS - 1), -np.inf)),
            "bias": per_moment,
            "bias_mcse": (per_moment[0], np.full((2, 2), 0.05)),
        },
        {
            "pair": np.arange(PAIRS),
            "chain": ("pair", np.zeros(PAIRS, int)),
            "draw": ("pair", np.arange(PAIRS)),
            "moment": ["mean", "sd"],
            "coordinate": ["a", "b"],
        },
    )


TRACE, AUDITED = a_trace(), an_audit()


def points(collection, name):
    return [np.asarray(artist.get_offsets()) for artist in artists(collection, name)]


def artists(collection, name):
    return [a for v in collection.viz[name].data_vars.values() for a in v.values.ravel()]


def lines(collection, name):
    return [artist.get_xydata() for artist in artists(collection, name)]


def test_errors_and_biases_are_at_their_places():
    collection = plot_audit(AUDITED)
    (errors,) = points(collection, "error")
    np.testing.assert_allclose(errors[:, 1], AUDITED["acceptance_error"])
    assert errors[-1, 0] == -20.0
    biases = points(collection, "bias")
    np.testing.assert_allclose([b[:, 1] for b in biases], AUDITED["bias"])
    intervals = lines(collection, "interval")
    np.testing.assert_allclose(intervals[0][:2, 1], [0.2, 0.4])
    assert np.isnan(intervals[0][2]).any()


def test_tails_are_shares_of_updates():
    collection = plot_rows(TRACE, stats={"updates_per_draw": 2})
    first, second = lines(collection, "tail")
    for line, chain in zip((first, second), TRACE["sample_stats"]["n_obs"].to_numpy(), strict=True):
        rows, share = line.T
        np.testing.assert_allclose(10.0**rows, np.maximum(np.sort(chain) / 2, 0.5))
        np.testing.assert_allclose(10.0**share, 1.0 - np.arange(40) / 40)
    panel = collection.get_target("n_obs", {})
    labels = [tick.get_text() for tick in panel.get_xticklabels()]
    np.testing.assert_allclose(panel.get_xticks(), np.log10([float(text) for text in labels]))


@pytest.mark.parametrize(("given", "count"), [(TRACE, 2), (AUDITED, 1)])
def test_bounds_are_drawn_against_one(given, count):
    collection = plot_bounds(given)
    (limit,) = artists(collection, "bound")
    assert limit.get_xdata()[0] == 0.0
    assert len(lines(collection, "tail")) == count


def legend_of(collection):
    (legend,) = collection.viz["figure"].item().legends
    return legend.get_title().get_text(), [text.get_text() for text in legend.get_texts()]


def test_legends_name_moments_and_chains_alone():
    assert legend_of(plot_audit(AUDITED)) == ("moment", ["mean", "sd"])
    assert legend_of(plot_rows(TRACE)) == ("chain", ["0", "1"])


def test_a_summary_shows_the_rows_the_slowest_parameter_and_all_sizes(prepared):
    step = prepared("logistic", "TunaMH")
    trace = sample(step, 200, tune=200, chains=2, random_seed=4, progressbar=False, quiet=True)
    sizes = az.ess(trace)["beta"].to_numpy()
    collection = plot_summary(trace, step)
    (points,) = artists(collection, "ess")
    np.testing.assert_allclose(10.0 ** np.asarray(points.get_offsets())[:, 1], np.sort(sizes))
    worst = int(np.argmin(sizes))
    for chain, line in enumerate(lines(collection, "slowest")):
        draws = trace["posterior"]["beta"].to_numpy()[chain, :, worst]
        np.testing.assert_array_equal(line[:, 1], draws)
    assert collection.get_target("slowest", {}).get_ylabel() == f"beta[{worst}]"
    assert legend_of(collection)[0] == "chain"
    for backend in ("bokeh", "plotly"):
        assert plot_summary(trace, step, backend=backend).backend == backend
    with pytest.raises(SettingError, match="not a step method"):
        plot_summary(trace, "TunaMH")
    with pytest.raises(SettingError, match="too few draws"):
        plot_summary(trace.isel(draw=slice(0, 2)), step)


def test_a_ratio_without_end_leaves_the_axis_as_it_is():
    ratios = AUDITED["bound_ratio"].copy()
    ratios[0], ratios[1] = np.inf, 1e-40
    panel = plot_bounds(AUDITED.assign(bound_ratio=ratios)).get_target("bound_ratio", {})
    assert panel.get_xticks()[0] == -40.0
    assert len(panel.get_xticks()) <= 9


def test_a_collection_without_colours_has_no_legend():
    data = xr.Dataset({"n_obs": (("chain", "draw", "plot_axis"), np.ones((2, 40, 2)))})
    own = PlotCollection.wrap(data, cols=["__variable__"], backend="matplotlib")
    assert "legend" not in plot_rows(TRACE, plot_collection=own).viz.children


@pytest.mark.parametrize("backend", ["bokeh", "plotly"])
def test_other_backends_draw_the_same(backend, tmp_path):
    for number, (plot, given) in enumerate(
        [(plot_audit, AUDITED), (plot_rows, TRACE), (plot_bounds, TRACE), (plot_bounds, AUDITED)]
    ):
        collection = plot(given, backend=backend)
        assert collection.backend == backend
        collection.savefig(tmp_path / f"{number}.html")
        assert (tmp_path / f"{number}.html").stat().st_size


def test_visuals_can_be_left_out_and_changed():
    visuals = {"zero": False, "bias": {"color": "black"}, "legend": False}
    collection = plot_audit(AUDITED, visuals=visuals)
    assert "zero" not in collection.viz
    again = plot_audit(AUDITED, backend="none")
    assert again.backend == "none"
    assert "error" in again.viz
