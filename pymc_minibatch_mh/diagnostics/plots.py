"""Plots of a trace, of its audit, of the observations that were evaluated, and of the bounds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import arviz as az
import numpy as np
import xarray as xr
from arviz_base import rcParams, xarray_var_iter
from arviz_base.labels import BaseLabeller
from arviz_plots import visuals as shapes
from arviz_plots.plot_collection import PlotCollection, backend_from_object

from pymc_minibatch_mh.diagnostics.audit import MARGIN, TOLERABLE_BIAS, updates_per_draw
from pymc_minibatch_mh.diagnostics.chosen_rows import trace_of
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.steps.base import MinibatchStep, step_of

#: Log ratios beyond which pairs are drawn at the edge, and how far two moments are drawn apart.
FAR_RATIO, APART = 20.0, 0.1
#: Height of a figure and width of each of its panels, in dots.
HEIGHT, WIDTH = 400, 550
#: Visuals that are drawn into a panel; the others change its axes.
ARTISTS = ("zero", "tolerable", "error", "bias", "interval", "tail", "bound", "slowest", "ess")
#: Effective draws below which R-hat and intervals are unreliable: Vehtari et al. (2021), section 4,
#: doi:10.1214/20-BA1221.
ENOUGH_ESS = 400.0
#: Powers of ten that are marked on an axis.
MOST_TICKS = 8

Visuals = Mapping[str, Mapping[str, Any] | bool]
AesByVisuals = Mapping[str, Sequence[str]]


def plot_audit(
    data: xr.Dataset,
    *,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
    labeller: Any = None,
    aes_by_visuals: AesByVisuals | None = None,
    visuals: Visuals | None = None,
    stats: Mapping[str, Any] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the errors of acceptance probabilities, and the bias that they amount to.

    Parameters
    ----------
    data
        Returned by :func:`audit`.
    plot_collection, backend, labeller, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots. Visuals are ``error``, ``bias``, ``interval``, ``zero``,
        ``tolerable``, ``ticks``, ``legend``, ``title``, ``xlabel`` and ``ylabel``; False leaves
        one out.
    stats
        ``tolerable``: the bias that lines are drawn at, in standard deviations of the draws.

    Returns
    -------
    PlotCollection
        One panel with an entry per pair, and one with an entry per coordinate and moment.

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
    _require(data, ("acceptance_error", "bias", "bias_mcse"), "the result of audit()")
    points = xr.Dataset({"acceptance_error": _errors(data), "bias": _biases(data)})
    figure = _Figure(points, "moment", plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    figure.draw("zero", shapes.hline, _constant(points, 0.0), color="gray")
    level = float((stats or {}).get("tolerable", TOLERABLE_BIAS))
    for number, value in enumerate((-level, level)):
        figure.draw(
            "tolerable", shapes.hline, _constant(points[["bias"]], value), number, color="gray"
        )
    figure.draw("error", shapes.scatter_xy, points[["acceptance_error"]], color="gray")
    figure.draw("bias", shapes.scatter_xy, points[["bias"]])
    figure.draw("interval", shapes.line_xy, xr.Dataset({"bias": _intervals(data)}))
    names = [str(name) for name in data["coordinate"].to_numpy()]
    places = np.arange(len(names))
    figure.draw("ticks", shapes.set_xticks, points[["bias"]], values=places, labels=names)
    error = "error of the acceptance probability"
    figure.label("x", {"acceptance_error": "exact log ratio", "bias": "parameter"})
    figure.label("y", {"acceptance_error": error, "bias": "bias / posterior sd"})
    figure.label("title", {"acceptance_error": "Audited decisions", "bias": "Bias of the moments"})
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
    """Plot the share of updates that evaluate as many observations, on logarithmic axes.

    Parameters
    ----------
    data
        Trace of :func:`pymc.sample` or :func:`sample`.
    plot_collection, backend, labeller, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots. Visuals are ``tail``, ``xticks``, ``yticks``, ``legend``,
        ``title``, ``xlabel`` and ``ylabel``.
    stats
        ``updates_per_draw``: how many updates a draw stands for, 1 unless it is said.

    Returns
    -------
    PlotCollection
        One panel, with a line per chain.

    Raises
    ------
    SettingError
        If `data` has no ``n_obs`` in its sample stats.

    Examples
    --------
    >>> figure = plot_rows(trace)
    """
    updates = int((stats or {}).get("updates_per_draw", 1))
    points = xr.Dataset({"n_obs": _rows(_sample_stats(data, "n_obs"), updates)})
    figure = _Figure(points, "chain", plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    figure.tail(points, *ROWS)
    return figure.with_legend()


def plot_bounds(
    data: xr.DataTree | xr.Dataset,
    *,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
    labeller: Any = None,
    aes_by_visuals: AesByVisuals | None = None,
    visuals: Visuals | None = None,
    stats: Mapping[str, Any] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot how close rows come to their bounds: the share of moves with a larger ratio.

    Parameters
    ----------
    data
        Returned by :func:`audit`: ratios over all rows, one for each pair. Or what
        :func:`pymc.sample` returned: ratios over the rows that were read, one for each draw.
    plot_collection, backend, labeller, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots. Visuals are ``tail``, ``bound``, ``xticks``, ``yticks``,
        ``legend``, ``title``, ``xlabel`` and ``ylabel``.
    stats
        ``bound``: where the line of the bound is drawn, 1 unless it is said.

    Returns
    -------
    PlotCollection
        One panel.

    Raises
    ------
    SettingError
        If `data` holds no ratio: approximate methods have no bounds.

    Examples
    --------
    >>> figure = plot_bounds(trace)
    """
    found = data if isinstance(data, xr.Dataset) else _sample_stats(data, "bound_ratio")
    _require(found, ("bound_ratio",), "the result of audit() or a trace")
    dim = "pair" if "pair" in found["bound_ratio"].dims else "draw"
    ratios = found["bound_ratio"].drop_vars(["chain", "draw"] if dim == "pair" else "draw")
    ratios = ratios.where(ratios > 0.0)
    if not ratios.notnull().any():
        raise SettingError(
            "'bound_ratio' is not above 0 anywhere: approximate methods hold no row against a "
            "bound. Use plot_rows() or plot_audit()."
        )
    points = xr.Dataset({"bound_ratio": _tail(ratios, dim)})
    colour = "chain" if dim == "draw" else ""
    figure = _Figure(points, colour, plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    figure.tail(points, *BOUNDS)
    limit = float((stats or {}).get("bound", 1.0))
    figure.draw("bound", shapes.vline, _constant(points, np.log10(limit)), color="gray")
    return figure.with_legend()


def plot_summary(
    data: xr.DataTree,
    step: MinibatchStep,
    *,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
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
    step
        The step that sampled it.
    plot_collection, backend, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots. Visuals are ``tail``, ``slowest``, ``ess``, ``bound``,
        ``xticks``, ``yticks``, ``legend``, ``title``, ``xlabel`` and ``ylabel``.
    stats
        ``enough``: the effective sample size that a line is drawn at, 400 unless it is said.

    Returns
    -------
    PlotCollection
        Three panels: the observations that updates evaluate, the draws of the parameter with the
        smallest effective sample size, and the effective sample sizes of all parameters.

    Raises
    ------
    SettingError
        If `data` is not a trace of one of this package's steps or too short, or `step` is none.

    Examples
    --------
    >>> figure = plot_summary(trace, step)
    """
    per_draw = updates_per_draw(step_of(step), trace_of(data))
    rows = _rows(_sample_stats(data, "n_obs"), per_draw)
    name, slowest, sizes = _slowest(data)
    points = xr.Dataset({"n_obs": rows, "slowest": slowest, "ess": sizes})
    figure = _Figure(points, "chain", plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    figure.tail(points[["n_obs"]], *ROWS)
    figure.draw("slowest", shapes.line_xy, points[["slowest"]], alpha=0.6)
    figure.draw("ess", shapes.scatter_xy, points[["ess"]], color="gray")
    enough = float((stats or {}).get("enough", ENOUGH_ESS))
    figure.draw("bound", shapes.hline, _constant(points[["ess"]], np.log10(enough)), color="gray")
    figure.decades(points[["ess"]], "y", 1)
    figure.label("x", {"slowest": "draw", "ess": "parameter, in order of its size"}, 1)
    figure.label("y", {"slowest": name, "ess": "bulk effective sample size"}, 1)
    titles = {"slowest": "Parameter that mixes slowest", "ess": "Effective sample sizes"}
    figure.label("title", titles, 1)
    return figure.with_legend()


#: Title and labels of the axes: observations that updates evaluate, and ratios to bounds.
ROWS = (
    "Observations per update",
    "observations evaluated (none: at 0.5)",
    "share of updates with at least as many",
)
BOUNDS = (
    "Largest change of an observation",
    "largest |change| / bound",
    "share with a ratio at least as large",
)


class _Figure:
    """A plot collection and the wishes of its caller, in ArviZ's terms."""

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
            size = {"figsize": (WIDTH * len(data.data_vars), HEIGHT), "figsize_units": "dots"}
            if backend == "matplotlib":
                size["layout"] = "constrained"
            pc_kwargs["figure_kwargs"] = {**size, **pc_kwargs.get("figure_kwargs", {})}
            collection = PlotCollection.wrap(data, backend=backend, **pc_kwargs)
            _drop_neutral(collection)
        self.collection, self._coloured_by = collection, coloured_by
        self._aes = dict(aes_by_visuals or {})
        self._visuals = dict(visuals or {})

    def draw(
        self, name: str, visual: Callable, data: xr.Dataset, number: int = 0, **defaults: Any
    ) -> None:
        """Draw one visual, unless the caller left it out."""
        wanted = self._visuals.get(name, {})
        if wanted is False:
            return
        mapped = name in ARTISTS and "color" not in defaults
        used = self._aes.get(name, self.collection.aes_set if mapped else ())
        ignored = set(self.collection.aes_set) - set(used)
        settings = {**defaults, **(wanted if isinstance(wanted, Mapping) else {})}
        # A change of an axis is no artist, but for the backend that only records.
        settings["store_artist"] = name in ARTISTS or self.collection.backend == "none"
        key = f"{name}_{number}" if number else name
        self.collection.map(visual, key, data=data, ignore_aes=ignored, **settings)

    def tail(self, data: xr.Dataset, *labels: str) -> None:
        """Draw shares of values that are as large, in logarithms: title, x and y label."""
        self.draw("tail", shapes.line_xy, data)
        for place, text in zip(("title", "x", "y"), labels, strict=True):
            self.label(place, dict.fromkeys(data.data_vars, text))
        for axis in "xy":
            self.decades(data, axis)

    def decades(self, data: xr.Dataset, axis: str, number: int = 0) -> None:
        """Mark the powers of ten on an axis of logarithms, which not all backends have."""
        (found,) = data.sel(plot_axis=axis, drop=True).data_vars.values()
        # A ratio to a bound of zero is infinite, and has no place.
        values = found.where(np.isfinite(found))
        first, last = np.floor(float(values.min())), np.ceil(float(values.max()))
        powers = np.arange(first, last + 1.0, 1.0 + (last - first) // MOST_TICKS)
        labels = [f"{10.0**power:g}" for power in powers]
        shape: Callable = {"x": shapes.set_xticks, "y": _set_yticks}[axis]
        self.draw(f"{axis}ticks", shape, data, number, values=powers, labels=labels)

    def with_legend(self) -> PlotCollection:
        """Explain the colours, unless there are none or the caller left that out."""
        dims = [dim for found in self.collection.aes.children.values() for dim in found.dims]
        wanted = self._visuals.get("legend") is not False
        if self._coloured_by in dims and wanted and self.collection.backend != "none":
            self.collection.add_legend(self._coloured_by)
        return self.collection

    def label(self, place: str, texts: Mapping[Any, str], first: int = 0) -> None:
        """Write the title, or the label of the x or y axis, of the panel of each variable."""
        visual = place if place == "title" else f"{place}label"
        for number, (name, text) in enumerate(texts.items(), first):
            panel = xr.Dataset({name: 0.0})
            self.draw(visual, getattr(shapes, f"labelled_{place}"), panel, number, text=text)


def _set_yticks(da: Any, target: Any, values: Any, labels: list[str], **kwargs: Any) -> Any:
    """Set ticks of the y axis, which ArviZ does for the x axis alone."""
    return backend_from_object(target).yticks(values, labels, target, **kwargs)


def _drop_neutral(collection: PlotCollection) -> None:
    """Leave the colour of variables without chains or moments out of the legend, as "∅"."""
    for key, found in collection.aes.children.items():
        if "neutral_element" in found.data_vars:
            collection.update_aes_from_dataset(key, found.dataset.drop_vars("neutral_element"))


def _errors(data: xr.Dataset) -> xr.DataArray:
    near = data["log_ratio"].clip(-FAR_RATIO, FAR_RATIO)
    return _points(near, data["acceptance_error"]).drop_vars(["chain", "draw", "pair"])


def _biases(data: xr.Dataset, errors: float = 0.0) -> xr.DataArray:
    """Return the place and the bias, `errors` standard errors off, of each coordinate."""
    bias = (data["bias"] + errors * data["bias_mcse"]).drop_vars("coordinate")
    shift = xr.DataArray([-APART, APART], {"moment": data["moment"]}, "moment")
    place = xr.DataArray(np.arange(data.sizes["coordinate"]), dims="coordinate") + shift
    return _points(place, bias)


def _intervals(data: xr.Dataset) -> xr.DataArray:
    """Return the ends of all intervals as one line, with a gap after each."""
    low, high = _biases(data, -MARGIN), _biases(data, MARGIN)
    ends = xr.concat([low, high, xr.full_like(low, np.nan)], "end")
    line = ends.stack(point=("coordinate", "end"), create_index=False)
    return line.transpose("plot_axis", "moment", "point")


def _rows(sample_stats: xr.Dataset, updates: int) -> xr.DataArray:
    # An update that was rejected before a row was read has no place on a logarithmic axis.
    rows = (sample_stats["n_obs"] / updates).clip(min=0.5).drop_vars("draw")
    return _tail(rows, "draw")


def _slowest(data: xr.DataTree) -> tuple[str, xr.DataArray, xr.DataArray]:
    """Return name and draws of the parameter that mixes slowest, and all sizes in their order."""
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
    name = BaseLabeller().make_label_flat(*entries[worst][:3])
    sizes = _points(_numbers(ordered, "rank"), xr.apply_ufunc(np.log10, ordered))
    return name, _points(_numbers(draws, "draw"), draws), sizes


def _tail(values: xr.DataArray, dim: str) -> xr.DataArray:
    """Return log10 of values in ascending order, and of the share that is as large or larger."""
    ordered = xr.apply_ufunc(np.sort, values, input_core_dims=[[dim]], output_core_dims=[[dim]])
    count = ordered.notnull().sum(dim)
    share = (1.0 - _numbers(values, dim) / count).where(ordered.notnull())
    return xr.apply_ufunc(np.log10, _points(ordered, share))


def _numbers(values: xr.DataArray, dim: str) -> xr.DataArray:
    return xr.DataArray(np.arange(values.sizes[dim]), dims=dim)


def _points(x: xr.DataArray, y: xr.DataArray) -> xr.DataArray:
    both = xr.concat(xr.broadcast(x, y), "plot_axis")
    return both.assign_coords(plot_axis=["x", "y"])


def _constant(data: xr.Dataset, value: float) -> xr.Dataset:
    return xr.Dataset(dict.fromkeys(data.data_vars, value))


def _sample_stats(data: xr.DataTree, name: str) -> xr.Dataset:
    trace = trace_of(data)
    known = "sample_stats" in trace.children
    group = trace["sample_stats"].to_dataset() if known else xr.Dataset()
    _require(group, (name,), "the trace of a step of this package")
    return group


def _require(found: Any, names: Sequence[str], what: str) -> None:
    known = found if isinstance(found, Mapping) else ()
    missing = [name for name in names if name not in known]
    if missing:
        raise SettingError(
            f"{missing[0]!r} is not in data=, so that nothing is plotted. Pass {what}."
        )
