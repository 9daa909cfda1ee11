"""Odd ways to write a predictor, in which rows are apart, are not, or only seem to be.

The page does not list them. Numbers of rows coincide with those of columns and of groups.
"""

from functools import cached_property

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

#: Is read; is refused wherever there is more than one row; is either refused or read rightly.
READ, REFUSED, EITHER = "read", "refused", "either"
ODD = {}


class Data:
    """Arrays of some rows, and the variables that predictors are made of."""

    def __init__(self, rows):
        rng = np.random.default_rng(rows)
        self.rows = rows
        self.x, self.y = rng.normal(size=(2, rows))
        self.g = rng.integers(0, 3, rows)
        self.order = rng.permutation(rows) if rows < 3 else np.roll(np.arange(rows), 1)
        self.square, self.three = rng.normal(size=(rows, rows)), rng.normal(size=(rows, 3))

    @cached_property
    def b(self):
        """A coefficient."""
        return pm.Normal("b")

    @cached_property
    def slope(self):
        """A predictor without a level, which has no row in common."""
        return self.b * pt.as_tensor(self.x)

    @cached_property
    def line(self):
        """A predictor."""
        return pm.Normal("a") + self.b * self.x

    @cached_property
    def of_rows(self):
        """As many coefficients as rows."""
        return pm.Normal("v", shape=self.rows)

    @cached_property
    def of_columns(self):
        """As many coefficients as columns."""
        return pm.Normal("v", shape=3)


def odd(outcome, **predictors):
    """Register predictors of one outcome."""
    for name, predictor in predictors.items():
        ODD[name] = (lambda d, f=predictor: pm.Normal("y", f(d), 1.0, observed=d.y)), outcome


def declares(outcome):
    """Register the declaration of a likelihood that is no predictor's."""

    def register(declare):
        ODD[declare.__name__] = declare, outcome
        return declare

    return register


odd(
    READ,
    rows_in_their_order=lambda d: d.line[np.arange(d.rows)],
    running_sum_along_columns=lambda d: pt.cumsum(d.b * d.three, axis=1)[:, -1],
    summed_over_the_first_axis=lambda d: (d.of_columns[:, None] * pm.Data("D", d.three.T)).sum(0),
    some_columns=lambda d: d.b * d.three[:, 0] + d.three[:, -1],
    columns_in_reverse=lambda d: pm.Data("D", d.three)[:, ::-1][:, :2] @ d.of_columns[:2],
    length_of_the_data_as_a_number=lambda d: d.line + d.b / pm.Data("D", d.x).shape[0],
    effects_of_group_predictors=lambda d: (np.arange(6.0).reshape((3, 2)) @ d.of_columns[:2])[d.g],
    data_of_other_rows=lambda d: d.b * pm.Data("D", d.x)[d.order] + d.x,
    one_entry_of_each_row=lambda d: (d.three * d.of_columns)[np.arange(d.rows), d.g],
    permuted_rows_of_a_constant=lambda d: d.b * pt.as_tensor(d.x)[::-1],
    specified_shapes=lambda d: (
        d.of_columns * pt.specify_shape(pm.Data("D", d.x[:, None]), (None, 1))
    ).sum(1),
    reshaped_rows=lambda d: (
        pt.as_tensor(np.stack([d.three] * 2, axis=2)).reshape((d.rows, 6)) @ pm.Normal("w", shape=6)
    ),
    square_in_mutable_data=lambda d: d.of_rows @ pm.Data("D", d.square).T,
    square_summed_along_its_first_axis=lambda d: (pm.Data("D", d.square) * d.of_rows[:, None]).sum(
        0
    ),
    as_many_dimensions_as_rows=lambda d: pm.Normal("a") + d.square[:, 1:] @ d.of_rows[1:],
    square_design=lambda d: d.square @ d.of_rows,
    square_design_transposed=lambda d: d.square.T @ d.of_rows,
    square_design_from_the_right=lambda d: d.of_rows @ d.square,
    groups_from_the_end=lambda d: d.of_columns[d.g - 3],
)
odd(
    EITHER,
    permuted_predictor=lambda d: d.slope[d.order],
    rows_by_their_symbolic_numbers=lambda d: d.line[pt.arange(d.rows)],
    rows_by_their_numbers_from_the_end=lambda d: d.line[np.arange(-d.rows, 0)],
    the_row_before=lambda d: d.slope[pt.arange(d.rows) - 1],
    backwards=lambda d: d.slope[::-1],
    backwards_and_back=lambda d: d.line[::-1][::-1],
    the_last_rows_that_are_all=lambda d: d.line[-d.rows :],
    square_design_twice=lambda d: pt.dot(d.square, pt.dot(d.square, d.of_rows)),
    pairs_of_rows=lambda d: (d.slope[:, None] * d.x[None, :] * d.slope[None, :]).sum(axis=1),
    effects_of_shuffled_rows=lambda d: d.of_rows[d.order] * d.x,
    effects_of_rows_by_an_index=lambda d: d.of_rows[np.arange(d.rows)],
    a_column_of_each_row=lambda d: pt.take_along_axis(d.three * d.b, d.g[:, None], axis=1)[:, 0],
    one_of_three_predictors=lambda d: pt.stack([d.b * d.x, d.x**2 + d.b, d.b * d.y], axis=0)[
        d.g, np.arange(d.rows)
    ],
    a_row_of_the_next_one=lambda d: pt.stack([d.b * d.x, d.b * d.y], axis=1)[d.order, d.g % 2],
    einstein_sum_within_rows=lambda d: pt.einsum("ij,ik->i", d.three * d.of_columns, d.three * d.b),
    einstein_sum_of_a_square=lambda d: pt.einsum("ij,jk->i", d.square * d.b, d.square),
)
odd(
    REFUSED,
    less_the_first_row=lambda d: d.slope - d.slope[0],
    less_the_largest_row=lambda d: d.slope - d.slope.max(),
    centred_by_another_parameter=lambda d: d.slope - (pm.Normal("c") * d.x.copy()).mean() ** 2,
    standardised=lambda d: (d.slope - d.slope.mean()) / (1.0 + d.slope.std()),
    running_sum=lambda d: pt.cumsum(d.slope),
    running_sum_along_the_rows_of_a_matrix=lambda d: pt.cumsum(d.b * d.three, axis=0)[:, -1],
    sorted_predictor=lambda d: pt.sort(d.slope),
    sorted_by_its_own_order=lambda d: d.slope[pt.argsort(d.slope)],
    compared_with_the_mean=lambda d: pt.switch(pt.ge(d.slope, d.slope.mean()), d.slope, -d.slope),
    differences_of_neighbours=lambda d: pt.concatenate([[0.0], pt.diff(d.slope)]),
    softmax_of_pairs_along_rows=lambda d: pt.special.softmax(
        (d.x[:, None] - d.x[None, :]) * d.b, axis=0
    )[:, 0],
    softmax_over_rows=lambda d: pt.special.softmax(d.b * d.three, axis=0)[:, 0],
    half_of_two_columns_in_one=lambda d: (d.b * d.three[:, :2]).ravel()[: d.rows],
    one_latent_value_per_row=lambda d: pm.Normal("z", shape=d.rows) * pm.HalfNormal("s"),
    groups_backwards=lambda d: (d.of_columns[d.g] * d.x)[::-1],
    one_row_written_over=lambda d: pt.set_subtensor(d.slope[0], 0.0),
    all_rows_written_elsewhere=lambda d: pt.set_subtensor(pt.zeros(d.rows)[d.order], d.slope),
    sums_of_groups_given_back=lambda d: pt.inc_subtensor(pt.zeros(3)[d.g], d.slope)[d.g],
    recursion=lambda d: pytensor.scan(
        lambda entry, last: 0.5 * last + entry,
        sequences=[d.slope],
        outputs_info=[pt.constant(np.float64(0.0))],
        return_updates=False,
    ),
)


