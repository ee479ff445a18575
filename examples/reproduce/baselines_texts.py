"""Sentences of the comparison's page that no figure changes."""

from __future__ import annotations

CAPTIONS = {
    "accuracy": "Figure 3 of 000: gaps against accuracy",
    "auc": "Figure 4 of 000: gaps against ROC-AUC",
    "relative": "Figure 5 of 000: utility lost and fairness gained against DP-IS-SGD",
    "frontier": "Accuracy against parity gap: RateConstrained and fairlearn's reduction",
}
FINDINGS = """\
At ε = 1 on Adult, `RateConstrainedClassifier` asked for a parity gap of .02 has .020 at an
accuracy of .834. DP-SGD has .169 at .854, and fairlearn's `ExponentiatedGradient`, without
privacy, .032 at .836. If you need a small gap, use rate constraints. If your data
have hardly any gap, DP-SGD is enough.

* **Mechanisms that do not aim at the gap do not close it.** On Adult, DPSGD, DPSGD-F, DP-IS-SGD and
  FairDP have the parity gap of the clean model, to within two hundredths, at every ε. DPSGD-F aims
  at equal accuracy, DP-IS-SGD at the average over groups. The FairDP paper finds smaller gaps at
  smaller ε. Models here that are still accurate do not show this.
* **Rate constraints keep a tolerance where there are enough rows.** On Adult the largest test gap
  of ten runs is .053, .024 and .017 for the tolerances .05, .02 and .01. On Compas and Bank
  (4,320 and 7,813 training rows, the smaller groups 19 % and 8 %) the noise on the table of
  decisions is as large as the tolerance, and gaps scatter. On Compas the model loses half of
  its gain over the constant answer, and in two to four runs of ten its gap still exceeds the
  tolerance by more than .01 and the sampling error.
* **Privacy costs little on top of fairness.** At the gap of the non-private reduction, rate
  constraints at ε = 1 are .0022 below to .0006 above its accuracy, at ε = .5 .0038 below to .0008
  above: on Adult never below, on Default-CCC never above.
* **Where there is hardly a gap, asking for one costs accuracy.** Half of each record's norm goes to
  the table of decisions. On Default-CCC, where a model that ignores groups is within .02 already,
  that is about .002 of accuracy against DP-SGD. Its clean gap is .019, with a sampling error of
  .007 on the test rows: differences of a few thousandths between lines of the table are noise.
* **Sometimes one threshold does as well.** On Compas, on Law School, and for a tolerance of .02
  on Default-CCC and Mortgage approvals, DP-SGD with its threshold moved is as accurate at the
  same gap, within the spread over seeds.
* **DP-FERMI** is the only other private learner that trains against the gap. Its weight is not a
  tolerance: the gap is known only after the fit, so finding a weight takes a search, which costs
  privacy.
* **The functional mechanism (FM) is a strong baseline**: closed form, a tenth of a second, one
  noise draw. On Adult its parity gap is smaller than DP-SGD's, at some loss of accuracy. This needs
  tight sensitivity and Gaussian noise: as published it is never more accurate than the constant
  answer.
* **Smoothing keeps the gap of the smoothed model.** σ̄ = 0.1 is the largest of .03, .1, .3, 1, 3
  that cost at most .01 in accuracy on a fifth of the training rows; above it decisions become
  random. Its own certificates (from the weights' length, or the distance of group models) are 1 at
  this σ̄, which is no useful bound; the column "bound" holds the direct one. AUC is that of the
  smoothed probability.
* **FairSmooth** is not private here, as in the paper. On Adult the average of the two groups' own
  models gives fewer positive predictions and so a smaller gap than the clean model, at the
  accuracy that DP-FERMI has with privacy and a smaller gap.

Columns and data: [how it was measured](#how-it-was-measured). "000" is
the later version of the FairDP paper.
"""
MEASURED = """\
* Figures are mean ± standard deviation over seeds, on test rows that no training saw: 10 seeds
  at ε = 1, without ε, and for the frontiers, 5 for the rest.
* Gaps are largest differences between groups: of the share of positive predictions (demographic
  parity), the same among rows with label 1 (equal opportunity), the larger of the gaps of true and
  false positive rates (equalized odds), and of accuracies (accuracy parity).
* **bound**: the certificate's 95 % upper bound on the demographic parity gap of the deployed model
  in the population of the test rows. Each holds by itself. For models that smooth it is about
  rates averaged over their draws, and shares its error with FairSmooth's own form.
* **positive**: share of positive predictions. A model that gives one answer to all has no gaps and
  no use.
* **seconds**: processor time of `fit`, calibration of the noise included (it is kept between
  seeds).
* ε is for δ = {delta:g}, and every row charges all that it looks at: group counts, histograms,
  norms. **protects** is whose change ε speaks of. FairSmooth and "clean" have no budget;
  ExponentiatedGradient is fairlearn's, on logistic regression, and has no privacy.
* Features are scaled by declared bounds and encoded from declared categories, nothing is learned
  from rows. Adult's capital gains are clipped to 15,000 dollars and its losses to 3,000, on a
  linear scale: other columns than on [FairDP's page](fairdp_tables.md), and better for every row.
  ExponentiatedGradient gets what its users give it: raw numbers, indicators, and scikit-learn's
  `StandardScaler` fitted on the training rows. Its predictions are drawn at random; their
  expectation is counted, so the draw adds no error to its figures.
"""
