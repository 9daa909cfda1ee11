"""Variable selection: a move that takes features into a regression, changes and drops them.

A feature is excluded where its weight is 0, so that a position is one vector w. The posterior has
a density with respect to the product over features of (a point mass at 0 + Lebesgue measure). A
birth draws a weight for a feature that is out, a death sets one to 0, an update nudges one that is
in; each is proposed a third of the time. With k features in, of d, the densities of a birth to θ'
and of the death that leads back are

    q(θ'|θ) = 1/3 · 1/(d - k) · N(w'_j; 0, σ_birth²),    q(θ|θ') = 1/3 · 1/(k + 1).

The point mass at 0 has density 1, so that no Jacobian comes in. A move that is not possible, such
as a birth with all features in, stays where it is. At least one feature stays in.

The model, its prior and its settings are those of Korattikara, Chen, Welling (2014), section 6.3
and supplement, doi:10.48550/arXiv.1304.5299: Laplace weights with a scale that is integrated out,
and a number of features held down by λ. That prior is not integrable near w = 0; data that say that
w is not there keep chains away from it.

    python examples/birth_death.py
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from pymc_minibatch_mh import CustomProposal, TunaMH, sample

Vector = NDArray[np.float64]
#: Settings of the paper: standard deviations of updates and births, and λ.
UPDATE, BIRTH, PENALTY = 0.01, 0.1, 1e-10


def birth_death(
    position: Vector, new: Vector, rng: Any, state: Vector, metric: Any, rows: Any
) -> float:
    """Propose an update, a birth or a death; `state` holds σ_update and σ_birth."""
    size, kept = position.size, 0
    for j in range(size):
        new[j] = position[j]
        kept += position[j] != 0.0
    kind = rng.integers(0, 3)
    if (kind == 0 and kept == size) or (kind == 1 and kept == 1):
        return 0.0
    # The feature that is chosen, among those that are out (0) or in (1 and 2).
    left = rng.integers(0, size - kept if kind == 0 else kept)
    chosen = 0
    for j in range(size):
        if (position[j] == 0.0) == (kind == 0):
            if left == 0:
                chosen = j
            left -= 1
    if kind == 2:
        new[chosen] += state[0] * rng.standard_normal()
        return 0.0
    normal = 1.0 / (np.sqrt(2.0 * np.pi) * state[1])
    if kind == 0:
        new[chosen] = state[1] * rng.standard_normal()
        density = normal * np.exp(-0.5 * (new[chosen] / state[1]) ** 2)
        forth, back = density / (size - kept), 1.0 / (kept + 1)
    else:
        new[chosen] = 0.0
        density = normal * np.exp(-0.5 * (position[chosen] / state[1]) ** 2)
        forth, back = 1.0 / kept, density / (size - kept + 1)
    log_ratio: float = np.log(back) - np.log(forth)
    return log_ratio


def regression(x: Vector, y: NDArray[np.integer], start: Vector) -> pm.Model:
    """Write a logistic regression that selects features, with the weights that chains start at."""
    features = x.shape[1]
    with pm.Model() as model:
        # Flat, as the potential is the whole prior.
        w = pm.Flat("w", shape=features, initval=start)
        k = pt.neq(w, 0.0).sum()
        inverse_scale = -k * pt.log(2.0 * pt.abs(w).sum())
        size = k * np.log(PENALTY) + pt.gammaln(k) + pt.gammaln(features - k + 1.0)
        pm.Potential("prior", inverse_scale + size)
        pm.Bernoulli("y", logit_p=pt.dot(x, w), observed=y)
    return model


def selection(rows: int = 20_000, features: int = 8, kept: int = 3, seed: int = 1) -> pm.Model:
    """Write a logistic regression of which the first features alone matter."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, features))
    truth = np.where(np.arange(features) < kept, 0.6, 0.0)
    y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-x @ truth))).astype(np.int8)
    return regression(x, y, np.full(features, 0.1))


def main() -> None:
    """Sample, and print how often each feature is in."""
    with selection():
        step = TunaMH(proposal=CustomProposal(birth_death, state=[UPDATE, BIRTH]))
        trace = sample(step, 20_000, tune=2_000, chains=2, random_seed=1)
    kept = trace.posterior["w"] != 0.0
    print("share of draws with each feature:", kept.mean(("chain", "draw")).to_numpy())
    print("features in a draw:", float(kept.sum("w_dim_0").mean()))


if __name__ == "__main__":
    main()
