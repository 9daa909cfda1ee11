"""What random tests may cost: how often a run of the fast tests would fail without a fault.

Seeds are fixed, so that a run fails always or never. The budget says how likely it is that a
change of seeds, of versions or of the order of random numbers makes a right sampler fail.
"""

from dataclasses import dataclass

from scipy.stats import norm

#: Smallest accepted p-value of one comparison.
LEVEL = 4e-7
#: Largest accepted distance of one comparison in standard errors, and the chance to exceed it.
FAR = 5.0
FAR_LEVEL = 2.0 * float(norm.sf(FAR))
#: The same of slow tests that compare very much.
VERY_FAR = 6.2
VERY_FAR_LEVEL = 2.0 * float(norm.sf(VERY_FAR))
#: Largest chance that the comparisons of one trace fail, which tests assert of their own noise.
TRACE_LEVEL = 1e-5
#: Largest chance that any of the fast tests fails.
BUDGET = 1e-3


@dataclass(frozen=True)
class Random:
    """A random test: comparisons that it makes in a run of all its cases, and their level."""

    test: str
    comparisons: int
    level: float
    what: str

    @property
    def alarm(self):
        """Chance that one of the comparisons fails without a fault, by the union bound."""
        return self.comparisons * self.level


RANDOM = [
    Random(
        "exactness/test_wide.py::test_the_loop_steps_as_enumerated",
        6, LEVEL, "chi-square of one-step frequencies",
    ),
    Random(
        "exactness/test_compiled.py::test_the_loop_steps_as_enumerated",
        32, LEVEL, "chi-square of one-step frequencies",
    ),
    Random(
        "exactness/test_bordered.py::test_updates_lead_where_the_enumeration_says",
        1, LEVEL, "chi-square of where updates lead",
    ),
    Random(
        "exactness/test_confidence.py::test_as_many_rows_are_read_as_the_enumeration_says",
        4, FAR_LEVEL, "mean rows from two states",
    ),
    Random(
        "exactness/test_firefly.py::test_brightness_is_drawn_anew_for_single_decisions",
        1, LEVEL, "chi-square of one-step frequencies",
    ),
    Random(
        "kernels/test_brightness.py::test_rows_are_bright_as_often_as_their_odds_say",
        24, LEVEL, "binomial, both tails",
    ),
    Random(
        "claims/test_batches.py::test_a_look_is_wrong_with_probability_epsilon_at_most",
        1, FAR_LEVEL, "share of wrong looks",
    ),
    Random(
        "kernels/test_run.py::test_reported_acceptance_is_the_share_of_accepted_moves",
        4, FAR_LEVEL, "share of accepted moves",
    ),
    Random(
        "kernels/test_slices.py::test_a_slice_is_reversible",
        3, 1e-8, "chi-square of moves there and back",
    ),
    Random(
        "kernels/test_slices.py::test_directions_have_an_equal_share_of_fewer_moves",
        2, 1e-8, "binomial, both tails",
    ),
    Random(
        "exactness/test_elements.py::test_posterior_of_a_few_groups",
        60, VERY_FAR_LEVEL, "means and mean squares of six quantities, five methods",
    ),
    Random(
        "exactness/test_elements.py::test_posterior_where_groups_are_often_read_in_full",
        12, VERY_FAR_LEVEL, "means and mean squares of six coordinates",
    ),
    Random(
        "exactness/test_elements.py::test_posterior_of_crossed_gaussian_rows",
        154, VERY_FAR_LEVEL, "means, and mean products of all pairs, of eleven coordinates",
    ),
    Random(
        "exactness/test_elements.py::test_posterior_of_correlated_gaussian_effects",
        104, VERY_FAR_LEVEL, "means, and mean products of all pairs, of thirteen coordinates",
    ),
    Random("kernels/test_poisson.py::test_rows_read_are_poisson", 1, LEVEL, "chi-square of counts"),
    Random(
        "kernels/test_poisson.py::test_rows_after_a_veto_are_not_read",
        4, LEVEL, "mean rows from two states",
    ),
    Random(
        "kernels/test_draw.py::test_every_pair_is_drawn_equally_often",
        6, LEVEL, "chi-square of counts, both tails",
    ),
    Random(
        "kernels/test_draw.py::test_the_place_of_a_row_in_the_batch_says_nothing",
        3, LEVEL, "chi-square of counts",
    ),
    Random(
        "kernels/test_alias.py::test_rows_are_drawn_in_proportion_to_the_weights",
        8, LEVEL, "chi-square of counts",
    ),
    Random(
        "examples/test_sequential.py::test_simulated_walks_stop_as_often",
        50, FAR_LEVEL, "errors and rows of walks at five distances",
    ),
    Random(
        "kernels/test_looking.py::test_the_compiled_test_errs_and_reads_as_the_programme_says",
        36, FAR_LEVEL, "errors and rows, within seven standard errors",
    ),
    Random(
        "kernels/test_looking.py::"
        "test_a_thousand_tests_as_published_err_as_the_programme_says",
        12, FAR_LEVEL, "errors and rows at three distances",
    ),
    Random(
        "examples/test_per_update.py::"
        "test_the_test_of_an_update_is_chosen_for_its_own_uniform_number",
        2, FAR_LEVEL, "shares of updates",
    ),
    Random(
        "kernels/test_looking.py::test_all_rows_decide_as_often_as_the_lemma_says",
        3, FAR_LEVEL, "shares of updates",
    ),
    Random(
        "proposals/test_walk.py::test_steps_have_the_covariance_that_was_asked_for",
        34, LEVEL, "chi-square of each coordinate, both tails, and of a product",
    ),
    Random(
        "proposals/test_mixture.py::test_moves_leave_the_target_invariant",
        54, FAR_LEVEL, "means and second moments of three coordinates",
    ),
    Random(
        "proposals/test_own_move.py::test_a_langevin_move_on_a_batch_of_rows_is_exact",
        6, FAR_LEVEL, "means and standard deviations of three coordinates",
    ),
    Random(
        "proposals/test_own_move.py::test_the_check_passes_right_ratios_and_fails_wrong_ones",
        6, 1e-7, "checks of right moves, and of a slow one",
    ),
    Random(
        "proposals/test_langevin.py::test_the_posterior_is_that_of_the_usual_moves",
        18, FAR_LEVEL, "means and standard deviations of three coordinates, three steps",
    ),
    Random(
        "proposals/test_langevin.py::"
        "test_moves_leave_the_target_invariant_if_their_density_is_counted",
        12, FAR_LEVEL, "means and second moments of three coordinates",
    ),
    Random(
        "proposals/test_langevin.py::test_moves_go_up_by_the_drift_and_as_far_as_the_noise",
        12, FAR_LEVEL, "means and second moments of the noise",
    ),
    Random(
        "examples/test_stiefel.py::test_steps_and_their_reverse_are_equally_likely",
        6, FAR_LEVEL, "odd moments of the three turns",
    ),
    Random(
        "examples/test_stiefel.py::test_the_uniform_law_stays",
        6, LEVEL, "Kolmogorov–Smirnov for two entries",
    ),
    Random(
        "examples/test_stiefel.py::test_steps_are_as_long_as_their_scale",
        2, LEVEL, "chi-square of squared lengths, both tails",
    ),
    Random(
        "examples/test_birth_death.py::test_a_law_with_atoms_is_left_as_it_is",
        9, LEVEL, "binomial, both tails, and means of three weights",
    ),
    Random(
        "proposals/test_own_move.py::test_a_batch_estimates_the_gradient_of_all_rows",
        4, FAR_LEVEL, "a value and three derivatives",
    ),
    Random(
        "proposals/test_mixture.py::"
        "test_conditional_moves_have_the_conditional_mean_and_covariance",
        48, FAR_LEVEL, "means and covariances of the moved coordinates",
    ),
    Random(
        "proposals/test_mixture.py::test_components_are_drawn_with_their_weights",
        1, LEVEL, "chi-square of counts",
    ),
    Random(
        "chain/test_schedule.py::test_a_stage_samples_the_posterior_at_its_temperature",
        8, FAR_LEVEL, "means and mean squares at two temperatures, two methods",
    ),
    Random(
        "diagnostics/after/test_predictive.py::test_rows_are_drawn_as_by_pymc",
        60, LEVEL, "Kolmogorov–Smirnov for three rows and their sums",
    ),
    Random(
        "diagnostics/after/test_loo.py::test_some_rows_estimate_the_result_of_all",
        1, FAR_LEVEL, "subsampled leave-one-out",
    ),
    Random(
        "weights/test_weights.py::test_posterior_is_that_of_repeated_rows",
        4, FAR_LEVEL, "means of two coordinates, two methods",
    ),
    Random(
        "compound/test_compound.py::test_posterior_beside_steps_of_pymc",
        20, FAR_LEVEL, "means of four variables, five pairs of steps",
    ),
    Random(
        "compound/test_compound.py::test_by_default_a_step_leaves_discrete_variables_to_pymc",
        4, FAR_LEVEL, "means of four variables",
    ),
    Random(
        "compound/test_compound.py::test_rows_that_depend_on_a_discrete_variable_take_order_zero",
        4, FAR_LEVEL, "means of four variables",
    ),
    Random(
        "statistical/test_posteriors.py::test_posterior_is_that_of_nuts",
        26, TRACE_LEVEL, "means and standard deviations of all coordinates",
    ),
    Random(
        "statistical/test_posteriors.py"
        "::test_posterior_under_untuned_lower_bounds_is_that_of_nuts",
        2, TRACE_LEVEL, "means and standard deviations of all coordinates",
    ),
    Random(
        "statistical/test_posteriors.py::test_temperature_flattens_the_likelihood_and_only_it",
        7, TRACE_LEVEL, "means and standard deviations of all coordinates",
    ),
    Random(
        "rows/test_rows.py::test_the_posterior_is_that_of_the_rows",
        12, TRACE_LEVEL, "means and standard deviations of all coordinates",
    ),
    Random(
        "statistical/test_shifted_shapes.py::test_posterior_is_that_of_quadrature",
        8, VERY_FAR_LEVEL, "moments of two posteriors",
    ),
    Random(
        "statistical/test_families.py::test_posterior_is_that_of_nuts",
        300, FAR_LEVEL, "means and standard deviations of all coordinates",
    ),
    Random(
        "statistical/test_families.py::test_the_other_ways_are_as_exact",
        70, FAR_LEVEL, "means and standard deviations of all coordinates",
    ),
    Random(
        "statistical/test_hierarchies.py::test_posterior_is_that_of_nuts",
        1_300, VERY_FAR_LEVEL, "means and variances of all coordinates",
    ),
    Random(
        "bambi_models/test_flat.py::test_a_flat_model_is_sampled_as_it_is_built",
        40, FAR_LEVEL, "means of all coordinates of nine families",
    ),
    Random(
        "bambi_models/test_flat.py::test_a_mean_that_is_off_is_noticed",
        6, FAR_LEVEL, "means and standard deviations of three coordinates",
    ),
    Random(
        "bambi_models/test_groups.py::test_few_rows_with_levels_of_groups",
        34, 2e-9, "means of the log-density's gradient in all coordinates",
    ),
    Random(
        "adversary/test_posteriors.py::test_posterior_is_that_of_quadrature",
        6, FAR_LEVEL, "moments of two coordinates",
    ),
    Random(
        "steps/test_exact.py::test_bounds_of_ones_own_give_the_same_posterior",
        4, FAR_LEVEL, "means and standard deviations of two coordinates",
    ),
    Random(
        "steps/test_supplies.py::test_posterior_is_that_of_quadrature",
        1, VERY_FAR_LEVEL, "mean of one coordinate",
    ),
]  # fmt: skip
