"""The samplers of ``peers.py`` that take a PyMC model: the project's own, PyMC's and nutpie.

Nothing is imported from nutpie or from this project unless its sampler runs.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numba.core import event
from numpy.typing import NDArray
from pymc.blocking import DictToArrayBijection, RaveledVars
from pytensor.compile.maker import FunctionMaker
from scipy.optimize import minimize

from benchmarks.peers_mode import mode
from benchmarks.peers_problems import UNKNOWNS
from benchmarks.peers_run import Clock, OutOfTimeError, Run, Task

#: Warm-up of the project's samplers.
TUNE = 2_000
QUIET: dict[str, Any] = {
    "chains": 1,
    "cores": 1,
    "progressbar": False,
    "compute_convergence_checks": False,
}
ADVI_STEPS, ADVI_BATCH = 20_000, 1_000
#: Rates of the first step and of the last: where one rate stays, the end is as rough as that.
ADVI_RATES = 0.02, 1e-4
METROPOLIS_TUNE, METROPOLIS_DRAWS = 2_000, 20_000


def model_of(task: Task, batch: int | None = None) -> pm.Model:
    """Return the model, or one of batches of so many rows."""
    arrays: dict[str, Any] = dict(task.data)
    if batch:
        # PyMC casts what is observed unless it has this type, and then takes it for computed.
        if arrays["y"].dtype.kind == "i":
            arrays["y"] = arrays["y"].astype(np.int32)
        arrays = dict(zip(arrays, pm.Minibatch(*arrays.values(), batch_size=batch), strict=True))
    with pm.Model() as model:
        FAMILIES[task.problem.family](task, arrays, task.problem.rows if batch else None)
    return model


def _coefficients(task: Task) -> pt.TensorVariable:
    return pm.Normal("beta", 0.0, 2.5, shape=task.data["x"].shape[1])


def _logistic(task: Task, rows: dict[str, Any], total: int | None) -> None:
    logits = rows["x"] @ _coefficients(task)
    pm.Bernoulli("y", logit_p=logits, observed=rows["y"], total_size=total)


def _student(task: Task, rows: dict[str, Any], total: int | None) -> None:
    mu = rows["x"] @ _coefficients(task)
    sigma = pm.HalfNormal("sigma", 5.0)
    pm.StudentT("y", nu=4, mu=mu, sigma=sigma, observed=rows["y"], total_size=total)


def _negative_binomial(task: Task, rows: dict[str, Any], total: int | None) -> None:
    mu = pt.exp(rows["x"] @ _coefficients(task))
    alpha = pm.HalfCauchy("alpha", 10.0)
    pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=rows["y"], total_size=total)


def _grouped(task: Task, rows: dict[str, Any], total: int | None) -> None:
    """Write the intercepts centred, which suits NUTS where groups are large."""
    beta = _coefficients(task)
    mu = pm.Normal("mu_alpha", 0.0, 2.5)
    tau = pm.HalfNormal("tau_alpha", 1.0)
    alpha = pm.Normal("alpha", mu, tau, shape=int(task.data["group"].max()) + 1)
    logits = rows["x"] @ beta + alpha[rows["group"]]
    pm.Bernoulli("y", logit_p=logits, observed=rows["y"], total_size=total)


FAMILIES: dict[str, Callable[[Task, dict[str, Any], int | None], None]] = {
    "logistic": _logistic,
    "student": _student,
    "negative_binomial": _negative_binomial,
    "grouped": _grouped,
}


@contextmanager
def compilation_counted(clock: Clock) -> Iterator[None]:
    """Count what PyTensor and numba compile, or load from their caches, as compilation."""
    made = FunctionMaker.__init__, FunctionMaker.create

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with clock.compilation():
                return method(*args, **kwargs)

        return timed

    FunctionMaker.__init__, FunctionMaker.create = map(counted, made)
    try:
        with event.install_listener("numba:compiler_lock", _Listener(clock)):
            yield
    finally:
        FunctionMaker.__init__, FunctionMaker.create = made


class _Listener(event.Listener):
    """Tells a clock of numba's compilations."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.open = clock, []

    def on_start(self, _event: event.Event) -> None:
        """Begin to count."""
        counting = self.clock.compilation()
        counting.__enter__()
        self.open.append(counting)

    def on_end(self, _event: event.Event) -> None:
        """Stop counting."""
        self.open.pop().__exit__(None, None, None)


