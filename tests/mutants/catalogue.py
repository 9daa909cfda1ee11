"""Plausible mistakes in the shipped code, and the test that kills each of them.

`EDITED` mutants are changes of the text of a shipped function. ``test_mutants.py`` applies each
and runs its killer, which must fail under it and pass on the same function compiled anew without
the change.
"""

from dataclasses import dataclass

from mutants.edit import Edit

UPDATE = "kernels/test_run.py::test_moves_are_accepted_as_often_as_the_enumeration_says"
POISSON = "kernels/test_poisson.py::test_moves_are_accepted_as_often_as_the_enumeration_says"
LOOKS = "kernels.looks.look_until_decided"
HEAVY_IN_BATCHES = "exactness/test_heavy_in_batches.py"
CONFIDENCE = "methods.confidence.decide_by_confidence"
THIN_ROWS = "methods.poisson.thin_rows"
FIREFLY = "exactness/test_firefly.py"
BRIGHTNESS = "methods.brightness"
BY_SCALES = "proposals/test_by_scales.py::"
SLICES, UNREAD = "kernels/test_slices.py", "model/compiled/test_unread.py"
BRIGHT_ROWS = "methods.firefly.decide_by_bright_rows"
PROPOSE = "proposals.mixture.propose_from_mixture"
UNSEEN = (
    "kernels/test_bound_tables.py::test_bounds_are_those_in_the_coordinates_that_rows_depend_on"
)
OF_GROUPS = (
    "kernels/test_bound_tables.py::test_bounds_of_groups_are_those_of_the_group_that_moves_most"
)
GROUPS = "bounds/test_groups.py"
MEASURED = ("kernels.bound_tables._products_of_read", "kernels.bound_tables.smallest_table")
#: What has every test and every proposal compiled in, and what has the rows of a Poisson test.
LOOP = ("kernels.run._update", "kernels.run.run")
THINNING = (THIN_ROWS, *LOOP)
#: What has the rows of a batch compiled in.
EVEN = ("kernels.looks._look_at_more", LOOKS, *LOOP)
SIZE = "kernels.moves.size_of_move"
APPENDED = "preparation/test_appended.py"
BLOCKS, POOL = "bounds/test_blocks.py", "chain/test_pool.py"
THREADS = "test_threads.py"
ELSEWHERE = "expansion/test_elsewhere.py"
SUPPLIES, STORED = "exactness/test_supplies.py", "step/test_supplies.py"
EVENLY, IN_STEPS = "exactness/test_even_supplies.py", "step/test_even_batches.py"


@dataclass(frozen=True)
class Mutant:
    """A mistake: what it breaks, the edit that makes it, and the test that fails under it."""

    name: str
    breaks: str
    edit: Edit
    killer: str
    #: Kernels that take seconds to compile are left to the slow tests.
    slow: bool = False


