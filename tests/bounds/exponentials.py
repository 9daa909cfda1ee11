"""Models whose rows are logarithms of sums of many exponentials."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import special


def classes(n_classes, rows, columns=2):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(rows, columns))
    scores = X @ rng.normal(size=(columns, n_classes))
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    with pm.Model() as model:
        B = pm.Normal("B", 0.0, 1.0, shape=(columns, n_classes - 1))
        logits = pt.concatenate([np.zeros((rows, 1)), pm.Data("X", X) @ B], axis=1)
        pm.Categorical("y", logit_p=logits, observed=y)
    return model


def reference_last(rows):
    """Four classes, of which data of zeros say that the last is the reference."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(rows, 2))
    y = np.argmax(X @ rng.normal(size=(2, 4)) + rng.gumbel(size=(rows, 4)), axis=1)
    with pm.Model() as model:
        B = pm.Normal("B", 0.0, 1.0, shape=(2, 3))
        logits = pt.concatenate([X @ B, np.zeros((rows, 1))], axis=1)
        pm.Categorical("y", p=pm.math.softmax(logits, axis=1), observed=y)
    return model


def counts(rows):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(rows, 2))
    p = special.softmax(X @ rng.normal(size=(2, 4)), axis=1)
    with pm.Model() as model:
        B = pm.Normal("B", 0.0, 1.0, shape=(2, 3))
        logits = pt.concatenate([pt.zeros((rows, 1)), pm.Data("X", X) @ B], axis=1)
        pm.Multinomial("y", n=5, p=pm.math.softmax(logits, axis=1), observed=rng.multinomial(5, p))
    return model


def clusters(rows):
    rng = np.random.default_rng(5)
    k = rng.choice(3, rows, p=[0.3, 0.4, 0.3])
    y = rng.normal(np.array([-3.0, 0.0, 2.5])[k], np.array([0.7, 0.8, 1.0])[k])
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(3))
        mu = pm.Normal("mu", [-3.0, 0.0, 2.5], 1.0, shape=3)
        scale = pm.HalfNormal("scale", 2.0, shape=3)
        pm.NormalMixture("y", w=w, mu=mu, sigma=scale, observed=y)
    return model


EXPONENTIALS = {
    "four_classes": lambda rows: classes(4, rows),
    "seven_classes": lambda rows: classes(7, rows),
    "twelve_classes": lambda rows: classes(12, rows),
    "reference_last": reference_last,
    "counts": counts,
    "clusters": clusters,
}
