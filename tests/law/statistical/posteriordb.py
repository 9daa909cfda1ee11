"""Four posteriors of posteriordb, a collection of others, with moments of their reference draws.

``posteriordb.json`` has mean and standard deviation of 10,000 draws by Stan, which that project has
checked. The data are in ``posteriordb.npz``, in the folder that ``PYMC_MINIBATCH_MH_DATA`` names.
Without it, data of the same shapes are drawn, and the moments are computed by importance sampling
with PyMC's own log-density.
"""

import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import pymc as pm
from pymc.blocking import DictToArrayBijection, RaveledVars
from pymc.distributions.transforms import ordered
from scipy.optimize import minimize
from scipy.special import logsumexp

FOLDER = "PYMC_MINIBATCH_MH_DATA"
STORED = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
#: Draws of a reference by Stan, and of one by importance sampling, of so many degrees of freedom.
STAN, IMPORTANCE, FREEDOM = 10_000, 4_000, 30.0


def diamonds(carat, price):
    """Normal regression of log prices on 24 centred columns that go along with each other."""
    X = carat[:, 1:] - carat[:, 1:].mean(axis=0)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=X.shape[1])
        intercept = pm.StudentT("Intercept", nu=3.0, mu=8.0, sigma=10.0)
        sigma = pm.HalfStudentT("sigma", nu=3.0, sigma=10.0)
        pm.Normal("y", intercept + X @ b, sigma, observed=price)
    return model


def flat(X, y):
    """Normal regression with flat priors, also of the scale."""
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=X.shape[1])
        sigma = pm.HalfFlat("sigma")
        pm.Normal("y", X @ beta, sigma, observed=y)
    return model


def earnings(earn, height, male):
    return flat(np.column_stack([np.ones(earn.size), height, male, height * male]), np.log(earn))


def parties(partyid7, real_ideo, race_adj, age_discrete, educ1, gender, income):
    ages = [age_discrete == k for k in (2, 3, 4)]
    columns = [np.ones(partyid7.size), real_ideo, race_adj, *ages, educ1, gender, income]
    return flat(np.column_stack(columns).astype(float), partyid7)


def two_normals(y):
    """Mixture of two normal distributions in the order of their means."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0, shape=2, transform=ordered, initval=[-1.0, 1.0])
        sigma = pm.HalfNormal("sigma", 2.0, shape=2)
        theta = pm.Beta("theta", 5.0, 5.0)
        weights = pm.math.stack([theta, 1.0 - theta])
        pm.NormalMixture("y", weights, mu, sigma, observed=y)
    return model


def drawn_diamonds(rng):
    common = rng.standard_normal((5_000, 1))
    X = np.column_stack([np.ones(5_000), common + 0.5 * rng.standard_normal((5_000, 24))])
    return {"carat": X, "price": 8.0 + 0.1 * X.sum(axis=1) + 0.13 * rng.standard_normal(5_000)}


def drawn_earnings(rng):
    male = (rng.random(1_192) < 0.4).astype(float)
    height = np.round(65.0 + 5.0 * male + 2.5 * rng.standard_normal(male.size))
    log_earn = 8.4 + 0.02 * height + 0.4 * male + 0.88 * rng.standard_normal(male.size)
    return {"earn": np.exp(log_earn), "height": height, "male": male}


def drawn_parties(rng):
    levels = {"age_discrete": (1, 4), "educ1": (1, 4), "gender": (1, 2), "income": (1, 5)}
    found = {n: rng.integers(a, b + 1, 1_350).astype(float) for n, (a, b) in levels.items()}
    found |= {"real_ideo": rng.integers(1, 8, 1_350) * 1.0, "race_adj": 1.0 + rng.random(1_350)}
    y = 1.5 + 0.7 * found["real_ideo"] - found["race_adj"] + 1.9 * rng.standard_normal(1_350)
    return found | {"partyid7": y}


def drawn_normals(rng):
    first = rng.random(1_000) < 0.62
    return {"y": np.where(first, -2.7, 2.9) + 1.03 * rng.standard_normal(1_000)}


#: Posterior -> its model, the names that the columns have in the file, and data of the same shape.
POSTERIORS = {
    "diamonds-diamonds": (diamonds, {"carat": "X", "price": "Y"}, drawn_diamonds),
    "earnings-logearn_interaction": (earnings, {}, drawn_earnings),
    "nes1992-nes": (parties, {}, drawn_parties),
    "low_dim_gauss_mix-low_dim_gauss_mix": (two_normals, {}, drawn_normals),
}


@cache
def posterior(name, folder=None):
    """Return a model and its moments: name of a coordinate -> figures, as other references."""
    build, renamed, draw = POSTERIORS[name]
    file = Path(folder or os.environ.get(FOLDER, ".")) / "posteriordb.npz"
    if not file.exists():
        model = build(**draw(np.random.default_rng(81)))
        return model, importance(model)
    wanted = build.__code__.co_varnames[: build.__code__.co_argcount]
    with np.load(file) as table:
        place = f"data/{name.split('-')[0]}/"
        model = build(**{column: table[place + renamed.get(column, column)] for column in wanted})
    return model, {k: figures(*moments, STAN) for k, moments in STORED[name].items()}


def figures(mean, sd, n):
    """Return moments with the Monte Carlo errors of n independent draws."""
    return {"mean": mean, "sd": sd, "mcse_mean": sd / n**0.5, "mcse_sd": sd / (2.0 * n) ** 0.5}


def named(name, values):
    """Return draws, shape (chain, draw, k) or (chain, draw), by the names that Stan has."""
    if values.ndim == 2:
        return {name: values}
    return {f"{name}[{k + 1}]": values[..., k] for k in range(values.shape[-1])}


def importance(model):
    """Return the moments of a posterior by importance sampling around its mode."""
    rng, mapped = np.random.default_rng(82), DictToArrayBijection.map(model.initial_point())

    def point(x):
        return DictToArrayBijection.rmap(RaveledVars(x, mapped.point_map_info))

    logp, dlogp = model.compile_logp(), model.compile_dlogp()
    d2logp = model.compile_d2logp(negate_output=False)
    mode = minimize(lambda x: -logp(point(x)), mapped.data, jac=lambda x: -dlogp(point(x))).x
    for _ in range(3):
        mode = mode + np.linalg.solve(-d2logp(point(mode)), dlogp(point(mode)))
    factor = np.linalg.cholesky(np.linalg.inv(-d2logp(point(mode))))
    t = rng.standard_normal((IMPORTANCE, mode.size))
    t *= np.sqrt(FREEDOM / rng.chisquare(FREEDOM, (IMPORTANCE, 1)))
    points = [point(x) for x in mode + t @ factor.T]
    log_q = -0.5 * (FREEDOM + mode.size) * np.log1p((t**2).sum(axis=1) / FREEDOM)
    log_weights = np.array([float(logp(one)) for one in points]) - log_q
    weights = np.exp(log_weights - logsumexp(log_weights))
    names = [rv.name for rv in model.free_RVs]
    own = [v for v in model.unobserved_value_vars if v.name in names]
    values, draws = model.compile_fn(own, inputs=model.value_vars), {}
    for variable, column in zip(own, zip(*map(values, points), strict=True), strict=True):
        draws |= named(variable.name, np.array([column]))
    found = {}
    for name, (draw,) in draws.items():
        mean = weights @ draw
        sd = np.sqrt(weights @ (draw - mean) ** 2)
        found[name] = figures(mean, sd, 1.0 / np.sum(weights**2))
    return found