class _Stopwatch:
    """What ``pm.sample`` calls after each draw: tells warm-up from sampling, and ends in time."""

    def __init__(self, task: Task) -> None:
        self.clock, self.tuned, self.began, self.ended = task.clock, 0.0, 0.0, 0.0
        self.finished = True

    def __call__(self, *, trace: Any, draw: Any) -> None:
        """Note the time."""
        self.ended = time.perf_counter()
        self.began = self.began or self.ended
        if draw.tuning:
            self.tuned = self.ended
        if self.clock.left < 0.0:
            self.finished = False
            if draw.tuning:
                raise OutOfTimeError
            raise KeyboardInterrupt


def _draws(task: Task, posterior: Any) -> dict[str, NDArray[np.float64]]:
    return {name: posterior[name].values[0] for name in UNKNOWNS[task.problem.family]}


def _timed(task: Task, warm_up: int, draws: int, **settings: Any) -> Run:
    """Run ``pm.sample`` with a stopwatch."""
    watch = _Stopwatch(task)
    trace = pm.sample(
        draws, tune=warm_up, random_seed=task.seed, callback=watch, **QUIET, **settings
    )
    return Run(
        _draws(task, trace["posterior"]),
        warm_up,
        watch.tuned - watch.began,
        watch.ended - watch.tuned,
        watch.finished,
    )


def nuts(task: Task) -> Run:
    """PyMC's own NUTS: without its name, ``pm.sample`` takes nutpie where that is installed."""
    with model_of(task):
        return _timed(task, task.problem.nuts, task.problem.nuts, nuts_sampler="pymc")


class JointMetropolis(pm.Metropolis):
    """PyMC's Metropolis, moving all coordinates at once instead of one after the other."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.elemwise_update = False
        self.enum_dims = np.arange(1)
        self.accept_rate_iter = np.zeros(1)
        self.accepted_iter = np.zeros(1, bool)
        self.accepted_sum = np.zeros(1, int)


def laplace(model: pm.Model, seed: int, clock: Clock) -> tuple[Any, NDArray[np.float64]]:
    """Return the mode, and the inverse of the negative Hessian there, by differences."""
    function = model.logp_dlogp_function(ravel_inputs=True)
    function.set_extra_values({})
    rng = np.random.default_rng(seed)
    # Groups are spread, as in `peers_numpyro`: from equal ones the way leads to a scale of zero.
    point = {
        name: value + rng.normal(0.0, 1.0 if name == "alpha" else 0.01, value.shape)
        for name, value in model.initial_point().items()
    }
    start = DictToArrayBijection.map(point)
    shape = start.point_map_info

    def negative(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        if clock.left < 0.0:
            raise OutOfTimeError
        value, gradient = function(RaveledVars(x, shape))
        return -float(value), -gradient

    near = minimize(negative, start.data, jac=True, method="BFGS", options={"maxiter": 300})
    # In the scale of the posterior, differences are neither rough nor lost.
    scales = 1e-2 * np.sqrt(np.diag(near.hess_inv))

    def hessian(at: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = [
            (negative(at + step)[1] - negative(at - step)[1]) / (2.0 * step.sum())
            for step in np.diag(scales)
        ]
        return 0.5 * (np.array(columns) + np.array(columns).T)

    found = mode(negative, hessian, near.x)
    return DictToArrayBijection.rmap(RaveledVars(found.at, shape)), np.linalg.inv(found.hessian)


def metropolis(task: Task) -> Run:
    """PyMC's Metropolis, its joint proposals shaped like the posterior and started at its mode."""
    with model_of(task) as model:
        start, covariance = laplace(model, task.seed, task.clock)
        scaling = 2.38 / np.sqrt(len(covariance))
        step = JointMetropolis(S=covariance, scaling=scaling, initial_point=start, blocked=True)
        return _timed(task, METROPOLIS_TUNE, METROPOLIS_DRAWS, step=step, initvals=start)


