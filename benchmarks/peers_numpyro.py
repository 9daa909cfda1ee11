"""The samplers of ``peers.py`` from NumPyro, in double precision.

Data are arguments of what is compiled, not constants in it, and chains advance by blocks of draws
in compiled loops, as NumPyro's own ``MCMC`` does, so that compilation, warm-up and sampling are
timed apart, and a run that is out of time keeps its draws.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import lax, random
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray
from numpyro.infer import HMCECS, NUTS
from numpyro.infer.util import potential_energy

from benchmarks.peers_mode import mode
from benchmarks.peers_problems import POSITIVE, UNKNOWNS
from benchmarks.peers_run import OutOfTimeError, Run, Task

#: Warm-up, draws, and draws of a compiled loop of HMCECS.
TUNE, DRAWS, BLOCK = 1_000, 10_000, 500


def _model(family: str, groups: int, batch: int | None, x: Any, y: Any, group: Any = None) -> None:
    """Write a family as ``peers_pymc`` does; a plate of batches for subsampling."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 2.5).expand([x.shape[1]]).to_event(1))
    alpha = sigma = None
    if family == "student":
        sigma = numpyro.sample("sigma", dist.HalfNormal(5.0))
    elif family == "negative_binomial":
        alpha = numpyro.sample("alpha", dist.HalfCauchy(10.0))
    elif family == "grouped":
        mu = numpyro.sample("mu_alpha", dist.Normal(0.0, 2.5))
        tau = numpyro.sample("tau_alpha", dist.HalfNormal(1.0))
        alpha = numpyro.sample("alpha", dist.Normal(mu, tau).expand([groups]).to_event(1))
    with numpyro.plate("rows", x.shape[0], subsample_size=batch):
        if batch:
            x = numpyro.subsample(x, event_dim=1)
            y = numpyro.subsample(y, event_dim=0)
            group = None if group is None else numpyro.subsample(group, event_dim=0)
        numpyro.sample("y", _of_rows(family, x @ beta, sigma, alpha, group), obs=y)


def _of_rows(family: str, linear: Any, sigma: Any, alpha: Any, group: Any) -> dist.Distribution:
    if family == "student":
        return dist.StudentT(4.0, linear, sigma)
    if family == "negative_binomial":
        return dist.NegativeBinomial2(jnp.exp(linear), alpha)
    return dist.Bernoulli(logits=linear if alpha is None else linear + alpha[group])


def model_of(task: Task, batch: int | None = None) -> Callable[..., None]:
    """Return the model, a function of the data's arrays."""
    groups = int(task.data["group"].max()) + 1 if "group" in task.data else 0
    return partial(_model, task.problem.family, groups, batch)


def arrays_of(task: Task) -> tuple[Any, ...]:
    """Return the arguments of the model."""
    return tuple(map(jnp.asarray, task.data.values()))


