"""Mistakes that must not go unnoticed: each is made in a copy of the code, and a named test must then fail.

    python -m tests.mutations            # all of them, one after the other
    python -m tests.mutations NAME ...   # some

Prints for each whether it was killed, and ends with status 1 if one survived. Each names the fewest tests that have to
notice it; the whole suite would only take longer. That each text still stands in its file, once, is checked by
`test_mutations.py` in every run of the suite.
"""

from __future__ import annotations

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


MUTATIONS = (
    # Noise and choices
    Mutation(
        name="choice-without-factor-2",
        file="releases/engine/noise/selection.py",
        text="return Fraction(epsilon) / (sensitivity if monotone else 2 * sensitivity)",
        instead="return Fraction(epsilon) / sensitivity",
        test="tests/engine/noise/test_selection.py::test_the_law_is_the_one_defined_and_not_that_of_another_epsilon",
    ),
    Mutation(
        name="range-whole-epsilon-at-each-end",
        file="releases/engine/mechanisms/quantiles.py",
        text="epsilon = epsilon_of_each(request.budget, draw_event, rounds=_ENDS)",
        instead="epsilon = epsilon_of_each(request.budget, draw_event, rounds=1)",
        test="tests/engine/mechanisms/test_quantiles.py::test_both_ends_together_keep_the_claim_for_neighbouring_tables",
    ),
    Mutation(
        name="counts-of-cells-moved-once-under-replace",
        file="releases/engine/mechanisms/counted_quantiles.py",
        text="max(schema.changes_of_a_row(added=1, replaced=lambda: 2))",
        instead="max(schema.changes_of_a_row(added=1, replaced=lambda: 1))",
        test=(
            "tests/engine/mechanisms/test_quantiles.py::"
            "test_no_unit_moves_the_counts_further_than_is_paid_for_whatever_the_edges"
        ),
    ),
    Mutation(
        name="draws-around-a-quantile-not-paid-for",
        file="releases/engine/mechanisms/counted_quantiles.py",
        text="_DRAWS_SHARE = 2 * _FAR_SHARE + _NEAR_SHARE",
        instead="_DRAWS_SHARE = 2 * _FAR_SHARE",
        test=("tests/engine/mechanisms/test_quantiles.py::test_draws_and_noise_together_cost_exactly_the_budget"),
    ),
    Mutation(
        name="a-row-that-changes-its-group-moves-one-rank",
        file="releases/engine/mechanisms/counted_quantiles.py",
        text="return counts_moved(schema) * max(at, 1 - at)",
        instead="return rank_sensitivity(schema, at)",
        test=(
            "tests/engine/mechanisms/test_quantiles.py::"
            "test_draws_of_two_groups_together_keep_their_epsilon_and_with_the_sensitivity_of_one_do_not"
        ),
    ),
    Mutation(
        name="interval-from-the-first-edge-that-passes",
        file="releases/engine/mechanisms/counted_quantiles.py",
        text="low = edges[first - 1] if first else attribute.lowest",
        instead="low = edges[first] if first < len(edges) else attribute.highest",
        test=(
            "tests/engine/mechanisms/test_quantiles.py::"
            "test_no_small_table_is_missed_more_often_than_beta_and_some_half_as_often"
        ),
    ),
    Mutation(
        name="score-of-a-pair-as-if-its-margins-were-public",
        file="releases/engine/mechanisms/strongest_associations.py",
        text="return (2 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 4) * schema.rows_of_unit",
        instead="return schema.rows_of_unit",
        test=(
            "tests/engine/workload/test_strongest_associations.py::"
            "test_in_large_tables_a_row_moves_a_score_nearly_as_far_as_is_paid_for"
        ),
    ),
    Mutation(
        name="tables-of-pairs-paid-for-as-one",
        file="releases/engine/mechanisms/strongest_associations.py",
        text="return Sensitivity(l1=cells * tables * rows, l2_squared=cells * tables * rows * rows)",
        instead="return Sensitivity(l1=cells * rows, l2_squared=cells * rows * rows)",
        test=(
            "tests/engine/workload/test_strongest_associations.py::"
            "test_no_person_moves_a_score_or_the_tables_further_than_is_paid_for"
        ),
    ),
    Mutation(
        name="sums-of-a-regression-moved-by-one-number",
        file="releases/engine/workload/row_regression.py",
        text="for m in range(1, numbers + 1):",
        instead="for m in range(1, 2):",
        test=(
            "tests/engine/workload/test_sensitivity.py::"
            "test_sums_of_a_regression_move_exactly_as_far_as_declared_where_rows_are_added"
        ),
    ),
    Mutation(
        name="interval-of-a-coefficient-without-its-noise",
        file="releases/engine/workload/row_regression.py",
        text="first = within(weights * np.sqrt(noise), uneven * length, one)",
        instead="first = within(0 * weights * np.sqrt(noise), uneven * length, one)",
        test=(
            "tests/engine/workload/test_regression_coverage.py::"
            "test_intervals_hold_on_samples_of_real_tables_and_half_as_wide_they_do_not"
        ),
    ),
    Mutation(
        name="threshold-for-one-value-of-a-unit",
        file="releases/engine/mechanisms/category_discovery.py",
        text="by_ones = 1 + laplace_passes(scale=scale, probability=allowed / rows)",
        instead="by_ones = 1 + laplace_passes(scale=scale, probability=allowed)",
        test="tests/engine/mechanisms/test_stable_histogram.py::test_new_values_of_one_unit_are_counted_together",
    ),
    Mutation(
        name="values-moved-once-under-replace",
        file="releases/engine/mechanisms/category_discovery.py",
        text="moved = 1 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 2",
        instead="moved = 1",
        test="tests/engine/mechanisms/test_stable_histogram.py::test_the_exact_law_keeps_the_claim_for_all_neighbours_and_less_does_not",
    ),
    Mutation(
        name="choice-monotone-under-replace",
        file="releases/engine/mechanisms/choices.py",
        text="return schema.rows_of_unit, schema.neighbours is NeighbouringRelation.ADD_REMOVE",
        instead="return schema.rows_of_unit, True",
        test="tests/engine/mechanisms/test_choices.py::test_the_noise_for_counts_that_move_one_way_is_too_little_for_replaced_rows",
    ),
    Mutation(
        name="histogram-sensitivity-1-under-replace",
        file="releases/engine/mechanisms/histogram.py",
        text="moved = 1 if schema.neighbours is NeighbouringRelation.ADD_REMOVE else 2",
        instead="moved = 1",
        test="tests/engine/domain/test_neighbouring_counts.py::test_a_histogram_moves_exactly_as_far_as_its_sensitivity_says",
    ),
    Mutation(
        name="one-range-of-a-tree-for-all-levels",
        file="releases/engine/mechanisms/laplace_tree.py",
        text="held_by = sum(used > 0 for used in self.sizes)",
        instead="held_by = 1",
        test="tests/engine/mechanisms/test_laplace_tree.py::test_no_row_moves_the_ranges_by_more_than_the_noise_is_made_for",
    ),
    Mutation(
        name="residual-of-replaced-rows-as-of-removed",
        file="releases/engine/workload/residuals.py",
        text="replaced=lambda: self._most_replaced(multipliers)",
        instead="replaced=lambda: removed",
        test=(
            "tests/engine/mechanisms/test_residual_queries.py::"
            "test_no_unit_moves_the_residuals_further_than_is_paid_for_and_some_do_move_them_so_far"
        ),
    ),
    Mutation(
        name="a-share-certified-by-the-better-end",
        file="releases/engine/estimation/trust.py",
        text="-float(np.maximum(at_a, at_b).min())",
        instead="-float(np.minimum(at_a, at_b).min())",
        test="tests/engine/estimation/test_trust.py::test_no_table_within_the_intervals_is_further_away_than_certified",
    ),
    Mutation(
        name="a-pair-certified-by-intervals-that-are-not-proved",
        file="releases/engine/estimation/trust.py",
        text="        if not self.given.is_proved:",
        instead="        if False:",
        test="tests/engine/estimation/test_trust.py::"
        "test_nothing_is_certified_where_intervals_are_not_proved_or_time_is_up",
    ),
    Mutation(
        name="noisy-tables-kept-whole-at-the-price-of-residuals",
        file="releases/engine/estimation/residuals.py",
        text="found = size * found - found.sum(axis=axis, keepdims=True)",
        instead="found = size * found",
        test=(
            "tests/engine/mechanisms/test_residual_queries.py::"
            "test_what_is_kept_of_a_noisy_table_is_a_function_of_its_residual_to_the_last_bit"
        ),
    ),
    Mutation(
        name="sums-of-noisy-cells-as-precise-as-a-cell",
        file="releases/engine/mechanisms/least_squares.py",
        text="cells[place] / (family.cells(self.workload.universe) * variance)",
        instead="1 / variance",
        test=(
            "tests/engine/mechanisms/test_least_squares.py::"
            "test_what_agrees_is_the_weighted_least_squares_estimate_and_its_variance_is_what_is_said"
        ),
    ),
    Mutation(
        name="bound-of-sums-for-one-answer-and-not-for-all",
        file="releases/engine/mechanisms/least_squares.py",
        text="share = beta / self.workload.size",
        instead="share = beta",
        test=(
            "tests/engine/mechanisms/test_least_squares.py::"
            "test_all_answers_are_within_the_bound_as_often_as_it_says_and_a_narrower_one_is_noticed"
        ),
    ),
    Mutation(
        name="noise-of-other-cells-counted-once-a-table",
        file="releases/engine/mechanisms/least_squares.py",
        text="numbers = np.multiply.outer(cells[of], states[at].ravel())",
        instead="numbers = np.ones_like(factors)",
        test=(
            "tests/engine/mechanisms/test_least_squares.py::"
            "test_an_error_is_made_of_the_noise_that_the_least_squares_matrix_takes"
        ),
    ),
    Mutation(
        name="what-is-measured-weighed-alike",
        file="releases/engine/mechanisms/mixed_squares.py",
        text="precisions = 1 / self.variances_of_draws[is_joined]",
        instead="precisions = np.ones(int(is_joined.sum()))",
        test=(
            "tests/engine/mechanisms/test_least_squares.py::"
            "test_the_answers_are_the_best_linear_estimate_from_what_was_measured"
        ),
    ),
    Mutation(
        name="bound-of-running-totals-for-one-answer-and-not-for-all",
        file="releases/engine/mechanisms/mixed_squares.py",
        text="share = beta / squares.workload.size",
        instead="share = beta",
        test=(
            "tests/engine/mechanisms/test_least_squares.py::"
            "test_all_answers_are_within_the_bound_as_often_as_it_says_and_a_narrower_one_is_noticed"
        ),
    ),
    Mutation(
        name="sums-of-noise-with-light-tails",
        file="releases/engine/bounds/combinations.py",
        text="-np.log1p(2 * variances * np.sin(angles / 2) ** 2)",
        instead="-2 * variances * np.sin(angles / 2) ** 2",
        test=(
            "tests/engine/bounds/test_accuracy.py::test_the_bound_holds_for_the_exact_law_and_hardly_anything_less_does"
        ),
    ),
    Mutation(
        name="running-sums-priced-by-their-first-factor",
        file="releases/engine/mechanisms/gaussian_cumulative.py",
        text="removed = sum(each * each for each in factors)",
        instead="removed = factors[0] ** 2",
        test=(
            "tests/engine/mechanisms/test_gaussian_cumulative.py::"
            "test_no_unit_moves_what_is_measured_further_than_is_paid_for_and_one_does_so_far"
        ),
    ),
    Mutation(
        name="shared-draw-where-rows-are-replaced",
        file="releases/engine/mechanisms/correlated_queries.py",
        text="if schema.neighbours is not NeighbouringRelation.ADD_REMOVE or not shared:",
        instead="if not shared:",
        test=(
            "tests/engine/mechanisms/test_correlated_queries.py::"
            "test_no_unit_moves_the_answers_further_against_their_covariance_than_is_paid_for"
        ),
    ),
    Mutation(
        name="distances-of-all-triples-as-one",
        file="releases/engine/mechanisms/mixture_fit.py",
        text="Sensitivity(l1=number * self.moved.l1,",
        instead="Sensitivity(l1=self.moved.l1,",
        test=(
            "tests/engine/mechanisms/test_mixture_fit.py::"
            "test_neighbours_are_drawn_for_alike_and_their_exact_numbers_cost_at_most_the_budget"
        ),
    ),
    Mutation(
        name="distances-move-as-tables-do-in-norm",
        file="releases/engine/mechanisms/mixture_fit.py",
        text="l2_squared=number * self.moved.l1**2",
        instead="l2_squared=number * self.moved.l2_squared",
        test="tests/engine/mechanisms/test_mixture_fit.py::test_distances_move_exactly_as_far_as_is_said_for_all_small_neighbours",
    ),
    Mutation(
        name="noise-halved-after-it-is-drawn",
        file="releases/engine/mechanisms/mixture_fit.py",
        text="table + noise.draw(table.shape, rng))",
        instead="table + noise.draw(table.shape, rng) // 2)",
        test="tests/engine/mechanisms/test_whole_noise.py::"
        "test_nothing_is_done_to_noise_before_it_is_added_in_any_place_that_draws_it",
    ),
    Mutation(
        name="mixture-split-by-the-exact-number-of-rows",
        file="releases/engine/mechanisms/mixture_fit.py",
        text="total += int(self.split.total.draw(1, rng)[0])",
        instead="self.split.total.draw(1, rng)",
        test=(
            "tests/engine/mechanisms/test_mixture_fit.py::"
            "test_the_number_of_rows_is_exact_where_it_is_public_and_noisy_where_it_is_not"
        ),
    ),
    Mutation(
        name="mixture-charged-without-its-tables",
        file="releases/engine/mechanisms/mixture_fit.py",
        text="return (*total, _event(self.tables), self.certificate.noise.event)",
        instead="return (*total, self.certificate.noise.event)",
        test="tests/engine/mechanisms/test_mixture_fit.py::test_a_plan_spends_its_budget_and_no_more",
    ),
    Mutation(
        name="workload-sensitivity-of-one-row-of-several",
        file="releases/engine/workload/queries.py",
        text="return Sensitivity(l1=change * rows, l2_squared=change * rows * rows)",
        instead="return Sensitivity(l1=change, l2_squared=change)",
        test="tests/engine/workload/test_workload.py::test_the_sensitivity_is_what_brute_force_over_all_neighbours_finds",
    ),
    Mutation(
        name="rows-of-persons-never-vanish",
        file="releases/engine/domain/schema.py",
        text='return self.universe.may_drop or self.unit.kind == "person"',
        instead="return self.universe.may_drop",
        test=(
            "tests/engine/workload/test_person_sensitivity.py::"
            "test_ten_rows_of_a_person_in_prefixes_of_two_categories_vanish_from_both"
        ),
    ),
    Mutation(
        name="workload-sensitivity-of-rows-that-stay",
        file="releases/engine/domain/schema.py",
        text="return (replaced(), added) if self.rows_may_vanish else (replaced(),)",
        instead="return (replaced(), added) if self.universe.may_drop else (replaced(),)",
        test=(
            "tests/engine/verification/test_verification.py::test_noise_for_persons_whose_rows_all_stay_somewhere_is_called_wrong"
        ),
    ),
    Mutation(
        name="public-counts-are-charged",
        file="releases/engine/mechanisms/base.py",
        text="if schema.total_is_public and not workload.tells_rows_apart:",
        instead="if False:",
        test="tests/engine/mechanisms/test_mechanisms.py::test_every_mechanism_for_counts_refuses_counts_that_are_public",
    ),
    Mutation(
        name="laplace-scale-halved",
        file="releases/engine/mechanisms/additive_noise.py",
        text="return discrete_laplace(scale=self.scale, size=size, rng=rng)",
        instead="return discrete_laplace(scale=self.scale / 2, size=size, rng=rng)",
        test="tests/engine/domain/test_neighbouring_counts.py::test_laplace_noise_on_cells_is_not_seen_to_spend_more_than_it_claims",
    ),
    Mutation(
        name="weighted-scale-over-the-square-of-the-weight",
        file="releases/engine/mechanisms/additive_noise.py",
        text="return self.l1_sensitivity / (self.epsilon * self.weight)",
        instead="return self.l1_sensitivity / (self.epsilon * self.weight**2)",
        test="tests/engine/domain/test_weights.py::test_noise_is_drawn_at_one_scale_over_each_importance",
    ),
    Mutation(
        name="weighted-scale-for-an-unweighted-sensitivity",
        file="releases/engine/workload/queries.py",
        text="l1=rows * self._most_changed(schema, self.weights),",
        instead="l1=rows * self._most_changed(schema, (1,) * len(self.families)),",
        test=(
            "tests/engine/domain/test_weights.py::"
            "test_laplace_noise_as_drawn_loses_at_most_epsilon_on_all_neighbours_and_all_of_it_on_some"
        ),
    ),
    Mutation(
        name="sum-sensitivity-of-the-range-alone",
        file="releases/engine/workload/sensitivity.py",
        text="return max(abs(self.lowest), abs(self.highest))",
        instead="return abs(self.highest)",
        test="tests/engine/workload/test_sensitivity.py::test_sums_and_centred_sums_with_their_count_move_exactly_as_far_as_declared",
    ),
    Mutation(
        name="a-row-that-changes-its-group-moves-one",
        file="releases/engine/workload/measurements.py",
        text="cases += [self._padded(case + case) for case in self._added.moved.cases]",
        instead="cases += [self._padded(case) for case in self._added.moved.cases]",
        test=(
            "tests/engine/workload/test_sensitivity.py::"
            "test_sums_by_group_move_exactly_as_far_as_declared_in_one_group_or_from_one_to_another"
        ),
    ),
    Mutation(
        name="a-pair-rounded-upwards-twice",
        file="releases/engine/workload/row_means.py",
        text="ceil(total / unit - half) if place % 2 else floor(total / unit + half)",
        instead="floor(total / unit + half) if place % 2 else floor(total / unit + half)",
        test=(
            "tests/engine/workload/test_sensitivity.py::"
            "test_a_pair_on_any_lattice_moves_by_the_steps_of_its_range_together_when_a_row_is_added"
        ),
    ),
    Mutation(
        name="a-pair-at-the-price-of-one-row-of-a-person",
        file="releases/engine/workload/row_means.py",
        text="rows = self.schema.rows_of_unit * self.most_weight",
        instead="rows = self.most_weight",
        test="tests/engine/workload/test_sensitivity.py::test_sums_and_centred_sums_with_their_count_move_exactly_as_far_as_declared",
    ),
    Mutation(
        name="squares-at-the-price-of-one-row-of-a-person",
        file="releases/engine/workload/row_variances.py",
        text="rows, weight, case, most = self.schema.rows_of_unit, self.most_weight, [], []",
        instead="rows, weight, case, most = 1, self.most_weight, [], []",
        test="tests/engine/workload/test_variances.py::test_squares_and_products_move_exactly_as_far_as_declared",
    ),
    Mutation(
        name="a-replaced-row-moves-one-square",
        file="releases/engine/workload/row_variances.py",
        text="case += [size, 0, size if is_replaced else 0]",
        instead="case += [size, 0, 0]",
        test="tests/engine/workload/test_variances.py::test_squares_and_products_move_exactly_as_far_as_declared",
    ),
    Mutation(
        name="squares-rounded-for-nothing",
        file="releases/engine/workload/row_variances.py",
        text="extra = ceil(2 * unit) if unit > 1 else 0",
        instead="extra = 0",
        test="tests/engine/workload/test_variances.py::test_rounded_sums_move_by_no_more_steps_than_declared",
    ),
    Mutation(
        name="variances-between-the-corners-of-a-box",
        file="releases/engine/workload/row_variances.py",
        text="return min(max(one + product_of_both + product_of_both**2 / (2 * one), low), high)",
        instead="return high",
        test="tests/engine/workload/test_variances.py::test_an_interval_holds_the_variance_of_every_table_in_its_box_and_ends_at_some",
    ),
    Mutation(
        name="noise-drawn-from-a-fixed-state",
        file="releases/engine/noise/randomness.py",
        text="return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)",
        instead='return StreamRandomness(b"state kept in the process").words(count)',
        test="tests/engine/noise/test_randomness.py::test_two_forked_workers_never_give_equal_noise",
    ),
    Mutation(
        name="remainder-of-a-draw-dropped",
        file="releases/engine/noise/discrete.py",
        text="rest.append((max(0, lo), hi))",
        instead="rest.append((0, 1 if x else hi))",
        test="tests/engine/noise/test_noise.py::test_floor_and_remainder_together_are_exactly_the_law",
    ),
    Mutation(
        name="zero-counted-twice",
        file="releases/engine/noise/discrete.py",
        text="refused |= (size == 0) & (negative == 1)",
        instead="",
        test="tests/engine/noise/test_noise.py::test_a_gaussian_law_of_blocks_is_the_law_of_one_table",
    ),
    # Budgets
    Mutation(
        name="weights-of-the-mixture-above-one",
        file="releases/engine/accounting/mixture.py",
        text="_SHARP, _BROAD = Fraction(773, 1000), Fraction(2434, 1000)",
        instead="_SHARP, _BROAD = Fraction(7, 1000), Fraction(24, 1000)",
        test="tests/engine/accounting/test_filters.py::test_the_weights_of_every_budget_add_up_to_at_most_one",
    ),
    Mutation(
        name="pure-releases-cost-nothing-beside-noise",
        file="releases/engine/accounting/mixture.py",
        text="costs = [min(pair) for pair in zip(costs, _of_pure(pure_epsilon), strict=True)]",
        instead="costs = [0] * len(costs)",
        test="tests/engine/accounting/test_filters.py::test_a_pure_release_costs_the_divergence_of_randomized_response_rounded_up",
    ),
    # Thresholds
    Mutation(
        name="no-threshold-noise",
        file="releases/engine/mechanisms/thresholds.py",
        text="bar = stream.above + discrete_laplace(scale=self.comparisons.threshold_scale, size=1, rng=rng)",
        instead="bar = np.array([stream.above])",
        test="tests/engine/mechanisms/test_thresholds.py::test_runs_have_the_exact_law_and_not_that_of_another_epsilon",
    ),
    Mutation(
        name="query-noise-that-does-not-grow-with-answers",
        file="releases/engine/mechanisms/thresholds.py",
        text="weight = answers if monotone else 2 * answers",
        instead="weight = 1 if monotone else 2",
        test="tests/engine/mechanisms/test_thresholds.py::test_ours_lose_what_they_claim_and_the_published_wrong_ones_lose_more",
    ),
    Mutation(
        name="answers-after-the-last",
        file="releases/engine/mechanisms/thresholds.py",
        text="asked = np.cumsum(passes) - passes < stream.answers",
        instead="asked = np.cumsum(passes) - passes < stream.answers + 1",
        test="tests/engine/mechanisms/test_thresholds.py::test_it_says_above_and_below_and_stops_after_so_many",
    ),
    Mutation(
        name="the-compared-value-is-told",
        file="releases/engine/mechanisms/thresholds.py",
        text="values = exact[above] + fresh[: int(above.sum())]",
        instead="values = compared[above]",
        test="tests/engine/mechanisms/test_thresholds.py::test_the_values_have_fresh_noise_whatever_the_comparison_was",
    ),
    Mutation(
        name="a-session-that-never-ends",
        file="releases/engine/mechanisms/pmw/session.py",
        text="return self.rules.updates - self._used",
        instead="return max(1, self.rules.updates - self._used)",
        test="tests/engine/mechanisms/test_pmw_online.py::test_after_the_last_update_no_data_are_touched",
    ),
    # Prices
    Mutation(
        name="prices-rounded-down",
        file="releases/engine/arithmetic/rounding.py",
        text="return -((-value.numerator * scale) // value.denominator)",
        instead="return (value.numerator * scale) // value.denominator",
        test="tests/engine/accounting/test_accountant.py::test_every_amount_is_rounded_up",
    ),
    Mutation(
        name="parallel-parts-cost-one-under-replace",
        file="releases/engine/accounting/accountant.py",
        text="changed = 1 if event.neighbours is NeighbouringRelation.ADD_REMOVE else 2",
        instead="changed = 1",
        test="tests/engine/accounting/test_accountant.py::test_a_unit_that_moves_between_parts_really_spends_what_two_parts_cost",
    ),
    Mutation(
        name="group-rho-not-squared",
        file="releases/engine/accounting/conversions.py",
        text="return size * size * rho",
        instead="return size * rho",
        test="tests/engine/accounting/test_accountant.py::test_a_group_pays_its_size_in_epsilon_and_its_square_in_rho",
    ),
    Mutation(
        name="unknown-events-are-free",
        file="releases/engine/accounting/accountant.py",
        text='        raise Unpriceable(f"No price is known for events of kind {kind!r}.")',
        instead="        return Forms(epsilon=Fraction(0), rho=Fraction(0))",
        test="tests/engine/accounting/test_accountant.py::test_an_event_without_an_entry_here_is_refused",
    ),
    Mutation(
        name="discrete-laplace-at-the-continuous-rho",
        file="releases/engine/accounting/accountant.py",
        text="    return _pure(1 / event.noise_multiplier)",
        instead="    return _laplace(event)",
        test="tests/engine/accounting/test_accountant.py::test_each_pure_kind_has_its_epsilon_and_its_least_proved_rho",
    ),
    # The ledger and the protocol
    Mutation(
        name="no-filter",
        file="releases/ledger/ledger.py",
        text="    if not filters.admits(budget.totals, price, budget.caps):",
        instead="    if False:",
        test="tests/web/review/test_ledger.py::test_a_refusal_carries_both_numbers_and_charges_nothing",
    ),
    Mutation(
        name="a-grant-falls-after-a-charge",
        file="releases/ledger/grants.py",
        text="        if exact(new, field=field) < exact(granted, field=field):",
        instead="        if exact(new, field=field) < 0:",
        test="tests/web/review/test_ledger.py::test_a_budget_can_be_raised_and_never_lowered_once_something_is_charged",
    ),
    Mutation(
        name="a-key-charges-twice",
        file="releases/ledger/ledger.py",
        text="    made = LedgerEntry.objects.filter(key=key).first()",
        instead="    made, key = None, uuid.uuid4()",
        test="tests/web/review/test_ledger.py::test_the_same_key_twice_is_one_charge",
    ),
    Mutation(
        name="a-chain-of-one-link",
        file="releases/ledger/verification.py",
        text="if entry.previous != previous or entry.hash != entries.hash_of(entry):",
        instead="if entry.previous != previous:",
        test="tests/web/review/test_ledger.py::test_the_audit_finds_a_forged_entry",
    ),
    Mutation(
        name="an-old-backup-spends-again",
        file="releases/ledger/ledger.py",
        text="    _refuse_a_ledger_that_went_back(budget, release)\n    price",
        instead="    price",
        test="tests/web/review/test_ledger.py::test_a_restored_backup_is_noticed_and_refuses_to_spend_until_a_reviewer_acts",
    ),
    Mutation(
        name="marks-without-a-lock",
        file="releases/ledger/chain.py",
        text="        fcntl.flock(file, fcntl.LOCK_EX)\n        yield",
        instead="        yield",
        test="tests/web/review/test_marks.py::test_eight_processes_that_raise_one_mark_at_once_never_leave_it_too_low",
    ),
    Mutation(
        name="an-old-backup-runs-again",
        file="releases/services/execution.py",
        text="    if is_behind(release_id):",
        instead="    if False:",
        test="tests/web/review/test_marks.py::test_what_a_worker_had_begun_is_neither_run_again_nor_given_back",
    ),
    Mutation(
        name="an-old-backup-gives-back",
        file="releases/services/releases.py",
        text="    if why := stale_ledger.refusal(release.dataset.budget) or stale_ledger.begun(release.pk):",
        instead='    if why := "":',
        test="tests/web/review/test_marks.py::test_what_a_worker_had_begun_is_neither_run_again_nor_given_back",
    ),
    Mutation(
        name="a-charge-of-what-a-worker-had-begun-goes-back",
        file="releases/ledger/entries.py",
        text="    if not release.that_read_nothing().exists() or stale_ledger.begun(release_id):",
        instead="    if not release.that_read_nothing().exists():",
        test="tests/web/review/test_marks.py::test_the_ledger_itself_gives_nothing_back_of_what_a_worker_had_begun",
    ),
    Mutation(
        name="an-old-backup-asks-again",
        file="releases/services/sessions.py",
        text="    if why := stale_ledger.refusal(release.dataset.budget, and_release=release.pk):",
        instead='    if why := "":',
        test="tests/web/review/test_marks.py::test_a_session_that_had_answered_more_answers_nothing_and_is_closed_by_a_reviewer",
    ),
    Mutation(
        name="an-answer-that-only-the-database-knows",
        file="releases/services/sessions.py",
        text="        high_water_marks.note_answer(locked.pk, sequence)",
        instead="        pass",
        test="tests/web/review/test_marks.py::test_every_answer_is_remembered_and_a_repeated_one_is_none",
    ),
    Mutation(
        name="a-claim-that-only-the-database-knows",
        file="releases/services/execution.py",
        text="    high_water_marks.note_claim(release.pk, release.attempts, token)",
        instead="    pass",
        test="tests/web/review/test_marks.py::test_an_attempt_is_remembered_before_the_table_is_opened",
    ),
    Mutation(
        name="fresh-noise-after-what-was-seen",
        file="releases/services/execution.py",
        text="marks.story(release.pk).published) is not None:",
        instead="None) is not None:",
        test="tests/web/review/test_marks.py::test_a_release_whose_remembered_files_were_changed_fails_and_touches_no_data",
    ),
    Mutation(
        name="fresh-noise-after-a-complete-run",
        file="releases/services/execution.py",
        text="    if (made := files.made_before(release)) is not None:",
        instead="    if (made := None) is not None:",
        test="tests/web/results/test_complete_runs.py::test_a_complete_run_is_published_by_the_next_attempt_byte_for_byte",
    ),
    Mutation(
        name="as-many-synthetic-rows-as-the-noise-says",
        file="releases/engine/run.py",
        text="else min(max(1, round(result.total)), plan.most_synthetic_rows)",
        instead="else max(1, round(result.total))",
        test="tests/engine/mechanisms/test_extreme_draws.py::"
        "test_a_total_above_the_limit_gives_as_many_rows_as_the_limit_and_the_same_shares",
    ),
    Mutation(
        name="a-lost-mark-is-made-again",
        file="releases/ledger/high_water_marks.py",
        text='            raise Unreadable(f"{_path(budget_id).name} is missing")',
        instead='            standing = Mark(sequence=0, hash="", totals=Totals())',
        test="tests/web/review/test_marks.py::test_a_mark_that_is_gone_is_not_made_again_by_the_next_entry",
    ),
    Mutation(
        name="charged-whatever-it-protects",
        file="releases/ledger/ledger.py",
        text="    check_protection(budget, unit=unit, neighbours=neighbours)\n    return budget",
        instead="    return budget",
        test="tests/web/datasets/test_protection.py::test_nothing_is_charged_for_another_unit_or_other_neighbours",
    ),
    Mutation(
        name="run-whatever-it-protects",
        file="releases/services/execution.py",
        text="    ledger.check_protection(charged.budget, unit=plan.schema.unit, neighbours=plan.schema.neighbours)\n",
        instead="",
        test="tests/web/datasets/test_protection.py::test_a_worker_runs_nothing_that_protects_something_else",
    ),
    Mutation(
        name="protection-changed-while-a-release-waits",
        file="releases/services/datasets.py",
        text="    if under_way := release_under_way(dataset, within=budget.datasets.all()):",
        instead='    if under_way := "":',
        test="tests/web/datasets/test_protection.py::test_a_release_that_waits_cannot_come_to_mean_less_than_its_budget",
    ),
    Mutation(
        name="the-audit-takes-any-protection",
        file="releases/ledger/verification.py",
        text="            yield from _verify_protection(budget, entry)\n        elif",
        instead="        elif",
        test="tests/web/datasets/test_protection.py::test_the_audit_finds_a_plan_that_protects_something_else_than_its_charge",
    ),
    Mutation(
        name="run-before-charge",
        file="releases/services/releases.py",
        text="    entry = ledger.charge(\n        release=release,\n",
        instead=(
            "    from releases.services.execution import execute_release\n\n"
            "    execute_release(release_id=release.pk)\n"
            "    entry = ledger.charge(\n        release=release,\n"
        ),
        test="tests/web/worker/test_execution.py::test_no_data_are_touched_before_the_charge_is_booked",
    ),
    Mutation(
        name="many-small-ones-pass-unseen",
        file="releases/ledger/person_limits.py",
        text="    before = _charged_to(person, budget, but=release, is_unseen=True).spent_epsilon",
        instead="    before = 0",
        test="tests/web/results/test_unseen.py::test_many_small_releases_pass_up_to_the_threshold_and_no_further",
    ),
    Mutation(
        name="the-ledger-trusts-what-was-unseen-before-its-lock",
        file="releases/services/releases.py",
        text="                most_unseen=None if _is_approved(release, plan) else _threshold(),",
        instead="                most_unseen=None,",
        test="tests/web/results/test_unseen.py::test_the_ledger_refuses_what_came_in_between_and_a_reviewer_is_asked",
    ),
    Mutation(
        name="an-ended-token-opens",
        file="releases/api/authentication.py",
        text="        if found.is_ended and found.ends_at is not None:",
        instead="        if found.ends_at is None:",
        test="tests/web/public/test_api.py::test_a_token_that_has_ended_is_refused_in_clear_words_and_notes_no_use",
    ),
    Mutation(
        name="a-reading-token-writes",
        file="releases/api/authentication.py",
        text="        if found.scope == TokenScope.READ and request.method not in _READING:",
        instead="        if False:",
        test="tests/web/public/test_api.py::test_a_token_for_reading_reads_and_changes_nothing",
    ),
    Mutation(
        name="what-is-spent-is-rounded-down",
        file="releases/ledger/balances.py",
        text="    return ceil(1000 * share) / 10",
        instead="    return int(1000 * share) / 10",
        test="tests/web/review/test_board.py::"
        "test_what_is_shown_as_left_fits_and_what_is_shown_as_spent_is_no_less_than_it_is",
    ),
    Mutation(
        name="a-run-that-was-not-charged",
        file="releases/services/execution.py",
        text='    if price.to_json() != charged.detail["price"]:',
        instead="    if not charged:",
        test="tests/web/worker/test_execution.py::test_a_plan_that_costs_more_than_was_charged_is_not_run",
    ),
    Mutation(
        name="refund-on-failure",
        file="releases/models/releases.py",
        text="        return self.filter(attempts=Coalesce(",
        instead="        return self.filter(attempts__gte=Coalesce(",
        test="tests/web/review/test_attempts.py::test_an_attempt_of_which_there_is_no_record_may_have_opened_the_table",
    ),
    Mutation(
        name="an-opening-that-is-not-on-record",
        file="releases/services/execution.py",
        text="    attempts.about_to_open(release.pk, token)\n",
        instead="",
        test="tests/web/review/test_attempts.py::test_that_it_is_opened_is_committed_before_it_is",
    ),
    Mutation(
        name="a-late-worker-opens-the-table",
        file="releases/services/attempts.py",
        text="        held = Release.objects.filter(pk=release_id, state=ReleaseState.RUNNING, run_token=token)",
        instead="        held = Release.objects.filter(pk=release_id)",
        test="tests/web/review/test_attempts.py::test_a_worker_that_wakes_up_when_the_charge_is_given_back_opens_nothing",
    ),
    Mutation(
        name="no-wait-before-another-attempt",
        file="releases/worker/leases.py",
        text="    claimed = claimable.filter(is_due(now)).update(",
        instead="    claimed = claimable.update(",
        test="tests/web/review/test_attempts.py::test_no_worker_takes_it_before_its_time_however_often_it_is_told",
    ),
    Mutation(
        name="a-table-that-was-replaced-is-read",
        file="releases/services/stored_tables.py",
        text="        if files.sha256_of(path) != dataset.file_sha256:",
        instead="        if not dataset.file_sha256:",
        test="tests/web/datasets/test_stored_tables.py::"
        "test_a_table_that_was_changed_is_not_released_and_the_charge_is_given_back",
    ),
    Mutation(
        name="the-database-reaches-other-files",
        file="releases/engine/tables/connection.py",
        text='    "enable_external_access": "false",',
        instead='    "enable_external_access": "true",',
        test="tests/web/datasets/test_stored_tables.py::test_a_worker_s_connection_reaches_its_table_and_nothing_else",
    ),
    Mutation(
        name="a-server-is-counted-on-without-its-self-test",
        file="releases/engine/tables/query.py",
        text="    refuse_unless_right(table, TableCounts)\n",
        instead="",
        test="tests/engine/tables/test_self_test.py::"
        "test_a_server_that_counts_otherwise_is_refused_whatever_its_version_says[hashes otherwise]",
    ),
    Mutation(
        name="a-server-is-charged-for-without-its-self-test",
        file="releases/worker/jobs.py",
        text='    if not is_checked:\n        _check_server(location.partition("#")[0])\n',
        instead="",
        test="tests/web/databases/test_databases.py::"
        "test_a_database_that_counts_otherwise_is_refused_before_anything_is_charged",
    ),
    Mutation(
        name="a-server-is-charged-for-because-it-was-right-once",
        file="releases/services/connections.py",
        text="_columns_of(connection, dataset.table, is_checked=False)",
        instead="_columns_of(connection, dataset.table, is_checked=True)",
        test="tests/web/databases/test_connections_page.py::"
        "test_the_self_test_is_run_once_a_version_for_lists_and_always_before_a_charge",
    ),
    Mutation(
        name="a-server-is-listed-though-its-version-changed",
        file="releases/worker/jobs.py",
        text="(not checked or found.version != checked)",
        instead="not checked",
        test="tests/web/databases/test_connections_page.py::"
        "test_the_self_test_is_run_once_a_version_for_lists_and_always_before_a_charge",
    ),
    Mutation(
        name="a-folder-is-compared-before-its-links-are-followed",
        file="releases/storage/addresses.py",
        text="folder = Path(parts.path).resolve()\n        if any(",
        instead="folder = Path(parts.path)\n        if any(",
        test="tests/web/databases/test_connections_page.py::"
        "test_a_folder_that_became_a_link_out_of_what_is_allowed_is_read_no_more",
    ),
    Mutation(
        name="a-password-is-given-to-who-asks-for-it-in-plain-text",
        file="releases/services/connections.py",
        text='_AUTHENTICATION = "require_auth=!password"',
        instead='_AUTHENTICATION = "require_auth=password"',
        test="tests/web/databases/test_connections_page.py::"
        "test_a_password_is_given_to_no_server_that_an_administrator_registers_to_read_it",
    ),
    Mutation(
        name="spark-orders-texts-by-another-hash",
        file="releases/engine/tables/dialects.py",
        text='        return exp.Anonymous(this="SHA2", expressions=[text, exp.Literal.number(256)])',
        instead='        return exp.Anonymous(this="SHA2", expressions=[text, exp.Literal.number(512)])',
        test="tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[spark]",
    ),
    Mutation(
        name="postgresql-orders-texts-by-another-hash",
        file="releases/engine/tables/dialects.py",
        text='        hashed = exp.Anonymous(this="SHA256", expressions=[octets])',
        instead='        hashed = exp.Anonymous(this="SHA224", expressions=[octets])',
        test="tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[postgres]",
    ),
    Mutation(
        name="postgresql-compares-texts-as-a-column-was-declared",
        file="releases/engine/tables/dialects.py",
        text='        return exp.Collate(this=super().as_text(column), expression=exp.to_identifier("C", quoted=True))',
        instead="        return super().as_text(column)",
        test="tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[postgres]",
    ),
    Mutation(
        name="spark-compares-texts-as-a-column-was-declared",
        file="releases/engine/tables/dialects.py",
        text='exp.Literal.string("UTF8_BINARY")',
        instead='exp.Literal.string("UTF8_LCASE")',
        test="tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[spark]",
    ),
    Mutation(
        name="whole-numbers-end-at-2-to-the-53",
        file="releases/engine/tables/number.py",
        text="    return exp.case().when(is_whole, number.copy(), copy=False)",
        instead="    return exp.case().when(is_whole, within.copy(), copy=False)",
        test="tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[duckdb]",
    ),
    Mutation(
        name="every-fourth-year-has-a-leap-day",
        file="releases/engine/tables/date.py",
        text='("29", "0~2", _LEAP_YEAR)',
        instead='("29", "0~2", f"[0-9]{{2}}{_FOURTH}|[0-9]{{2}}00")',
        test="tests/engine/tables/test_dates.py::test_dirty_dates_count_as_the_reference_says[duckdb]",
    ),
    Mutation(
        name="a-median-of-dates-is-one-of-bins",
        file="releases/engine/tables/bounding.py",
        text="    if not attribute.has_values:",
        instead="    if not attribute.is_numeric:",
        test="tests/engine/tables/test_dates.py::"
        "test_dates_that_count_by_themselves_are_the_days_and_seconds_that_the_reference_says[duckdb]",
    ),
    Mutation(
        name="the-day-after-the-last-one-counts",
        file="releases/engine/tables/code.py",
        text="    not_over = exp.LT(",
        instead="    not_over = exp.LTE(",
        test="tests/engine/tables/test_dates.py::test_dirty_dates_count_as_the_reference_says[duckdb]",
    ),
    Mutation(
        name="a-missing-condition-is-false",
        file="releases/engine/tables/derived.py",
        text="chosen = chosen.when(exp.Not(this=parts[0].copy()), parts[2], copy=False)",
        instead="chosen = chosen.else_(parts[2], copy=False)",
        test="tests/engine/tables/test_formulas.py::test_each_operation_gives_on_dirty_rows_what_the_reference_says[duckdb]",
    ),
    Mutation(
        name="votes-of-other-persons",
        file="releases/engine/tables/persons.py",
        text="partition_by=[column(UNIT), column(code_of(axis))])",
        instead="partition_by=[column(code_of(axis))])",
        test=(
            "tests/engine/tables/test_persons.py::"
            "test_all_rows_of_a_person_move_a_joint_vector_no_further_than_is_declared[add_remove-duckdb]"
        ),
    ),
    Mutation(
        name="rows-at-the-price-of-persons",
        file="releases/engine/domain/schema.py",
        text="return 1 if self.counts_persons else self.unit.max_rows",
        instead="return 1 if self.unit.id_column else self.unit.max_rows",
        test=(
            "tests/engine/tables/test_persons.py::"
            "test_a_person_of_more_rows_than_the_unit_keeps_takes_part_with_all_of_them"
        ),
    ),
    Mutation(
        name="one-row-more-of-each-person",
        file="releases/engine/tables/bounding.py",
        text="whole(schema.rows_of_unit)",
        instead="whole(schema.rows_of_unit + 1)",
        test="tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[duckdb]",
    ),
    Mutation(
        name="a-vertical-tab-is-part-of-a-text",
        file="releases/engine/tables/dialects.py",
        text="SPACES = (32, 9, 10, 11, 12, 13)",
        instead="SPACES = (32, 9, 10, 12, 13)",
        test="tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[duckdb]",
    ),
    Mutation(
        name="a-missing-code-written-otherwise-is-a-number",
        file="releases/engine/tables/number.py",
        text="        read = exp.Nullif(this=read, expression=double(code))",
        instead="        read = exp.Coalesce(this=read, expressions=[double(code)])",
        test=(
            "tests/engine/tables/test_tables.py::"
            "test_a_missing_code_is_no_child_and_a_row_with_one_counts_as_a_row_without_a_value[duckdb]"
        ),
    ),
    Mutation(
        name="a-missing-code-is-a-text-like-others",
        file="releases/engine/tables/text.py",
        text="        text = exp.Nullif(this=text, expression=exp.Literal.string(code))",
        instead="        continue",
        test="tests/engine/tables/test_contract.py::test_dirty_tables_count_as_the_reference_says[duckdb]",
    ),
    Mutation(
        name="a-missing-code-written-otherwise-is-unreadable",
        file="releases/engine/tables/code.py",
        text="        chain = chain.when(is_coded, place[MISSING], copy=False)",
        instead="        pass",
        test=(
            "tests/engine/tables/test_contract.py::"
            "test_how_each_value_reads_as_declared_is_counted_as_the_reference_says[rows-duckdb]"
        ),
    ),
    Mutation(
        name="a-misread-column-needs-no-reason",
        file="releases/services/releases.py",
        text="    if not reason.strip() and (names",
        instead="    if False and (names",
        test="tests/web/releases/test_check_columns.py::test_a_release_of_a_misread_column_needs_a_reason_and_another_does_not",
    ),
    Mutation(
        name="a-third-check-is-charged",
        file="releases/services/releases.py",
        text="    if release.kind is CHECK and checks_had(entry.budget) > MOST_CHECKS:",
        instead="    if release.kind is CHECK and checks_had(entry.budget) > MOST_CHECKS + 1:",
        test="tests/web/releases/test_check_columns.py::test_a_budget_is_charged_for_two_checks_at_most",
    ),
    Mutation(
        name="no-number-lies-in-running-totals",
        file="releases/engine/workload/queries.py",
        text='        object.__setattr__(self, "universe", self.universe.ordered(running))',
        instead='        object.__setattr__(self, "universe", self.universe)',
        test="tests/engine/workload/test_person_sensitivity.py::test_running_totals_leave_out_what_is_no_number_however_they_are_asked",
    ),
    Mutation(
        name="rows-without-a-number-never-vanish",
        file="releases/engine/domain/attribute.py",
        text="        return not self.missing_as if self.has_grammar else (self.missing_as or self.outside) == DROP",
        instead="        return False if self.has_grammar else (self.missing_as or self.outside) == DROP",
        test="tests/engine/tables/test_tables.py::test_the_total_is_public_exactly_where_no_row_that_replaces_another_changes_it",
    ),
    Mutation(
        name="planned-with-the-columns-of-another-question",
        file="releases/engine/mechanisms/base.py",
        text="        if any(schema.universe[each.name] != each for each in workload.universe.attributes):",
        instead="        if False:",
        test="tests/engine/mechanisms/test_mechanisms.py::test_a_question_about_columns_declared_otherwise_is_not_planned",
    ),
    Mutation(
        name="a-dropped-missing-value-leaves-the-total-public",
        file="releases/engine/domain/attribute.py",
        text="        return self.drops_missing or DROP in (self.outside, self.missing_as)",
        instead="        return self.is_numeric or self.outside == DROP",
        test="tests/engine/tables/test_tables.py::test_the_total_is_public_exactly_where_no_row_that_replaces_another_changes_it",
    ),
    Mutation(
        name="claimed-twice",
        file="releases/services/execution.py",
        text="        pk=release_id, state=ReleaseState.QUEUED, attempts__lt=settings.MAX_ATTEMPTS",
        instead="        pk=release_id, attempts__lt=settings.MAX_ATTEMPTS",
        test="tests/web/worker/test_execution.py::test_a_release_runs_once_however_often_it_is_delivered",
    ),
    Mutation(
        name="a-late-worker-publishes",
        file="releases/services/execution.py",
        text=(
            "        published = Release.objects"
            ".filter(pk=release_id, state=ReleaseState.RUNNING, run_token=token).change("
        ),
        instead="        published = Release.objects.filter(pk=release_id).change(",
        test="tests/web/worker/test_execution.py"
        "::test_a_worker_that_lost_its_lease_publishes_nothing_while_another_runs",
    ),
    Mutation(
        name="an-upload-claimed-twice",
        file="releases/services/uploads.py",
        text="pk=upload_id, state=UploadState.WAITING, attempts__lt=",
        instead="pk=upload_id, attempts__lt=",
        test="tests/web/datasets/test_reading_uploads.py::test_a_table_is_read_once_however_often_its_message_comes",
    ),
    Mutation(
        name="a-late-worker-stores",
        file="releases/services/uploads.py",
        text="        ours = _held(upload.pk, token).update(",
        instead="        ours = Upload.objects.filter(pk=upload.pk).update(",
        test="tests/web/datasets/test_reading_uploads.py::test_a_worker_that_lost_its_lease_stores_nothing",
    ),
    Mutation(
        name="progress-by-what-the-file-holds",
        file="releases/engine/tables/ingest.py",
        text="                report.within(_CHECK, min(read / size, 1.0))",
        instead="                report.within(_CHECK, min(line / 1_000_000, 1.0))",
        test="tests/web/datasets/test_reading_uploads.py::test_progress_is_the_same_for_files_of_one_size_whatever_they_hold",
    ),
    Mutation(
        name="an-error-tells-its-values",
        file="releases/worker/failures.py",
        text='    logger.error("%s failed: %s at %s", what, type(error).__name__, places)',
        instead='    logger.error("%s failed: %s at %s", what, error, places)',
        test="tests/web/worker/test_execution.py::test_a_failure_is_logged_without_what_the_exception_says",
    ),
    # Certificates
    Mutation(
        name="a-certificate-for-one-row-of-a-person",
        file="releases/engine/mechanisms/error_certificate.py",
        text="noise=allowance.noise(Sensitivity(l1=rows, l2_squared=rows * rows))",
        instead="noise=allowance.noise(Sensitivity(l1=1, l2_squared=1))",
        test="tests/engine/bounds/test_measured_error.py::"
        "test_a_pure_budget_buys_laplace_noise_and_any_other_gaussian_noise_for_exactly_the_budget",
    ),
    Mutation(
        name="a-certificate-of-another-file",
        file="releases/services/certificates.py",
        text="if not path.is_file() or files.sha256_of(path) != each.sha256:",
        instead="if not path.is_file():",
        test="tests/web/results/test_certify.py::"
        "test_a_file_that_was_changed_after_the_charge_stops_it_before_any_data_are_touched",
    ),
    Mutation(
        name="a-certificate-seen-by-everybody",
        file="releases/models/releases.py",
        text="readable = self.visible_to(person).filter(certifies=release.pk, state=ReleaseState.PUBLISHED)",
        instead="readable = self.filter(certifies=release.pk, state=ReleaseState.PUBLISHED)",
        test="tests/web/results/test_certify.py::"
        "test_a_certificate_is_shown_to_those_who_may_see_it_and_it_and_its_release_are_public_apart",
    ),
    # Beside the columns
    Mutation(
        name="kept-columns-of-anybody",
        file="releases/views/datasets/columns.py",
        text="KeptColumns.objects.filter(dataset=dataset, person=signed_in(request)).first()",
        instead="KeptColumns.objects.filter(dataset=dataset).first()",
        test="tests/web/datasets/test_kept_columns.py::test_people_who_share_a_table_keep_what_is_theirs_and_hear_of_each_other",
    ),
    Mutation(
        name="learned-from-other-rows-taken-over",
        file="releases/schema/taken_columns.py",
        text="taken={name: each for name, each in fitting.items() if name not in learned}",
        instead="taken=fitting",
        test="tests/web/datasets/test_take_over.py"
        "::test_what_a_release_learned_from_the_other_table_s_rows_is_not_taken_and_that_is_said",
    ),
    Mutation(
        name="taken-over-from-anybody-s-table",
        file="releases/models/datasets.py",
        text="self.visible_to(person).filter(nearby).exclude(declared=None)",
        instead="self.filter(nearby | Q(pk__isnull=False)).exclude(declared=None)",
        test="tests/web/datasets/test_take_over.py"
        "::test_only_declared_tables_of_the_person_or_of_the_same_group_are_offered",
    ),
    Mutation(
        name="unreleased-description-found",
        file="releases/views/public/catalogue.py",
        text="Q(searchable__text__contains=folded(each))",
        instead="Q(dataset__description__icontains=each)",
        test="tests/web/datasets/test_descriptions.py"
        "::test_the_catalogue_shows_and_finds_what_was_released_and_not_what_was_written_since",
    ),
    Mutation(
        name="rows-of-a-person-rounded-up-as-one",
        file="releases/engine/workload/sensitivity.py",
        text="    return Changes(most=most, cases=cases, rows=schema.rows_of_unit)",
        instead="    return Changes(most=most, cases=cases)",
        test="tests/engine/workload/test_sensitivity.py"
        "::test_rounded_sums_move_no_further_than_declared_however_a_unit_s_rows_are_spread",
    ),
    Mutation(
        name="a-row-of-weight-counted-once",
        file="releases/engine/workload/sensitivity.py",
        text="rows = schema.rows_of_unit * weight",
        instead="rows = schema.rows_of_unit",
        test="tests/engine/workload/test_sensitivity.py"
        "::test_weighted_sums_means_and_counts_move_exactly_as_far_as_declared_for_any_weights_up_to_the_cap",
    ),
    Mutation(
        name="weighted-pair-for-one-unit-of-weight",
        file="releases/engine/workload/row_means.py",
        text="rows = self.schema.rows_of_unit * self.most_weight",
        instead="rows = self.schema.rows_of_unit",
        test="tests/engine/workload/test_sensitivity.py"
        "::test_a_weighted_pair_on_any_lattice_moves_by_the_steps_of_its_weight_together",
    ),
    Mutation(
        name="weight-above-the-cap",
        file="releases/engine/workload/weights.py",
        text="edges=(Decimal(0), *within, self.cap), outside=CLAMP",
        instead="edges=(Decimal(0), *within, self.cap)",
        test="tests/engine/tables/test_survey_weights.py::test_weighted_answers_are_those_of_pandas",
    ),
)


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
