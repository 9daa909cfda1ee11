"""Which coordinates no joint mode is sought in."""

import numpy as np

from every import every
from pymc_minibatch_mh.compiled.graphs import GraphRows
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.reference.hierarchy import read_by_forms, read_by_full_data
from reference import hierarchies as models

CHOLESKY = [f"chol_cholesky-cov-packed__[{k}]" for k in range(3)]
SCALES = {
    models.normal: ["tau_log__"],
    models.logistic: ["tau_log__"],
    models.crossed: ["tau_log__[0]", "tau_log__[1]"],
    models.nested: ["outer_log__", "inner_log__"],
    models.varying_slopes: CHOLESKY,
    # What moves the groups moves their curvature, unless they are normal.
    models.robust_effects: ["mu", "tau_log__"],
    models.horseshoe: ["local_log__[0]", "local_log__[1]", "local_log__[2]", "tau_log__"],
    models.lasso: ["tau_log__"],
    models.scale_of_scales: ["outer_log__", "tau_log__"],
    models.regression: [],
    models.unread: [],
    models.lasso_of_known_scale: [],
    models.scale_in_rows: [],
}


@every("define", SCALES, ids=lambda define: define.__name__)
def test_scales_are_told_from_locations(define):
    target, start = models.target_of(define)
    names = target.factorization.coordinate_names
    for far in (0.0, 3.0):
        moved = start + far * np.random.default_rng(1).uniform(-1.0, 1.0, start.size)
        assert sorted(names[k] for k in target.scales(moved)) == sorted(SCALES[define])


@every("define", [models.crossed, models.scale_in_rows], ids=lambda define: define.__name__)
def test_what_rows_read_is_seen_by_their_slopes_too(define):
    target, start = models.target_of(define)
    by_forms = read_by_forms(target.row_functions, start.size)
    np.testing.assert_array_equal(read_by_full_data(target.full_data, start), by_forms)


def test_rows_as_a_graph_have_scales_too():
    target, start = models.target_of(models.logistic)
    expected = target.scales(start)
    target.compiled.rows = GraphRows(target.factorization, target.source)
    target.compiled.row_functions = BoundsError("no forms")
    assert target.scales(start) == expected


def test_a_prior_without_density_has_none():
    target, start = models.target_of(models.logistic)
    assert target.scales(np.full(start.size, np.nan)) == ()
