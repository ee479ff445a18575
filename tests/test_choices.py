"""Every place that picks a smallest, largest or first figure is listed, with a reason."""

from __future__ import annotations

import ast
import re

import pytest

from tests.common.listed_calls import PACKAGE, calling, found_in, listed_in, name_of

PAGE = PACKAGE.parent / "docs" / "theory" / "choices.md"
# Where figures with noise, or counted on rows that were drawn, are read.
ROOMS = (
    "additive", "aggregation", "audit", "certificate", "command_line", "engine/table_release.py",
    "fairness", "inprocessing", "model_selection", "monitoring", "postprocessing", "preprocessing",
    "representation",
)  # fmt: skip
CHOOSERS = {
    "amax", "amin", "argmax", "argmin", "argpartition", "argsort", "accumulate", "flatnonzero",
    "idxmax", "idxmin", "lexsort", "nanargmax", "nanargmin", "nanmax", "nanmin", "nlargest",
    "nsmallest", "ptp", "searchsorted",
}  # fmt: skip
# Reasons that docs/theory/choices.md explains; the file must be named there.
NOISY = {"together", "fresh", "release", "none"}
# Without noise: settings, sizes and rows as they are; positions; the whole domain of a function.
EXACT = {"exact", "order", "proof"}

LISTED: dict[str, dict[str, str]] = {
    "additive/classifier.py": {"order": "DPAdditiveClassifier.reason_codes"},
    "additive/design.py": {"order": "Pair.shape"},
    "additive/model.py": {"exact": "_draw_map"},
    "additive/pairs.py": {
        "none": "candidates cells_of beyond_noise",
        "order": "_entries cell_names",
        "exact": "interactions",
    },
    "aggregation/shards.py": {"order": "rows_by_shard"},
    "aggregation/student.py": {"order": "Student.codes"},
    "aggregation/teachers/parallel.py": {"order": "NetTeacher.predict"},
    "aggregation/teachers/stacked_training.py": {
        "exact": "BatchedTeachers._trained_predictions",
        "order": "_classes",
    },
    "aggregation/vote_classifier.py": {"order": "AggregatedClassifier._train_on"},
    "aggregation/voting.py": {"release": "ConfidentGNMax.answer"},
    "audit/canaries.py": {"order": "Canaries.take"},
    "audit/one_run_bound.py": {"proof": "one_run_p_value", "order": "count_correct_guesses"},
    "audit/runs.py": {"together": "audit_many_runs"},
    "certificate/evaluation.py": {"order": "_downstream_claims", "exact": "leakage_remarks"},
    "certificate/examination.py": {"exact": "_shared_errors"},
    "certificate/group_rates.py": {"together": "over_highest"},
    "certificate/holdout.py": {"order": "answers_to"},
    "certificate/render/group_sections.py": {"exact": "_predictions"},
    "certificate/outcomes.py": {
        "exact": "Outcomes.__post_init__ Accuracy.__post_init__",
        "together": "Accuracy.of_table",
    },
    "certificate/render/plot.py": {"exact": "draw_bounds"},
    "certificate/score_counts.py": {
        "exact": "ScoreCounts.__post_init__",
        "together": "ScoreCounts.median",
    },
    "command_line/groups.py": {"exact": "checked_groups"},
    "command_line/table.py": {"exact": "_number_targets"},
    "command_line/filing.py": {"together": "ChargedReport._answer"},
    "command_line/path_points.py": {"fresh": "largest_shown", "exact": "other_tolerances"},
    "command_line/planning.py": {
        "exact": "Outlook.spread Outlook.showing Outlook.shown _shown_from Outlook.chances "
        "Outlook.aim Outlook._rows",
    },
    "command_line/reading.py": {"exact": "_csv"},
    "command_line/reporting.py": {"exact": "_check_parts"},
    "command_line/schema.py": {"exact": "public_schema"},
    "engine/table_release.py": {"release": "TableRelease.frequent"},
    "fairness/bounds/binomial_cells.py": {
        "proof": "binomial_means _window _log_coefficients BinomialCell.limits",
    },
    "fairness/bounds/binomial_pairs.py": {
        "proof": "CellPair._restricted CellPair._obstacle CellPair._crossing.excess "
        "CellPair._crossing",
    },
    "fairness/bounds/gated_answers.py": {"exact": "answered_guarantee _texts"},
    "fairness/bounds/leakage.py": {
        "fresh": "classifier_lower_bound",
        "exact": "_enough",
        "proof": "_width _mean_below",
    },
    "fairness/bounds/noisy_counts.py": {
        "proof": "cell_p_values combined_gap noise_tail",
        "together": "_bound_of private_gap_lower_bound",
    },
    "fairness/bounds/number_gaps.py": {
        "none": "NumberCells.observed_gap mean_gap",
        "together": "distribution_gap_upper_bound mean_gap_upper_bound",
        "proof": "_starts",
    },
    "fairness/bounds/rate_gaps.py": {
        "none": "gap_estimate",
        "together": "largest_gap_bound",
        "proof": "difference_bound",
    },
    "fairness/bounds/stored.py": {"exact": "counted"},
    "fairness/bounds/total_variation.py": {
        "none": "total_variation",
        "together": "total_variation_bound",
        "proof": "bound_of_events standing_for",
    },
    "fairness/gate.py": {"exact": "ParityGate.worst ParityGate._improves"},
    "records/groups.py": {"exact": "encode_groups _combined"},
    "fairness/guarantee.py": {
        "none": "FairnessGuarantee.nearly_constant",
        "exact": "FairnessGuarantee._remedy",
    },
    "fairness/smallest_gap.py": {"exact": "smallest_gap"},
    "fairness/number_notions.py": {"order": "NumberGrid.places"},
    "inprocessing/attribute/group_estimates.py": {"none": "attenuated_bound"},
    "inprocessing/attribute/reduction.py": {"exact": "reduced"},
    "inprocessing/budgeted.py": {"exact": "BudgetedPredictor._planned"},
    "inprocessing/every_tolerance.py": {"exact": "EveryTolerance._refuse_noise_of_tables"},
    "inprocessing/fair_numbers/points.py": {"together": "NumberPath.choose"},
    "inprocessing/fair_numbers/tables.py": {
        "none": "Table.gap",
        "together": "Table.bound Table.reach",
    },
    "inprocessing/fair_numbers/transport.py": {
        "none": "Scores.gap",
        "order": "Scores.places Scores.quantiles",
        "proof": "band shifts",
    },
    "inprocessing/class_weights.py": {"exact": "CostSensitive._objective"},
    "inprocessing/cost_thresholds.py": {
        "together": "StatedCosts.chosen",
        "order": "StatedCosts.bins",
        "exact": "refuse_costs",
    },
    "inprocessing/fair_path/compared_rates.py": {
        "order": "Rates.rate_of",
        "exact": "Rates.n_entries",
    },
    "inprocessing/fair_path/envelope.py": {"exact": "Envelopes.order Envelopes.answers"},
    "inprocessing/fair_path/fitted_gaps.py": {"order": "falling"},
    "inprocessing/fair_path/path.py": {
        "none": "ReleasedPath.gaps ReleasedPath.gap_stds",
        "together": "ReleasedPath.gap_bounds",
        "fresh": "ReleasedPath.points start_of",
        "order": "ReleasedPath.way pooled_gaps",
    },
    "inprocessing/fair_path/points.py": {"order": "PathClassifier._path_of"},
    "inprocessing/fair_path/tables.py": {
        "none": "Tables.ascend",
        "fresh": "Tables.start",
    },
    "inprocessing/fairdp/checks.py": {"none": "released_gap GapStop.after_step"},
    "inprocessing/many.py": {"exact": "_fit_together"},
    "inprocessing/fermi.py": {"exact": "DPFermiClassifier._plan"},
    "inprocessing/functional/classifier.py": {"exact": "cell_weights", "none": "solve"},
    "inprocessing/gradient.py": {"order": "GradientClassifier.predict"},
    "inprocessing/public_parity.py": {"exact": "soft_gap"},
    "inprocessing/rates/classifier.py": {"exact": "RateConstrainedClassifier._lagrangian"},
    "inprocessing/rates/constraints.py": {"exact": "label_cells"},
    "inprocessing/rates/objective.py": {
        "exact": "CostObjective.set_coefficients",
    },
    "inprocessing/rates/training.py": {"none": "BlockLagrangian.observe"},
    "engine/run.py": {"exact": "rows_of"},
    "inprocessing/target_bounds.py": {"release": "bought_bounds", "order": "_counts.bin_of"},
    "model_selection/budget.py": {
        "exact": "SearchBudget.multiplier_for.excess score_epsilon_below.excess",
    },
    "model_selection/display.py": {"exact": "ParetoDisplay.plot"},
    "model_selection/holding_out.py": {"order": "divide"},
    "model_selection/number_of_runs.py": {"exact": "selected_curve"},
    "model_selection/record_split.py": {"order": "RecordSplit.split"},
    "model_selection/specification_result.py": {"together": "Specification.nearest best_of"},
    "monitoring/evidence.py": {
        "exact": "_log_mean",  # what the terms are divided by before they are added up
        "together": "drift_statistics PairState.with_rows bounds",
    },
    "monitoring/monitor.py": {"together": "GapMonitor._use"},
    "monitoring/readings.py": {"exact": "Readings.certifiable.shown"},
    "postprocessing/group_models.py": {"exact": "parallel_statement"},
    "postprocessing/passing_groups.py": {"exact": "_automatic"},
    "preprocessing/encoder.py": {"order": "PublicEncoder._encode"},
    "preprocessing/levels.py": {"order": "Intervals.codes"},
    "preprocessing/table_levels.py": {"order": "_between.cell", "together": "divided"},
    "representation/forward.py": {
        "order": "ReleasesThroughNetworks._hidden ReleasesThroughNetworks.predict_from",
    },
    "representation/objective.py": {
        "order": "ColumnsLikelihood.__init__ ResponseChannel.hidden",
    },
    "representation/release_memory.py": {"order": "_among", "exact": "ReleaseMemory.count"},
    "representation/randomizers.py": {"exact": "ResponseRandomizer._checked"},
}  # fmt: skip


