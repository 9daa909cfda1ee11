"""Plots draw what they are given, in ArviZ's call shape, on the backend that is asked for."""

import arviz as az
import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from arviz_base.labels import MapLabeller

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


def an_audit(names=("b", "a[LGA]"), *, checks=("bounds", "bias", "drift")):
    """An audit whose bias grows with the number of the parameter, and whose drift falls."""
    pair = {name: ("pair", RNG.random(PAIRS)) for name in ("acceptance_error", "bound_ratio")}
    pair["log_ratio"] = ("pair", np.append(RNG.standard_normal(PAIRS - 1), -np.inf))
    number = np.arange(1.0, len(names) + 1.0)
    moments = {
        "bias": np.stack([0.1 * number, -0.02 * number]),
        "bias_mcse": np.full((2, len(names)), 0.05),
        "drift": np.stack([1.0 / number, -1.0 / number]),
    }
    places = {name: ("pair", np.arange(PAIRS)) for name in ("pair", "chain", "draw")}
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset({"verdict": ("check", ["ok"] * len(checks))}, {"check": list(checks)}),
            "pairs": xr.Dataset(pair, places),
            "moments": xr.Dataset(
                {name: (("moment", "coordinate"), values) for name, values in moments.items()},
                {"moment": ["mean", "sd"], "coordinate": list(names)},
            ),
        }
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
    np.testing.assert_allclose(errors[:, 1], AUDITED["pairs"]["acceptance_error"])
    assert errors[-1, 0] == -20.0
    biases = points(collection, "bias")
    np.testing.assert_allclose([b[:, 0] for b in biases], AUDITED["moments"]["bias"])
    intervals = lines(collection, "interval")
    np.testing.assert_allclose(intervals[0][:2, 0], [0.0, 0.2])
    assert np.isnan(intervals[0][2]).any()


def names_in(collection, panel="bias"):
    return [tick.get_text() for tick in collection.get_target(panel, {}).get_yticklabels()]


def test_of_many_parameters_the_worst_are_shown_by_name_from_the_top():
    names = [f"intercept[{k}]" for k in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    collection = plot_audit(an_audit(names))
    assert names_in(collection) == names[-20:]
    assert collection.get_target("bias", {}).get_title() == "Bias: 20 worst of 26"
    few = plot_audit(
        an_audit(names), stats={"most": 3}, labeller=MapLabeller({"intercept": "level"})
    )
    assert names_in(few) == ["level[X]", "level[Y]", "level[Z]"]
    assert collection.viz["figure"].item().get_size_inches()[1] > 5.0


def test_iterations_are_shown_by_the_drift_that_they_are_judged_by():
    collection = plot_audit(
        an_audit(["a", "b", "c"], checks=("bounds", "drift")), stats={"most": 2}
    )
    assert list(collection.viz["plot"].data_vars) == ["drift"]
    assert names_in(collection, "drift") == ["b", "a"]
    right = artists(collection, "tolerable_1")[0].get_xdata()[0]
    # Of seven comparisons 3.8 standard errors are as rare as one in a thousand.
    assert right == pytest.approx(3.803, abs=1e-3)


def height_at(artist, x):
    corners = artist.get_paths()[0].vertices
    return corners[np.isclose(corners[:, 0], x), 1].max()


def test_bars_are_shares_of_updates_that_begin_at_no_observations():
    rows = np.array([[0, 0, 1, 2, 3, 7, 8, 15], [0, 1, 1, 1, 1, 1, 1, 2]])
    stats = xr.Dataset({"n_obs": (("chain", "draw"), rows)}, {"chain": [0, 1], "draw": range(8)})
    trace = xr.DataTree.from_dict({"sample_stats": stats})
    collection = plot_rows(trace)
    shares = np.array([[2, 1, 2, 1, 2], [1, 6, 1, 0, 0]]) / 8
    for chain, artist in enumerate(artists(collection, "share")):
        heights = [height_at(artist, k + 0.4 * (chain - 1)) for k in range(5)]
        np.testing.assert_allclose(heights, shares[chain])
    panel = collection.get_target("n_obs", {})
    labels = [tick.get_text() for tick in panel.get_xticklabels()]
    assert labels == ["0", "1", "2–3", "4–7", "8–15"]
    assert panel.get_xlabel() == "observations evaluated"


def test_bars_of_draws_of_several_updates_are_means():
    rows = np.array([[0, 2, 4, 12]])
    stats = xr.Dataset({"n_obs": (("chain", "draw"), rows)}, {"chain": [0], "draw": range(4)})
    posterior = xr.Dataset(attrs={"updates_per_draw": 2})
    trace = xr.DataTree.from_dict({"sample_stats": stats, "posterior": posterior})
    for collection in (plot_rows(trace), plot_rows(trace, stats={"updates_per_draw": 4})):
        (artist,) = artists(collection, "share")
        heights = [height_at(artist, k - 0.4) for k in range(3)]
        updates = int(collection.get_target("n_obs", {}).get_xlabel().split()[-2])
        expected = {2: [0.25, 0.25, 0.25], 4: [0.25, 0.5, 0.25]}[updates]
        np.testing.assert_allclose(heights, expected)


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
    collection = plot_summary(trace)
    (points,) = artists(collection, "ess")
    np.testing.assert_allclose(10.0 ** np.asarray(points.get_offsets())[:, 1], np.sort(sizes))
    worst = int(np.argmin(sizes))
    for chain, line in enumerate(lines(collection, "slowest")):
        draws = trace["posterior"]["beta"].to_numpy()[chain, :, worst]
        np.testing.assert_array_equal(line[:, 1], draws)
    assert collection.get_target("slowest", {}).get_ylabel() == f"beta[{worst}]"
    assert legend_of(collection)[0] == "chain"
    for backend in ("bokeh", "plotly"):
        assert plot_summary(trace, backend=backend).backend == backend
    with pytest.raises(SettingError, match="too few draws"):
        plot_summary(trace.isel(draw=slice(0, 2)))


def test_a_ratio_without_end_leaves_the_axis_as_it_is():
    audited = an_audit()
    ratios = audited["pairs"]["bound_ratio"].to_numpy()
    ratios[0], ratios[1] = np.inf, 1e-40
    panel = plot_bounds(audited).get_target("bound_ratio", {})
    assert panel.get_xticks()[0] == -40.0
    assert len(panel.get_xticks()) <= 9


def lines_across(collection):
    """Lines over a whole panel that a backend other than matplotlib will draw."""
    figure = collection.viz["figure"].item()
    if collection.backend == "plotly":
        return figure.layout.shapes
    return [model for model in figure.references() if type(model).__name__ == "Span"]


@pytest.mark.parametrize("backend", ["bokeh", "plotly"])
def test_other_backends_draw_the_same(backend, tmp_path):
    for number, (plot, given) in enumerate(
        [(plot_audit, AUDITED), (plot_rows, TRACE), (plot_bounds, TRACE), (plot_bounds, AUDITED)]
    ):
        collection = plot(given, backend=backend)
        assert collection.backend == backend
        assert len(lines_across(collection)) == {plot_audit: 4, plot_rows: 0, plot_bounds: 1}[plot]
        collection.savefig(tmp_path / f"{number}.html")
        assert (tmp_path / f"{number}.html").stat().st_size