def density(outcome, **logps):
    """Register log-densities of all observations and a parameter."""
    for name, logp in logps.items():
        ODD[name] = (
            lambda d, f=logp: pm.CustomDist("y", pm.Normal("a"), logp=f, observed=d.y),
            outcome,
        )


density(EITHER, density_of_the_first_observation=lambda y, a: -((y - a * y[0]) ** 2))
density(
    REFUSED,
    density_of_shifted_observations=lambda y, a: -((y - a * pt.roll(y, 1)) ** 2),
    density_of_the_mean_observation=lambda y, a: -((y - a * y.mean()) ** 2),
    normalised_over_the_observations=lambda y, a: a * y - pt.logsumexp(a * y),
)


@declares(READ)
def booleans(d):
    pm.Bernoulli("y", logit_p=d.line, observed=d.x > 0.0)


@declares(READ)
def one_level_alone(d):
    pm.Normal("y", pm.Normal("a"), pm.HalfNormal("s"), observed=d.y)


@declares(READ)
def square_observations(d):
    pm.Normal("y", pt.alloc(d.of_rows, d.rows, d.rows), observed=d.square)


@declares(READ)
def likelihoods_of_different_length(d):
    a, b = pm.Normal("a"), pm.HalfNormal("b")
    pm.Normal("y", a, b, observed=d.y)
    pm.Poisson("k", b * np.arange(1.0, 10.0), observed=np.arange(9))
    pm.Bernoulli("z", logit_p=a * d.three[0], observed=[0, 1, 1])


@declares(REFUSED)
def one_draw_of_all_rows(d):
    pm.MvNormal("y", pm.Normal("a") * np.ones(d.rows), np.eye(d.rows) + 0.5, observed=d.y)


@declares(EITHER)
def a_column_and_a_line_of_predictors(d):
    mu = (d.b * d.x)[:, None] + (pm.Normal("a") * d.x)[None, :]
    pm.Normal("y", mu, 1.0, observed=d.square)