class _Compiler:
    """Compiles functions ahead of time, on the clock, as what JAX compiles of itself is."""

    def __init__(self, task: Task) -> None:
        self.clock = task.clock
        jax.monitoring.register_event_duration_secs_listener(self._tell)

    def _tell(self, event: str, seconds: float, **_: Any) -> None:
        if event.endswith(("/backend_compile_duration", "/jaxpr_to_mlir_module_duration")):
            self.clock.told(seconds)

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the function, compiled for such arguments."""
        with self.clock.compilation():
            return jax.jit(function).lower(*arguments).compile()


class _Plan(NamedTuple):
    """Draws of warm-up, draws after it, and draws of one call of the compiled loop."""

    warm_up: int
    draws: int
    block: int


def _sampled(task: Task, kernel: Any, plan: _Plan, compiler: _Compiler) -> Run:
    """Run a kernel by blocks of draws."""
    warm_up, draws, block = plan
    arguments = arrays_of(task)
    state = kernel.init(random.PRNGKey(task.seed), warm_up, None, arguments, {})

    def advance(state: Any, *arguments: Any) -> tuple[Any, Any]:
        def one(state: Any, _: None) -> tuple[Any, Any]:
            state = kernel.sample(state, arguments, {})
            steps = getattr(state, "hmc_state", state).num_steps
            return state, ({k: v for k, v in state.z.items() if k != "rows"}, steps)

        return lax.scan(one, state, None, length=block)

    compiled = compiler(advance, state, *arguments)
    marks, kept = [time.perf_counter()], []
    for done in range(0, warm_up + draws, block):
        state, drawn = jax.block_until_ready(compiled(state, *arguments))
        if done + block == warm_up:
            marks.append(time.perf_counter())
        elif done >= warm_up:
            kept.append(jax.tree.map(np.asarray, drawn))
        if task.clock.left < 0.0:
            break
    if not kept:
        raise OutOfTimeError
    marks.append(time.perf_counter())
    found = {}
    for name in UNKNOWNS[task.problem.family]:
        values = np.concatenate([drawn[name] for drawn, _ in kept])
        found[name] = np.exp(values) if name in POSITIVE.get(task.problem.family, ()) else values
    finished = len(kept) * block == draws
    note = {"gradients per update": float(np.mean([steps for _, steps in kept]))}
    return Run(found, warm_up, marks[1] - marks[0], marks[2] - marks[1], finished, note)


def nuts(task: Task) -> Run:
    """Run NumPyro's NUTS on all rows."""
    size = task.problem.nuts
    block = 10 if task.problem.rows >= 1_000_000 else 50
    return _sampled(task, NUTS(model_of(task)), _Plan(size, size, block), _Compiler(task))


def reference(task: Task, compiler: _Compiler) -> tuple[dict[str, NDArray[np.float64]], float]:
    """Return a mode, and the gradient there in posterior standard deviations."""
    arguments = arrays_of(task)
    flat_start, unravel = ravel_pytree(_start(task))
    start = np.asarray(flat_start)
    model = model_of(task)

    def potential(flat: Any, *arguments: Any) -> Any:
        return potential_energy(model, arguments, {}, unravel(flat))

    slope_of = jax.grad(potential)

    def hessian(flat: Any, *arguments: Any) -> Any:
        # One column after the other: all at once take d copies of the rows.
        def column(direction: Any) -> Any:
            return jax.jvp(lambda at: slope_of(at, *arguments), (flat,), (direction,))[1]

        return lax.map(column, jnp.eye(flat.size))

    value = compiler(jax.value_and_grad(potential), start, *arguments)
    bend = compiler(hessian, start, *arguments)

    def value_at(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        height, slope = value(jnp.asarray(at), *arguments)
        return float(height), np.asarray(slope)

    found = mode(value_at, lambda at: np.asarray(bend(jnp.asarray(at), *arguments)), start)
    return _constrained(task, unravel(jnp.asarray(found.at))), found.gradient


def _start(task: Task) -> dict[str, Any]:
    """Return unconstrained values near zero; of groups, spread as their scale there has it."""
    rng = np.random.default_rng(task.seed)
    start = {name: rng.normal(0.0, 0.01) for name in UNKNOWNS[task.problem.family]}
    start["beta"] = rng.normal(0.0, 0.01, task.data["x"].shape[1])
    if task.problem.family == "grouped":
        # From equal ones, the way leads to a scale of zero, where the density is infinite.
        start["alpha"] = rng.normal(0.0, 1.0, int(task.data["group"].max()) + 1)
    return {name: jnp.asarray(value) for name, value in start.items()}


def _constrained(task: Task, values: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    positive = POSITIVE.get(task.problem.family, ())
    return {k: np.exp(v) if k in positive else np.asarray(v) for k, v in values.items()}


def hmcecs(task: Task, batch: int, blocks: int) -> Run:
    """Run HMCECS with Taylor proxies of degree 2 around a mode."""
    compiler = _Compiler(task)
    values, gradient = reference(task, compiler)
    proxy = HMCECS.taylor_proxy(values, degree=2)
    kernel = HMCECS(NUTS(model_of(task, batch)), num_blocks=blocks, proxy=proxy)
    run = _sampled(task, kernel, _Plan(TUNE, DRAWS, BLOCK), compiler)
    run.note |= {"batch": batch, "blocks": blocks, "gradient at reference": gradient}
    run.note["rows per update"] = batch * run.note["gradients per update"]
    return run