def nutpie(task: Task) -> Run:
    """Nutpie, its compilation with numba."""
    library = import_module("nutpie")
    size = task.problem.nuts
    with task.clock.compilation():
        compiled = library.compile_pymc_model(model_of(task))
    began = time.perf_counter()
    sampler = library.sample(
        compiled, draws=size, tune=size, chains=1, cores=1, seed=task.seed,
        progress_bar=False, save_warmup=True, blocking=False,
    )  # fmt: skip
    try:
        trace = sampler.wait(timeout=max(task.clock.left, 0.0))
        finished = True
    except TimeoutError:
        trace, finished = sampler.abort(), False
    seconds = time.perf_counter() - began
    if "posterior" not in trace or trace["posterior"].sizes.get("draw", 0) == 0:
        raise OutOfTimeError
    # Both parts take as long as their leapfrog steps.
    steps = [float(trace[g]["n_steps"].sum()) for g in ("warmup_sample_stats", "sample_stats")]
    tune = seconds * steps[0] / sum(steps)
    gradients = float(trace["sample_stats"]["n_steps"].mean())
    note = {"rows per update": task.problem.rows * gradients}
    return Run(_draws(task, trace["posterior"]), size, tune, seconds - tune, finished, note)


def advi(task: Task) -> Run:
    """Mean-field ADVI on batches of rows: draws are independent, of an approximation."""

    first, last = ADVI_RATES
    rate = pytensor.shared(first)

    def after_step(_approximation: Any, _losses: Any, step: int) -> None:
        if task.clock.left < 0.0:
            raise StopIteration
        rate.set_value(first * (last / first) ** (step / ADVI_STEPS))

    with model_of(task, ADVI_BATCH):
        marks = [_without_compilation(task.clock)]
        approximation = pm.fit(
            ADVI_STEPS,
            method="advi",
            random_seed=task.seed,
            obj_optimizer=pm.adam(learning_rate=rate),
            callbacks=[after_step],
            progressbar=False,
        )
        marks.append(_without_compilation(task.clock))
        trace = approximation.sample(1_000, random_seed=task.seed)
        marks.append(_without_compilation(task.clock))
    tune, sampling = np.diff(marks)
    steps = len(approximation.hist)
    note = {"batch": ADVI_BATCH, "rates": ADVI_RATES}
    draws = _draws(task, trace["posterior"])
    return Run(draws, steps, float(tune), float(sampling), steps == ADVI_STEPS, note)


def _without_compilation(clock: Clock) -> float:
    return clock.seconds - clock.compiling


def ours(
    task: Task, method: str, *, driver: bool = False, updates: int = 1, copied: bool = True
) -> Run:
    """Run a sampler of this project, through ``pm.sample`` or its own driver."""
    mb = import_module("pymc_minibatch_mh")
    if not copied:
        import_module("pymc_minibatch_mh.bounds.bounds_pass").NARROW = np.inf
    draws = task.problem.driver if driver else task.problem.ours
    with model_of(task):
        step = getattr(mb, method)(updates_per_draw=updates)
        settings = {"tune": TUNE, "random_seed": task.seed, **QUIET}
        if driver:
            trace = mb.sample(step, draws, **settings)
        else:
            trace = pm.sample(draws, step=step, **settings)
    # A draw takes as long in warm-up as after it.
    tune = trace["posterior"].attrs["sampling_time"] * TUNE / (TUNE + draws)
    stats = trace["sample_stats"]
    note = {
        "rows per update": float(stats["n_obs"].mean()) / updates,
        "updates on all rows": float(stats["full_pass"].mean()) / updates,
    }
    return Run(_draws(task, trace["posterior"]), TUNE, tune, tune * draws / TUNE, note=note)
