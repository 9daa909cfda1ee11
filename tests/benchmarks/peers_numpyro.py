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

from benchmarks.peers_problems import POSITIVE, UNKNOWNS
from benchmarks.peers_run import OutOfTimeError, Run, Task

#: Warm-up, draws, and draws of a compiled loop of HMCECS.
TUNE, DRAWS, BLOCK = 1_000, 10_000, 500
#: Largest gradient of the log density at a reference, in posterior standard deviations.
GRADIENT = 1e-3


def _model(
    family: str, groups: int, batch: int | None, x: Any, y: Any, group: Any = None
) -> None:
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
    """Compiles functions ahead of time, on the clock."""

    def __init__(self, task: Task) -> None:
        self.clock = task.clock

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the function, compiled for such arguments."""
        with self.clock.compilation():
            return jax.jit(function).lower(*arguments).compile()


def _sampled(task: Task, kernel: Any, sizes: tuple[int, int, int], note: dict[str, Any]) -> Run:
    """Run a kernel for warm-up and draws, by blocks."""
    warm_up, draws, block = sizes
    arguments = arrays_of(task)
    state = kernel.init(random.PRNGKey(task.seed), warm_up, None, arguments, {})

    def advance(state: Any, *arguments: Any) -> tuple[Any, Any]:
        def one(state: Any, _: None) -> tuple[Any, Any]:
            state = kernel.sample(state, arguments, {})
            return state, {k: v for k, v in state.z.items() if k != "rows"}

        return lax.scan(one, state, None, length=block)

    compiled = _Compiler(task)(advance, state, *arguments)
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
        values = np.concatenate([drawn[name] for drawn in kept])
        found[name] = np.exp(values) if name in POSITIVE.get(task.problem.family, ()) else values
    finished = len(kept) * block == draws
    return Run(found, warm_up, marks[1] - marks[0], marks[2] - marks[1], finished, note)


def nuts(task: Task) -> Run:
    """Run NumPyro's NUTS on all rows."""
    size = task.problem.nuts
    block = 10 if task.problem.rows >= 1_000_000 else 50
    return _sampled(task, NUTS(model_of(task)), (size, size, block), {})


class Reference(NamedTuple):
    """A mode of the log density, and how far from one it is."""

    values: dict[str, NDArray[np.float64]]
    gradient: float


def reference(task: Task) -> Reference:
    """Find a mode by Newton's method; not from zero, where some gradients vanish for no reason.

    Raises
    ------
    ArithmeticError
        If there is none: with an expansion elsewhere, HMCECS fails without a word.
    """
    arguments = arrays_of(task)
    start, unravel = ravel_pytree(_start(task))
    model, compiler = model_of(task), _Compiler(task)

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
    at, (height, slope) = start, value(start, *arguments)
    for _ in range(50):
        eigenvalues, vectors = np.linalg.eigh(np.asarray(bend(at, *arguments)))
        # Downhill also where the density is not concave.
        curved = np.maximum(np.abs(eigenvalues), 1e-3 * np.abs(eigenvalues).max())
        along = vectors.T @ np.asarray(slope)
        step = -vectors @ (along / curved)
        off = float(np.sqrt(np.sum(along**2 / curved)))
        if off < GRADIENT and eigenvalues.min() > 0.0:
            return Reference(_constrained(task, unravel(at)), off)
        for shorter in 0.5 ** np.arange(20):
            height_there, slope_there = value(at + shorter * step, *arguments)
            if float(height_there) <= float(height) + 1e-9 * abs(float(height)):
                break
        at, height, slope = at + shorter * step, height_there, slope_there
    raise ArithmeticError(f"no mode was found: the gradient is {off:.2g} posterior sds")


def _start(task: Task) -> dict[str, Any]:
    """Return unconstrained values near zero."""
    rng = np.random.default_rng(task.seed)
    shapes = {"beta": (task.data["x"].shape[1],)}
    if task.problem.family == "grouped":
        shapes["alpha"] = (int(task.data["group"].max()) + 1,)
    return {
        name: jnp.asarray(rng.normal(0.0, 0.01, shapes.get(name, ())))
        for name in UNKNOWNS[task.problem.family]
    }


def _constrained(task: Task, values: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    positive = POSITIVE.get(task.problem.family, ())
    return {k: np.exp(v) if k in positive else np.asarray(v) for k, v in values.items()}


def hmcecs(task: Task, batch: int, blocks: int) -> Run:
    """Run HMCECS with Taylor proxies of degree 2 around a mode."""
    found = reference(task)
    proxy = HMCECS.taylor_proxy(found.values, degree=2)
    kernel = HMCECS(NUTS(model_of(task, batch)), num_blocks=blocks, proxy=proxy)
    note = {"batch": batch, "blocks": blocks, "gradient at reference": found.gradient}
    return _sampled(task, kernel, (TUNE, DRAWS, BLOCK), note)
