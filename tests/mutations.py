"""Mistakes that must not go unnoticed: each is made in a copy of the code, and a named test must then fail.

    python -m tests.mutations            # all of them, one after the other
    python -m tests.mutations NAME ...   # some

Prints for each whether it was killed, and ends with status 1 if one survived. Each names the fewest tests that have to
notice it; the whole suite would only take longer. That each text still stands in its file, once, is checked by
`test_mutations.py` in every run of the suite.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What a copy of the code consists of.
COPIED = (
    "benchmarks",
    "dpweb",
    "releases",
    "templates",
    "tests",
    "docs",
    "manage.py",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)
#: A test that takes longer has not failed.
_MAX_SECONDS = 600.0
#: pytest's exit status where tests ran and some failed; any other says that nothing was shown.
_TESTS_FAILED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutation:
    """One mistake.

    Attributes:
        name: as on the command line.
        file: where it is made.
        text: stands there exactly once.
        instead: what stands there then.
        test: what must fail, as pytest names it.
    """

    name: str
    file: str
    text: str
    instead: str
    test: str


#: Each mistake: its name and file, what stands there exactly once, what stands there then, if anything, and what must
#: fail, as pytest names it.
_TABLE = r"""
# Noise and choices
choice-without-factor-2 in releases/engine/noise/selection.py
  -return Fraction(epsilon) / (sensitivity if monotone else 2 * sensitivity)
  +return Fraction(epsilon) / sensitivity
  tests/engine/noise/test_selection.py::test_the_law_is_the_one_defined_and_not_that_of_another_epsilon
range-whole-epsilon-at-each-end in releases/engine/mechanisms/quantiles.py
  -epsilon = epsilon_of_each(request.budget, draw_event, rounds=_ENDS)
  +epsilon = epsilon_of_each(request.budget, draw_event, rounds=1)
  tests/engine/mechanisms/test_quantiles.py::test_both_ends_together_keep_the_claim_for_neighbouring_tables
counts-of-cells-moved-once-under-replace in releases/engine/mechanisms/recursive_quantiles.py
  -max(schema.changes_of_a_row(added=1, replaced=lambda: 2))
  +max(schema.changes_of_a_row(added=1, replaced=lambda: 1))
  tests/engine/mechanisms/test_quantiles.py::test_no_unit_moves_the_counts_further_than_is_paid_for_whatever_the_edges
draws-around-a-quantile-not-paid-for in releases/engine/mechanisms/quantile_cells.py
  -return 2 * _FAR_SHARE + self.near
  +return 2 * _FAR_SHARE
  tests/engine/mechanisms/test_quantiles.py::test_draws_and_noise_together_cost_exactly_the_budget
groups-keep-their-old-column-where-questions-are-renamed in releases/engine/workload/questions.py
  -changed["by"] = names[by] if isinstance(by, str) else said(by)
  +changed["by"] = by
  tests/engine/workload/test_workload.py::test_questions_about_columns_of_other_names_are_those_written_with_these_names
answers-compared-where-the-other-release-has-others in releases/presentation/results/release_comparison.py
  -for each in asked_of(release)[:position])
  +for each in asked_of(release)[:0])
  tests/web/results/test_compare_releases.py::test_a_column_whose_name_differs_in_capitals_and_spaces_alone_is_compared_with_it
a-row-that-changes-its-group-moves-one-rank in releases/engine/mechanisms/recursive_quantiles.py
  -return counts_moved(schema) * max(at, 1 - at)
  +return rank_sensitivity(schema, at)
  tests/engine/mechanisms/test_quantiles.py::test_draws_of_two_groups_together_keep_their_epsilon_and_with_the_sensitivity_of_one_do_not
a-row-that-changes-its-part-moves-one-rank in releases/engine/mechanisms/recursive_quantiles.py
  -is_alone = part.is_whole and self.groups == 1
  +is_alone = self.groups == 1
  tests/engine/mechanisms/test_recursive_quantiles.py::test_the_draws_of_a_level_together_span_its_epsilon_and_no_more
true-number-of-rows-chooses in releases/engine/mechanisms/counted_quantiles.py
  -way = many if true + noise >= self.least else few
  +way = many if true >= self.least else few
  tests/engine/mechanisms/test_recursive_quantiles.py::test_the_noisy_number_chooses_and_not_the_true_one
number-of-rows-that-chooses-not-paid-for in releases/engine/mechanisms/counted_quantiles.py
  -DiscreteLaplaceEvent(noise_multiplier=1 / (_CHOICE * request.budget.epsilon)),
  tests/engine/mechanisms/test_recursive_quantiles.py::test_whichever_way_rows_choose_it_costs_the_budget_and_no_more_than_is_charged
levels-of-a-tree-paid-for-once in releases/engine/mechanisms/sliced_quantiles.py
  -scale=levels * counts_moved(schema) / epsilon
  +scale=counts_moved(schema) / epsilon
  tests/engine/mechanisms/test_recursive_quantiles.py::test_slices_with_all_that_is_counted_before_and_after_cost_exactly_the_budget
draws-in-slices-as-if-no-row-changed-its-slice in releases/engine/mechanisms/sliced_quantiles.py
  -sensitivity=sensitivity_in_parts(self.cuts.schema, _HALF)
  +sensitivity=_HALF
  tests/engine/mechanisms/test_recursive_quantiles.py::test_a_run_in_slices_draws_what_was_planned
path-that-leaves-no-room-for-noise in releases/engine/mechanisms/sliced_quantiles.py
  -height >= -reached
  +height >= reached
  tests/engine/mechanisms/test_recursive_quantiles.py::test_paths_of_a_tree_hold_every_quantile_and_keep_their_ranks_as_often_as_is_said
interval-from-the-first-edge-that-passes in releases/engine/mechanisms/quantile_cells.py
  -low = edges[first - 1] if first else attribute.lowest
  +low = edges[first] if first < len(edges) else attribute.highest
  tests/engine/mechanisms/test_quantiles.py::test_no_small_table_is_missed_more_often_than_beta_and_some_half_as_often
score-of-a-pair-as-if-its-margins-were-public in releases/engine/mechanisms/strongest_associations.py
  -return (2 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 4) * schema.rows_of_unit
  +return schema.rows_of_unit
  tests/engine/workload/test_strongest_associations.py::test_in_large_tables_a_row_moves_a_score_nearly_as_far_as_is_paid_for
tables-of-pairs-paid-for-as-one in releases/engine/mechanisms/strongest_associations.py
  -return Sensitivity(l1=cells * tables * rows, l2_squared=cells * tables * rows * rows)
  +return Sensitivity(l1=cells * rows, l2_squared=cells * rows * rows)
  tests/engine/workload/test_strongest_associations.py::test_no_person_moves_a_score_or_the_tables_further_than_is_paid_for
sums-of-a-regression-moved-by-one-number in releases/engine/workload/row_regression.py
  -for m in range(1, numbers + 1):
  +for m in range(1, 2):
  tests/engine/workload/test_sensitivity.py::test_sums_of_a_regression_move_exactly_as_far_as_declared_where_rows_are_added
interval-of-a-coefficient-without-its-noise in releases/engine/workload/row_regression.py
  -first = within(weights * np.sqrt(noise), uneven * length, one)
  +first = within(0 * weights * np.sqrt(noise), uneven * length, one)
  tests/engine/workload/test_regression_coverage.py::test_intervals_hold_on_samples_of_real_tables_and_half_as_wide_they_do_not
cells-of-a-logistic-regression-moved-by-one-row in releases/engine/workload/row_logistic.py
  -return vote_changes(self.schema, columns=len(self.coordinates), ballots=1)
  +return Changes(most=(1,) * len(self.coordinates), cases=((1,) + (0,) * (len(self.coordinates) - 1),))
  tests/engine/workload/test_sensitivity.py::test_cells_of_a_logistic_regression_move_exactly_as_far_as_declared
interval-of-an-odds-ratio-without-its-noise in releases/engine/workload/row_logistic.py
  -start = within(weights[:_LARGEST], others + rows, beta)
  +start = within(0 * weights[:_LARGEST], rows, beta)
  tests/engine/workload/test_logistic_coverage.py::test_odds_ratios_hold_on_samples_of_real_tables_and_half_as_long_they_do_not
threshold-for-one-value-of-a-unit in releases/engine/mechanisms/category_discovery.py
  -by_ones = 1 + laplace_passes(scale=scale, probability=allowed / rows)
  +by_ones = 1 + laplace_passes(scale=scale, probability=allowed)
  tests/engine/mechanisms/test_stable_histogram.py::test_new_values_of_one_unit_are_counted_together
values-moved-once-under-replace in releases/engine/mechanisms/category_discovery.py
  -moved = 1 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 2
  +moved = 1
  tests/engine/mechanisms/test_stable_histogram.py::test_the_exact_law_keeps_the_claim_for_all_neighbours_and_less_does_not
choice-monotone-under-replace in releases/engine/mechanisms/choices.py
  -return schema.rows_of_unit, schema.neighbours is NeighbouringRelation.ADD_REMOVE
  +return schema.rows_of_unit, True
  tests/engine/mechanisms/test_choices.py::test_the_noise_for_counts_that_move_one_way_is_too_little_for_replaced_rows
histogram-sensitivity-1-under-replace in releases/engine/mechanisms/histogram.py
  -moved = 1 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 2
  +moved = 1
  tests/engine/domain/test_neighbouring_counts.py::test_a_histogram_moves_exactly_as_far_as_its_sensitivity_says
one-range-of-a-tree-for-all-levels in releases/engine/mechanisms/laplace_tree.py
  -held_by = sum(used > 0 for used in self.sizes)
  +held_by = 1
  tests/engine/mechanisms/test_laplace_tree.py::test_no_row_moves_the_ranges_by_more_than_the_noise_is_made_for
residual-of-replaced-rows-as-of-removed in releases/engine/workload/residuals.py
  -replaced=lambda: self._most_replaced(multipliers)
  +replaced=lambda: removed
  tests/engine/mechanisms/test_residual_queries.py::test_no_unit_moves_the_residuals_further_than_is_paid_for_and_some_do_move_them_so_far