def chooses(call: ast.Call) -> bool:
    """Whether a call takes one of many; ``max(a, b)`` is a limit and takes none."""
    name = name_of(call)
    keyed = any(keyword.arg == "key" for keyword in call.keywords)
    if name in {"min", "max"}:
        return keyed or isinstance(call.func, ast.Attribute) or len(call.args) == 1
    return name in CHOOSERS or (name == "sorted" and keyed)


@pytest.mark.parametrize("room", ROOMS)
def test_every_choice_is_listed_with_a_reason(room: str) -> None:
    # Add to LISTED what is new, and to docs/theory/choices.md if noise decides; drop what is gone.
    assert found_in(room, chooses) == listed_in(room, LISTED)


def test_every_noisy_choice_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {reason for reasons in LISTED.values() for reason in reasons} == NOISY | EXACT
    for name, reasons in LISTED.items():
        if NOISY & set(reasons):
            assert name in page or f"`{name.rsplit('/', 1)[1]}`" in page, name


def test_the_tests_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`(tests/[\w/.]+)`", PAGE.read_text(encoding="utf-8")))
    assert len(named) > 5
    assert not [name for name in named if not (PACKAGE.parent / name).exists()]


@pytest.mark.parametrize(
    "text",
    [
        "best = int(np.argmin(gaps))", "gaps.min()", "np.max(gaps)", "min(gaps)",
        "max(a, b, key=len)", "sorted(found, key=len)", "np.flatnonzero(gaps < 1)[0]",
        "np.maximum.accumulate(gaps)",
    ],
)  # fmt: skip
def test_a_choice_is_found(text: str) -> None:
    assert list(calling(ast.parse(f"class A:\n    def f():\n        {text}"), chooses)) == ["A.f"]


@pytest.mark.parametrize("text", ["max(a, 1.0)", "sorted(names)", "np.maximum(counts, 0.0)"])
def test_a_limit_is_no_choice(text: str) -> None:
    assert not list(calling(ast.parse(text), chooses))
