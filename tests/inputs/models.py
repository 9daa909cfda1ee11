"""Models that cannot be read row by row, each with its message, and such that can beside them.

The models themselves are forms of the other catalogue.
"""

import numpy as np
import pymc as pm

from forms.catalogue import FORMS
from forms.reading import parts_of
from inputs.case import Section, build_on
from pymc_minibatch_mh import TunaMH, UnsplittableModelError

ROWS = 37
UNSPLITTABLE = UnsplittableModelError
SO = ", so it cannot be subsampled."
WAY_ON = 'Sample it with pm.NUTS(), or pass observed=["..."] to subsample other likelihoods only.'
CUT = "cannot be split into observations: "
SUMMARISE = "Compute such a summary from the data alone, before the model, or use pm.NUTS()."
IMPUTED = "has missing values that PyMC imputes, one latent variable each"
RESCALED = "is declared with total_size= or pm.Minibatch, which rescales a random batch"
ALL_ROWS = "Give the model all rows and drop total_size; this step draws its own batches."

dependent = Section("Dependent or unsplittable models", UNSPLITTABLE)
independent = Section("Independent models beside them")
steps = Section("Variables that a step cannot move", UNSPLITTABLE)


def read(key):
    """Return the call that reads a form."""
    form = FORMS[key]
    return lambda g: parts_of(form.build(ROWS, mutable=False), form)


def together(kind, values=ROWS):
    """Return the cause that is given for one draw of a distribution."""
    return (
        f"is {kind}: its {values} values are not conditionally independent given the parameters, "
        "or are not known to be"
    )


#: Form -> cause and fix.
REFUSED = {
    "random_walk": (together("a RandomWalk"), WAY_ON),
    "autoregression": (together("an AR"), WAY_ON),
    "garch": (together("a GARCH11"), WAY_ON),
    "euler_maruyama": (together("an EulerMaruyama"), WAY_ON),
    "multivariate": (together("a MultivariateNormal"), WAY_ON),
    "gaussian_process": (together("a MultivariateNormal"), WAY_ON),
    "car": (together("a CAR"), WAY_ON),
    "icar": (together("an ICAR"), WAY_ON),
    "kronecker": (together("a KroneckerNormal"), WAY_ON),
    "matrix_normal": (together("a MatrixNormal", 3 * ROWS), WAY_ON),
    "summed_density": (together("a CustomDist"), WAY_ON),
    "simulator": (
        "is a Simulator: its density is a distance to simulated data as a whole",
        "Sample it with pm.sample_smc().",
    ),
    "neighbours": (CUT + "observations are joined from several parts", WAY_ON),
    "centred": ("has a term that combines all rows of 'a data array of y' with 'b'", SUMMARISE),
    "running_sum": (CUT + "CumOp runs over the observations", WAY_ON),
    "rolled": (CUT + "observations are joined from several parts", WAY_ON),
    "halves": (CUT + "observations are joined from several parts", WAY_ON),
    "softmax": (CUT + "Softmax divides by a sum over the observations", WAY_ON),
    "ordered_rows": (CUT + "SortOp is not known to keep observations apart", WAY_ON),
    "scan": (CUT + "Scan is not known to keep observations apart", WAY_ON),
    "kernel": ("has a term that pairs each observation with all rows of 'places'", SUMMARISE),
    "mask": (CUT + "a boolean mask selects observations", WAY_ON),
    "ravelled": (CUT + "a reshape must keep the observations on the first axis", WAY_ON),
    "overwritten": (CUT + "some of the observations are overwritten", WAY_ON),
    "repeated": (CUT + "a reshape must keep the observations on the first axis", WAY_ON),
    "effect_of_each_row": (
        "has a free variable with one value per observation ('z')",
        "Marginalise that variable, or sample the model with pm.NUTS().",
    ),
    "latent_process": (CUT + "the observations lie inside Cholesky", WAY_ON),
    "missing": (IMPUTED, "Drop the rows with missing values, or sample with pm.NUTS()."),
    "missing_counts": (IMPUTED, "Drop the rows with missing values, or sample with pm.NUTS()."),
    "minibatch": (RESCALED, ALL_ROWS),
    "total_size": (RESCALED, ALL_ROWS),
    "expression": (
        "is observed through Log.0, an expression instead of a data array",
        "Pass the array itself, or a pm.Data of it, as observed=.",
    ),
}
for key, (cause, fix) in REFUSED.items():
    dependent.refuses(FORMS[key].written, "'y'", cause + SO, fix, call=read(key))
dependent.refuses(
    FORMS["potential_on_rows"].written,
    "'extra'",
    "is a potential on data that a likelihood reads by rows" + SO,
    "Write it as an observed variable, for instance with pm.CustomDist.",
    call=read("potential_on_rows"),
)
dependent.refuses(
    FORMS["potential"].written,
    "'y'",
    "is a potential, which has no rows, and this model has no observed variable, so there is "
    "nothing to subsample.",
    "Declare the likelihood with observed=, for instance as pm.CustomDist(..., logp=..., "
    "observed=data).",
    call=read("potential"),
)

#: Forms whose rows are independent, though they are close to one above.
ACCEPTED = (
    "lagged",
    "walks_by_row",
    "series_by_row",
    "walk_of_groups",
    "process_of_groups",
    "noncentred",
    "groups_of_one",
    "scale_of_groups",
    "zero_sum",
    "known_covariance",
    "normal_matrix",
    "matrix_of_mixtures",
    "mixture_of_two",
    "censored",
    "truncated",
    "standardised",
    "rolled_data",
    "rows_of_data",
    "rows_chosen",
    "column_written_over",
    "searchsorted",
    "square",
    "hidden_layer",
    "categorical_softmax",
    "custom_logp",
    "custom_dist",
    "custom_rows",
    "soft_constraint",
    "several",
    "other_axis",
)
for key in ACCEPTED:
    independent.accepts(FORMS[key].written, read(key))


@steps.refuses(
    "TunaMH([k]) with k discrete",
    "'k'",
    "is discrete, and proposals move continuous variables only.",
    "Leave it out of vars=: pm.sample() gives it a step of its own.",
)
def discrete(g):
    with pm.Model() as model:
        k = pm.Poisson("k", 2.0)
        pm.Normal("y", k, observed=np.zeros(1_000))
    start = {"k": np.zeros((), "int64")}
    TunaMH([k], model=model, initial_point=start)


@steps.refuses(
    "TunaMH() where all free variables are discrete",
    "vars=",
    "are empty or this model has no continuous free variable, and proposals move continuous "
    "variables only.",
    "Sample it with pm.sample().",
)
def nothing_continuous(g):
    build_on(lambda: pm.Normal("y", pm.Poisson("k", 2.0), observed=np.zeros(1_000)))


@steps.refuses(
    "TunaMH() where no observed variable has 1,000 rows",
    "observed=",
    "is not given, and no observed variable has 1,000 rows or more, so that nothing is gained by "
    "subsampling.",
    'Sample with pm.NUTS(), or name the variables in observed=["..."].',
)
def few_rows(g):
    build_on(lambda: pm.Normal("y", pm.Normal("a"), observed=np.zeros(999)))


CASES = [*dependent.cases, *independent.cases, *steps.cases]