EDITED = [
    Mutant(
        "alias table off by one",
        "rows are drawn in place of their neighbours",
        Edit("kernels.alias.draw_alias", "aliases[place]", "(aliases[place] + 1) % size"),
        "kernels/test_alias.py::test_rows_are_drawn_in_proportion_to_the_weights[random]",
    ),
    # Rows that are stored.
    Mutant(
        "rows of a part in the order of their numbers",
        "draws are of other rows than their bounds, where several lie in one chunk",
        Edit("data.parts.gather", "rows[places] - edges", "np.sort(rows[places]) - edges"),
        "data/test_parts.py::test_rows_are_gathered_from_their_parts",
    ),
    Mutant(
        "parts kept for ever",
        "a pass over files fills the memory",
        Edit("data.parts.DecodedParts._leave_room", "if self.nbytes <= self.room", "if True"),
        "data/test_parts.py::test_decoded_parts_are_dropped_when_there_is_no_room",
    ),
    Mutant(
        "time of a file not looked at",
        "a file of the same size is read in the place of the one that was opened",
        Edit("data.files.SourceFile.require_same", "found.changed != self.changed", "False"),
        "data/test_parts.py::test_a_file_that_is_another_is_named",
    ),
    Mutant(
        "half floats let through",
        "compiled code reads two of them as one number",
        Edit("data.checks.native_type", "not in (4, 8)", "not in (2, 4, 8)"),
        "data/test_parts.py::test_types_that_compiled_code_reads_are_told_from_others",
    ),
    Mutant(
        "offset in a map forgotten",
        "a step of another process reads other rows",
        Edit("data.file_maps.FileMap.of", "whole.offset + ahead", "whole.offset"),
        "data/test_stored.py::test_views_of_maps_are_opened_as_they_were[C-rows]",
    ),
    Mutant(
        "private maps opened from their files",
        "what was written to an array is lost in another process",
        Edit("data.file_maps._map_of", 'base.mode != "c"', "base.mode"),
        "data/test_stored.py::test_what_was_written_to_a_private_map_is_kept",
    ),
    Mutant(
        "rows of a file from its beginning",
        "rows of a part of a file are others",
        Edit("data.file_reader.FileReader._one_by_one", "(start + size", "(size"),
        "data/test_stored.py::test_rows_are_read_from_their_file_as_from_its_map[numbers]",
    ),
    Mutant(
        "rows of a run from where the first one began",
        "rows that lie near each other in a file are those of another run",
        Edit("data.file_reader.FileReader._in_runs", "int(run[0])", "int(rows[0])"),
        "data/test_stored.py::test_rows_near_each_other_are_read_in_runs[64-512-numbers]",
    ),
    Mutant(
        "file not looked at again",
        "what was written while it was read is taken for what was there",
        Edit(
            "data.stored.ArrayStorage._read",
            "file.require_unchanged()\n    return read",
            "return read",
        ),
        "data/test_stored.py::test_what_is_written_while_it_is_read_is_not_returned",
    ),
    Mutant(
        "groups of the first block",
        "later groups have no effect of their own",
        Edit(
            "model.reading.group_numbers.largest_group",
            "range(0, n_rows, BLOCK",
            "range(0, 1, BLOCK",
        ),
        "model/reading/test_group_numbers.py::test_the_number_of_groups_is_the_largest_number_and_one[i2]",
    ),
    Mutant(
        "one of two likelihoods of a row",
        "the posterior is that of the last one",
        Edit("model.reading.joined.joined", "total + logp", "logp"),
        "model/reading/test_joined.py::test_several_likelihoods_of_a_row_are_added",
    ),
    Mutant(
        "a step saved over the one before",
        "a disk that is full takes the older file as well",
        Edit("preparation.file._write_whole", "if place.exists() and not place.is_file()", "if 1"),
        "endurance/test_full_disk.py::test_what_cannot_be_written_leaves_what_was_there",
    ),
    Mutant(
        "missing chunks filled in",
        "lost rows are read as zeros",
        Edit(
            "data.zarr_storage.ZarrStorage._decoded", "if not self._objects", "if 0 * self._objects"
        ),
        "data/test_zarr.py::test_a_chunk_in_memory_that_is_gone_is_named",
    ),
    Mutant(
        "empty entries read",
        "what is not known is read as NaN",
        Edit("data.parquet_storage.ParquetStorage._decode", "if values.null_count", "if False"),
        "data/test_parquet.py::test_empty_entries_are_not_read_as_nan",
    ),
    Mutant(
        "rows in the order of Dask",
        "draws are of other rows than their bounds",
        Edit("data.dask_storage.DaskStorage.read", "else places]", "else ...]"),
        "data/test_dask.py::test_rows_are_those_of_the_arrays[synchronous]",
    ),
    # Drawing rows.
    Mutant(
        "alias table filled by the wrong remainder",
        "rows are not drawn in proportion to their bounds",
        Edit("kernels.alias.build_alias", "-= 1.0 - thresholds[low]", "-= thresholds[low]"),
        "kernels/test_alias.py::test_chances_are_the_weights[spread]",
    ),
    Mutant(
        "last row never drawn",
        "batches are not uniform",
        Edit("kernels.draw.draw_more", "rng.integers(0, total)", "rng.integers(0, total - 1)"),
        "kernels/test_draw.py::test_every_pair_is_drawn_equally_often[targets0]",
    ),
    Mutant(
        "rows of earlier looks forgotten",
        "a growing batch holds a row twice",
        Edit("kernels.draw.reserve", "insert(roomy, rows[i])", "pass"),
        "kernels/test_draw.py::test_drawing_on_is_drawing_more_at_once",
    ),
    Mutant(
        "rows numbered through all terms",
        "rows of a second likelihood are read in the wrong place",
        Edit("kernels.draw.arrange", "drawn[i] - term_starts[term]", "drawn[i]"),
        "kernels/test_draw.py::test_rows_are_sorted_by_term_and_numbered_within_it[starts1]",
    ),
    Mutant(
        "third moments merged with the wrong sign",
        "the error estimate of a growing batch",
        Edit(
            "kernels.moments.merge_moments",
            "(n - m)",
            "(m - n)",
            ("kernels.moments.add_moments",),
        ),
        "kernels/test_moments.py::test_moments_are_those_of_all_values[0.0-cuts2]",
    ),
    # The Poisson test.
    Mutant(
        "veto whatever the sign",
        "a row that favours the move rejects it",
        Edit(
            "methods.poisson.thin",
            "(change / bound, -math.inf) if change > 0.0",
            "(abs(change) / bound, -math.inf) if True",
        ),
        "exactness/test_poisson.py::test_stationary_law_is_the_target[factorized]",
    ),
    Mutant(
        "Poisson draw without zero",
        "updates that should read no row read one",
        Edit(
            THIN_ROWS,
            "rng.poisson(expected)",
            "max(rng.poisson(expected), 1)",
            LOOP,
        ),
        f"{POISSON}[MH-SS]",
        slow=True,
    ),
    Mutant(
        "rows read after a veto",
        "rows are read and counted that decide nothing any more",
        Edit(THIN_ROWS, "left > 0 and product > -np.inf", "left > 0", LOOP),
        "kernels/test_poisson.py::test_rows_after_a_veto_are_not_read[factorized]",
        slow=True,
    ),
    Mutant(
        "full ratio in the compiled second stage",
        "the cheap part decides twice",
        Edit(
            THIN_ROWS,
            "accept_probability(0.0 if test.delayed else cheap, product, 0.0)",
            "accept_probability(cheap, product, 0.0)",
            LOOP,
        ),
        f"{POISSON}[best, delayed]",
        slow=True,
    ),
    Mutant(
        "bounds of rows of another term",
        "changes are held against the bounds of other rows",
        Edit(
            "methods.poisson._product_of_drawn",
            "row = rows[i] + posterior.space.term_starts[term]",
            "row = rows[i]",
            THINNING,
        ),
        "kernels/test_poisson.py::test_a_violated_bound_stops_before_the_move_and_names_the_row",
        slow=True,
    ),
    Mutant(
        "the last row beyond its bound instead of the worst",
        "a message joins one row to another's ratio",
        Edit(
            "methods.poisson._product_of_drawn",
            "counts[entry.BOUND_RATIO], counts[entry.BOUND_ROW] = ratio, row",
            "counts[entry.BOUND_RATIO] = ratio\n"
            "        if not ratio <= 1.0:\n"
            "            counts[entry.BOUND_ROW] = row",
            THINNING,
        ),
        "kernels/test_poisson.py"
        "::test_of_several_rows_beyond_their_bounds_the_worst_is_named_with_its_own_ratio",
        slow=True,
    ),
    Mutant(
        "a choice of χ that learns from drawn rows alone",
        "a chain whose χ makes every move read all rows keeps it for ever",
        Edit(
            "methods.poisson._product_of_all",
            "if np.isfinite(squares) and informs:",
            "if False:",
            THINNING,
        ),
        "kernels/test_poisson.py"
        "::test_a_choice_of_chi_learns_the_same_from_drawn_rows_and_from_all[True]",
        slow=True,
    ),
    Mutant(
        "heavy rows that count the wrong way round",
        "what is read at every update draws the chain away from the posterior",
        Edit(
            THIN_ROWS,
            "posterior.surrogate.inverse_temperature * change",
            "-posterior.surrogate.inverse_temperature * change",
            LOOP,
        ),
        "exactness/test_heavy.py::test_the_loop_steps_as_enumerated[paper]",
        slow=True,
    ),
    Mutant(
        "heavy rows drawn as well",
        "rows that are read at every update count twice",
        Edit("bounds.tables.Tables._light", "light[self.heavy] = 0.0", "pass"),
        "exactness/test_heavy.py::test_what_is_drawn_is_of_the_other_rows",
    ),
    Mutant(
        "heavy rows by half their cost",
        "rows are read at every update that are better drawn",
        Edit(
            "preparation.heavy.heavy_rows", "drawn > COST_IN_ORDER", "drawn > 0.5 * COST_IN_ORDER"
        ),
        "preparation/test_heavy.py::test_rows_are_heavy_where_they_would_be_drawn_often",
    ),
    Mutant(
        "a choice of χ that learns from heavy rows",
        "χ is chosen for noise that rows which are always read do not make",
        Edit(
            "methods.poisson._product_of_all",
            "squares -= read_chosen(posterior, move, posterior.tables.heavy, c)[1]",
            "pass",
            THINNING,
        ),
        "exactness/test_heavy.py::test_a_choice_of_chi_learns_from_the_other_rows",
        slow=True,
    ),
    Mutant(
        "a row that is skipped too late",
        "rows that every update reads are drawn as well",
        Edit("kernels.draw.skip_rows", "- middle <= numbers[i]", "- middle < numbers[i]"),
        "kernels/test_draw.py::test_numbers_of_all_rows_but_some_stand_for_each_of_them_once",
    ),
    Mutant(
        "heavy rows drawn in batches as well",
        "rows that are read at every update count twice, and the last rows never",
        Edit(
            "kernels.even.draw_next",
            "if posterior.tables.heavy.size",
            "if False",
            EVEN,
        ),
        f"{HEAVY_IN_BATCHES}::test_batches_are_all_those_of_the_other_rows[2]",
        slow=True,
    ),
    Mutant(
        "heavy rows left out of tests on batches",
        "rows that no batch is drawn from never count",
        Edit(LOOKS, "known = beta * read_chosen", "known = 0.0 * read_chosen", LOOP),
        f"{HEAVY_IN_BATCHES}::test_batches_are_all_those_of_the_other_rows[2]",
        slow=True,
    ),
    Mutant(
        "batches of the other rows that stand for all",
        "the sum over a batch is multiplied by N in place of N - |S|",
        Edit(
            LOOKS,
            "cheap + beta * total * mean",
            "cheap + beta * (total + heavy.size) * mean",
            LOOP,
        ),
        f"{HEAVY_IN_BATCHES}::test_batches_are_all_those_of_the_other_rows[3]",
        slow=True,
    ),
    Mutant(
        "heavy rows that are not counted as read",
        "updates look cheaper than they are",
        Edit(LOOKS, "float(n + heavy.size)", "float(n)", LOOP),
        f"{HEAVY_IN_BATCHES}::test_a_full_pass_reads_every_row_once[3-5.0]",
        slow=True,
    ),
    Mutant(
        "noise predicted with the heavy rows",
        "batches are sized for rows that they are not drawn from",
        Edit(
            "expansion.taylor.calibrate",
            "found = passes.moves(order, moves, centre, heavy)",
            "pass",
        ),
        "preparation/test_heavy_in_batches.py::test_what_is_calibrated_are_the_others",
    ),
    Mutant(
        "rare levels sought in a few moves alone",
        "a group is missed that hardly moves in four moves",
        Edit(
            "expansion.heavy.Largest.look_again",
            "self._sizes(differences)])",
            "0.0 * self._sizes(differences)])",
        ),
        "expansion/test_heavy.py"
        "::test_further_moves_tell_of_a_group_that_the_first_ones_hardly_moved",
    ),
    Mutant(
        "an audit of rows that no batch is drawn from",
        "batches are called skewed by rows that are read at every update",
        Edit("expansion.spread.SpreadIn.of", "np.delete(differences, inside)", "differences"),
        "preparation/test_heavy_in_batches.py::test_an_audit_judges_the_rows_that_batches_are_of",
    ),
    Mutant(
        "one end of a move inside the trust region",
        "bounds are used where they do not hold",
        Edit(
            "kernels.bound_tables.smallest_table",
            "max(dots.here, dots.there)",
            "min(dots.here, dots.there)",
            THINNING,
        ),
        "kernels/test_poisson.py::test_pairs_that_all_rows_decide_are_exact[radius-best]",
        slow=True,
    ),
    Mutant(
        "bounds that measure what changes no row",
        "scales in their tails read all rows",
        Edit(
            "kernels.bound_tables._read_part",
            "along = -inner_of_line",
            "along = -0.0 * inner_of_line",
            (*MEASURED, "kernels.bound_tables.table_of_move"),
        ),
        f"{UNSEEN}[2-2]",
        slow=True,
    ),
    Mutant(
        "the start of a move taken for its end",
        "rows exceed their bounds",
        Edit(
            "kernels.bound_tables._products_of_read",
            "_read_part(unread, vector, ends[part])",
            "_read_part(unread, ends[0] if part else vector, ends[part])",
            (*MEASURED[1:], "kernels.bound_tables.table_of_move"),
        ),
        f"{UNSEEN}[2-2]",
        slow=True,
    ),
    Mutant(
        "the last of the groups taken for the largest",
        "rows of the others exceed their bounds",
        Edit(
            "kernels.bound_tables._largest_size",
            "max(largest, size_of_move(own, order, kind))",
            "size_of_move(own, order, kind)",
            (*MEASURED[1:], "kernels.bound_tables.table_of_move"),
        ),
        f"{OF_GROUPS}[2-2]",
        slow=True,
    ),
    Mutant(
        "groups without what all rows read",
        "rows exceed their bounds",
        Edit(
            "kernels.bound_tables._products_of_groups",
            "copy_to(found, common)",
            "found[:] = 0.0",
            (*MEASURED[1:], "kernels.bound_tables.table_of_move"),
        ),
        f"{OF_GROUPS}[2-2]",
        slow=True,
    ),
    Mutant(
        "columns that a group does not have, taken for those that it has",
        "rows change along directions that their bounds leave out",
        Edit("bounds.groups._directions", "if not read]", "if read]"),
        f"{GROUPS}::test_forms_of_a_row_lie_in_the_directions_of_a_group[indicators]",
    ),
    Mutant(
        "directions of a group that are not whitened",
        "rows change along directions that their bounds leave out",
        Edit("bounds.groups._whitened", "factor.T @ directions.T", "directions.T"),
        f"{GROUPS}::test_forms_of_a_row_lie_in_the_directions_of_a_group[slopes]",
    ),
    # Firefly Monte Carlo.
    Mutant(
        "lower bounds left out of the log ratio",
        "bright rows alone decide",
        Edit("methods.firefly.log_ratio_of_move", " - (sizes[1] - sizes[0])", ""),
        f"{FIREFLY}::test_the_law_of_the_position_is_the_target[0.4]",
    ),
    Mutant(
        "rows light up as if all dark ones were proposed",
        "the law of which rows are bright",
        Edit("methods.brightness.chance_to_be_bright", "odds - math.log(q)", "odds"),
        f"{FIREFLY}::test_the_update_of_brightness_balances_every_pair[0.4]",
    ),
    Mutant(
        "rows that went dark left among the bright ones",
        "rows are bright that should not be, and others dark",
        Edit(
            f"{BRIGHTNESS}.update_brightness",
            "_swap(rows, left + k, n_bright + k)",
            "pass",
            (BRIGHT_ROWS, *LOOP),
        ),
        f"{FIREFLY}::test_the_loop_steps_as_enumerated[0.4]",
        slow=True,
    ),
    Mutant(
        "bounds of rows of another term in a firefly sampler",
        "odds are those of other rows",
        Edit(
            f"{BRIGHTNESS}._read",
            "row = inside[i] + starts[term]",
            "row = inside[i]",
            (
                *(f"{BRIGHTNESS}.{f}" for f in ("_partition", "odds_of_bright")),
                f"{BRIGHTNESS}.update_brightness",
                BRIGHT_ROWS,
                *LOOP,
            ),
        ),
        f"{FIREFLY}::test_the_loop_steps_as_enumerated[0.4]",
        slow=True,
    ),
    Mutant(
        "bright rows kept after a move that all rows decide",
        "bright rows of another position",
        Edit(BRIGHT_ROWS, "own.n_bright[0] = UNKNOWN", "pass", LOOP),
        f"{FIREFLY}::test_the_loop_steps_as_enumerated[0.4]",
        slow=True,
    ),
    Mutant(
        "single decisions measured with the bright rows of the one before",
        "an audit's repetitions are not independent",
        Edit(
            "methods.firefly._follow",
            "same = not test.forgets",
            "same = True",
            (BRIGHT_ROWS, *LOOP),
        ),
        f"{FIREFLY}::test_brightness_is_drawn_anew_for_single_decisions",
        slow=True,
    ),
    Mutant(
        "a lower bound that is too steep",
        "a quadratic that crosses the log-likelihood",
        Edit(
            "model.row.gap._above_softplus",
            "/ (4.0 * xi)",
            "/ (5.0 * xi)",
            ("model.row.gap._gap", "model.row.gap.gap_of"),
        ),
        "model/row/test_gap.py"
        "::test_no_row_lies_below_its_lower_bound_and_what_remains_is_quadratic[logistic-1.5]",
    ),
    Mutant(
        "gaps left out of the sum of lower bounds",
        "the sum of the log-likelihoods in place of that of their lower bounds",
        Edit(
            "expansion.below.below",
            "gradient=whole.gradient - own.gradient",
            "gradient=whole.gradient",
        ),
        "expansion/test_below.py::test_lower_bounds_and_gaps_add_up[4.0]",
        slow=True,
    ),
    # Tests that read batches, and the loop around all tests.
    Mutant(
        "finite-population correction dropped in the kernel",
        "the variance of a batch that is a large share of the rows",
        Edit(LOOKS, " * (1.0 - n / total)", "", LOOP),
        f"{UPDATE}[penalty]",
        slow=True,
    ),
    Mutant(
        "prior counted N/b times",
        "the cheap part is scaled up with the batch",
        Edit(
            LOOKS,
            "cheap + beta * total * mean",
            "cheap * total / n + beta * total * mean",
            LOOP,
        ),
        f"{UPDATE}[penalty]",
        slow=True,
    ),
    Mutant(
        "temperature missing from the log ratio",
        "another posterior than the tempered one",
        Edit(LOOKS, "cheap + beta * total * mean", "cheap + total * mean", LOOP),
        f"{UPDATE}[penalty]",
        slow=True,
    ),
    Mutant(
        "batch drawn with the indices of the look before",
        "later looks read the first rows again",
        Edit(
            "kernels.even.draw_next",
            "places[i] = batch[n + i]",
            "places[i] = batch[i]",
            EVEN,
        ),
        f"{UPDATE}[barker, grow]",
        slow=True,
    ),
    Mutant(
        "a new uniform number at every look",
        "the threshold of a sequential test moves",
        Edit(
            LOOKS,
            "verdict, accept, error = judge(",
            "uniform = rng.random()\n        verdict, accept, error = judge(",
            LOOP,
        ),
        f"{UPDATE}[austere, eps=.05]",
        slow=True,
    ),
    # PoissonMH.
    Mutant(
        "intensities without the lower end of the range",
        "rows are kept by another number than the ratio assumes",
        Edit("methods.poisson_levels.keep_probability", "(raised + share)", "share"),
        "exactness/test_poisson_levels.py::test_stationary_law_is_the_target[lam=1]",
    ),
    Mutant(
        "the ratio of log-likelihoods for that of intensities",
        "the chain does not keep the posterior",
        Edit("methods.poisson_levels.log_growth", "(raised + share)", "(share + 1e-9)"),
        "exactness/test_poisson_levels.py::test_stationary_law_is_the_target[lam=1]",
    ),
    Mutant(
        "rows thinned at the proposal",
        "the counts are drawn for another position than the ratio is of",
        Edit(
            "methods.poisson_levels._product_of_drawn",
            "_shares_at(move.position, drawn",
            "_shares_at(move.new, drawn",
            ("methods.poisson_levels.weigh_rows", *LOOP),
        ),
        "exactness/test_poisson_levels.py::test_the_compiled_loop_steps_as_enumerated[lam=1]",
        slow=True,
    ),
    Mutant(
        "ranges that forget where the centre is",
        "the lower end of a range is taken for its middle",
        Edit(
            "bounds.ranges.table_of_ranges",
            "_rounded_up(np.maximum(-low, 0.0))",
            "_rounded_up(0.5 * (high - low))",
        ),
        "bounds/test_ranges.py::test_ranges_are_rounded_up_and_hold_the_centre",
    ),
    # The confidence sampler.
    Mutant(
        "the range left out of a confidence bound",
        "batches without a rare row decide",
        Edit("methods.confidence.half_width", "3.0 * reach", "0.0 * reach"),
        "methods/test_confidence.py"
        "::test_a_look_is_wrong_with_probability_delta_k_at_most[50-0.01]",
    ),
    Mutant(
        "every look at the level of the first",
        "the errors of all looks add up to more than delta",
        Edit("methods.confidence.level", "look**test.p", "2.0**test.p"),
        "methods/test_confidence.py::test_the_levels_of_all_looks_add_up_to_less_than_delta[2.0]",
    ),
    Mutant(
        "a new uniform number at every look of the confidence sampler",
        "the threshold of a sequential test moves",
        Edit(
            CONFIDENCE,
            "judge(log_ratio, width, uniform)",
            "judge(log_ratio, width, rng.random())",
            LOOP,
        ),
        "exactness/test_confidence.py"
        "::test_moves_are_accepted_as_often_as_the_enumeration_says[bounds]",
        slow=True,
    ),
    Mutant(
        "a scan that is not counted",
        "an update seems to read a batch",
        Edit(CONFIDENCE, "test.scans * total, FIRST_LOOK", "0, FIRST_LOOK", LOOP),
        "exactness/test_confidence.py::test_what_is_spent_of_delta_is_counted_look_by_look[scan]",
        slow=True,
    ),
    Mutant(
        "half of the range of a move",
        "a bound that is too narrow decides",
        Edit(
            "methods.confidence._known_before",
            "2.0 * m * test.largest[table]",
            "m * test.largest[table]",
            (CONFIDENCE, *LOOP),
        ),
        "exactness/test_confidence.py"
        "::test_moves_are_accepted_as_often_as_the_enumeration_says[bounds]",
        slow=True,
    ),
    Mutant(
        "looks at epsilon zero",
        "the exact baseline reads its rows batch by batch",
        Edit("methods.austere.plan", " if test.epsilon > 0.0 else total", ""),
        "methods/test_austere.py::test_at_epsilon_zero_all_rows_are_read_at_once[0]",
    ),
    Mutant(
        "limits that grow with the rows that were read",
        "the level of a look with another boundary",
        Edit("methods.austere.level", "0.5 - test.boundary", "test.boundary - 0.5"),
        "methods/test_austere.py::test_the_level_of_a_look_is_that_of_its_limit[0.75]",
    ),
    Mutant(
        "a test chosen for another uniform number",
        "the design of an update is not that of its threshold",
        Edit(
            "methods.austere.judge_by_chosen",
            "test.uniform, test",
            "uniform, test",
            (LOOKS, "methods.austere.decide_after_scan", *LOOP),
        ),
        "kernels/test_looking.py::test_the_test_of_an_update_is_chosen_for_its_own_uniform_number",
        slow=True,
    ),
    Mutant(
        "a scan of a design per update that is not counted",
        "the variant with a design per update looks cheap",
        Edit("methods.austere.decide_after_scan", "counts[entry.N_OBS] += total", "pass", LOOP),
        "kernels/test_looking.py::test_the_scan_of_a_design_per_update_is_counted",
        slow=True,
    ),
    Mutant(
        "rows with replacement in the dynamic programme",
        "error and use of a sequential test",
        Edit(
            "methods.tables.sequential.error_and_use",
            "shares[:-1] / (1.0 - shares[:-1])",
            "shares[:-1]",
        ),
        "methods/test_sequential.py::test_figures_to_three_digits",
    ),
    Mutant(
        "errors added up without their sign",
        "average designs of a sequential test",
        Edit(
            "methods.tables.tried_moves.TriedMoves.error_and_use_of",
            "-np.sign(gaps) * error",
            "-error",
        ),
        "methods/test_designs.py::test_errors_in_both_directions_cancel",
    ),
    Mutant(
        "the design with the most rows",
        "which of the tolerated tests is chosen",
        Edit("methods.tables.designs.best_design", "return min(", "return max("),
        "methods/test_designs.py::test_published_designs_are_found[0.1-13000-450]",
    ),
    Mutant(
        "density ratio of the proposal dropped in the kernel",
        "asymmetric proposals are not corrected for",
        Edit("kernels.run._update", " + log_q", "", LOOP[1:]),
        f"{UPDATE}[penalty]",
        slow=True,
    ),
    Mutant(
        "prior of an earlier position",
        "the prior part does not follow an accepted move",
        Edit(
            "kernels.run._update", "return prior_there, True", "return prior_here, True", LOOP[1:]
        ),
        "kernels/test_run.py::test_several_updates_in_one_call_are_as_many_calls",
        slow=True,
    ),
    Mutant(
        "whitened coordinates of an earlier position",
        "M of a move does not follow an accepted one",
        Edit("kernels.run._update", "copy_to(move.here, move.there)\n", "pass\n", LOOP[1:]),
        "kernels/test_poisson.py::test_pairs_that_all_rows_decide_are_exact[radius-best]",
        slow=True,
    ),
    # Proposals.
    Mutant(
        "ratio of a conditional Laplace move inverted",
        "moves of some coordinates leave another law invariant",
        Edit(PROPOSE, "log_q += 0.5", "log_q -= 0.5"),
        "proposals/test_mixture.py::test_moves_of_some_coordinates_leave_the_target_invariant"
        "[proposal1-1]",
    ),
    Mutant(
        "conditional Laplace move without its conditional mean",
        "the other coordinates are taken to be at the centre",
        Edit(
            PROPOSE,
            "inner_of_line(factor, i, white, 0, i + 1)",
            "inner_of_line(factor, i, white, first, i + 1)",
        ),
        "proposals/test_mixture.py::test_conditional_moves_have_the_conditional_mean_and_covariance"
        "[0.0-1]",
    ),
    Mutant(
        "random walk always of the posterior's shape",
        "a covariance of one's own is passed over",
        Edit("proposals.walk.walk", "if numbers.shape == LAPLACE else", "if True else"),
        "proposals/test_walk.py::test_steps_have_the_covariance_that_was_asked_for[given-0]",
    ),
    # Bounds.
    Mutant(
        "a condition called something else",
        "who has a change point is not told of a smooth one",
        Edit("bounds.diagnose._is_condition", "isinstance(culprit.op, conditions)", "False"),
        "bounds/test_tables.py::test_a_step_of_the_model_is_refused_with_a_smooth_one",
    ),
    Mutant(
        "bounds × 0.75",
        "rows exceed their bounds",
        Edit("bounds.bounds_pass._rounded_up", "np.asarray(c,", "np.asarray(0.75 * c,"),
        "bounds/test_certified.py::test_no_row_exceeds_its_bound[bernoulli_logit-2]",
    ),
    Mutant(
        "β missing from c_i",
        "bounds of a posterior at another temperature",
        Edit("bounds.remainder.directional", "inverse_temperature * total", "total"),
        "bounds/test_remainder.py::test_sums_over_directions[2-2]",
    ),
    Mutant(
        "c_i rounded inward",
        "a bound stored in float32 is below the derived one",
        Edit("bounds.bounds_pass._rounded_up", "np.float32(np.inf)", "np.float32(-np.inf)"),
        "bounds/test_tables.py::test_bounds_are_rounded_up[bernoulli_logit]",
    ),
    Mutant(
        "directed rounding dropped",
        "a lower end is the rounded result",
        Edit(
            "kernels.intervals._below",
            "low = least - (abs(least) * RELATIVE + slack)",
            "low = least",
            callers=("kernels.intervals.add",),
        ),
        "bounds/test_interval.py::test_arithmetic_holds_exact_results[add]",
    ),
    Mutant(
        "upper ends rounded inward",
        "a product lies outside its enclosure",
        Edit(
            "kernels.intervals._above",
            "high = most + (abs(most)",
            "high = most - (abs(most)",
            callers=("kernels.intervals._product", "kernels.intervals.multiply"),
        ),
        "bounds/test_interval.py::test_arithmetic_holds_exact_results[mul]",
    ),
    Mutant(
        "a transformed interval counted from its larger end",
        "digits near the smaller end of an interval are lost",
        Edit("model.row.arithmetic._with_mirror", "abs(m) <= abs(k)", "abs(m) > abs(k)"),
        "model/row/test_simplify.py::test_an_interval_keeps_its_digits_where_it_is_near_zero"
        "[-1000000000.0-0.001]",
    ),
    Mutant(
        "the ends of a transformed interval added",
        "an interval is wider than it is",
        Edit("model.row.arithmetic._with_mirror", "(high, -low)", "(high, low)"),
        "bounds/test_ranges.py::"
        "test_an_interval_that_is_transformed_has_the_range_of_one_that_is_not[0.45-0.55]",
    ),
    Mutant(
        "a rule with a wrong derivative",
        "the third derivative of softplus",
        Edit("bounds.rules.logistic._sigmoid_values", "1.0 - 6.0 * slope", "1.0 - 4.0 * slope"),
        "bounds/test_rules.py::test_enclosures_of_points_hold_the_exact_values[sigmoid]",
    ),
    Mutant(
        "mixed derivatives counted once",
        "∂³f/∂u₁∂u₁∂u₂ stands for three ordered triples",
        Edit("bounds.remainder.ways", "factorial(len(index)) // prod", "1 // prod"),
        "bounds/test_remainder.py::test_ways_to_order_an_index",
    ),
    Mutant(
        "the largest value on a grid taken for the maximum",
        "c̃_i of two arguments is too small between the angles",
        Edit(
            "bounds.remainder._largest_of_two",
            " / np.cos(degree * (angles[1] - angles[0]) / 2.0)",
            "",
        ),
        "bounds/test_remainder.py::test_joint_bounds_of_two_arguments_are_close_to_the_maximum[2]",
    ),
    Mutant(
        "correlations of arguments underestimated",
        "c̃_i of arguments that move together",
        Edit("bounds.geometry.Geometry.correlation_norm", "1.0 + pairs", "1.0 + 0.9 * pairs"),
        "bounds/test_geometry.py::test_correlations_are_not_underestimated[2-2]",
    ),
    Mutant(
        "a quarter of the squared range taken for a fifth",
        "the variance of two exponents, each of one half",
        Edit("bounds.moments.moments", "0.25 * widest**2", "0.2 * widest**2"),
        "bounds/test_log_sums.py::test_moments_are_bounded_and_closely[inf]",
    ),
    Mutant(
        "third moments of exponents underestimated",
        "rows of two exponents exceed their bounds where one is rare",
        Edit("bounds.moments.moments", "LARGEST_THIRD * widest**3", "0.09 * widest**3"),
        "bounds/test_log_sums.py::test_moments_are_bounded_and_closely[inf]",
    ),
    Mutant(
        "shares of the centre taken for those of the region",
        "rows exceed their bounds where a rare class becomes frequent",
        Edit("bounds.moments.Exponents.largest_shares", " - radius * distances", ""),
        "bounds/test_log_sums.py::test_moments_are_bounded_and_closely[0.5]",
    ),
    Mutant(
        "gradients of exponents taken to stay",
        "moments of exponents that are no linear functions are too small",
        Edit(
            "bounds.moments.Exponents.distances",
            "result += self.turns[:, :, None] + self.turns[:, None, :]",
            "self.turns[:] = 0.0",
        ),
        "bounds/test_log_sums.py::test_curved_exponents_are_bounded",
    ),
    Mutant(
        "a class left out of a softmax",
        "the first of the exponents, which is taken out of the others",
        Edit("model.row.log_sums.exponents", "return [(), *raised]", "return raised"),
        "bounds/test_log_sums.py::"
        "test_parts_add_up_to_the_log_likelihood_but_for_what_is_linear[four_classes]",
    ),
    Mutant(
        "how exponents differ left out of a mixture",
        "third derivatives of a mixture are too small",
        Edit("bounds.log_sums.mixture_bounds", "found.third + between + mean(", "mean("),
        "bounds/test_log_sums.py::"
        "test_third_derivatives_at_the_centre_are_bounded_and_closely[normal_mixture]",
    ),
    Mutant(
        "a multinomial of one trial",
        "rows of several trials exceed their bounds",
        Edit("bounds.log_sums.log_sum_bounds", "np.abs(_value(log_sum.factor, data)[0])", "1.0"),
        "bounds/test_log_sums.py::test_no_row_exceeds_its_bound[counts-2]",
    ),
    Mutant(
        "M rounded by direction",
        "a move and its return have different sizes",
        Edit("kernels.moves._ordered", "if not swap:", "if True:", (SIZE,)),
        "kernels/test_moves.py::test_sizes_are_symmetric_bit_by_bit[2-2]",
    ),
    Mutant(
        "skewness corrected for with the wrong sign",
        "the error of skewed batches is doubled",
        Edit(
            "methods.barker.skew_shift",
            "return (2.0 - f) * skewness",
            "return (f - 2.0) * skewness",
            ("methods.barker.judge",),
        ),
        "methods/test_skew.py::test_the_correction_lowers_the_error_of_skewed_batches",
    ),
    # Moves that drift or turn.
    Mutant(
        "another batch for the way back",
        "a move whose density depends on rows of one direction",
        Edit(
            "proposals.langevin.propose_langevin",
            "    _whitened_rise(own, posterior, rows, move.new",
            "    rows = draw_batch(rng, own.batch_size, own.derivatives, posterior)\n"
            "    _whitened_rise(own, posterior, rows, move.new",
        ),
        "proposals/test_langevin.py::"
        "test_density_ratio_is_that_of_one_batch_both_ways[laplace-7-0]",
        slow=True,
    ),
    Mutant(
        "a drift that is not turned back by the preconditioner",
        "the density of a preconditioned move",
        Edit(
            "proposals.langevin._whitened_rise",
            "surrogate.factor[i, j] * gradient[i]",
            "surrogate.factor[j, i] * gradient[i]",
            ("proposals.langevin.propose_langevin",),
        ),
        "proposals/test_langevin.py::"
        "test_density_ratio_is_that_of_one_batch_both_ways[laplace-0-0]",
        slow=True,
    ),
    Mutant(
        "the prior part left out of the drift",
        "a move that does not see the prior",
        Edit(
            "kernels.drift.rise",
            "out[i] += slope",
            "out[i] += 0.0",
            ("proposals.langevin._whitened_rise", "proposals.langevin.propose_langevin"),
        ),
        "proposals/test_langevin.py::"
        "test_density_ratio_is_that_of_one_batch_both_ways[identity-7-0]",
        slow=True,
    ),
    Mutant(
        "rows of a proposal that are not counted",
        "a Langevin step seems to read hardly any row",
        Edit("proposals.langevin.Langevin.rows_read", "2 * (", "0 * ("),
        "proposals/test_langevin.py::test_half_of_the_rows_stand_for_all",
    ),
    Mutant(
        "a turn that only goes one way",
        "a walk that is not symmetric",
        Edit(
            "proposals.stiefel.propose_rotation",
            "own.scale * rng.standard_normal()",
            "own.scale * abs(rng.standard_normal())",
        ),
        "proposals/test_stiefel.py::test_steps_and_their_reverse_are_equally_likely",
        slow=True,
    ),
    Mutant(
        "rounding errors of turns that add up",
        "a chain leaves the manifold",
        Edit(
            "proposals.stiefel._polished",
            "return -0.5 * np.dot(vectors, products)",
            "return vectors + 0.0 * np.dot(vectors, products)",
            ("proposals.stiefel.propose_rotation",),
        ),
        "proposals/test_stiefel.py::test_a_walk_stays_on_the_manifold_to_rounding[shape0]",
        slow=True,
    ),
    Mutant(
        "a start off the manifold that is projected",
        "a chain moves where there is no density",
        Edit(
            "proposals.stiefel._orthonormal",
            "return False",
            "return True",
            ("proposals.stiefel.propose_rotation",),
        ),
        "proposals/test_stiefel.py::test_a_position_off_the_manifold_goes_nowhere",
        slow=True,
    ),
    # Reading the model.
    Mutant(
        "an axis recognised by its length",
        "as many columns as rows are taken for rows",
        Edit(
            "model.reading.axis._dimshuffle",
            "op.new_order[axis]",
            "list(node.inputs[0].type.shape).index(node.outputs[0].type.shape[axis])",
        ),
        "model/reading/test_axis.py::test_rebuilt_operations_hold_the_same_rows"
        "[triangular solution of columns]",
    ),
    Mutant(
        "weights added instead of multiplied",
        "the log-likelihood of weighted rows",
        Edit("model.reading.weights._weigh", "term.logp * batch", "term.logp + batch"),
        "weights/test_weights.py::test_rows_are_multiplied_by_their_weights[int8]",
    ),
    Mutant(
        "weights that do not scale bounds",
        "rows of weight above one exceed their bounds",
        Edit(
            "model.row.values.RowData._value",
            "column = self.function.columns[cell.column]\n",
            "column = self.function.columns[cell.column]\n"
            "        if column.name.startswith('weights of'):\n"
            "            return np.ones(self.rows.size)\n",
        ),
        "weights/test_bounds.py::test_bounds_of_weighted_rows_are_bounds_times_weights[2]",
    ),
    # What a step belongs to.
    Mutant(
        "digests without the sum of words",
        "one number that changed can go unnoticed",
        Edit("data.contents._of_block", "total % 2**64", "0"),
        "data/test_contents.py::test_a_number_that_the_check_alone_would_miss_is_told",
    ),
    Mutant(
        "digests of the first rows of each block",
        "data that changed go unnoticed",
        Edit("data.contents._blocks", "first : first + step]", "first : first + 9]"),
        "data/test_contents.py::test_a_single_number_that_changed_is_told[140000-float64]",
    ),
    Mutant(
        "shared variables watched alone",
        "arrays that were edited in place go unnoticed",
        Edit(
            "model.reading.model_arrays.ModelArrays.add",
            "Constant | SharedVariable",
            "SharedVariable",
        ),
        "model/reading/test_model_arrays.py::test_an_array_is_found_in[a prior]",
    ),
    Mutant(
        "what users' functions compute with is not watched",
        "shared variables of a CustomDist go unnoticed",
        Edit(
            "model.reading.split.split", 'arrays.add([prior, *free.values()], "the prior part")', ""
        ),
        "model/reading/test_model_arrays.py::"
        "test_an_array_is_found_in[a shared variable in a log-density]",
    ),
    Mutant(
        "a key without the order",
        "the state of a step of another order is taken",
        Edit("preparation.file.key_of_expansion", '"taylor_order": str(target.taylor_order),', ""),
        "step/test_prepared.py::test_a_key_tells_order_and_temperature",
    ),
    # Coordinates.
    Mutant(
        "Jacobian left out",
        "draws of a hierarchy are those of another posterior",
        Edit(
            "model.reading.coordinates.in_coordinates",
            "prior + coordinates.log_jacobian(position)",
            "prior",
        ),
        "model/row/test_scaled.py::test_the_parts_add_up_to_the_model[nested]",
    ),
    Mutant(
        "Jacobian of one group",
        "the scale of a hierarchy is drawn from another density",
        Edit("model.reading.maps.Scaled.log_jacobian", "len(self.places) *", "1.0 *"),
        "model/row/test_scaled.py::test_the_parts_add_up_to_the_model[ridge]",
    ),
    Mutant(
        "location left on the way back",
        "draws of a non-centred variable are off by the location",
        Edit(
            "model.reading.maps.Scaled.set_values",
            "positions[:, places] - _shift(positions.T, location)",
            "positions[:, places]",
        ),
        "model/row/test_scaled.py::test_the_map_is_one_to_one[a potential]",
    ),
    Mutant(
        "Jacobian of a simplex without its coefficient",
        "the coefficient of a monotonic effect is drawn from another density",
        Edit("model.reading.maps.Product.log_jacobian", "pt.log(pt.sum(t)) - np.log", "-np.log"),
        "model/row/test_products.py::test_the_prior_of_effects_is_the_one_worked_out_by_hand",
    ),
    Mutant(
        "a coefficient of the other sign",
        "draws of a coefficient are mirrored",
        Edit(
            "model.reading.maps.Product.set_values",
            "self.sign * t.sum(axis=1)",
            "t.sum(axis=1)",
        ),
        "model/row/test_products.py::test_the_map_is_one_to_one[weighted--1.0]",
    ),
    Mutant(
        "what a sum cancels left out",
        "rows of monotonic effects are those of another model",
        Edit(
            "model.row.shares.cancelled",
            "[*rest, cells.constant(found[1] / known[1])]",
            "rest",
        ),
        "model/row/test_products.py::test_rows_have_their_density[weighted--1.0]",
    ),
    Mutant(
        "margin between signs",
        "a sign that data do not tell is taken for certain",
        Edit("preparation.products._Search._stands_against", "margin >= MARGIN", "margin >= 0.0"),
        "preparation/test_products.py::test_a_sign_that_data_do_not_tell_is_not_fixed[0.1]",
        slow=True,
    ),
    Mutant(
        "a scale of either sign",
        "two points of the model share one position",
        Edit(
            "model.row.scaled._Plan.positive",
            "all(factor.positive for row in self.rows for factor in row[-1])",
            "True",
        ),
        "model/row/test_scaled.py::test_what_stands_against_a_map_is_named[of either sign]",
    ),
    Mutant(
        "a scale of another step",
        "what another step moves changes what this one holds still",
        Edit(
            "model.row.scaled._Search._require_valid",
            "min(plan.depends_on) < self._split.first",
            "False",
        ),
        "model/row/test_scaled.py::test_a_scale_that_another_step_moves_is_named",
    ),
    Mutant(
        "products of affine sums that are not brought together",
        "effects that sum to zero stay products with their scale",
        Edit(
            "model.row.arithmetic._collected",
            "affines.setdefault(tuple(rest), []).append(own)",
            "kept.append(part)",
            ("model.row.arithmetic.add",),
        ),
        "model/row/test_scaled.py::test_every_spelling_is_found[sum of zero]",
    ),
    Mutant(
        "one entry of a scale for all that data choose",
        "effects are divided by the scale of another group",
        Edit(
            "model.row.meetings._chosen_place",
            "place.first + place.step * entry",
            "place.first",
            ("model.row.meetings._expression",),
        ),
        "model/row/test_scaled.py::test_every_spelling_is_found[scale of each]",
    ),
    Mutant(
        "scales that a file forgets",
        "the centre of a hierarchy is called a joint mode",
        Edit(
            "preparation.file.write",
            "np.array(prepared.marginal, dtype=np.int64)",
            "np.array((), dtype=np.int64)",
        ),
        "step/test_prepared.py::test_what_a_centre_is_sought_by_is_saved",
        slow=True,
    ),
    # Moves without rows.
    Mutant(
        "starts at the location that are kept",
        "the scale of a hierarchy runs to zero and stays there",
        Edit("chain.starts.runs_away", "not _distance_after(prepared, position) < FAR", "False"),
        "chain/test_starts_without_rows.py::test_no_chain_runs_away[centred]",
        slow=True,
    ),
    Mutant(
        "a scale that does not wait for its effects",
        "it runs to zero before another step has moved them",
        Edit("chain.starts.begin", "if first > 0:", "if False:"),
        "chain/test_starts_without_rows.py::test_a_chain_that_waits_makes_no_update_and_says_so",
        slow=True,
    ),
    Mutant(
        "a chain that goes on as soon as anything has moved",
        "the scale of effects of which some are still at their location",
        Edit(
            "chain.starts._wait",
            "moved.any() and not runs_away(chain.prepared, chain.position)",
            "moved.any()",
        ),
        "chain/test_starts_without_rows.py"
        "::test_a_chain_goes_on_when_all_that_it_waits_for_has_moved",
        slow=True,
    ),
    Mutant(
        "scales that are looked at one by one",
        "effects that share a scale stay products of parameters",
        Edit(
            "model.row.scaled._mapped_together",
            "for search in searches for plan in plans[search]]",
            "for search in searches[:1] for plan in plans[search]]",
        ),
        "model/row/test_scaled.py::test_every_spelling_is_found[shared scale]",
    ),
    Mutant(
        "a stale prior part after a move without rows",
        "the next update weighs a position that the chain has left",
        Edit("kernels.run.run", "prior_here = _without_rows(", "_without_rows("),
        f"{SLICES}::test_updates_go_on_from_where_moves_without_rows_end",
        slow=True,
    ),
    Mutant(
        "a stale whitened position after a move without rows",
        "proposals and bounds of the next update",
        Edit(
            "kernels.run._without_rows",
            "whiten(posterior.surrogate.whitener, move.position",
            "whiten(0.0 * posterior.surrogate.whitener, move.position",
            ("kernels.run.run",),
        ),
        f"{SLICES}::test_updates_go_on_from_where_moves_without_rows_end",
        slow=True,
    ),
    Mutant(
        "a slice at a fixed depth",
        "the law of a scale",
        Edit("kernels.slices.move_by_slice", "np.log1p(-rng.random())", "np.log(0.5)"),
        f"{SLICES}::test_a_slice_is_reversible[log scale]",
    ),
    Mutant(
        "a slice below half of the density's logarithm",
        "the law of a scale",
        Edit(
            "kernels.slices.move_by_slice",
            "np.log1p(-rng.random())",
            "0.5 * np.log1p(-rng.random())",
        ),
        f"{SLICES}::test_a_slice_is_reversible[log scale]",
    ),
    Mutant(
        "all steps of a slice to the left first",
        "reversibility where the limit of steps is met",
        Edit("kernels.slices.move_by_slice", "int(MOST_STEPS * rng.random())", "MOST_STEPS - 1"),
        f"{SLICES}::test_a_slice_is_reversible[normal]",
    ),
    Mutant(
        "steps of a slice that begin where it starts",
        "reversibility",
        Edit("kernels.slices.move_by_slice", "low = -rng.random()", "low = 0.0"),
        f"{SLICES}::test_a_slice_is_reversible[normal]",
    ),
    Mutant(
        "a density that is infinite inside of a slice",
        "a chain that never leaves again",
        Edit(
            "kernels.slices._inside",
            "level <= value < np.inf",
            "not value < level",
            ("kernels.slices.move_by_slice",),
        ),
        f"{SLICES}::test_a_slice_is_reversible[half line]",
    ),
    Mutant(
        "the first direction whenever moves are fewer",
        "the others never move",
        Edit(
            "kernels.slices.move_without_rows",
            "rng.integers(0, n)",
            "0",
            ("kernels.run._without_rows", "kernels.run.run"),
        ),
        f"{SLICES}::test_directions_have_an_equal_share_of_fewer_moves",
        slow=True,
    ),
    Mutant(
        "effects of a group apart from the others",
        "rows change in moves that read none",
        Edit(
            "model.compiled.unread._Classes.join_gathers",
            "self._above[other] = first = one",
            "pass",
        ),
        f"{UNREAD}::test_directions_are_those_that_change_no_row[crossed]",
    ),
    Mutant(
        "coordinates of other steps moved",
        "Gibbs turns of two steps",
        Edit("model.compiled.unread.unread_directions", "range(split.first)", "range(0)"),
        f"{UNREAD}::test_what_other_steps_move_stays",
    ),
    Mutant(
        "small coefficients taken for rounding",
        "rows change in moves that read none",
        Edit(
            "model.compiled.unread._solutions",
            "<= ROUNDED * (np.abs(matrix) @ np.abs(solution))",
            "<= 1e-9 * np.abs(matrix).max()",
        ),
        f"{UNREAD}::test_directions_are_those_that_change_no_row[small and different]",
    ),
    Mutant(
        "a graph of the whole position read in pieces",
        "rows change in moves that read none",
        Edit("model.compiled.unread._pieces", "piece = slice(None)", "piece = slice(0)"),
        f"{UNREAD}::test_a_graph_that_takes_the_whole_position_reads_all_of_it",
    ),
    # Shapes near infinity.
    Mutant(
        "share above zero not corrected for",
        "moves that end at zero leave another law invariant",
        Edit(
            "proposals.bordered.propose_above_zero",
            "log_q += log_share_above(low) - log_share_above(-(behind + back) / scale)",
            "log_q += 0.0",
        ),
        "proposals/test_bordered.py::test_density_ratio_is_that_of_the_truncated_densities[0.0-0]",
        slow=True,
    ),
    Mutant(
        "effects tabled at one scale only",
        "moves to other scales bring effects that do not belong to them",
        Edit(
            "expansion.by_scales._Axes._knots",
            "self.best.position[self.marginal.scales] + away",
            "self.best.position[self.marginal.scales] + 0.0 * away",
        ),
        "proposals/test_by_scales_of_models.py::"
        "test_draws_are_those_of_the_posterior_where_effects_are_normal",
        slow=True,
    ),
    Mutant(
        "slopes of scales left out of the density",
        "scales are drawn by one density and corrected for by another",
        Edit(
            "kernels.by_scales.place_by_scales",
            "log_volume -= log_slope",
            "log_volume -= 0.0",
        ),
        BY_SCALES + "test_volume_is_that_of_differences[1.5]",
        slow=True,
    ),
    Mutant(
        "volume of the effects left out of the density",
        "scales prefer values at which the effects of groups have room",
        Edit(
            "kernels.by_scales._set_up",
            "log_volume += whitener[diagonal]",
            "log_volume += 0.0",
            ("kernels.by_scales.whiten_by_scales", "kernels.by_scales.place_by_scales"),
        ),
        BY_SCALES + "test_volume_is_that_of_differences[1.5]",
        slow=True,
    ),
    Mutant(
        "effects whitened at the middle of the scales",
        "the density of effects is that given other scales",
        Edit(
            "kernels.by_scales.whiten_by_scales",
            "log_volume += _set_up(tables, points, mean, whitener)",
            "log_volume += _set_up(tables, 0.0 * points, mean, whitener)",
        ),
        BY_SCALES + "test_map_is_inverted[1.5]",
        slow=True,
    ),
    Mutant(
        "Jacobian of moves by scales missing where they end",
        "moves of hierarchies leave another law invariant",
        Edit(
            "proposals.by_scales.propose_by_scales",
            "log_q -= place_by_scales(",
            "log_q -= 0.0 * place_by_scales(",
        ),
        BY_SCALES + "test_density_ratio_is_that_of_the_moves[0.95]",
        slow=True,
    ),
    Mutant(
        "density of a bold move taken for that of a walk",
        "moves of hierarchies leave another law invariant",
        Edit(
            "proposals.by_scales.propose_by_scales",
            "log_q += 0.5 * (white[i] * white[i] - here[i] * here[i])",
            "log_q += 0.0",
        ),
        BY_SCALES + "test_density_ratio_is_that_of_the_moves[0.0]",
        slow=True,
    ),
    Mutant(
        "Jacobian of a reciprocal for its root",
        "the prior of a shape is another one",
        Edit(
            "model.reading.maps.Reciprocal.log_jacobian",
            "pt.sum(self._logs(position)) / self.power",
            "pt.sum(self._logs(position))",
        ),
        "model/reading/test_reciprocals.py::test_graph_and_jacobian_are_those_of_the_map[counts-2]",
    ),
    Mutant(
        "Jacobian of draws of a reciprocal",
        "the parts are not those of the model",
        Edit(
            "model.reading.maps.Reciprocal.log_jacobians",
            "logs = self._logs(positions) / self.power",
            "logs = self._logs(positions)",
        ),
        "model/reading/test_reciprocals.py::test_graph_and_jacobian_are_those_of_the_map[counts-2]",
    ),
    Mutant(
        "a third derivative of logarithms without its factor",
        "bounds of counts are half as large as they must be",
        Edit("bounds.rules.rise._of_logarithm", "np.arange(1, n)", "np.ones(n)"),
        "bounds/test_rise.py::test_sums_of_logarithms_are_enclosed_tightly[False]",
    ),
    Mutant(
        "means left out of products with reciprocals",
        "rows in reciprocals are those of another model",
        Edit(
            "model.row.shapes._Reciprocals._sized",
            "multiply(self._cells, raised, exp(self._cells, rest))",
            "raised",
        ),
        "model/row/test_reciprocals.py::test_counts_have_their_density[0.4-1]",
    ),
    Mutant(
        "trust region beyond zero",
        "reciprocals of shapes have no bounds",
        Edit("bounds.geometry.within_support", "np.clip(box.lo, low, high)", "box.lo"),
        "preparation/test_shapes.py::test_a_shape_that_may_be_infinite_is_moved_by_its_reciprocal"
        "[counts that are Poisson]",
        slow=True,
    ),
    Mutant(
        "coordinates that are worse",
        "an update reads more rows than it has to",
        Edit("preparation.shapes.with_best_shapes", "np.argmin(costs)", "np.argmax(costs)"),
        "preparation/test_shapes.py::test_a_shape_that_may_be_infinite_is_moved_by_its_reciprocal"
        "[counts that are Poisson]",
        slow=True,
    ),
    # What a chain keeps.
    Mutant(
        "adaptation left on after warm-up",
        "the kernel follows its own past",
        Edit("chain.chain.Chain.stop_adapting", "self._state.adapting = False", "pass"),
        "conformance/test_state.py::test_nothing_adapts_after_warm_up",
    ),
    Mutant(
        "bounds of the last temperature in a schedule",
        "a row exceeds its bound where it is colder",
        Edit(
            "kernels.bound_tables.smallest_table",
            "surrogate.relative * best_m",
            "best_m",
            ("kernels.bound_tables.table_of_move",),
        ),
        "chain/test_schedule.py::test_bounds_and_noise_are_those_of_the_temperature",
        slow=True,
    ),
    Mutant(
        "noise predicted for the last temperature in a schedule",
        "batches are not as large as the noise asks for",
        Edit(
            "kernels.looks.predicted_noise",
            "surrogate.relative * size_of_move",
            "size_of_move",
            ("kernels.looks.unit_noise",),
        ),
        "chain/test_schedule.py::test_bounds_and_noise_are_those_of_the_temperature",
        slow=True,
    ),
    Mutant(
        "tallies of all temperatures of a schedule",
        "what is learned at one temperature sets moves at another",
        Edit("chain.warmup.keep_books", "_forget(chain)", "pass"),
        "chain/test_schedule.py::test_what_was_learned_at_another_temperature_is_forgotten[TunaMH]",
    ),
    Mutant(
        "a chain linked before the temperature changed",
        "the first temperature holds for ever",
        Edit("chain.warmup._forget", "chain.change(", "(lambda **_: None)("),
        "chain/test_schedule.py::test_a_chain_is_cut_and_resumed_in_mid_schedule[150-TunaMH]",
    ),
    Mutant(
        "a state without the running tally",
        "a resumed chain adapts to something else",
        Edit(
            "chain.state.ChainState",
            "    __hash__ = None",
            "    def __getstate__(self):\n"
            "        return vars(self) | {'window': np.zeros_like(self.window)}\n\n"
            "    __hash__ = None",
        ),
        "conformance/test_state.py::test_restoring_a_state_repeats_the_draws",
    ),
    # The centre of a hierarchy.
    Mutant(
        "scales by the joint density",
        "a scale is sought where the joint density is highest",
        Edit(
            "expansion.marginal.Marginal.value_and_gradient",
            "given.value - given.log_volume",
            "given.value",
        ),
        "expansion/test_marginal.py::test_v_is_the_log_density_of_the_scale_for_normal_rows",
    ),
    Mutant(
        "curvature of the joint density",
        "the metric takes scales to be known better than they are",
        Edit(
            "expansion.marginal.Marginal.curvature_at",
            "return own + self._curvature_of_volume(given, ways)",
            "return own",
        ),
        "expansion/test_marginal.py::test_slopes_and_curvature_are_those_of_v[normal]",
    ),
    Mutant(
        "no response of the rest in the metric",
        "effects do not move with their scale",
        Edit("expansion.marginal.Marginal.precision", "-own @ response", "0.0 * own @ response"),
        "expansion/test_marginal.py"
        "::test_the_precision_is_that_of_scales_and_of_the_rest_given_them",
    ),
    Mutant(
        "every unread coordinate a scale",
        "normal locations are integrated over for nothing",
        Edit("expansion.scales._differ", "return bool(", "return True or bool("),
        "expansion/test_scales.py::test_scales_are_told_from_locations[0.0-normal]",
    ),
    Mutant(
        "slopes of one length",
        "a scale of kinks far from the start is taken for a location",
        Edit("expansion.scales._Probe.changes_slopes", "in LENGTHS", "in LENGTHS[:1]"),
        "expansion/test_scales.py::test_scales_are_told_from_locations[3.0-lasso]",
    ),
    # Rows that were drawn ahead.
    Mutant(
        "numbers of rows within their chunk",
        "rows that change most are taken for others of the first chunk",
        Edit("expansion.passes.Passes.moves", "chunk.first + changes.rows", "changes.rows"),
        f"{ELSEWHERE}::test_rows_that_change_most_are_those_of_this_process",
    ),
    Mutant(
        "rows left out of the first chunk only",
        "heavy rows of later chunks count twice",
        Edit("expansion.passes.Passes.moves", "left_out[inside] - chunk.first", "left_out[:1]"),
        f"{ELSEWHERE}::test_rows_that_are_left_out_do_not_count",
    ),
    Mutant(
        "candidates all kept",
        "stored rows are drawn by the largest bound of their block",
        Edit("bounds.blocks.KeptOf.of", "* self.largest < c", "* 0.0 < c"),
        f"{BLOCKS}::test_the_chance_of_every_row_is_its_share_of_the_bounds",
    ),
    Mutant(
        "blocks drawn evenly",
        "stored rows are drawn by their bounds within a block only",
        Edit(
            "bounds.blocks.BlockTables._tried",
            'np.searchsorted(upto, rng.random(count) * upto[-1], side="right")',
            "(rng.random(count) * upto.size).astype(np.int64)",
        ),
        f"{BLOCKS}::test_the_chance_of_every_row_is_its_share_of_the_bounds",
    ),
    Mutant(
        "bounds in the order of the file",
        "stored rows are kept by the bounds of others",
        Edit("bounds.blocks.BlockTables._kept", "largest[order]", "largest"),
        f"{BLOCKS}::test_the_chance_of_every_row_is_its_share_of_the_bounds",
    ),
    Mutant(
        "data in the order of the file",
        "stored rows come with the data of others",
        Edit("bounds.blocks.BlockTables._kept", "values[drawn], 0", "values, 0"),
        f"{BLOCKS}::test_what_is_drawn_comes_with_its_own_data_and_bound",
    ),
    Mutant(
        "largest bounds not checked",
        "data that have changed are drawn by bounds that do not hold",
        Edit("bounds.blocks.BlockTables._kept", "if read.exceeding >= 0:", "if False:"),
        f"{BLOCKS}::test_a_row_above_the_largest_is_not_the_one_that_was_bounded[3.5-0]",
    ),
    Mutant(
        "supplies of uneven bounds tried row by row",
        "a supply of few rows with uneven bounds reads all of them thousands of times",
        Edit("bounds.blocks.BlockTables.draw", "self.n_rows <= self.most_at_once", "False"),
        f"{BLOCKS}::test_all_rows_are_bounded_where_more_would_be_tried[200-True]",
    ),
    Mutant(
        "all rows bounded for a few draws",
        "a supply of even bounds bounds all rows where fewer would do",
        Edit("bounds.blocks.BlockTables.draw", "missing / share > self.n_rows", "True"),
        f"{BLOCKS}::test_all_rows_are_bounded_where_more_would_be_tried[2-False]",
    ),
    Mutant(
        "data of the first rows for those drawn of all",
        "rows drawn by uneven bounds come with the data of others",
        Edit("bounds.blocks.DrawnOf.of", "data.rows[drawn]", "data.rows[np.sort(drawn)]"),
        f"{BLOCKS}::test_rows_that_uneven_bounds_would_try_again_and_again_are_bounded_once",
    ),
    Mutant(
        "rows without bounds drawn at the end",
        "a row that no move can change is drawn with a bound of 0",
        Edit(
            "bounds.blocks.DrawnOf.of",
            "np.searchsorted(upto, upto[-1])",
            "upto.size - 1",
        ),
        f"{BLOCKS}::test_rows_without_a_bounds_worth_are_not_drawn_by_a_share_that_rounds_up",
    ),
    Mutant(
        "largest bounds not checked where all rows are bounded",
        "data that have changed are drawn by bounds that do not hold",
        Edit("bounds.blocks.BlockTables._drawn_of_all", "if read.exceeding >= 0:", "if False:"),
        f"{BLOCKS}::test_a_row_above_the_largest_is_not_the_one_that_was_bounded[3.5-15]",
    ),
    Mutant(
        "first row of a batch used twice",
        "rows that were drawn ahead are not independent",
        Edit("kernels.supply.take", "places[table, NEXT] += 1", "places[table, NEXT] += min(k, 1)"),
        f"{POOL}::test_rows_are_handed_out_as_they_were_drawn[0]",
    ),
    Mutant(
        "one half for all supplies",
        "rows of a batch are overwritten before they are read",
        Edit("chain.pool.Pool._put", "number % 2", "0"),
        f"{POOL}::test_a_batch_that_ends_in_the_next_supply_keeps_what_it_began_with",
    ),
    Mutant(
        "c of the first table",
        "rows that were drawn ahead are thinned by bounds of another table",
        Edit("chain.pool.Pool._put", "self.c[table, slots]", "self.c[0, slots]"),
        f"{POOL}::test_rows_are_handed_out_as_they_were_drawn[1]",
    ),
    Mutant(
        "a supply used again",
        "the same rows decide again and again",
        Edit("chain.pool.Pool._next", "first + ROOM, number + 1", "first + ROOM, number"),
        f"{POOL}::test_rows_are_handed_out_as_they_were_drawn[0]",
    ),
    Mutant(
        "supplies drawn by what was used",
        "which rows come next depends on where the chain is",
        Edit(
            "chain.pool.Pool._ahead",
            "table, number]",
            "table, number, int(self.supply.places.sum())]",
        ),
        f"{POOL}::test_rows_are_handed_out_as_they_were_drawn[0]",
    ),
    Mutant(
        "one stream for all tables",
        "moves of different length are decided by the same rows",
        Edit("chain.pool.Pool._ahead", "table, number]", "0, number]"),
        f"{POOL}::test_rows_of_different_tables_are_drawn_apart",
    ),
    Mutant(
        "supplies counted anew around another centre",
        "rows that warm-up learned from decide again",
        Edit("chain.pool.no_supplies", "before[:, NUMBER].max(initial=0)", "0"),
        f"{POOL}::test_supplies_around_another_centre_are_others",
    ),
    Mutant(
        "the next supply in the place of the last",
        "a chain that is taken up skips rows",
        Edit("chain.pool.Pool._restore", "int(number) - 1", "int(number)"),
        f"{POOL}::test_a_chain_that_is_taken_up_goes_on_with_the_same_rows[1000]",
    ),
    Mutant(
        "errors of a storage kept quiet",
        "a chain goes on without rows",
        Edit("chain.pool.Pool.require_served", "raise error", "return"),
        f"{POOL}::test_what_the_storage_raises_is_raised_once_and_rows_go_on_from_there[2]",
    ),
    Mutant(
        "an interrupt at any instruction",
        "an interrupt leaves a lock that nobody opens",
        Edit("threads.HeldBack.__enter__", "is main_thread()", "is None"),
        f"{THREADS}::test_what_handles_interrupts_is_called_at_the_end",
    ),
    Mutant(
        "interrupts held back for good",
        "an interrupt does not stop who waits for others",
        Edit("threads.HeldBack.let_through", "is not None", "is False"),
        f"{THREADS}::test_what_handles_interrupts_is_called_at_the_end",
    ),
    Mutant(
        "threads for all cores of the machine",
        "a process takes more memory than those that it may use need",
        Edit("threads.usable_cores", "sched_getaffinity", "no_such_function"),
        f"{THREADS}::test_threads_are_no_more_than_the_cores_that_may_be_used",
    ),
    Mutant(
        "rows of the first table for all",
        "rows are not drawn by the bounds that the test takes them for",
        Edit(
            "kernels.bound_tables.draw_rows",
            "take(tables.supply, table, rows)",
            "take(tables.supply, 0, rows)",
            THINNING,
        ),
        f"{SUPPLIES}::test_the_loop_decides_by_the_rows_that_come_next[best]",
        slow=True,
    ),
    Mutant(
        "change of all stored rows backwards",
        "pairs that all rows decide",
        Edit(
            "kernels.posterior.read_all",
            "return change_of_all",
            "return -change_of_all",
            ("methods.poisson._product_of_all", *THINNING),
        ),
        f"{SUPPLIES}::test_the_loop_decides_by_the_rows_that_come_next[MH-SS]",
        slow=True,
    ),
    Mutant(
        "a failed pass taken for no change",
        "a pair is decided by rows that could not be read",
        Edit("kernels.supply.change_of_all", "return np.nan", "return 0.0"),
        f"{POOL}::test_a_full_pass_gives_its_change_or_what_it_raises",
    ),
    Mutant(
        "a state with as many tables as the step",
        "chains that have moved their centre cannot be taken up",
        Edit("chain.state.ChainState.shapes", 'f.name != "supplies"', "True"),
        f"{STORED}::test_a_chain_around_another_centre_is_taken_up_with_other_tables",
    ),
    Mutant(
        "a row twice in a batch",
        "batches are drawn with replacement, and taken for others",
        Edit("kernels.even.take_new", "if insert(seen, supply.rows[place]):", "if True:"),
        f"{EVENLY}::test_a_batch_is_every_ordered_choice_equally_often[looks0]",
    ),
    Mutant(
        "the last row of a batch used again",
        "batches of successive updates share a row",
        Edit(
            "kernels.even.take_new",
            "first, table = n, supply.places[EVENLY]",
            "first, table = n, supply.places[EVENLY]; "
            "table[NEXT] -= (n == 0) * min(table[NEXT], 1)",
        ),
        f"{EVENLY}::test_batches_of_two_updates_are_drawn_apart",
    ),
    Mutant(
        "a row left out that the batch before has",
        "the same row hardly ever decides two updates in a row",
        Edit(
            "kernels.even.take_new",
            "if insert(seen, supply.rows[place]):",
            "if insert(seen, supply.rows[place]) and supply.rows[place - 1] != supply.rows[place]:",
        ),
        f"{EVENLY}::test_batches_of_two_updates_are_drawn_apart",
    ),
    Mutant(
        "rows passed over by where a move leads",
        "which rows a batch holds depends on the positions",
        Edit(
            "kernels.looks._look_at_more",
            "    n = moments[0]\n",
            "    n = moments[0]\n"
            "    table = posterior.tables.supply.places\n"
            "    if move.new[0] > move.position[0] and table[0, 0] < table[0, 1]:\n"
            "        table[0, 0] += 1\n",
            (LOOKS, *LOOP),
        ),
        f"{EVENLY}::test_the_loop_decides_by_the_rows_that_come_next[penalty-none]",
        slow=True,
    ),
    Mutant(
        "a part of a batch without a new row counted",
        "moments of no row, which are no numbers",
        Edit("kernels.looks._look_at_more", "if new > 0:", "if True:", (LOOKS, *LOOP)),
        f"{EVENLY}::test_the_loop_decides_by_the_rows_that_come_next[penalty-none]",
        slow=True,
    ),
    Mutant(
        "a batch that could not be read decides",
        "moves are accepted by the rows that were left when the storage failed",
        Edit(LOOKS, "if supply.unanswered[0]:", "if False:", LOOP),
        f"{IN_STEPS}::test_what_a_storage_raises_reaches_the_user_and_the_chain_goes_on[penalty]",
        slow=True,
    ),
    Mutant(
        "full passes of batches not forecast",
        "sampling that reads all stored rows again and again begins",
        Edit("kernels.looks.full_passes_of", "passes += target >= limit", "passes += 0"),
        f"{IN_STEPS}::test_full_passes_that_are_forecast_are_refused[penalty]",
        slow=True,
    ),
    Mutant(
        "a row that every update reads drawn as well",
        "it counts twice, and another row never",
        Edit("data.drawn.EvenRows.draw", 'side="right"', 'side="left"'),
        f"{EVENLY}::test_every_other_row_is_drawn_as_often[some]",
    ),
    Mutant(
        "stored rows in the order of their numbers",
        "batches are of other rows than those that their numbers say",
        Edit("data.drawn.EvenRows.draw", "column.values[places]", "column.values"),
        f"{EVENLY}::test_every_other_row_is_drawn_as_often[none]",
    ),
    Mutant(
        "rows kept by the largest bounds of their blocks",
        "the posterior of stored rows",
        Edit("bounds.blocks.KeptOf.of", "* self.largest < c", "* 0.5 * self.largest < c"),
        f"{STORED}::test_posterior_is_that_of_quadrature",
        slow=True,
    ),
    Mutant(
        "updates without rows",
        "a chain goes on by the cheap part alone after a pass that has failed",
        Edit(
            "kernels.run._update",
            "verdict < 0.0 or lacks_rows(posterior)",
            "verdict < 0.0",
            LOOP[1:],
        ),
        f"{STORED}::test_no_update_follows_a_pass_that_has_failed",
        slow=True,
    ),
    # Rows that arrive.
    Mutant(
        "new rows not held against their bounds",
        "a wrong bound of a row that has arrived is found by chance, in some chain",
        Edit("preparation.appended._violation", "np.concatenate([old, rows])", "old"),
        f"{APPENDED}::test_a_new_row_above_its_bound_is_found",
    ),
    Mutant(
        "violation of an old row forgotten",
        "draws are called exact that are not",
        Edit("preparation.appended._violation", "found.violation !=", "False and '' !="),
        f"{APPENDED}::test_what_old_rows_had_against_their_bounds_is_kept",
    ),
    Mutant(
        "all rows audited again",
        "rows that arrive cost as much as all rows",
        Edit(
            "preparation.appended._violation",
            "(PREPARATION_SEED, np.concatenate([old, rows]))",
            "(PREPARATION_SEED)",
        ),
        f"{APPENDED}::test_few_old_rows_are_read",
    ),
    Mutant(
        "new rows not asked at the start",
        "a row that has no likelihood is not named",
        Edit("preparation.appended.appended", "first=min(n_before", "first=min(0"),
        f"{APPENDED}::test_a_new_row_that_is_not_finite_is_named_at_once[502]",
    ),
    Mutant(
        "sums of a row without likelihood added",
        "sums that are no numbers, or lack a row",
        Edit("preparation.appended.appended", "if not np.isfinite(new.value)", "if False"),
        f"{APPENDED}::test_a_new_row_without_likelihood_at_the_old_centre_has_all_found_anew",
    ),
    Mutant(
        "only the last rows counted as new",
        "proposals are made around a centre that is far off, and updates read more rows",
        Edit("preparation.appended.appended", "before.sought or Sought", "Sought"),
        f"{APPENDED}::test_a_mode_that_moves_far_in_small_parts_has_all_found_anew",
    ),
    Mutant(
        "unbounded moves not counted as full passes",
        "a model is sampled of which updates read all stored rows",
        Edit("kernels.bound_tables.sizes_between", "else np.inf", "else 0.0"),
        "preparation/test_forecast.py::test_sizes_are_those_of_moves_one_by_one",
    ),
]
