"""Plots of audits, evaluated observations, bounds and traces, as ArviZ's plot collections."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import arviz as az
import numpy as np
import xarray as xr
from arviz_base import rcParams, xarray_var_iter
from arviz_base.labels import BaseLabeller
from arviz_plots import visuals as shapes
from arviz_plots.plot_collection import PlotCollection, backend_from_object

from pymc_minibatch_mh.diagnostics.audit import MARGIN, MAX_BIAS, drift_limit
from pymc_minibatch_mh.diagnostics.draws import require_group, require_trace
from pymc_minibatch_mh.errors import SettingError

#: `MAX_RATIO`: limit to which log ratios are clipped. `APART`: vertical shift of a moment's points.
MAX_RATIO, APART = 20.0, 0.15
#: Height of a figure, width of a panel, and height of the line of a parameter, in dots.
HEIGHT, WIDTH, LINE = 400, 550, 24
#: Visuals drawn inside a panel; all others change its axes.
ARTISTS = (
    "zero", "tolerable", "error", "bias", "drift", "interval", "share", "tail", "bound", "slowest",
    "ess",
)  # fmt: skip
#: Minimum effective sample size for reliable R-hat and intervals: Vehtari et al. (2021), section 4,
#: doi:10.1214/20-BA1221.
MIN_ESS = 400.0
#: Maximum number of ticks, of ticks with long labels, and of parameters in a plot of an audit.
MAX_TICKS, MAX_LONG_TICKS, MAX_PARAMETERS = 8, 5, 20
#: Total width of the bars of a bin, as a share of the distance between bins.
FILLED = 0.8

Visuals = Mapping[str, Mapping[str, Any] | bool]
AesByVisuals = Mapping[str, Sequence[str]]


def plot_audit(
    data: xr.DataTree,
    *,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
    labeller: Any = None,
    aes_by_visuals: AesByVisuals | None = None,
    visuals: Visuals | None = None,
    stats: Mapping[str, Any] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the errors of acceptance probabilities, and the resulting bias of the posterior.

    Parameters
    ----------
    data
        Result of :func:`audit`.
    plot_collection, backend, labeller, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots. Visuals are ``error``, ``bias``, ``interval``, ``drift``, ``zero``,
        ``tolerable``, ``xticks``, ``yticks``, ``legend``, ``title``, ``xlabel`` and ``ylabel``;
        False leaves one out.
    stats
        ``most``: number of parameters, the worst first; default 20. ``tolerable``: bias at which
        lines are drawn, in standard deviations of the draws; default 0.1.

    Returns
    -------
    PlotCollection
        A panel with the bias of each parameter and its interval of two standard errors, and a panel
        with a point per pair. If the audit has no check ``bias``, there is one panel, with the
        drift of each parameter and the limits of its check.

    Raises
    ------
    SettingError
        If `data` is not the result of an audit.

    Examples
    --------
    >>> with model:
    ...     found = audit(trace, step, pairs=50)
    >>> figure = plot_audit(found)
    """
    pairs = require_group(data, "pairs", "acceptance_error", AUDIT)
    moments = require_group(data, "moments", "drift", AUDIT)
    name = "bias" if "bias" in data["check"] else "drift"
    wanted = stats or {}
    worst = _worst_coordinates(moments, name, int(wanted.get("most", MAX_PARAMETERS)))
    points = xr.Dataset({name: _moment_points(worst[name])})
    if name == "bias":
        near = pairs["log_ratio"].clip(-MAX_RATIO, MAX_RATIO)
        errors = _xy_points(near, pairs["acceptance_error"])
        points = points.assign(acceptance_error=errors.drop_vars(["chain", "draw", "pair"]))
    figure = _Figure(points, "moment", plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    panel = points[[name]]
    if name == "bias":
        figure.draw_errors(points[["acceptance_error"]])
        figure.draw_visual("interval", shapes.line_xy, xr.Dataset({"bias": _interval_lines(worst)}))
    figure.draw_visual(name, shapes.scatter_xy, panel)
    # Plotly leaves out lines of a panel that has no points yet.
    figure.draw_visual("zero", shapes.vline, _constant_panel(panel), 1, color="gray")
    limit = MAX_BIAS if name == "bias" else drift_limit(moments[name].size)
    level = float(wanted.get("tolerable", limit))
    for number, value in enumerate((-level, level)):
        line = _constant_panel(panel, value)
        figure.draw_visual("tolerable", shapes.vline, line, number, color="gray", linestyle="C1")
    figure.mark_multiples(panel, level)
    figure.name_parameters(panel, [str(name) for name in worst["coordinate"].to_numpy()], labeller)
    shown, known = worst.sizes["coordinate"], moments.sizes["coordinate"]
    what = " of the moments" if shown == known else f": {shown} worst of {known}"
    unit = {"bias": "bias / posterior sd", "drift": "drift / standard error"}
    figure.label_panel(name, f"{name.capitalize()}{what}", unit[name], "", 1)
    return figure.with_legend()


def plot_rows(
    data: xr.DataTree,
    *,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
    labeller: Any = None,
    aes_by_visuals: AesByVisuals | None = None,
    visuals: Visuals | None = None,
    stats: Mapping[str, Any] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the number of observations that updates evaluate: 0, 1, 2–3, 4–7 and so on.

    Parameters
    ----------
    data
        Trace of :func:`pymc.sample` or :func:`sample`.
    plot_collection, backend, labeller, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots; no label depends on `labeller`. Visuals are ``share``, ``xticks``,
        ``legend``, ``title``, ``xlabel`` and ``ylabel``.
    stats
        ``updates_per_draw``: number of updates per draw, to show means over them; default the
        attribute of the trace.

    Returns
    -------
    PlotCollection
        One panel, with bars for each chain.

    Raises
    ------
    SettingError
        If `data` has no ``n_obs`` in its sample stats.

    Examples
    --------
    >>> figure = plot_rows(trace)
    """
    points = xr.Dataset({"n_obs": _bars_of_rows(data, stats)})
    figure = _Figure(points, "chain", plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    figure.draw_shares(points)
    return figure.with_legend()


def plot_bounds(
    data: xr.DataTree,
    *,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
    labeller: Any = None,
    aes_by_visuals: AesByVisuals | None = None,
    visuals: Visuals | None = None,
    stats: Mapping[str, Any] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the largest changes of observations relative to their bounds, as a survival curve.

    Parameters
    ----------
    data
        Result of :func:`audit`, with a ratio per pair over all observations; or a trace of
        :func:`pymc.sample` or :func:`sample`, with a ratio per draw over the evaluated ones.
    plot_collection, backend, labeller, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots; no label depends on `labeller`. Visuals are ``tail``, ``bound``,
        ``xticks``, ``yticks``, ``legend``, ``title``, ``xlabel`` and ``ylabel``.
    stats
        ``bound``: ratio at which the line of the bound is drawn; default 1.

    Returns
    -------
    PlotCollection
        One panel.

    Raises
    ------
    SettingError
        If `data` has no ratio: approximate methods have no bounds.

    Examples
    --------
    >>> figure = plot_bounds(trace)
    """
    audited = "pairs" in require_trace(data).children
    dim, group = ("pair", "pairs") if audited else ("draw", "sample_stats")
    expected = "the result of audit(), or the trace of a step with bounds, such as TunaMH()"
    dataset = require_group(data, group, "bound_ratio", expected)
    ratios = dataset["bound_ratio"].drop_vars(["chain", "draw"] if audited else "draw")
    ratios = ratios.where(ratios > 0.0)
    if not ratios.notnull().any():
        raise SettingError(
            "'bound_ratio' is not above 0 anywhere: approximate methods have no bounds. Use "
            "plot_rows() or plot_audit()."
        )
    points = xr.Dataset({"bound_ratio": _survival_curve(ratios, dim)})
    colour = "" if audited else "chain"
    figure = _Figure(points, colour, plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    figure.draw_visual("tail", shapes.line_xy, points)
    figure.mark_decades(points, "x")
    figure.mark_decades(points, "y")
    figure.label_panel("bound_ratio", *BOUNDS)
    limit = float((stats or {}).get("bound", 1.0))
    figure.draw_visual(
        "bound", shapes.vline, _constant_panel(points, np.log10(limit)), color="gray"
    )
    return figure.with_legend()


def plot_summary(
    data: xr.DataTree,
    *,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
    labeller: Any = None,
    aes_by_visuals: AesByVisuals | None = None,
    visuals: Visuals | None = None,
    stats: Mapping[str, Any] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the cost and the quality of a trace in one figure.

    Parameters
    ----------
    data
        Trace of :func:`pymc.sample` or :func:`sample`.
    plot_collection, backend, labeller, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots. Visuals are ``share``, ``slowest``, ``ess``, ``bound``, ``xticks``,
        ``yticks``, ``legend``, ``title``, ``xlabel`` and ``ylabel``.
    stats
        ``enough``: effective sample size at which a line is drawn; default 400.
        ``updates_per_draw``: as in :func:`plot_rows`.

    Returns
    -------
    PlotCollection
        Three panels: the observations that updates evaluate, the draws of the parameter with the
        smallest effective sample size, and the effective sample sizes of all parameters.

    Raises
    ------
    SettingError
        If `data` is not a trace of one of this package's steps, or is too short.

    Examples
    --------
    >>> figure = plot_summary(trace)
    """
    shares = _bars_of_rows(data, stats)
    name, slowest, sizes = _slowest_parameter(data, labeller or BaseLabeller())
    points = xr.Dataset({"n_obs": shares, "slowest": slowest, "ess": sizes})
    figure = _Figure(points, "chain", plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    figure.draw_shares(points[["n_obs"]])
    figure.draw_visual("slowest", shapes.line_xy, points[["slowest"]], alpha=0.6)
    figure.label_panel("slowest", "Parameter that mixes slowest", "draw", name, 1)
    ess = points[["ess"]]
    figure.draw_visual("ess", shapes.scatter_xy, ess, color="gray")
    enough = float((stats or {}).get("enough", MIN_ESS))
    figure.draw_visual("bound", shapes.hline, _constant_panel(ess, np.log10(enough)), color="gray")
    figure.mark_decades(ess, "y")
    labels = "Effective sample sizes", "parameters, the slowest first", "bulk effective sample size"
    figure.label_panel("ess", *labels, 2)
    return figure.with_legend()


#: `AUDIT`: name of an audit in messages. `BOUNDS`: title and axis labels of the panel of bounds.
AUDIT = "the result of audit()"
BOUNDS = (
    "Largest change of an observation",
    "largest |change| / bound",
    "share with a ratio at least as large",
)


class _Figure:
    """A plot collection with the caller's settings, in ArviZ's terms."""

    def __init__(
        self,
        data: xr.Dataset,
        coloured_by: str,
        collection: PlotCollection | None,
        backend: str | None,
        aes_by_visuals: AesByVisuals | None,
        visuals: Visuals | None,
        pc_kwargs: dict[str, Any],
    ) -> None:
        if collection is None:
            pc_kwargs.setdefault("cols", ["__variable__"])
            if coloured_by:
                pc_kwargs["aes"] = {"color": [coloured_by], **pc_kwargs.get("aes", {})}
            backend = rcParams["plot.backend"] if backend is None else backend
            height = max(HEIGHT, LINE * (data.sizes.get("coordinate", 0) + 5))
            size = {"figsize": (WIDTH * len(data.data_vars), height), "figsize_units": "dots"}
            if backend == "matplotlib":
                size["layout"] = "constrained"
            pc_kwargs["figure_kwargs"] = {**size, **pc_kwargs.get("figure_kwargs", {})}
            collection = PlotCollection.wrap(data, backend=backend, **pc_kwargs)
            _drop_neutral_colour(collection)
        self.collection, self._coloured_by = collection, coloured_by
        self._aes = dict(aes_by_visuals or {})
        self._visuals = dict(visuals or {})

    def draw_visual(
        self, name: str, visual: Callable, data: xr.Dataset, number: int = 0, **defaults: Any
    ) -> None:
        """Draw a visual, unless the caller left it out."""
        wanted = self._visuals.get(name, {})
        if wanted is False:
            return
        mapped = name in ARTISTS and "color" not in defaults
        used = self._aes.get(name, self.collection.aes_set if mapped else ())
        ignored = set(self.collection.aes_set) - set(used)
        settings = {**defaults, **(wanted if isinstance(wanted, Mapping) else {})}
        # Visuals that change an axis have no artist to store, except with the recording backend.
        settings["store_artist"] = name in ARTISTS or self.collection.backend == "none"
        key = f"{name}_{number}" if number else name
        self.collection.map(visual, key, data=data, ignore_aes=ignored, **settings)

    def draw_errors(self, data: xr.Dataset) -> None:
        """Draw the panel with the errors of the acceptance probabilities of pairs."""
        self.draw_visual("error", shapes.scatter_xy, data, color="gray")
        self.draw_visual("zero", shapes.hline, _constant_panel(data), color="gray")
        labels = "Audited decisions", "exact log ratio", "error of the acceptance probability"
        self.label_panel("acceptance_error", *labels)

    def draw_shares(self, data: xr.Dataset) -> None:
        """Draw the panel with shares of updates by the number of observations they evaluate."""
        (shares,) = data.data_vars.values()
        bars = data if self._is_coloured else data.assign(n_obs=_pool_chains(shares))
        self.draw_visual("share", shapes.hist, bars)
        bins = range(shares.attrs["bins"])
        # Long labels, such as "131k–262k", need more room.
        marked = bins[:: 1 if len(bins) <= MAX_TICKS else -(-len(bins) // MAX_LONG_TICKS)]
        texts = [_bin_label(k) for k in marked]
        self.draw_visual("xticks", shapes.set_xticks, data, values=list(marked), labels=texts)
        mean = shares.attrs["updates"] > 1
        unit = f", mean of {shares.attrs['updates']} updates" if mean else ""
        share = "share of draws" if mean else "share of updates"
        self.label_panel("n_obs", "Observations per update", f"observations evaluated{unit}", share)

    def mark_multiples(self, data: xr.Dataset, limit: float) -> None:
        """Mark zero and multiples of a limit on the x axis."""
        (values,) = data.sel(plot_axis="x", drop=True).data_vars.values()
        known = np.append(values.to_numpy(), (-limit, limit)) / limit
        low, high = np.nanmin(known), np.nanmax(known)
        apart = np.ceil(max(high, -low) / 3.0 - 1e-9)
        marks = limit * apart * np.arange(np.ceil(low / apart), high / apart + 1e-9)
        labels = [f"{mark + 0.0:.2g}" for mark in marks]
        self.draw_visual("xticks", shapes.set_xticks, data, values=marks, labels=labels)

    def name_parameters(self, data: xr.Dataset, names: Sequence[str], labeller: Any) -> None:
        """Name the parameters on the y axis."""
        texts = []
        for name in names:
            variable, bracket, rest = name.partition("[")
            known = variable if labeller is None else labeller.var_name_to_str(variable)
            texts.append(f"{known}{bracket}{rest}")
        self.draw_visual("yticks", _set_yticks, data, values=np.arange(len(texts)), labels=texts)

    def mark_decades(self, data: xr.Dataset, axis: str) -> None:
        """Mark powers of ten on an axis of logarithms, because not all backends have such axes."""
        (logs,) = data.sel(plot_axis=axis, drop=True).data_vars.values()
        # A ratio to a bound of zero is infinite, and is left out.
        values = logs.where(np.isfinite(logs))
        first, last = np.floor(float(values.min())), np.ceil(float(values.max()))
        powers = np.arange(first, last + 1.0, 1.0 + (last - first) // MAX_TICKS)
        labels = [f"{10.0**power:g}" for power in powers]
        shape: Callable = {"x": shapes.set_xticks, "y": _set_yticks}[axis]
        self.draw_visual(f"{axis}ticks", shape, data, values=powers, labels=labels)

    @property
    def _is_coloured(self) -> bool:
        return any(self._coloured_by in x.dims for x in self.collection.aes.children.values())

    def with_legend(self) -> PlotCollection:
        """Add a legend of the colours, unless there are none or the caller left it out."""
        wanted = self._visuals.get("legend") is not False
        if self._is_coloured and wanted and self.collection.backend != "none":
            self.collection.add_legend(self._coloured_by)
        return self.collection

    def label_panel(self, panel: str, title: str, x: str, y: str, number: int = 0) -> None:
        """Write the title and the labels of the axes of the panel of a variable."""
        for visual, text in (("title", title), ("xlabel", x), ("ylabel", y)):
            shape = getattr(shapes, f"labelled_{visual.removesuffix('label')}")
            self.draw_visual(visual, shape, xr.Dataset({panel: 0.0}), number, text=text)


def _set_yticks(da: Any, target: Any, values: Any, labels: list[str], **kwargs: Any) -> Any:
    """Set the ticks of the y axis; ArviZ has such a visual for the x axis only."""
    return backend_from_object(target).yticks(values, labels, target, **kwargs)


def _drop_neutral_colour(collection: PlotCollection) -> None:
    """Remove the colour of variables without chains or moments, which a legend names "∅"."""
    for key, mapping in collection.aes.children.items():
        if "neutral_element" in mapping.data_vars:
            collection.update_aes_from_dataset(key, mapping.dataset.drop_vars("neutral_element"))


def _worst_coordinates(moments: xr.Dataset, name: str, most: int) -> xr.Dataset:
    """Coordinates with the largest possible bias or drift, the worst last."""
    noise = MARGIN * moments["bias_mcse"] if name == "bias" else 0.0
    possible = (abs(moments[name]) + noise).max("moment").fillna(np.inf)
    return moments.isel(coordinate=np.argsort(possible.to_numpy(), kind="stable")[-most:])


def _moment_points(values: xr.DataArray) -> xr.DataArray:
    """Points of the values of coordinates, with small vertical shifts between the moments."""
    shift = xr.DataArray([APART, -APART], {"moment": values["moment"]}, "moment")
    return _xy_points(values.drop_vars("coordinate"), _indices_along(values, "coordinate") + shift)


def _interval_lines(moments: xr.Dataset) -> xr.DataArray:
    """Ends of all intervals as one line, with a gap after each interval."""
    noise = MARGIN * moments["bias_mcse"]
    low, high = _moment_points(moments["bias"] - noise), _moment_points(moments["bias"] + noise)
    ends = xr.concat([low, high, xr.full_like(low, np.nan)], "end")
    line = ends.stack(point=("coordinate", "end"), create_index=False)
    return line.transpose("plot_axis", "moment", "point")


def _bars_of_rows(data: xr.DataTree, stats: Mapping[str, Any] | None) -> xr.DataArray:
    """Shares of updates that evaluate 0, 1, 2 to 3, 4 to 7, ... observations, as bars by chain."""
    rows = require_group(data, "sample_stats", "n_obs", "the trace of a step of this package")[
        "n_obs"
    ]
    known = data["posterior"].attrs if "posterior" in data.children else {}
    updates = int((stats or {}).get("updates_per_draw", known.get("updates_per_draw", 1)))
    bins = np.ceil(np.log2(rows.to_numpy().reshape(rows.sizes["chain"], -1) / updates + 1.0))
    chains, count = len(bins), int(bins.max()) + 1
    ends, heights = np.empty((chains, 2 * count)), np.zeros((chains, 2 * count - 1))
    for chain, numbers in enumerate(bins.astype(int)):
        left = np.arange(count) - 0.5 * FILLED + FILLED * chain / chains
        # Backends fill the space between the first and the last end: gaps are bars without height.
        ends[chain] = np.stack([left, left + FILLED / chains], axis=1).ravel()
        heights[chain, ::2] = np.bincount(numbers, minlength=count) / numbers.size
    bars = np.stack([heights, ends[:, :-1], ends[:, 1:]])
    axes = ["histogram", "left_edges", "right_edges"]
    coords = {"plot_axis": axes, "chain": rows["chain"].to_numpy()}
    attrs = {"bins": count, "updates": updates}
    return xr.DataArray(bars, coords, ("plot_axis", "chain", "bin"), attrs=attrs)


def _pool_chains(bars: xr.DataArray) -> xr.DataArray:
    """Bars of all chains together, for a plot that does not colour chains."""
    one, last = bars.isel(chain=0).copy(), bars.isel(chain=-1)
    one[0] = bars[0].mean("chain")
    one[1, 1::2], one[2, ::2] = last[1, 1::2], last[2, ::2]
    return one


def _bin_label(number: int) -> str:
    """Numbers of observations in a bin, such as "4–7" or "16k–32k"."""
    ends = _short_count(2 ** (number - 1)), _short_count(2**number - 1)
    return str(number) if number < 2 else "–".join(ends)


def _short_count(count: int) -> str:
    """A count such as 512, 16k or 2M."""
    thousands, millions = count // 10**3, count // 10**6
    return f"{millions}M" if millions else f"{thousands}k" if thousands else str(count)


def _slowest_parameter(data: xr.DataTree, labeller: Any) -> tuple[str, xr.DataArray, xr.DataArray]:
    """Name and draws of the parameter that mixes slowest, and sorted effective sample sizes."""
    posterior = data["posterior"].to_dataset()
    entries = list(xarray_var_iter(posterior, skip_dims={"chain", "draw"}))
    values = np.stack([draws for *_, draws in entries], axis=-1)
    ess = az.ess(xr.Dataset({"x": (("chain", "draw", "entry"), values)}))["x"].to_numpy()
    if np.isnan(ess).all():
        raise SettingError("data= has too few draws for an effective sample size. Draw more.")
    worst = int(np.nanargmin(ess))
    chains = {"chain": posterior["chain"].to_numpy()}
    draws = xr.DataArray(values[:, :, worst], chains, ("chain", "draw"))
    ordered = xr.DataArray(np.sort(ess[np.isfinite(ess)]), dims="rank")
    name = labeller.make_label_flat(*entries[worst][:3])
    sizes = _xy_points(_indices_along(ordered, "rank"), xr.apply_ufunc(np.log10, ordered))
    return name, _xy_points(_indices_along(draws, "draw"), draws), sizes


def _survival_curve(values: xr.DataArray, dim: str) -> xr.DataArray:
    """Logarithms of sorted values, and of the share of values that are at least as large."""
    ordered = xr.apply_ufunc(np.sort, values, input_core_dims=[[dim]], output_core_dims=[[dim]])
    count = ordered.notnull().sum(dim)
    share = (1.0 - _indices_along(values, dim) / count).where(ordered.notnull())
    return xr.apply_ufunc(np.log10, _xy_points(ordered, share))


def _indices_along(values: xr.DataArray, dim: str) -> xr.DataArray:
    return xr.DataArray(np.arange(values.sizes[dim]), dims=dim)


def _xy_points(x: xr.DataArray, y: xr.DataArray) -> xr.DataArray:
    both = xr.concat(xr.broadcast(x, y), "plot_axis")
    return both.assign_coords(plot_axis=["x", "y"])


def _constant_panel(data: xr.Dataset, value: float = 0.0) -> xr.Dataset:
    return xr.Dataset(dict.fromkeys(data.data_vars, value))
