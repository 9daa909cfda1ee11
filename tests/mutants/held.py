"""Mutants that lie beside the test that applies them, because they need its models."""

from typing import NamedTuple


class Held(NamedTuple):
    """A mistake that is applied by a test of its own."""

    name: str
    breaks: str
    test: str


EXACTNESS = "law/exactness/test_poisson.py::test_mutant_is_not_exact"
GROUPS = "law/exactness/test_groups.py::test_mutant_is_not_exact"
FIGURES = "law/exactness/test_enumeration.py::test_mutant_moves_the_figure"
POSTERIORS = "law/statistical/test_posteriors.py"

# fmt: off
HELD = [
    Held("bounds × 0.75, × 0.5", "exactness, in all forms", f"{EXACTNESS}[bounds x 0.75]"),
    Held("β missing from bounds", "exactness when tempered",
         f"{EXACTNESS}[bounds without temperature]"),
    Held("the full Δ in stage 2", "delayed acceptance",
         f"{EXACTNESS}[full ratio in the second stage of all rows]"),
    Held("all rows after a violation", "a rule that looks at drawn rows",
         f"{EXACTNESS}[all rows after a violation]"),
    Held("heavy groups drawn as well", "groups that are read at every update",
         f"{GROUPS}[heavy groups drawn as well]"),
    Held("nodes placed at every state", "one posterior for all positions",
         f"{GROUPS}[nodes placed at every state]"),
    Held("bounds of groups × 0.02", "exactness with groups as observations",
         f"{GROUPS}[bounds x 0.02]"),
    Held("ranges × 0.5", "exactness of PoissonMH",
         "law/exactness/test_poisson_levels.py::test_mutant_is_not_exact[ranges halved]"),
    Held("finite-population correction dropped", "Barker's test",
         f"{FIGURES}[finite-population correction dropped]"),
    Held("full data when s² is large", "Barker's test", f"{FIGURES}[full data when s2 is large]"),
    Held("growth until s < σ passed off as fixed", "Barker's test",
         f"{FIGURES}[growth passed off as fixed]"),
    Held("temperature on the whole ratio", "all tests, all rows read",
         "law/exactness/test_enumeration.py::test_full_data_mutant_is_not_exact"
         "[temperature on the whole ratio]"),
    Held("a stale cheap part beside another step", "Gibbs turns of two steps",
         "law/exactness/test_compound.py::test_a_cheap_part_at_a_stale_value_is_noticed"),
    Held("a stale cache of the other variables", "a step beside PyMC's own",
         "law/compound/test_compound.py::test_a_step_that_does_not_follow_the_others_is_noticed"),
    Held("batch drawn with the previous step's indices", "independence of updates",
         "law/exactness/test_compiled.py::test_a_mistake_is_noticed[every batch used twice]"),
    Held("Jacobian dropped", "the posterior of a scale",
         f"{POSTERIORS}::test_posterior_of_a_mutant_is_not[Jacobian dropped]"),
    Held("temperature applied to the prior", "the tempered posterior",
         f"{POSTERIORS}::test_tempering_mutants_are_noticed[temperature applied to the prior]"),
    Held("prior counted twice", "the posterior",
         f"{POSTERIORS}::test_posterior_of_a_mutant_is_not[prior counted twice]"),
    Held("every change clipped to a twentieth of its bound", "moments of a certified family",
         "law/statistical/test_families.py::test_a_wrong_bound_is_seen_by_the_comparison"),
    Held("adaptation left on", "the frozen kernel",
         "robustness/conformance/test_state.py::test_adaptation_left_on_is_noticed"),
    Held("a chain that takes over from another", "independent chains of one step",
         "robustness/conformance/test_state.py::test_a_chain_that_takes_over_from_another_is_noticed"),
]
# fmt: on