a-share-certified-by-the-better-end in releases/engine/estimation/trust.py
  --float(np.maximum(at_a, at_b).min())
  +-float(np.minimum(at_a, at_b).min())
  tests/engine/estimation/test_trust.py::test_no_table_within_the_intervals_is_further_away_than_certified
an-attack-with-half-its-margin in releases/engine/disclosure/membership.py
  -log(2 / miss) / 2)
  +log(2 / miss) / 8)
  tests/engine/disclosure/test_membership.py::test_coins_that_nothing_depends_on_leave_the_interval_no_more_often_than_stated
replicates-of-the-released-rows-themselves in releases/engine/replicates/draw.py
  -table=_drawn(rows, sample, rng))
  +table=rows)
  tests/engine/replicates/test_replicates.py::test_intervals_hold_the_truth_where_the_sample_is_most_of_the_error
a-statistic-offered-that-was-not-held in releases/engine/replicates/validity.py
  -takewhile(lambda each: each.holds,
  +takewhile(lambda each: each.fewest,
  tests/engine/replicates/test_validity.py::test_a_kind_is_offered_only_if_it_was_measured_and_held_everywhere
a-pair-certified-by-intervals-that-are-not-proved in releases/engine/estimation/trust.py
  -        if not self.given.is_proved:
  +        if False:
  tests/engine/estimation/test_trust.py::test_nothing_is_certified_where_intervals_are_not_proved_or_time_is_up
noisy-tables-kept-whole-at-the-price-of-residuals in releases/engine/estimation/residuals.py
  -found = size * found - found.sum(axis=axis, keepdims=True)
  +found = size * found
  tests/engine/mechanisms/test_residual_queries.py::test_what_is_kept_of_a_noisy_table_is_a_function_of_its_residual_to_the_last_bit
sums-of-noisy-cells-as-precise-as-a-cell in releases/engine/mechanisms/least_squares.py
  -cells[places[part]] / (family.cells(self.workload.universe) * variance)
  +1 / variance
  tests/engine/mechanisms/test_least_squares.py::test_what_agrees_is_the_weighted_least_squares_estimate_and_its_variance_is_what_is_said
bound-of-sums-for-one-answer-and-not-for-all in releases/engine/mechanisms/least_squares.py
  -(beta / workload.size,)
  +(beta,)
  tests/engine/mechanisms/test_least_squares.py::test_all_answers_are_within_the_bound_as_often_as_it_says_and_a_narrower_one_is_noticed
a-table-that-agrees-gets-all-of-beta in releases/engine/mechanisms/least_squares.py
  -beta / (tables * family.cells
  +beta / (family.cells
  tests/engine/mechanisms/test_least_squares.py::test_each_table_is_within_its_interval_as_often_as_its_part_of_the_probability_says_and_they_agree
a-table-of-its-own-gets-all-of-beta in releases/engine/mechanisms/queries.py
  -share = beta / len(workload.families)
  +share = beta
  tests/engine/mechanisms/test_least_squares.py::test_no_table_has_a_wider_interval_than_alone_with_its_share_and_those_that_agree_have_narrower_ones
noise-of-other-cells-counted-once-a-table in releases/engine/mechanisms/least_squares.py
  -numbers = np.multiply.outer(cells[of], states[at].ravel())
  +numbers = np.ones_like(factors)
  tests/engine/mechanisms/test_least_squares.py::test_an_error_is_made_of_the_noise_that_the_least_squares_matrix_takes
noise-of-one-larger-table-on-all-of-them in releases/engine/mechanisms/larger_tables.py
  -tables.weighted_sensitivity(request.schema)
  +replace(tables, families=tables.families[:1]).weighted_sensitivity(request.schema)
  tests/engine/mechanisms/test_least_squares.py::test_noise_on_larger_tables_is_made_for_what_a_unit_changes_in_all_of_them
larger-tables-where-the-bound-is-wider in releases/engine/mechanisms/queries.py
  -larger if not is_left or is_narrower(found, widths, weights, each_table=each_table) else plan
  +larger
  tests/engine/mechanisms/test_least_squares.py::test_left_to_the_mechanism_noise_is_on_larger_tables_where_that_makes_the_bound_narrower
columns-joined-that-no-question-joins in releases/engine/mechanisms/larger_tables.py
  -(set(fewest) & set(part.universe.names))
  +set(fewest)
  tests/engine/mechanisms/test_least_squares.py::test_columns_that_no_question_joins_are_in_no_larger_table_and_rows_are_fitted_to_these
stored-plans-on-joined-tables in releases/engine/mechanisms/queries.py
  -yield {**options, MEASURED.name: JOINED}
  +yield options
  tests/engine/mechanisms/test_least_squares.py::test_a_plan_stored_when_only_joined_tables_were_known_keeps_them
larger-tables-of-other-rows in releases/engine/mechanisms/least_squares.py
  -both = (*self.workload.families, *self.tables.families)
  +both = self.workload.families
  tests/engine/mechanisms/test_squares_by_rules.py::test_a_larger_table_that_leaves_out_other_rows_than_the_answers_is_refused
what-is-measured-weighed-alike in releases/engine/mechanisms/mixed_squares.py
  -precisions = 1 / self.variances_of_draws[is_joined]
  +precisions = np.ones(int(is_joined.sum()))
  tests/engine/mechanisms/test_least_squares.py::test_the_answers_are_the_best_linear_estimate_from_what_was_measured
far-surer-answers-weighed-as-they-are in releases/engine/mechanisms/mixed_squares.py
  -return tuple(max(each, least) for each in variances)
  +return tuple(max(each, 0 * least) for each in variances)
  tests/engine/mechanisms/test_least_squares.py::test_an_answer_that_is_far_surer_than_others_shifts_none_and_has_a_bound
a-level-off-by-one-bin in releases/engine/domain/levels.py
  -self._places.get(text, self._outside)
  +(self._places.get(text, self._outside) + 1) % len(self._places)
  tests/engine/tables/test_levels.py::test_the_bins_of_a_hierarchy_that_occur_in_a_table_of_all_texts_are_its_ways
other-texts-in-no-bin-of-a-level in releases/engine/domain/levels.py
  -for text in (None, _ANY_OTHER, *known)
  +for text in (None, *known)
  tests/engine/tables/test_levels.py::test_the_bins_of_a_hierarchy_that_occur_in_a_table_of_all_texts_are_its_ways
texts-that-only-begin-alike-in-no-bin in releases/engine/domain/levels.py
  -if self._first is not None and len(known) <= self._first:
  +if self._first is not None and len(known) < self._first:
  tests/engine/tables/test_levels.py::test_the_bins_of_a_hierarchy_that_occur_in_a_table_of_all_texts_are_its_ways
rows-keep-what-contradicts-their-level in releases/engine/estimation/possible_rows.py
  -    for each in levels:
  -        _fit_levels(
  +    for each in levels[1:]:
  +        _fit_levels(
  tests/engine/mechanisms/test_levels.py::test_the_coarsest_bin_of_a_row_is_kept_and_finer_ones_follow_the_law_within_it
a-level-added-up-as-if-alone in releases/engine/mechanisms/level_squares.py
  -            if set(part) <= set(table.plain):
  +            if set(part) == set(table.plain):
  tests/engine/mechanisms/test_level_squares.py::test_answers_are_the_best_linear_estimate_and_their_deviations_are_what_is_said
tables-over-levels-of-other-ways in releases/engine/estimation/ways.py
  -own = self.bins[axis].reshape(
  +own = np.roll(self.bins[axis], axis).reshape(
  tests/engine/mechanisms/test_levels.py::test_a_distribution_on_ways_is_the_one_of_all_cells_given_that_levels_hold
a-level-weighs-as-its-column-does in releases/engine/estimation/fit.py
  -gain = marginal.size / (table.size * one.variance)
  +gain = marginal.size / table.size
  tests/engine/mechanisms/test_levels.py::test_tables_of_a_column_and_of_its_level_weigh_by_their_noise
parts-of-one-hierarchy-fitted-apart in releases/engine/estimation/components.py
  -groups.append([part for group in met for part in group])
  +groups += met
  tests/engine/mechanisms/test_levels.py::test_tables_over_levels_that_a_fit_answers_add_up
levels-of-a-mixture-weighed-alike in releases/engine/estimation/level_mixture.py
  -(of_level * level + precision * held) / (of_level + precision)
  +(level + held) / 2
  tests/engine/mechanisms/test_levels.py::test_a_mixture_over_levels_weighs_both_laws_by_their_noise_and_adds_up_in_every_table
residuals-of-levels-as-if-not-centred in releases/engine/mechanisms/residual_levels.py
  -own *= (bins[:, None] == bins) - 1 / self.workload.universe[name].size
  +own *= bins[:, None] == bins
  tests/engine/mechanisms/test_residual_levels.py::test_answers_are_the_best_linear_estimate_and_their_variances_are_what_is_said
whole-noise-of-levels-taken-for-normal in releases/engine/mechanisms/residual_levels.py
  -+ slack).max()
  +).max()
  tests/engine/mechanisms/test_residual_levels.py::test_answers_are_the_best_linear_estimate_and_their_variances_are_what_is_said
bound-of-running-totals-for-one-answer-and-not-for-all in releases/engine/mechanisms/mixed_squares.py
  -each.half_width(law=squares.law, beta=share)
  +each.half_width(law=squares.law, beta=share * squares.workload.size)
  tests/engine/mechanisms/test_least_squares.py::test_all_answers_are_within_the_bound_as_often_as_it_says_and_a_narrower_one_is_noticed
sums-of-noise-with-light-tails in releases/engine/bounds/combinations.py
  --np.log1p(2 * variances * np.sin(angles / 2) ** 2)
  +-2 * variances * np.sin(angles / 2) ** 2
  tests/engine/bounds/test_accuracy.py::test_the_bound_holds_for_the_exact_law_and_hardly_anything_less_does
terms-that-count-left-out-of-a-series in releases/engine/bounds/combinations.py
  -_LEAST_TERM = 1e-17
  +_LEAST_TERM = 1e-4
  tests/engine/bounds/test_accuracy.py::test_the_bound_holds_for_the_exact_law_and_hardly_anything_less_does
running-sums-priced-by-their-first-factor in releases/engine/mechanisms/gaussian_cumulative.py
  -removed = sum(each * each for each in factors)
  +removed = factors[0] ** 2
  tests/engine/mechanisms/test_gaussian_cumulative.py::test_no_unit_moves_what_is_measured_further_than_is_paid_for_and_one_does_so_far
shared-draw-where-rows-are-replaced in releases/engine/mechanisms/correlated_queries.py
  -if schema.neighbours is not NeighbouringRelation.ADD_REMOVE or not shared:
  +if not shared:
  tests/engine/mechanisms/test_correlated_queries.py::test_no_unit_moves_the_answers_further_against_their_covariance_than_is_paid_for
distances-of-all-triples-as-one in releases/engine/mechanisms/mixture_fit.py
  -Sensitivity(l1=number * self.moved.l1,
  +Sensitivity(l1=self.moved.l1,
  tests/engine/mechanisms/test_mixture_fit.py::test_neighbours_are_drawn_for_alike_and_their_exact_numbers_cost_at_most_the_budget
distances-move-as-tables-do-in-norm in releases/engine/mechanisms/mixture_fit.py
  -l2_squared=number * self.moved.l1**2
  +l2_squared=number * self.moved.l2_squared
  tests/engine/mechanisms/test_mixture_fit.py::test_distances_move_exactly_as_far_as_is_said_for_all_small_neighbours
noise-halved-after-it-is-drawn in releases/engine/mechanisms/mixture_fit.py
  -table + noise.draw(table.shape, rng))
  +table + noise.draw(table.shape, rng) // 2)
  tests/engine/mechanisms/test_whole_noise.py::test_nothing_is_done_to_noise_before_it_is_added_in_any_place_that_draws_it
mixture-split-by-the-exact-number-of-rows in releases/engine/mechanisms/mixture_fit.py
  -total += int(self.split.total.draw(1, rng)[0])
  +self.split.total.draw(1, rng)
  tests/engine/mechanisms/test_mixture_fit.py::test_the_number_of_rows_is_exact_where_it_is_public_and_noisy_where_it_is_not
mixture-charged-without-its-tables in releases/engine/mechanisms/mixture_fit.py
  -return (*total, self.tables.event, self.certificate.noise.event)
  +return (*total, self.certificate.noise.event)
  tests/engine/mechanisms/test_mixture_fit.py::test_a_plan_spends_its_budget_and_no_more
workload-sensitivity-of-one-row-of-several in releases/engine/workload/queries.py
  -rows = under.rows_of_unit
  +rows = 1
  tests/engine/workload/test_workload.py::test_the_sensitivity_is_what_brute_force_over_all_neighbours_finds
rows-of-persons-never-vanish in releases/engine/domain/population.py
  -return bool(self.dropping or self.left_out) or self.unit.kind == "person"
  +return bool(self.dropping or self.left_out)
  tests/engine/workload/test_person_sensitivity.py::test_ten_rows_of_a_person_in_prefixes_of_two_categories_vanish_from_both
workload-sensitivity-of-rows-that-stay in releases/engine/domain/schema.py
  -return (replaced(), added) if self.rows_may_vanish else (replaced(),)
  +return (replaced(), added) if self.universe.may_drop else (replaced(),)
  tests/engine/verification/test_verification.py::test_noise_for_persons_whose_rows_all_stay_somewhere_is_called_wrong
public-counts-are-charged in releases/engine/mechanisms/base.py
  -if schema.total_is_public and not workload.tells_rows_apart:
  +if False:
  tests/engine/mechanisms/test_mechanisms.py::test_every_mechanism_for_counts_refuses_counts_that_are_public
laplace-scale-halved in releases/engine/mechanisms/additive_noise.py
  -return discrete_laplace(scale=self.scale, size=size, rng=rng)
  +return discrete_laplace(scale=self.scale / 2, size=size, rng=rng)
  tests/engine/domain/test_neighbouring_counts.py::test_laplace_noise_on_cells_is_not_seen_to_spend_more_than_it_claims
weighted-scale-over-the-square-of-the-weight in releases/engine/mechanisms/additive_noise.py
  -return self.l1_sensitivity / (self.epsilon * self.weight)
  +return self.l1_sensitivity / (self.epsilon * self.weight**2)
  tests/engine/domain/test_weights.py::test_noise_is_drawn_at_one_scale_over_each_importance
weighted-scale-for-an-unweighted-sensitivity in releases/engine/workload/queries.py
  -return self._weighing(schema, self.weights)
  +return self._weighing(schema, (1,) * len(self.families))
  tests/engine/domain/test_weights.py::test_laplace_noise_as_drawn_loses_at_most_epsilon_on_all_neighbours_and_all_of_it_on_some
sum-sensitivity-of-the-range-alone in releases/engine/workload/sensitivity.py
  -return max(abs(self.lowest), abs(self.highest))
  +return abs(self.highest)
  tests/engine/workload/test_sensitivity.py::test_sums_and_centred_sums_with_their_count_move_exactly_as_far_as_declared
a-row-that-changes-its-group-moves-one in releases/engine/workload/measurements.py
  -cases += [self._padded(case + case) for case in self._added.moved.cases]
  +cases += [self._padded(case) for case in self._added.moved.cases]
  tests/engine/workload/test_sensitivity.py::test_sums_by_group_move_exactly_as_far_as_declared_in_one_group_or_from_one_to_another
a-pair-rounded-upwards-twice in releases/engine/workload/row_means.py
  -ceil(total / unit - half) if place % 2 else floor(total / unit + half)
  +floor(total / unit + half) if place % 2 else floor(total / unit + half)
  tests/engine/workload/test_sensitivity.py::test_a_pair_on_any_lattice_moves_by_the_steps_of_its_range_together_when_a_row_is_added
a-pair-at-the-price-of-one-row-of-a-person in releases/engine/workload/row_means.py
  -rows = self.schema.rows_of_unit * self.most_weight
  +rows = self.most_weight
  tests/engine/workload/test_sensitivity.py::test_sums_and_centred_sums_with_their_count_move_exactly_as_far_as_declared
squares-at-the-price-of-one-row-of-a-person in releases/engine/workload/row_variances.py
  -rows, weight, case, most = self.schema.rows_of_unit, self.most_weight, [], []
  +rows, weight, case, most = 1, self.most_weight, [], []
  tests/engine/workload/test_variances.py::test_squares_and_products_move_exactly_as_far_as_declared
a-replaced-row-moves-one-square in releases/engine/workload/row_variances.py
  -case += [size, 0, size if is_replaced else 0]
  +case += [size, 0, 0]
  tests/engine/workload/test_variances.py::test_squares_and_products_move_exactly_as_far_as_declared
squares-rounded-for-nothing in releases/engine/workload/row_variances.py
  -extra = ceil(2 * unit) if unit > 1 else 0
  +extra = 0
  tests/engine/workload/test_variances.py::test_rounded_sums_move_by_no_more_steps_than_declared
variances-between-the-corners-of-a-box in releases/engine/workload/row_variances.py
  -return min(max(one + product_of_both + product_of_both**2 / (2 * one), low), high)
  +return high
  tests/engine/workload/test_variances.py::test_an_interval_holds_the_variance_of_every_table_in_its_box_and_ends_at_some
noise-drawn-from-a-fixed-state in releases/engine/noise/randomness.py
  -return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
  +return StreamRandomness(b"state kept in the process").words(count)
  tests/engine/noise/test_randomness.py::test_two_forked_workers_never_give_equal_noise
remainder-of-a-draw-dropped in releases/engine/noise/discrete.py
  -rest.append((max(0, lo), hi))
  +rest.append((0, 1 if x else hi))
  tests/engine/noise/test_noise.py::test_floor_and_remainder_together_are_exactly_the_law
zero-counted-twice in releases/engine/noise/discrete.py
  -refused |= (size == 0) & (negative == 1)
  tests/engine/noise/test_noise.py::test_a_gaussian_law_of_blocks_is_the_law_of_one_table
# Budgets
weights-of-the-mixture-above-one in releases/engine/accounting/mixture.py
  -_SHARP, _BROAD = Fraction(773, 1000), Fraction(2434, 1000)
  +_SHARP, _BROAD = Fraction(7, 1000), Fraction(24, 1000)
  tests/engine/accounting/test_filters.py::test_the_weights_of_every_budget_add_up_to_at_most_one
pure-releases-cost-nothing-beside-noise in releases/engine/accounting/mixture.py
  -costs = [min(pair) for pair in zip(costs, _of_pure(pure_epsilon), strict=True)]
  +costs = [0] * len(costs)
  tests/engine/accounting/test_filters.py::test_a_pure_release_costs_the_divergence_of_randomized_response_rounded_up
# Thresholds
no-threshold-noise in releases/engine/mechanisms/thresholds.py
  -bar = stream.above + discrete_laplace(scale=self.comparisons.threshold_scale, size=1, rng=rng)
  +bar = np.array([stream.above])
  tests/engine/mechanisms/test_thresholds.py::test_runs_have_the_exact_law_and_not_that_of_another_epsilon
query-noise-that-does-not-grow-with-answers in releases/engine/mechanisms/thresholds.py
  -weight = answers if monotone else 2 * answers
  +weight = 1 if monotone else 2
  tests/engine/mechanisms/test_thresholds.py::test_ours_lose_what_they_claim_and_the_published_wrong_ones_lose_more
answers-after-the-last in releases/engine/mechanisms/thresholds.py
  -asked = np.cumsum(passes) - passes < stream.answers
  +asked = np.cumsum(passes) - passes < stream.answers + 1
  tests/engine/mechanisms/test_thresholds.py::test_it_says_above_and_below_and_stops_after_so_many
the-compared-value-is-told in releases/engine/mechanisms/thresholds.py
  -values = exact[above] + fresh[: int(above.sum())]
  +values = compared[above]
  tests/engine/mechanisms/test_thresholds.py::test_the_values_have_fresh_noise_whatever_the_comparison_was
a-session-that-never-ends in releases/engine/mechanisms/pmw/session.py
  -return self.rules.updates - self._used
  +return max(1, self.rules.updates - self._used)
  tests/engine/mechanisms/test_pmw_online.py::test_after_the_last_update_no_data_are_touched
parts-that-are-not-left in releases/engine/mechanisms/live/noise.py
  -if parts > self.parts_left:
  +if parts > PARTS:
  tests/engine/mechanisms/live/test_live_noise.py::test_what_is_left_answers_no_closer_and_a_refusal_touches_no_data
noise-of-all-parts-on-each-answer in releases/engine/mechanisms/live/noise.py
  -share = Fraction(parts, PARTS)
  +share = Fraction(min(2 * parts, PARTS), PARTS)
  tests/engine/mechanisms/live/test_live_noise.py::test_the_noise_of_all_answers_together_is_what_was_charged
a-replaced-row-moves-one-cell-of-a-session in releases/engine/mechanisms/live/histogram.py
  -l1_sensitivity=histogram_sensitivity(request.schema).l1
  +l1_sensitivity=request.schema.rows_of_unit
  tests/engine/mechanisms/live/test_live_noise.py::test_a_bought_histogram_answers_everything_without_the_table
what-a-list-cost-is-spent-again in releases/engine/mechanisms/live/listed.py
  -return replace(setting, rho=setting.rho - sum(each.rho for each in prices))
  +return setting
  tests/engine/mechanisms/live/test_live_listed.py::test_the_list_and_all_later_answers_together_cost_what_was_charged
a-sum-as-close-as-one-cell in releases/engine/mechanisms/live/listed.py
  -return noise.sum(count=cells, beta=exp(log_beta))
  +return noise.sum(count=1, beta=exp(log_beta))
  tests/engine/mechanisms/live/test_live_listed.py::test_all_sums_of_the_list_keep_their_widths_at_once
a-sum-of-a-fit-as-close-as-one-cell in releases/engine/mechanisms/live/fitted.py
  -one_by_one = self._cells(query, family) * self.largest
  +one_by_one = self.largest
  tests/engine/mechanisms/live/test_live_fitted.py::test_what_the_fit_knows_as_closely_as_is_needed_is_answered_without_the_rows
rows-that-are-missing-are-no-error-of-a-fit in releases/engine/mechanisms/live/fitted.py
  -for sign in (1, -1)
  +for sign in (1,)
  tests/engine/mechanisms/live/test_live_fitted.py::test_the_largest_error_of_a_sum_is_that_over_all_sums_and_moves_by_no_more_than_a_unit_has_rows
a-fit-takes-all-of-epsilon-beside-rho in releases/engine/mechanisms/live/fitted.py
  -takes_epsilon = False
  +takes_epsilon = True
  tests/engine/mechanisms/live/test_live_fitted.py::test_the_fit_and_all_later_answers_together_cost_what_was_charged
every-sum-gets-all-of-beta in releases/engine/mechanisms/live/listed.py
  -log_beta = log(self.beta) - code_length(query, universe)
  +log_beta = log(self.beta)
  tests/engine/mechanisms/live/test_live_listed.py::test_all_sums_of_the_list_keep_their_widths_at_once
every-count-gets-all-of-beta in releases/engine/bounds/all_counts.py
  -log(beta) - code_length(query, universe)
  +log(beta)
  tests/engine/bounds/test_all_counts.py::test_all_counts_keep_their_widths_at_once
a-sequence-of-rhos-at-half in releases/engine/accounting/accountant.py
  -return Forms(epsilon=None, rho=event.rho)
  +return Forms(epsilon=None, rho=event.rho / 2)
  tests/engine/mechanisms/live/test_live_noise.py::test_a_concentrated_event_costs_its_rho
discrete-noise-as-good-as-normal in releases/engine/accounting/calibration.py
  -noise_variance=noise_variance - given_away, epsilon=epsilon - 2 * eta
  +noise_variance=noise_variance, epsilon=epsilon
  tests/engine/accounting/test_discrete_gaussian.py::test_a_number_that_moves_is_covered
fine-noise-on-any-grid in releases/engine/accounting/calibration.py
  -return floor(27 * FINE_PART * least_variance) >= 104 + (coordinates - 1).bit_length()
  +return floor(27 * FINE_PART * least_variance) >= 104
  tests/engine/accounting/test_fine_gaussian.py::test_a_grid_that_is_called_fine_makes_theta_as_small_as_the_proof_asks
fine-noise-charged-at-half in releases/engine/mechanisms/budget_split.py
  -return kind(noise_variance=self.fine_variance)
  +return kind(noise_variance=2 * self.fine_variance)
  tests/engine/accounting/test_fine_gaussian.py::test_a_run_draws_the_noise_that_is_charged_which_is_all_of_the_budget
plain-noise-charged-at-half in releases/engine/mechanisms/additive_noise.py
  -kind = AdaptiveDiscreteGaussianEvent if self.is_one_event else DiscreteGaussianEvent
  -        return kind(noise_variance=1 / (2 * self.rho))
  +kind = AdaptiveDiscreteGaussianEvent if self.is_one_event else DiscreteGaussianEvent
  +        return kind(noise_variance=1 / self.rho)
  tests/engine/accounting/test_fine_gaussian.py::test_a_run_draws_the_noise_that_is_charged_which_is_all_of_the_budget
sums-charged-at-half in releases/engine/mechanisms/sums.py
  -return kind(noise_variance=1 / (2 * self.rho))
  +return kind(noise_variance=1 / self.rho)
  tests/engine/accounting/test_fine_gaussian.py::test_a_run_draws_the_noise_that_is_charged_which_is_all_of_the_budget
a-price-that-nobody-agreed-to in releases/services/session_questions.py
  -if within is not None and not agreed:
  +if within is None and not agreed:
  tests/web/sessions/test_ways.py::test_an_error_that_is_typed_is_priced_first_and_costs_only_when_it_is_agreed_to
parts-that-nobody-remembers in releases/services/sessions.py
  -parts=exchange.parts,
  +parts=0,
  tests/web/sessions/test_ways.py::test_what_is_closer_than_is_left_is_refused_and_stays_typed
# Prices
prices-rounded-down in releases/engine/arithmetic/rounding.py
  -return -((-value.numerator * scale) // value.denominator)
  +return (value.numerator * scale) // value.denominator
  tests/engine/accounting/test_accountant.py::test_every_amount_is_rounded_up
parallel-parts-cost-one-under-replace in releases/engine/accounting/accountant.py
  -changed = 1 if event.neighbours is NeighbouringRelation.ADD_REMOVE else 2
  +changed = 1
  tests/engine/accounting/test_accountant.py::test_a_unit_that_moves_between_parts_really_spends_what_two_parts_cost
group-rho-not-squared in releases/engine/accounting/conversions.py
  -return size * size * rho
  +return size * rho
  tests/engine/accounting/test_accountant.py::test_a_group_pays_its_size_in_epsilon_and_its_square_in_rho
unknown-events-are-free in releases/engine/accounting/accountant.py
  -        raise Unpriceable(f"No price is known for events of kind {kind!r}.")
  +        return Forms(epsilon=Fraction(0), rho=Fraction(0))
  tests/engine/accounting/test_accountant.py::test_an_event_without_an_entry_here_is_refused
discrete-laplace-at-the-continuous-rho in releases/engine/accounting/accountant.py
  -    return _pure(1 / event.noise_multiplier)
  +    return _laplace(event)
  tests/engine/accounting/test_accountant.py::test_each_pure_kind_has_its_epsilon_and_its_least_proved_rho
# The ledger and the protocol
no-filter in releases/ledger/ledger.py
  -    if not filters.admits(budget.totals, price, budget.caps):
  +    if False:
  tests/web/review/test_ledger.py::test_a_refusal_carries_both_numbers_and_charges_nothing
a-grant-falls-after-a-charge in releases/ledger/grants.py
  -        if exact(new, field=field) < exact(granted, field=field):
  +        if exact(new, field=field) < 0:
  tests/web/review/test_ledger.py::test_a_budget_can_be_raised_and_never_lowered_once_something_is_charged
a-key-charges-twice in releases/ledger/ledger.py
  -    made = LedgerEntry.objects.filter(key=key).first()
  +    made, key = None, uuid.uuid4()
  tests/web/review/test_ledger.py::test_the_same_key_twice_is_one_charge
a-chain-of-one-link in releases/ledger/verification.py
  -if entry.previous != previous or entry.hash != entries.hash_of(entry):
  +if entry.previous != previous:
  tests/web/review/test_ledger.py::test_the_audit_finds_a_forged_entry
an-old-backup-spends-again in releases/ledger/ledger.py
  -    _refuse_a_ledger_that_went_back(budget, release)
  -    price
  +    price
  tests/web/review/test_ledger.py::test_a_restored_backup_is_noticed_and_refuses_to_spend_until_a_reviewer_acts
marks-without-a-lock in releases/ledger/chain.py
  -        fcntl.flock(file, fcntl.LOCK_EX)
  -        yield
  +        yield
  tests/web/review/test_marks.py::test_eight_processes_that_raise_one_mark_at_once_never_leave_it_too_low
an-old-backup-runs-again in releases/services/execution.py
  -    if is_behind(release_id):
  +    if False:
  tests/web/review/test_marks.py::test_what_a_worker_had_begun_is_neither_run_again_nor_given_back
an-old-backup-gives-back in releases/services/releases.py
  -    if why := stale_ledger.refusal(release.dataset.budget) or stale_ledger.begun(release.pk):
  +    if why := "":
  tests/web/review/test_marks.py::test_what_a_worker_had_begun_is_neither_run_again_nor_given_back
a-charge-of-what-a-worker-had-begun-goes-back in releases/ledger/entries.py
  -    if not release.that_read_nothing().exists() or stale_ledger.begun(release_id):
  +    if not release.that_read_nothing().exists():
  tests/web/review/test_marks.py::test_the_ledger_itself_gives_nothing_back_of_what_a_worker_had_begun
an-old-backup-asks-again in releases/services/sessions.py
  -    if why := stale_ledger.refusal(release.dataset.budget, and_release=release.pk):
  +    if why := "":
  tests/web/review/test_marks.py::test_a_session_that_had_answered_more_answers_nothing_and_is_closed_by_a_reviewer
a-session-bounded-by-the-rows-of-before in releases/models/sessions.py
  -return inf if self.release.dataset.is_in_database else self.total + self.total_half_width
  +return self.total + self.total_half_width
  tests/web/databases/test_databases.py::test_what_a_session_says_is_true_of_rows_that_have_come_since_it_was_opened
a-lock-that-tells-of-the-same-rows in releases/services/budgets.py
  -held = Budget.objects.filter(pk__in=counted_alike(budget).values("budget")).exclude(pk=budget.pk)
  +held = Budget.objects.select_for_update().filter(pk__in=counted_alike(budget).values("budget")).exclude(pk=budget.pk)
  tests/web/shared/test_who_learns_what.py::test_an_approval_locks_nothing_by_what_is_alike_and_compares_nothing_while_it_locks
an-answer-that-only-the-database-knows in releases/services/sessions.py
  -        high_water_marks.note_answer(locked.pk, sequence)
  +        pass
  tests/web/review/test_marks.py::test_every_answer_is_remembered_and_a_repeated_one_is_none
a-claim-that-only-the-database-knows in releases/services/execution.py
  -    high_water_marks.note_claim(release.pk, release.attempts, token)
  +    pass
  tests/web/review/test_marks.py::test_an_attempt_is_remembered_before_the_table_is_opened
fresh-noise-after-what-was-seen in releases/services/execution.py
  -marks.story(release.pk).published) is not None:
  +None) is not None:
  tests/web/review/test_marks.py::test_a_release_whose_remembered_files_were_changed_fails_and_touches_no_data
fresh-noise-after-a-complete-run in releases/services/execution.py
  -    if (made := files.made_before(release)) is not None:
  +    if (made := None) is not None:
  tests/web/results/test_complete_runs.py::test_a_complete_run_is_published_by_the_next_attempt_byte_for_byte
as-many-synthetic-rows-as-the-noise-says in releases/engine/run.py
  -else min(max(1, round(result.total)), plan.most_synthetic_rows)
  +else max(1, round(result.total))
  tests/engine/mechanisms/test_extreme_draws.py::test_a_total_above_the_limit_gives_as_many_rows_as_the_limit_and_the_same_shares
a-lost-mark-is-made-again in releases/ledger/high_water_marks.py
  -            raise Unreadable(f"{_path(budget_id).name} is missing")
  +            standing = Mark(sequence=0, hash="", totals=Totals())
  tests/web/review/test_marks.py::test_a_mark_that_is_gone_is_not_made_again_by_the_next_entry
charged-whatever-it-protects in releases/ledger/ledger.py
  -    check_protection(budget, unit=unit, neighbours=neighbours)
  -    return budget
  +    return budget
  tests/web/datasets/test_protection.py::test_nothing_is_charged_for_another_unit_or_other_neighbours
run-whatever-it-protects in releases/services/execution.py
  -    ledger.check_protection(charged.budget, unit=plan.schema.unit, neighbours=plan.schema.neighbours)
  tests/web/datasets/test_protection.py::test_a_worker_runs_nothing_that_protects_something_else
protection-changed-while-a-release-waits in releases/services/datasets.py
  -    if under_way := release_under_way(dataset, within=budget.datasets.all()):
  +    if under_way := "":
  tests/web/datasets/test_protection.py::test_a_release_that_waits_cannot_come_to_mean_less_than_its_budget
the-audit-takes-any-protection in releases/ledger/verification.py
  -            yield from _verify_protection(budget, entry)
  -        elif
  +        elif
  tests/web/datasets/test_protection.py::test_the_audit_finds_a_plan_that_protects_something_else_than_its_charge
run-before-charge in releases/services/releases.py
  -    entry = ledger.charge(
  -        release=release,
  +    from releases.services.execution import execute_release
  +
  +    execute_release(release_id=release.pk)
  +    entry = ledger.charge(
  +        release=release,
  tests/web/worker/test_execution.py::test_no_data_are_touched_before_the_charge_is_booked
many-small-ones-pass-unseen in releases/ledger/person_limits.py
  -    before = _charged_to(person, budget, but=release, is_unseen=True).spent_epsilon
  +    before = 0
  tests/web/results/test_unseen.py::test_many_small_releases_pass_up_to_the_threshold_and_no_further
the-ledger-trusts-what-was-unseen-before-its-lock in releases/services/releases.py
  -                most_unseen=None if _is_approved(release, plan) else _threshold(),
  +                most_unseen=None,
  tests/web/results/test_unseen.py::test_the_ledger_refuses_what_came_in_between_and_a_reviewer_is_asked
an-ended-token-opens in releases/api/authentication.py
  -        if found.is_ended and found.ends_at is not None:
  +        if found.ends_at is None:
  tests/web/public/test_api.py::test_a_token_that_has_ended_is_refused_in_clear_words_and_notes_no_use
a-reading-token-writes in releases/api/authentication.py
  -        if found.scope == TokenScope.READ and request.method not in _READING:
  +        if False:
  tests/web/public/test_api.py::test_a_token_for_reading_reads_and_changes_nothing
what-is-spent-is-rounded-down in releases/ledger/balances.py
  -    return ceil(1000 * share) / 10
  +    return int(1000 * share) / 10
  tests/web/review/test_board.py::test_what_is_shown_as_left_fits_and_what_is_shown_as_spent_is_no_less_than_it_is
a-run-that-was-not-charged in releases/services/execution.py
  -    if price.to_json() != charged.detail["price"]:
  +    if not charged:
  tests/web/worker/test_execution.py::test_a_plan_that_costs_more_than_was_charged_is_not_run
refund-on-failure in releases/models/releases.py
  -        return self.filter(attempts=Coalesce(
  +        return self.filter(attempts__gte=Coalesce(
  tests/web/review/test_attempts.py::test_an_attempt_of_which_there_is_no_record_may_have_opened_the_table
an-opening-that-is-not-on-record in releases/services/execution.py
  -    attempts.about_to_open(release.pk, token)
  tests/web/review/test_attempts.py::test_that_it_is_opened_is_committed_before_it_is
a-late-worker-opens-the-table in releases/services/attempts.py
  -        held = Release.objects.filter(pk=release_id, state=ReleaseState.RUNNING, run_token=token)
  +        held = Release.objects.filter(pk=release_id)
  tests/web/review/test_attempts.py::test_a_worker_that_wakes_up_when_the_charge_is_given_back_opens_nothing
no-wait-before-another-attempt in releases/worker/leases.py
  -    claimed = claimable.filter(is_due(now)).update(
  +    claimed = claimable.update(
  tests/web/review/test_attempts.py::test_no_worker_takes_it_before_its_time_however_often_it_is_told
a-table-that-was-replaced-is-read in releases/services/stored_tables.py
  -        if files.sha256_of(path) != dataset.file_sha256:
  +        if not dataset.file_sha256:
  tests/web/datasets/test_stored_tables.py::test_a_table_that_was_changed_is_not_released_and_the_charge_is_given_back
the-database-reaches-other-files in releases/engine/tables/connection.py
  -    "enable_external_access": "false",
  +    "enable_external_access": "true",
  tests/web/datasets/test_stored_tables.py::test_a_worker_s_connection_reaches_its_table_and_nothing_else
a-server-is-counted-on-without-its-self-test in releases/engine/tables/query.py
  -    refuse_unless_right(table, TableCounts)
  tests/engine/tables/test_self_test.py::test_a_server_that_counts_otherwise_is_refused_whatever_its_version_says
a-server-is-charged-for-without-its-self-test in releases/worker/jobs.py
  -    if not is_checked:
  -        _check_server(location.partition("#")[0])
  tests/web/databases/test_databases.py::test_a_database_that_counts_otherwise_is_refused_before_anything_is_charged
a-charge-asks-no-catalogue in releases/services/connections.py
  -    if dataset.is_in_database:
  -        opened(dataset, schema)
  tests/web/databases/test_databases.py::test_a_table_that_is_listed_otherwise_is_refused_before_a_reviewer_s_approval_charges
only-columns-that-are-declared-now-are-looked-for in releases/services/connections.py
  -*dataset.columns_read, *sorted(schema.names_read)
  +*dataset.columns_read
  tests/web/databases/test_databases.py::test_whatever_a_release_is_it_is_refused_before_its_charge_and_its_charge_is_given_back_after_it
an-address-is-shown-with-its-password in releases/storage/addresses.py
  -return repr(without_secrets(self))
  +return super().__repr__()
  tests/web/databases/test_connections_page.py::test_a_page_about_an_error_shows_no_password
a-password-of-another-program-is-sent in releases/engine/tables/servers/postgresql.py
  -psycopg.connect(url, connect_timeout=SECONDS, options=options, passfile=_NO_FILE)
  +psycopg.connect(url, connect_timeout=SECONDS, options=options)
  tests/web/databases/test_connections_page.py::test_a_password_of_another_program_is_given_to_no_server
a-server-is-charged-for-because-it-was-right-once in releases/services/connections.py
  -_columns_of(connection, dataset.table, is_checked=is_checked)
  +_columns_of(connection, dataset.table, is_checked=True)
  tests/web/databases/test_connections_page.py::test_the_self_test_is_run_once_a_version_for_lists_and_always_before_a_charge
a-session-is-asked-again-after-a-failure in releases/services/sessions.py
  -if is_cut_off:
  +if False:
  tests/web/sessions/test_sessions.py::test_once_a_table_could_not_be_read_every_question_is_refused_alike_and_nothing_says_why
a-server-is-listed-though-its-version-changed in releases/worker/jobs.py
  -(not checked or found.version != checked)
  +not checked
  tests/web/databases/test_connections_page.py::test_the_self_test_is_run_once_a_version_for_lists_and_always_before_a_charge
a-folder-is-compared-before-its-links-are-followed in releases/storage/addresses.py
  -folder = Path(parts.path).resolve()
  -        if any(
  +folder = Path(parts.path)
  +        if any(
  tests/web/databases/test_connections_page.py::test_a_folder_that_became_a_link_out_of_what_is_allowed_is_read_no_more
a-password-is-given-to-who-asks-for-it-in-plain-text in releases/engine/tables/servers/postgresql.py
  -guard=("require_auth=!password",)
  +guard=("require_auth=password",)
  tests/web/databases/test_connections_page.py::test_a_password_is_given_to_no_server_that_an_administrator_registers_to_read_it
rows-of-postgresql-are-counted-here in releases/engine/tables/servers/postgresql.py
  -    is_here = False
  +    is_here = True
  tests/engine/tables/test_contract.py::test_nothing_but_grouped_counts_leaves_a_server[postgres]
postgresql-is-read-at-several-moments in releases/engine/tables/servers/postgresql.py
  -psycopg.IsolationLevel.REPEATABLE_READ
  +psycopg.IsolationLevel.READ_COMMITTED
  tests/web/databases/test_databases.py::test_all_that_a_run_counts_is_of_one_moment_and_its_session_cannot_write
spark-is-read-at-several-moments in releases/engine/tables/servers/spark.py
  -self.dialect.sql(chosen)).localCheckpoint()
  +self.dialect.sql(chosen))
  tests/web/databases/test_spark.py::test_all_that_a_run_counts_is_of_one_moment
spark-takes-another-session-for-the-run-s in releases/engine/tables/servers/spark.py
  -    active.session = session
  +    active.session = before
  tests/web/databases/test_spark.py::test_a_run_is_not_disturbed_by_another_session_of_its_process
spark-reads-a-table-of-any-format in releases/engine/tables/servers/spark.py
  -about.get("Provider", "").lower() not in FORMATS
  +not about.get("Provider")
  tests/web/databases/test_spark.py::test_a_view_and_a_table_that_could_be_read_at_several_moments_are_refused
spark-is-not-asked-for-the-self-test in releases/engine/tables/query.py
  -        if not remote.is_checked:
  +        if False:
  tests/web/databases/test_spark.py::test_the_self_test_is_run_once_a_version_and_before_a_charge_where_it_was_not
a-server-that-says-nothing-is-taken-to-let-nobody-write in releases/services/connections.py
  -    if NOT_SAID in found.faults and not connection.reads_only:
  +    if NOT_SAID in found.faults and connection.fault:
  tests/web/databases/test_spark.py::test_nobody_registers_a_server_that_cannot_say_what_it_lets_them_do_without_confirming_it
a-token-is-sent-to-whatever-server-is-registered in releases/storage/addresses.py
  -needs_secret(address) and not kind.guard
  +kind.secret is Secret.ALWAYS and not kind.guard
  tests/web/databases/test_spark.py::test_a_token_goes_by_tls_to_the_server_that_the_settings_name_and_to_no_other
spark-is-reached-in-the-clear in releases/storage/addresses.py
  -kind is SPARK and not parts.query and
  +kind is SPARK and parts.query and
  tests/web/databases/test_spark.py::test_an_address_of_spark_is_encrypted_and_holds_no_token
a-password-is-given-to-a-mysql-server-that-asks-for-it in releases/engine/tables/servers/mysql.py
  -            if plugin_name not in _CHALLENGES:
  +            if not plugin_name:
  tests/web/databases/test_mariadb.py::test_a_password_is_given_to_no_server_that_an_administrator_registers_to_read_it
a-role-of-mariadb-that-grants-further-is-taken-for-one-that-reads in releases/engine/tables/servers/mysql.py
  -each is None or "WITH GRANT OPTION" in each["rest"]
  +each is None
  tests/web/databases/test_mariadb.py::test_a_role_that_may_do_more_than_read_is_refused
counts-of-mariadb-are-of-several-moments in releases/engine/tables/servers/mysql.py
  -"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
  +"START TRANSACTION READ ONLY"
  tests/web/databases/test_mariadb.py::test_a_session_sees_one_moment_and_cannot_write
mariadb-compares-texts-as-a-column-was-declared in releases/engine/tables/servers/mysql.py
  -    collation = "utf8mb4_nopad_bin"
  +    collation = "utf8mb4_general_ci"
  tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[mariadb]
mariadb-tells-persons-apart-by-the-first-bytes-of-their-ids in releases/engine/tables/servers/mysql.py
  -        return self.sha256(text)
  +        return text
  tests/engine/tables/test_equal_texts.py::test_long_texts_that_begin_alike_are_others_and_their_rows_stay_together[mariadb]
mysql-compares-texts-as-a-column-was-declared in releases/engine/tables/servers/mysql.py
  -        return exp.Collate(this=super().as_text(column), expression=exp.var(self.collation))
  +        return super().as_text(column)
  tests/engine/tables/test_golden.py::test_a_dialect_writes_the_statements_that_were_read[mysql]
mysql-matches-before-a-line-end in releases/engine/tables/servers/mysql.py
  -exp.Literal.string(f"{pattern.removesuffix('$')}\\z")
  +exp.Literal.string(pattern)
  tests/engine/tables/test_golden.py::test_a_dialect_writes_the_statements_that_were_read[mysql]
a-kind-of-databases-leaves-a-part-out in releases/engine/tables/places.py
  -            if getattr(self, each.name) in (None, ""):
  +            if getattr(self, each.name) == "none":
  tests/engine/tables/test_registry.py::test_a_kind_that_lacks_a_part_cannot_be_made
spark-orders-texts-by-another-hash in releases/engine/tables/dialects.py
  -        return exp.Anonymous(this="SHA2", expressions=[text, exp.Literal.number(256)])
  +        return exp.Anonymous(this="SHA2", expressions=[text, exp.Literal.number(512)])
  tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[spark]
postgresql-orders-texts-by-another-hash in releases/engine/tables/dialects.py
  -        hashed = exp.Anonymous(this="SHA256", expressions=[octets])
  +        hashed = exp.Anonymous(this="SHA224", expressions=[octets])
  tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[postgres]
postgresql-compares-texts-as-a-column-was-declared in releases/engine/tables/dialects.py
  -        return exp.Collate(this=super().as_text(column), expression=exp.to_identifier("C", quoted=True))
  +        return super().as_text(column)
  tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[postgres]
spark-compares-texts-as-a-column-was-declared in releases/engine/tables/dialects.py
  -exp.Literal.string("UTF8_BINARY")
  +exp.Literal.string("UTF8_LCASE")
  tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[spark]
whole-numbers-end-at-2-to-the-53 in releases/engine/tables/number.py
  -    return exp.case().when(is_whole, number.copy(), copy=False)
  +    return exp.case().when(is_whole, within.copy(), copy=False)
  tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[duckdb]
every-fourth-year-has-a-leap-day in releases/engine/tables/date.py
  -("29", "0~2", _LEAP_YEAR)
  +("29", "0~2", f"[0-9]{{2}}{_FOURTH}|[0-9]{{2}}00")
  tests/engine/tables/test_dates.py::test_dirty_dates_count_as_the_reference_says[duckdb]
a-median-of-dates-is-one-of-bins in releases/engine/tables/bounding.py
  -    if not attribute.has_values:
  +    if not attribute.is_numeric:
  tests/engine/tables/test_dates.py::test_dates_that_count_by_themselves_are_the_days_and_seconds_that_the_reference_says[duckdb]
the-day-after-the-last-one-counts in releases/engine/tables/code.py
  -    not_over = exp.LT(
  +    not_over = exp.LTE(
  tests/engine/tables/test_dates.py::test_dirty_dates_count_as_the_reference_says[duckdb]
a-missing-condition-is-false in releases/engine/tables/derived.py
  -chosen = chosen.when(exp.Not(this=parts[0].copy()), parts[2], copy=False)
  +chosen = chosen.else_(parts[2], copy=False)
  tests/engine/tables/test_formulas.py::test_each_operation_gives_on_dirty_rows_what_the_reference_says[duckdb]
votes-of-other-persons in releases/engine/tables/persons.py
  -partition_by=[column(UNIT), given.copy()])
  +partition_by=[given.copy()])
  tests/engine/tables/test_persons.py::test_all_rows_of_a_person_move_a_joint_vector_no_further_than_is_declared[add_remove-duckdb]
ends-of-other-persons in releases/engine/tables/persons.py
  -_AGGREGATES[asked.taken.take](this=column(_rank(place))), partition_by=[column(UNIT)])
  +_AGGREGATES[asked.taken.take](this=column(_rank(place))))
  tests/engine/tables/test_persons.py::test_all_rows_of_a_person_move_a_joint_vector_no_further_than_is_declared[add_remove-duckdb]
single-rows-beside-values-of-persons in releases/engine/domain/formula_parser.py
  -if self._function_of_person and self._outside >= 0:
  +if self._function_of_person and self._outside >= len(self._text):
  tests/engine/tables/test_persons.py::test_what_breaks_a_rule_is_refused
sums-within-formulas-in-whole-numbers in releases/engine/domain/attribute.py
  -max(10 - digits, *map(places, ends))
  +max(0, *map(places, ends))
  tests/engine/tables/test_persons.py::test_a_sum_with_something_around_it_keeps_the_decimal_places_of_its_rows
times-of-persons-without-their-hours in releases/engine/tables/derived.py
  -if type_ is Type.MOMENT and kind is AttributeKind.DATE:
  +if type_ is Type.MOMENT:
  tests/engine/tables/test_persons.py::test_what_is_taken_of_a_persons_dirty_rows_is_what_the_reference_says[duckdb]
rows-at-the-price-of-persons in releases/engine/domain/schema.py
  -return 1 if self.counts_persons else self.unit.max_rows
  +return 1 if self.unit.id_column else self.unit.max_rows
  tests/engine/tables/test_persons.py::test_a_person_of_more_rows_than_the_unit_keeps_takes_part_with_all_of_them
a-row-without-a-bin-is-kept-first in releases/engine/tables/bounding.py
  -nulls_first=False
  +nulls_first=True
  tests/engine/tables/test_contract.py::test_of_a_person_s_rows_that_differ_in_nothing_else_the_one_with_a_bin_is_kept[duckdb]
one-row-more-of-each-person in releases/engine/tables/bounding.py
  -whole(schema.rows_of_unit)
  +whole(schema.rows_of_unit + 1)
  tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[duckdb]
a-person-s-rows-are-left-out-before-they-are-bounded in releases/engine/tables/query.py
  -        if not self.universe.own_rows:
  -            counted
  +        if self.universe.may_drop:
  +            counted
  tests/engine/tables/test_contract.py::test_tables_that_count_rows_of_their_own_count_them_as_the_reference_says[duckdb]
tables-lose-rows-for-the-rules-of-others in releases/engine/mechanisms/queries.py
  -return options[TOGETHER.name] != "yes" and options[ROWS.name] is None
  +return options[TOGETHER.name] == "no" and options[ROWS.name] is None
  tests/engine/workload/test_own_rows.py::test_tables_count_rows_of_their_own_unless_something_chosen_puts_them_together
a-row-that-comes-into-a-table-moves-nothing-more in releases/engine/workload/queries.py
  -size + self._may_drop(name) for name, size
  +size for name, size
  tests/engine/workload/test_own_rows.py::test_one_unit_moves_all_answers_exactly_as_far_as_is_declared[replace-1]
a-joint-table-counts-tables-of-different-rules in releases/engine/estimation/components.py
  -for group in workload.by_rules for
  +for group in (workload,) for
  tests/engine/workload/test_own_rows.py::test_only_tables_of_one_rule_are_counted_from_one_joint_table
tables-of-different-rows-are-made-to-agree in releases/engine/workload/queries.py
  -if self.universe.own_rows and self.rules_differ:
  +if self.universe.own_rows and not self.families:
  tests/engine/workload/test_own_rows.py::test_least_squares_refuse_tables_that_count_different_rows
rows-and-persons-at-the-price-of-one-of-both in releases/engine/workload/queries.py
  -l1 += rows * part
  +l1 = rows * part
  tests/engine/workload/test_rows_and_persons.py::test_one_person_moves_answers_about_rows_and_persons_together_as_far_as_is_declared[add_remove-1]
a-fit-takes-rows-and-persons in releases/engine/domain/population.py
  -chain.from_iterable(map(_apart, populations))
  +populations
  tests/engine/workload/test_rows_and_persons.py::test_rows_and_persons_are_in_no_fit_and_no_least_squares_together
groups-of-tables-each-with-all-of-beta in releases/engine/mechanisms/squares_by_rules.py
  -group.size / workload.size * log1p(-beta)
  +log1p(-beta)
  tests/engine/mechanisms/test_squares_by_rules.py::test_groups_share_one_beta_and_one_that_is_left_as_it_is_keeps_its_bound
tables-of-persons-agree-with-tables-of-rows in releases/engine/workload/queries.py
  -is_of_persons = self.universe[family.attributes[0]].per_person is not None
  +is_of_persons = not family.attributes
  tests/engine/mechanisms/test_squares_by_rules.py::test_rows_and_persons_agree_each_among_themselves
a-fit-takes-tables-of-two-populations in releases/engine/domain/population.py
  -if len(found) != 1:
  +if not found:
  tests/engine/domain/test_populations.py::test_no_fit_takes_tables_of_two_populations
counts-of-more-rows-a-person-than-the-noise-hides in releases/engine/mechanisms/base.py
  -counts.population != self.schema.population:
  +counts.population.counted is not self.schema.counted:
  tests/engine/domain/test_populations.py::test_no_plan_runs_on_counts_of_another_population
a-double-beyond-the-grammar-counts-by-its-type in releases/engine/tables/number.py
  -expression=double(_LONG_EXPONENT)
  +expression=double(1e300)
  tests/engine/tables/test_typed.py::test_values_of_every_type_count_as_their_texts_do_and_as_the_reference_says[duckdb]
a-whole-number-is-another-text-s-category in releases/engine/tables/code.py
  - and str(int(text)) == text
  +
  tests/engine/tables/test_typed.py::test_values_of_every_type_count_as_their_texts_do_and_as_the_reference_says[duckdb]
the-day-after-9999-counts-by-its-type in releases/engine/tables/date.py
  -("DATE", "0001-01-01", "9999-12-31")
  +("DATE", "0001-01-01", "20000-12-31")
  tests/engine/tables/test_typed.py::test_values_of_every_type_count_as_their_texts_do_and_as_the_reference_says[duckdb]
a-vertical-tab-is-part-of-a-text in releases/engine/tables/dialects.py
  -SPACES = (32, 9, 10, 11, 12, 13)
  +SPACES = (32, 9, 10, 12, 13)
  tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[duckdb]
a-missing-code-written-otherwise-is-a-number in releases/engine/tables/number.py
  -        read = exp.Nullif(this=read, expression=double(code))
  +        read = exp.Coalesce(this=read, expressions=[double(code)])
  tests/engine/tables/test_tables.py::test_a_missing_code_is_no_child_and_a_row_with_one_counts_as_a_row_without_a_value[duckdb]
a-missing-code-is-a-text-like-others in releases/engine/tables/text.py
  -        text = exp.Nullif(this=text, expression=exp.Literal.string(code))
  +        continue
  tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[duckdb]
a-missing-code-written-otherwise-is-unreadable in releases/engine/tables/code.py
  -        chain = chain.when(is_coded, place[MISSING], copy=False)
  +        pass
  tests/engine/tables/test_contract.py::test_how_each_value_reads_as_declared_is_counted_as_the_reference_says[rows-duckdb]
a-misread-column-needs-no-reason in releases/services/releases.py
  -    if not reason.strip() and (misread
  +    if False and (misread
  tests/web/releases/test_check_columns.py::test_a_release_of_a_misread_column_needs_a_reason_and_another_does_not
a-third-check-is-charged in releases/services/releases.py
  -    if release.kind is CHECK and checks_had(entry.budget) > MOST_CHECKS:
  +    if release.kind is CHECK and checks_had(entry.budget) > MOST_CHECKS + 1:
  tests/web/releases/test_check_columns.py::test_a_budget_is_charged_for_two_checks_at_most
quantile-of-all-above-the-greatest-lower-end in releases/publication/totals.py
  -    lower, upper = min(row["lower"] for row in rows), max(row["upper"] for row in rows)
  +    lower, upper = max(row["lower"] for row in rows), max(row["upper"] for row in rows)
  tests/web/results/test_totals.py::test_where_the_interval_of_each_group_holds_its_quantiles_that_of_all_holds_theirs
total-of-each-table-read-off-the-first-rows in releases/publication/totals.py
  -        first += cells
  tests/web/results/test_totals.py::test_every_table_has_its_line_in_each_form_of_the_totals_and_the_answers_have_none
variance-of-all-as-sure-as-that-of-one-group in releases/publication/totals.py
  -    off = reach / size**2 + _ROUNDED * sum(map(abs, sums))
  +    off = reach / size**2 / 3 + _ROUNDED * sum(map(abs, sums))
  tests/web/results/test_totals.py::test_where_the_interval_of_each_group_holds_its_variance_that_of_all_holds_theirs
no-number-lies-in-running-totals in releases/engine/workload/queries.py
  -        object.__setattr__(self, "universe", self.universe.ordered(running))
  +        object.__setattr__(self, "universe", self.universe)
  tests/engine/workload/test_person_sensitivity.py::test_running_totals_leave_out_what_is_no_number_however_they_are_asked
rows-without-a-number-never-vanish in releases/engine/domain/attribute.py
  -        return not self.missing_as if self.has_grammar else (self.missing_as or self.outside) == DROP
  +        return False if self.has_grammar else (self.missing_as or self.outside) == DROP
  tests/engine/tables/test_tables.py::test_the_total_is_public_exactly_where_no_row_that_replaces_another_changes_it
planned-with-the-columns-of-another-question in releases/engine/mechanisms/base.py
  -        if any(schema.universe[each.name] != each for each in workload.universe.attributes):
  +        if False:
  tests/engine/mechanisms/test_mechanisms.py::test_a_question_about_columns_declared_otherwise_is_not_planned
a-dropped-missing-value-leaves-the-total-public in releases/engine/domain/attribute.py
  -        return self.drops_missing or DROP in (self.outside, self.missing_as)
  +        return self.is_numeric or self.outside == DROP
  tests/engine/tables/test_tables.py::test_the_total_is_public_exactly_where_no_row_that_replaces_another_changes_it
claimed-twice in releases/services/execution.py
  -        pk=release_id, state=ReleaseState.QUEUED, attempts__lt=settings.MAX_ATTEMPTS
  +        pk=release_id, attempts__lt=settings.MAX_ATTEMPTS
  tests/web/worker/test_execution.py::test_a_release_runs_once_however_often_it_is_delivered
a-late-worker-publishes in releases/services/execution.py
  -        published = Release.objects.filter(pk=release_id, state=ReleaseState.RUNNING, run_token=token).change(
  +        published = Release.objects.filter(pk=release_id).change(
  tests/web/worker/test_execution.py::test_a_worker_that_lost_its_lease_publishes_nothing_while_another_runs
an-upload-claimed-twice in releases/services/uploads.py
  -pk=upload_id, state=UploadState.WAITING, attempts__lt=
  +pk=upload_id, attempts__lt=
  tests/web/datasets/test_reading_uploads.py::test_a_table_is_read_once_however_often_its_message_comes
a-late-worker-stores in releases/services/uploads.py
  -        ours = _held(upload.pk, token).update(
  +        ours = Upload.objects.filter(pk=upload.pk).update(
  tests/web/datasets/test_reading_uploads.py::test_a_worker_that_lost_its_lease_stores_nothing
progress-by-what-the-file-holds in releases/engine/tables/files/encoding.py
  -                report.within(CHECK, min(read / size, 1.0))
  +                report.within(CHECK, min(chunk.count(b"\n") / 1_000_000, 1.0))
  tests/web/datasets/test_reading_uploads.py::test_progress_is_the_same_for_files_of_one_size_whatever_they_hold
a-line-of-another-encoding-by-the-number-of-its-row in releases/engine/tables/files/delimited.py
  -        check_bytes(header.source, header.facts)
  -        rule =
  +        rule =
  tests/engine/tables/files/test_ingest.py::test_a_character_that_is_cut_off_is_found_in_its_line_wherever_the_file_is_cut_to_be_read
a-hash-that-begins-as-the-last-one-ended in releases/engine/tables/files/md5.py
  -                        state[place, lane] = _START[place]
  +                        state[place, lane] += 0
  tests/engine/tables/files/test_md5.py::test_hashes_of_many_texts_are_added_up
missing-values-that-are-empty-in-the-digest in releases/engine/tables/files/digest.py
  -coalesce({identifier(name)}, chr(30))
  +coalesce({identifier(name)}, '')
  tests/engine/tables/files/test_ingest.py::test_a_table_has_the_digest_that_it_had_when_it_was_first_stored
a-refused-table-that-is-left-behind in releases/engine/tables/files/ingest.py
  -            partial.unlink(missing_ok=True)
  +            pass
  tests/engine/tables/files/test_ingest.py::test_nothing_is_left_of_a_file_that_is_refused
an-error-tells-its-values in releases/worker/failures.py
  -    logger.error("%s failed: %s at %s", what, type(error).__name__, places)
  +    logger.error("%s failed: %s at %s", what, error, places)
  tests/web/worker/test_execution.py::test_a_failure_is_logged_without_what_the_exception_says
# Certificates
a-certificate-for-one-row-of-a-person in releases/engine/mechanisms/error_certificate.py
  -noise=allowance.noise(Sensitivity(l1=rows, l2_squared=rows * rows))
  +noise=allowance.noise(Sensitivity(l1=1, l2_squared=1))
  tests/engine/bounds/test_measured_error.py::test_a_pure_budget_buys_laplace_noise_and_any_other_gaussian_noise_for_exactly_the_budget
a-mean-with-the-noise-of-one-table in releases/engine/mechanisms/error_certificate.py
  -for each in schema.apart) * tables
  +for each in schema.apart)
  tests/engine/bounds/test_mean_error.py::test_each_of_k_numbers_has_a_k_th_of_the_budget_and_noise_for_all_of_its_tables
a-certificate-that-spends-its-budget-on-each-number in releases/engine/mechanisms/measured_error.py
  -whole.share(Fraction(1, numbers))
  +whole
  tests/engine/bounds/test_mean_error.py::test_each_of_k_numbers_has_a_k_th_of_the_budget_and_noise_for_all_of_its_tables
a-mean-that-forgets-rows-that-are-missing in releases/engine/bounds/distance.py
  -return max(too_many, too_many - int(difference.sum()))
  +return too_many
  tests/engine/bounds/test_mean_error.py::test_the_distance_is_the_least_number_of_rows_to_add_remove_or_change
bounds-of-means-that-each-have-all-of-beta in releases/engine/mechanisms/measured_error.py
  -beta = request.beta / parts / numbers
  +beta = request.beta / parts
  tests/engine/bounds/test_mean_error.py::test_its_bound_fails_no_more_often_than_its_part_of_beta_and_would_with_a_shorter_tail
rows-called-closer-by-half-the-proof in releases/presentation/results/closer.py
  -if 2 * most >= apart:
  +if most >= apart:
  tests/web/results/test_closer.py::test_rows_are_closer_where_twice_what_is_certified_is_below_the_distance_and_not_a_row_before
every-certificate-of-a-release-fails-as-often-as-all-may in releases/engine/mechanisms/measured_error.py
  -parts = number * (number + 1) or 1
  +parts = 1
  tests/engine/bounds/test_measured_error.py::test_certificates_of_one_release_hold_together_though_each_is_bought_because_of_those_before
two-certificates-have-one-number in releases/services/release_inputs.py
  -if plan.options[NUMBER.name] in {0, *certificate_numbers(release.certifies, besides=release)}:
  +if plan.options[NUMBER.name] in {0}:
  tests/web/results/test_certify.py::test_two_that_were_planned_as_the_same_one_are_not_both_charged
a-certificate-s-number-that-only-the-database-knows in releases/services/execution.py
  -high_water_marks.note_certificate(release.certifies_id, plan.options[NUMBER.name])
  +pass
  tests/web/results/test_certify.py::test_a_number_that_a_restored_backup_has_forgotten_is_not_given_again
a-certificate-of-another-file in releases/services/certificates.py
  -if not path.is_file() or files.sha256_of(path) != each.sha256:
  +if not path.is_file():
  tests/web/results/test_certify.py::test_a_file_that_was_changed_after_the_charge_stops_it_before_any_data_are_touched
a-certificate-seen-by-everybody in releases/models/releases.py
  -readable = self.visible_to(person).filter(certifies=release.pk, state=ReleaseState.PUBLISHED)
  +readable = self.filter(certifies=release.pk, state=ReleaseState.PUBLISHED)
  tests/web/results/test_certify.py::test_a_certificate_is_shown_to_those_who_may_see_it_and_it_and_its_release_are_public_apart
# Beside the columns
kept-columns-of-anybody in releases/views/datasets/columns.py
  -KeptColumns.objects.filter(dataset=dataset, person=signed_in(request)).first()
  +KeptColumns.objects.filter(dataset=dataset).first()
  tests/web/datasets/test_kept_columns.py::test_people_who_share_a_table_keep_what_is_theirs_and_hear_of_each_other
learned-from-other-rows-taken-over in releases/schema/taken_columns.py
  -[each.of_columns(names) for name, each in fitting.items() if name not in learned]
  +[each.of_columns(names) for name, each in fitting.items()]
  tests/web/datasets/test_take_over.py::test_what_a_release_learned_from_the_other_table_s_rows_is_not_taken_and_that_is_said
one-of-several-columns-guessed in releases/schema/similar_names.py
  -for names, others in found if len(names) == len(others) == 1
  +for names, others in found
  tests/web/datasets/test_take_over.py::test_of_several_names_that_are_written_alike_none_is_paired_and_all_are_named
columns-taken-for-others-unasked in releases/services/taking_over.py
  -        if similar.get(name) != own:
  +        if name not in similar:
  tests/web/datasets/test_take_over.py::test_what_is_not_confirmed_is_not_taken_nor_what_is_made_of_it
taken-over-from-anybody-s-table in releases/models/datasets.py
  -self.visible_to(person).filter(nearby).exclude(declared=None)
  +self.filter(nearby | Q(pk__isnull=False)).exclude(declared=None)
  tests/web/datasets/test_take_over.py::test_only_declared_tables_of_the_person_or_of_the_same_group_are_offered
unreleased-description-found in releases/views/public/catalogue.py
  -Q(searchable__text__contains=folded(each))
  +Q(dataset__description__icontains=each)
  tests/web/datasets/test_descriptions.py::test_the_catalogue_shows_and_finds_what_was_released_and_not_what_was_written_since
rows-of-a-person-rounded-up-as-one in releases/engine/workload/sensitivity.py
  -    return Changes(most=most, cases=cases, rows=schema.rows_of_unit)
  +    return Changes(most=most, cases=cases)
  tests/engine/workload/test_sensitivity.py::test_rounded_sums_move_no_further_than_declared_however_a_unit_s_rows_are_spread
a-row-of-weight-counted-once in releases/engine/workload/sensitivity.py
  -rows = schema.rows_of_unit * weight
  +rows = schema.rows_of_unit
  tests/engine/workload/test_sensitivity.py::test_weighted_sums_means_and_counts_move_exactly_as_far_as_declared_for_any_weights_up_to_the_cap
weighted-pair-for-one-unit-of-weight in releases/engine/workload/row_means.py
  -rows = self.schema.rows_of_unit * self.most_weight
  +rows = self.schema.rows_of_unit
  tests/engine/workload/test_sensitivity.py::test_a_weighted_pair_on_any_lattice_moves_by_the_steps_of_its_weight_together
weight-above-the-cap in releases/engine/workload/weights.py
  -edges=(Decimal(0), *within, self.cap), outside=CLAMP
  +edges=(Decimal(0), *within, self.cap)
  tests/engine/tables/test_survey_weights.py::test_weighted_answers_are_those_of_pandas
"""


def _read(table: str) -> Iterator[Mutation]:
    for entry in re.split(r"\n(?! )", re.sub(r"\n#.*", "", table).strip()):
        first, *lines, test = entry.split("\n")
        name, file = first.split(" in ")
        text, instead = ("\n".join(each[3:] for each in lines if each.startswith(f"  {sign}")) for sign in "-+")
        yield Mutation(name=name, file=file, text=text, instead=instead, test=test.strip())


MUTATIONS = tuple(_read(_TABLE))


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one mutation: killed by its test, or not, and what pytest said last."""

    mutation: Mutation
    status: int
    said: str
    seconds: float

    @property
    def is_killed(self) -> bool:
        return self.status == _TESTS_FAILED


def outcomes(mutations: Sequence[Mutation]) -> Iterator[Outcome]:
    """Make each mistake in one copy of the tree, run its test, and take the mistake back.

    Raises:
        ValueError: the text of one does not stand in its file exactly once.
    """
    for mutation in mutations:
        mutated((ROOT / mutation.file).read_text(), mutation)
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = Path(folder) / "code"
        copy.mkdir()
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy2(source, copy / name)
        for mutation in mutations:
            path = copy / mutation.file
            right = path.read_text()
            path.write_text(mutated(right, mutation))
            try:
                yield _run(mutation, copy)
            finally:
                path.write_text(right)


def mutated(text: str, mutation: Mutation) -> str:
    if text.count(mutation.text) != 1:
        raise ValueError(f"{mutation.name}: its text stands in {mutation.file} {text.count(mutation.text)} times")
    return text.replace(mutation.text, mutation.instead)


def _run(mutation: Mutation, copy: Path) -> Outcome:
    started = time.monotonic()
    command = [sys.executable, "-B", "-m", "pytest", mutation.test, "-q", "-x", "--tb=no", "--no-header"]
    try:
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=_MAX_SECONDS, check=False)
        status, said = done.returncode, (done.stdout.strip() or done.stderr.strip()).splitlines()[-1]
    except subprocess.TimeoutExpired:
        status, said = -1, f"not done after {_MAX_SECONDS:.0f} seconds"
    return Outcome(mutation=mutation, status=status, said=said, seconds=time.monotonic() - started)


def main(names: Sequence[str]) -> int:
    known = {mutation.name: mutation for mutation in MUTATIONS}
    if unknown := set(names) - set(known):
        sys.stderr.write(f"{', '.join(sorted(unknown))} must be one of {', '.join(known)}.\n")
        return 2
    survived = 0
    for outcome in outcomes([known[name] for name in names] or MUTATIONS):
        survived += not outcome.is_killed
        verdict = "killed  " if outcome.is_killed else "SURVIVED"
        sys.stdout.write(f"{verdict}  {outcome.mutation.name:45}  {outcome.seconds:5.0f} s  {outcome.said}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{survived} survived.\n" if survived else "All were killed.\n")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
