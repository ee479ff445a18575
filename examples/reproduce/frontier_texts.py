"""Text of the frontier's page that no figure changes."""

from __future__ import annotations

__all__ = ["HEAD", "KNOBS", "LEFT_OUT", "MEASURED", "PROTECTS", "TITLES"]

# What is protected: end of file names, words.
PROTECTS = {
    "record": ("", "records protected"),
    "sensitive_features": ("_attribute", "the attribute alone protected"),
}
TITLES = {"record": "Records protected", "sensitive_features": "The attribute alone protected"}
# What the knob of a mechanism is, for knob t.
KNOBS = {
    "DP-SGD": "none",
    "FairDP, M = 1": "none; max_head_norm 1",
    "FairDP, M < 1": "max_head_norm .35 (t/.01)^.36: .35 to .8",
    "DPSGD-F": "none",
    "DP-IS-SGD": "none",
    "rate constraints": "tolerance t; own defaults for batch size and epochs",
    "DP-FERMI": "fairness_weight .2/t: 20 to 2",
    "thinning, DP-SGD": "tolerance t of the label rates; a tenth of ε buys the table",
    "smoothed DP-SGD": "std .005/t: .5 to .05, 50 draws",
    "functional mechanism": "none",
    "FairFM": "none; objective group_average",
    "PATE": "none",
    "FairPATE": "tolerance t, cold_start max(20, 1/t)",
    "PF-LD": "tolerance t; own defaults for batch size and epochs",
    "Mozannar et al.": "tolerance t",
    "SF-PATE": "none; variant fair_student",
}
HEAD = """# Frontiers

To keep the gap in demographic parity small, use rate constraints or DP-FERMI. To halve the gap in
equalized odds at hardly any cost, thin the rows. If there is hardly a gap, all mechanisms are
about equally good. `FairPathClassifier`, which came later, has on Adult a frontier like that of
rate constraints from a single fit: [fair path](fair_path.md).

* **Adult**, where DP-SGD has a gap of 0.17: rate constraints and DP-FERMI alone come within a gap
  of 0.05 and keep an accuracy above 0.8; they hardly differ. A gap of 0.02 costs two points
  of accuracy, at every ε from 0.5 to 4: parity costs this, not privacy. Thinning
  halves the gap for half a point.
* **Rate constraints and DP-FERMI close the gap that they are asked for and no other**: on Adult the
  gap in equalized odds grows from 0.1 to 0.25. Thinning to label rates within 0.1 halves the gap in
  equalized odds at hardly any cost. The others were not asked for this notion (`notion=`) here.
* **Default-CCC** has a gap of 0.01 to 0.02 with any mechanism: there is little to gain, most
  differ by no more than chance, and PATE's votes lose one to two points.
* **Mortgages**, some 1,390 training rows: no model within a gap of 0.02 is noticeably more accurate
  than approving all. With a gap of 0.1 rate constraints lead at every ε, and here ε
  does matter.
* **Settings that do little**: a smaller M of FairDP and more smoothing lose accuracy before the gap
  closes. If the attribute alone is protected, PF-LD and Mozannar et al. close it on Adult at a
  similar cost.

Figures are means of estimates on test rows, not certificates, and ε is that of one fit. A *knob* is
the tolerance that was asked for, or the setting that was made from it:
[how it was measured](#how-it-was-measured).
"""
MEASURED = """\
## How it was measured

    python examples/reproduce/frontier.py --data-home "$SKFAIRDP_DATA"

With `--report-only` tables, pictures and pages are made again from the fits that are kept.

* Every private mechanism of the package on three data sets, ε ∈ {0.5, 1, 2, 4} with δ = 1e-5, knob
  t ∈ {0.01, 0.02, 0.05, 0.1}. To save time the knob is 0.01 and 0.05 alone if the attribute is
  protected, and on Adult for FairDP with M < 1, smoothing and FairPATE. Seeds are few: each section
  says how many. Test rows alone give an accuracy a standard error of 0.003 on Adult, 0.004 on
  Default-CCC and 0.012 on mortgages for one seed: the order of close figures is chance.
* Adult has its official split; of the others 30 % are test rows, drawn anew for each seed. Columns
  are scaled by declared bounds and encoded by declared categories. On mortgages nine of ten are
  approved, so every model is shown at six thresholds; of 597 test rows some 90 are not white, so
  that the gap of one run has a standard error near 0.05.
* **Figures are means over seeds of estimates on test rows, not certificates.** Knobs' ranges were
  set after a first look at a few models, and tables show the best of many: the figures are
  optimistic.
* **ε is that of one fit.** A sweep like this over private rows spends the composition of
  all fits, see [the ledger](../theory/ledger.md).
* One net and common settings for all, not tuned for each mechanism on each data set: a mechanism
  that loses here may win with settings of its own. Rate constraints and PF-LD keep their documented
  defaults for batch size and epochs, which were tuned, and have that advantage.
* PATE and FairPATE use a fifth of the training rows as public rows without
  labels. These rows are *not* protected there: a weaker guarantee than that of the others.
* Relations differ: zero-out treats sizes as public, add-remove does not; "change-attribute"
  protects the attribute alone, and has pictures and pages of its own.
"""
LEFT_OUT = """
Left out: `AbstainingClassifier`, which can be put behind every one of these models and trades
coverage for the gap, and has [figures of its own](fairpate.md).
"""
