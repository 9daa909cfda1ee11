"""Plots of an audit, of the rows that were read, and of the bounds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_plots import visuals as shapes
from arviz_plots.plot_collection import PlotCollection

from pymc_minibatch_mh.diagnostics.audit import MARGIN, TOLERABLE_BIAS
from pymc_minibatch_mh.diagnostics.chosen_rows import trace_of
from pymc_minibatch_mh.errors import SettingError

#: Log ratios beyond which pairs are drawn at the edge, and how far two moments are drawn apart.
FAR_RATIO, APART = 20.0, 0.1
#: Size of two panels side by side, in inches.
WIDE = (11.0, 4.0)
#: Visuals that are drawn into a panel; the others change its axes.
ARTISTS = ("zero", "tolerable", "error", "bias", "interval", "tail", "bound")

Visuals = Mapping[str, Mapping[str, Any] | bool]
AesByVisuals = Mapping[str, Sequence[str]]


def plot_audit(
    dt: xr.Dataset,
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
    dt
        Returned by :func:`audit`.
    plot_collection, backend, labeller, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots. Visuals are ``error``, ``bias``, ``interval``, ``zero``,
        ``tolerable``, ``ticks``, ``legend``, ``xlabel`` and ``ylabel``; False leaves one out.
    stats
        ``tolerable``: the bias that lines are drawn at, in standard deviations of the draws.

    Returns
    -------
    PlotCollection
        One panel with an entry per pair, and one with an entry per coordinate and moment.

    Raises
    ------
    SettingError
        If `dt` is not the result of an audit.
    """
    _require(dt, ("acceptance_error", "bias", "bias_mcse"), "what audit() returned")
    points = xr.Dataset({"acceptance_error": _errors(dt), "bias": _biases(dt)})
    pc_kwargs["aes"] = {"color": ["moment"], **pc_kwargs.get("aes", {})}
    pc_kwargs["figure_kwargs"] = {"figsize": WIDE, **pc_kwargs.get("figure_kwargs", {})}
    figure = _Figure(points, plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    figure.draw("zero", shapes.hline, _constant(points, 0.0), color="gray")
    level = float((stats or {}).get("tolerable", TOLERABLE_BIAS))
    for number, value in enumerate((-level, level)):
        figure.draw(
            "tolerable", shapes.hline, _constant(points[["bias"]], value), number, color="gray"
        )
    figure.draw("error", shapes.scatter_xy, points[["acceptance_error"]])
    figure.draw("bias", shapes.scatter_xy, points[["bias"]])
    figure.draw("interval", shapes.line_xy, xr.Dataset({"bias": _intervals(dt)}))
    names = [str(name) for name in dt["coordinate"].to_numpy()]
    places = np.arange(len(names))
    figure.draw("ticks", shapes.set_xticks, points[["bias"]], values=places, labels=names)
    figure.label(points, "x", {"acceptance_error": "exact log ratio", "bias": "coordinate"})
    error = "error of the acceptance probability"
    figure.label(points, "y", {"acceptance_error": error, "bias": "bias in sd of the draws"})
    figure.legend("moment")
    return figure.collection


def plot_rows(
    dt: xr.DataTree,
    *,
    plot_collection: PlotCollection | None = None,
    backend: str | None = None,
    labeller: Any = None,
    aes_by_visuals: AesByVisuals | None = None,
    visuals: Visuals | None = None,
    stats: Mapping[str, Any] | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot how many rows updates read: the share of them that read more, on logarithmic axes.

    Parameters
    ----------
    dt
        Returned by :func:`pymc.sample`.
    plot_collection, backend, labeller, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots. Visuals are ``tail``, ``set_xscale``, ``set_yscale``,
        ``xlabel`` and ``ylabel``.
    stats
        ``updates_per_draw``: how many updates a draw stands for, 1 unless it is said.

    Returns
    -------
    PlotCollection
        One panel, with a line per chain.

    Raises
    ------
    SettingError
        If `dt` has no ``n_obs`` in its sample stats.
    """
    sample_stats = _sample_stats(dt, "n_obs")
    updates = int((stats or {}).get("updates_per_draw", 1))
    # An update that was rejected before a row was read has no place on a logarithmic axis.
    rows = (sample_stats["n_obs"] / updates).clip(min=0.5).drop_vars("draw")
    data = xr.Dataset({"n_obs": _tail(rows, "draw")})
    pc_kwargs["aes"] = {"color": ["chain"], **pc_kwargs.get("aes", {})}
    figure = _Figure(data, plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    figure.tail(data, "rows per update", "share of updates that read as many")
    return figure.collection


def plot_bounds(
    dt: xr.DataTree | xr.Dataset,
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
    dt
        Returned by :func:`audit`: ratios over all rows, one for each pair. Or what
        :func:`pymc.sample` returned: ratios over the rows that were read, one for each draw.
    plot_collection, backend, labeller, aes_by_visuals, visuals, **pc_kwargs
        As in ArviZ's plots. Visuals are ``tail``, ``bound``, ``set_xscale``,
        ``set_yscale``, ``xlabel`` and ``ylabel``.
    stats
        ``bound``: where the line of the bound is drawn, 1 unless it is said.

    Returns
    -------
    PlotCollection
        One panel.

    Raises
    ------
    SettingError
        If `dt` holds no ratio: approximate methods have no bounds.
    """
    found = dt if isinstance(dt, xr.Dataset) else _sample_stats(dt, "bound_ratio")
    _require(found, ("bound_ratio",), "what audit() or pm.sample() returned")
    dim = "pair" if "pair" in found["bound_ratio"].dims else "draw"
    ratios = found["bound_ratio"].drop_vars(["chain", "draw"] if dim == "pair" else "draw")
    ratios = ratios.where(ratios > 0.0)
    if not ratios.notnull().any():
        raise SettingError(
            "'bound_ratio' is not above 0 anywhere: approximate methods hold no row against a "
            "bound. Use plot_rows() or plot_audit()."
        )
    data = xr.Dataset({"bound_ratio": _tail(ratios, dim)})
    if dim == "draw":
        pc_kwargs["aes"] = {"color": ["chain"], **pc_kwargs.get("aes", {})}
    figure = _Figure(data, plot_collection, backend, aes_by_visuals, visuals, pc_kwargs)
    figure.tail(data, "largest change of a row, in its bound", "share that comes as close")
    limit = float((stats or {}).get("bound", 1.0))
    figure.draw("bound", shapes.vline, _constant(data, limit), color="gray")
    return figure.collection


class _Figure:
    """A plot collection and the wishes of its caller, in ArviZ's terms."""

    def __init__(
        self,
        data: xr.Dataset,
        collection: PlotCollection | None,
        backend: str | None,
        aes_by_visuals: AesByVisuals | None,
        visuals: Visuals | None,
        pc_kwargs: dict[str, Any],
    ) -> None:
        if collection is None:
            pc_kwargs.setdefault("cols", ["__variable__"])
            backend = rcParams["plot.backend"] if backend is None else backend
            collection = PlotCollection.wrap(data, backend=backend, **pc_kwargs)
        self.collection = collection
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
        """Draw shares of values that are as large, on logarithmic axes."""
        self.draw("tail", shapes.line_xy, data)
        for shape in (shapes.set_xscale, shapes.set_yscale):
            self.draw(shape.__name__, shape, data, scale="log")
        for axis, text in zip("xy", labels, strict=True):
            self.label(data, axis, dict.fromkeys(data.data_vars, text))

    def legend(self, dim: str) -> None:
        """Explain the colours of a dimension, unless the caller left that out."""
        if self._visuals.get("legend") is not False and self.collection.backend != "none":
            self.collection.add_legend(dim)

    def label(self, data: xr.Dataset, axis: str, texts: Mapping[Any, str]) -> None:
        """Label an axis of each panel."""
        shape = {"x": shapes.labelled_x, "y": shapes.labelled_y}[axis]
        for number, (name, text) in enumerate(texts.items()):
            self.draw(f"{axis}label", shape, data[[name]], number, text=text)


def _errors(dt: xr.Dataset) -> xr.DataArray:
    near = dt["log_ratio"].clip(-FAR_RATIO, FAR_RATIO)
    both = xr.concat([near, dt["acceptance_error"]], "plot_axis")
    return both.drop_vars(["chain", "draw", "pair"]).assign_coords(plot_axis=["x", "y"])


def _biases(dt: xr.Dataset, errors: float = 0.0) -> xr.DataArray:
    """Return the place and the bias, `errors` standard errors off, of each coordinate."""
    bias = (dt["bias"] + errors * dt["bias_mcse"]).drop_vars("coordinate")
    shift = xr.DataArray([-APART, APART], {"moment": dt["moment"]}, "moment")
    place = xr.DataArray(np.arange(dt.sizes["coordinate"]), dims="coordinate") + shift
    both = xr.concat(xr.broadcast(place, bias), "plot_axis")
    return both.assign_coords(plot_axis=["x", "y"])


def _intervals(dt: xr.Dataset) -> xr.DataArray:
    """Return the ends of all intervals as one line, with a gap after each."""
    low, high = _biases(dt, -MARGIN), _biases(dt, MARGIN)
    ends = xr.concat([low, high, xr.full_like(low, np.nan)], "end")
    line = ends.stack(point=("coordinate", "end"), create_index=False)
    return line.transpose("plot_axis", "moment", "point")


def _tail(values: xr.DataArray, dim: str) -> xr.DataArray:
    """Return values in ascending order, and the share of values that are as large or larger."""
    ordered = xr.apply_ufunc(np.sort, values, input_core_dims=[[dim]], output_core_dims=[[dim]])
    count = ordered.notnull().sum(dim)
    rank = xr.DataArray(np.arange(values.sizes[dim]), dims=dim)
    share = (1.0 - rank / count).where(ordered.notnull())
    both = xr.concat(xr.broadcast(ordered, share), "plot_axis")
    return both.assign_coords(plot_axis=["x", "y"])


def _constant(data: xr.Dataset, value: float) -> xr.Dataset:
    return xr.Dataset(dict.fromkeys(data.data_vars, value))


def _sample_stats(dt: xr.DataTree, name: str) -> xr.Dataset:
    trace = trace_of("dt", dt)
    known = "sample_stats" in trace.children
    group = trace["sample_stats"].to_dataset() if known else xr.Dataset()
    _require(group, (name,), "what pm.sample() returned, from a step of this package")
    return group


def _require(found: Any, names: Sequence[str], what: str) -> None:
    known = found if isinstance(found, Mapping) else ()
    missing = [name for name in names if name not in known]
    if missing:
        raise SettingError(
            f"{missing[0]!r} is not in dt=, so that nothing is plotted. Pass {what}."
        )
