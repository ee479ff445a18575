"""Sentences of the comparison's page that no figure changes."""

from __future__ import annotations

CAPTIONS = {
    "accuracy": "Figure 3 of 000: gaps against accuracy",
    "auc": "Figure 4 of 000: gaps against ROC-AUC",
    "relative": "Figure 5 of 000: utility lost and fairness gained against DP-IS-SGD",
    "frontier": "Accuracy against parity gap: RateConstrained and fairlearn's reduction",
}
INTRODUCTION = """\
How to read the page:

* Figures are mean ± standard deviation over seeds, on test rows that no training saw: 10 seeds
  at ε = 1, without ε, and for the frontiers, 5 for the rest.
* Gaps are largest differences between groups: of the share of positive predictions (demographic
  parity), the same among rows with label 1 (equal opportunity), the larger of the gaps of true and
  false positive rates (equalized odds), and of accuracies (accuracy parity).
* **bound**: the certificate's 95 % upper bound on the demographic parity gap of the deployed model
  in the population of the test rows. Each holds by itself. For models that smooth it is about
  rates averaged over their draws, and shares its error with FairSmooth's own form.
* **positive**: share of positive predictions. A model that gives everybody one answer has no gaps
  and no use.
* **seconds**: processor time of `fit`, calibration of the noise included (it is kept between
  seeds).
* ε is for δ = {delta:g}, and every row charges all that it looks at: group counts, histograms,
  norms. **protects** is whose change ε speaks of. FairSmooth and "clean" have no budget;
  ExponentiatedGradient is fairlearn's, on logistic regression, and protects nobody.
* Features are scaled by declared bounds and encoded from declared categories, nothing is learned
  from rows. Adult's capital gains are clipped to 15,000 dollars and its losses to 3,000, on a
  linear scale: other columns than on [FairDP's page](fairdp_tables.md), and better for every row.
  ExponentiatedGradient gets what its users give it: raw numbers, indicators, and scikit-learn's
  `StandardScaler` fitted on the training rows. Its predictions are drawn at random; their
  expectation is counted, so the draw adds no error to its figures.
"""
REMARKS = """\
## Remarks

* **What does not aim at the gap does not close it.** DPSGD, DPSGD-F, DP-IS-SGD and FairDP have
  Adult's parity gap of the clean model, to within two hundredths, at every ε. DPSGD-F aims at equal
  accuracy; DP-IS-SGD at the average over groups. That less ε means a smaller gap, as the paper
  finds, is not seen here where a model still answers well.
* **FM is a strong baseline**: closed form, a tenth of a second, one noise draw. On Adult its parity
  gap is smaller than DP-SGD's, at some loss of accuracy. That takes tight sensitivity and Gaussian
  noise: as published it never gets above the constant answer.
* **Smoothing** keeps the gap of what it smooths. σ̄ = 0.1 is the largest of .03, .1, .3, 1, 3 that
  cost at most .01 in accuracy on a fifth of the training rows; above it decisions turn into coins.
  Its own certificates (from the weights' length, or the distance of group models) are 1 at this σ̄,
  which says nothing; "bound" is the direct one. AUC is that of the smoothed probability.
* **FairSmooth** is not private here, as in the paper. On Adult the average of the two groups' own
  models gives fewer positive predictions and so a smaller gap than the clean model, at the accuracy
  that DP-FERMI has with privacy and a smaller gap.
* **RateConstrained** lies on Adult on or above the non-private reduction at ε = 1 and .5, and what
  was asked (.05, .02, .01) is what came out in every run. Its table takes half of a contribution's
  norm whether the gap needs it or not: on Default-CCC, where a model that ignores groups is within
  .02 already, that costs about .002 of accuracy against DP-SGD. On Compas and Bank (4,320 and
  7,813 training rows, the smaller groups 19 % and 8 %) the noise on the table is as large as the
  tolerance, and gaps scatter; on Compas it gives up half of what a model gains over the constant
  answer and still exceeds the target in two to four runs of ten.
* **DP-FERMI** is the only other row that trains against the gap. Its weight is no tolerance: what
  gap comes out is seen afterwards, so a search has to be paid for.
* **Default-CCC** hardly has a gap: .019 for the clean model, with a sampling error of .007 on the
  test rows. Differences of a few thousandths between rows are noise there; pairs of rows share
  seeds and splits, and the tables say by how many standard errors they differ.
"""
