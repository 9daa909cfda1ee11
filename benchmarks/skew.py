"""Whether a skewed limit lowers the acceptance error of Barker's test at a fixed batch.

    python benchmarks/skew.py

Batches of b rows are drawn from skewed laws, with a noise of the log ratio of s² = 0.7 σ², as the
rule "predict" aims at. For each true log ratio Δ the mean probability of accepting is compared with
the logistic function of Δ; printed is the largest difference over Δ. The variants differ in what is
added to the probability F(D*, s²), with y = γ/(6 √b):

    none     nothing: the test as it is
    limit    y (2 s³ F''' + 3 s F'), which makes up for the skewed limit of a studentised mean
             (Seita et al. 2017, appendix A.5), s being taken for a constant
    centred  2 y s³ F''', the same without the shift 3 s F', as the mean of a batch has no bias

with γ estimated from the batch, and added only where s² < 0.85 σ²: beyond, F is too rough for a
third derivative. What leaves [0, 1] is clipped.
"""

import argparse

import numpy as np
from scipy.special import expit, ndtr

from pymc_minibatch_mh.steps.barker import correction_table

#: Share of the variance that batches aim at, and true log ratios.
AIM = 0.7
#: Share of sigma^2 up to which the variance of a batch has its skewness corrected for.
SKEW_ROOM = 0.85
RATIOS = np.linspace(-3.0, 3.0, 13)
REPEATS, CHUNK = 100_000, 5_000
VARIANTS = "none", "limit", "centred"
SIGMA = 1.2


def _exponential(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.exponential(size=shape) - 1.0


def _gamma(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return (rng.gamma(0.25, size=shape) - 0.25) / 0.5


def _rare(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """A normal law, and one row in fifty that is far out."""
    far = rng.random(shape) < 0.02
    x = rng.standard_normal(shape) + 6.0 * far
    return (x - 0.12) / np.sqrt(1.0 + 36.0 * 0.02 * 0.98)


#: Law of the rows' differences, of mean 0 and variance 1 -> how it is drawn.
LAWS = {"exponential": _exponential, "gamma of shape 1/4": _gamma, "one row in fifty": _rare}


def accepted(ratio: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return F(D*, s²), and its first and third derivatives by D*."""
    table = correction_table(SIGMA)
    tau = np.sqrt(np.maximum(SIGMA**2 - variance, 0.0025))
    value, first, third = np.zeros((3, ratio.size))
    for atom, mass in zip(table.atoms, table.masses, strict=True):
        z = (ratio + atom) / tau
        density = mass * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        value += mass * ndtr(z)
        first += density / tau
        third += density * (z * z - 1.0) / tau**3
    return value, first, third


def probabilities(x: np.ndarray, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of all variants, and what has a known mean of 0 in each batch."""
    count, variance = x.shape[1], AIM * SIGMA**2
    scale = np.sqrt(variance * count)
    mean, spread = x.mean(axis=1), x.std(axis=1, ddof=1)
    skewness = ((x - mean[:, None]) ** 3).mean(axis=1) / spread**3
    noise, s = mean * scale, spread * scale / np.sqrt(count)
    value, first, third = accepted(ratio + noise, s * s)
    y = np.where(s * s < SKEW_ROOM * SIGMA**2, skewness / (6.0 * np.sqrt(count)), 0.0)
    centred = 2.0 * y * s**3 * third
    found = [value, value + centred + 3.0 * y * s * first, value + centred]
    known = np.array([noise, noise**2 - variance, s * s - variance])
    return np.clip(found, 0.0, 1.0), known


def errors(law: str, rows: int, repeats: int) -> tuple[np.ndarray, float]:
    """Return the largest error of every variant over the log ratios, and the Monte Carlo error."""
    off, noise = np.empty((len(VARIANTS), RATIOS.size)), 0.0
    for k, ratio in enumerate(RATIOS):
        rng = np.random.default_rng(1)
        parts = [
            probabilities(LAWS[law](rng, (CHUNK, rows)), ratio) for _ in range(0, repeats, CHUNK)
        ]
        p, known = (np.concatenate(found, axis=1) for found in zip(*parts, strict=True))
        # Control variates: what is explained by quantities of mean 0 is noise.
        design = np.vstack([np.ones(p.shape[1]), known]).T
        fitted, *_ = np.linalg.lstsq(design, p.T, rcond=None)
        left = p.T - design @ fitted
        off[:, k] = fitted[0] - expit(ratio)
        noise = max(noise, float(left.std(axis=0).max() / np.sqrt(p.shape[1])))
    return np.abs(off).max(axis=1), noise


def main() -> None:
    """Print a table of errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    repeats = parser.parse_args().repeats
    print("| law | b |", " | ".join(VARIANTS), "| ± |")
    for law in LAWS:
        for rows in (30, 100, 300):
            found, noise = errors(law, rows, repeats)
            cells = " | ".join(f"{error:.4f}" for error in found)
            print(f"| {law} | {rows} | {cells} | {noise:.5f} |", flush=True)


if __name__ == "__main__":
    main()
