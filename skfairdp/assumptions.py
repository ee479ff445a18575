"""What the figures of certificates rest on: each sentence once, with the place that keeps it true.

A place is the code that keeps an assumption (``module`` or ``module:name``), or the person who
has to. Sentences with braces are filled in by those who state them.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "PLACES",
    "closed_sets",
    "held_out_rows",
    "seed_known",
    "through_noise",
]

OWNER = "whoever collects the rows"
CERTIFIER = "whoever certifies the model"
DEPLOYER = "whoever deploys the model"

# Where each sentence is kept.
PLACES: dict[str, str] = {}


def _kept(place: str, sentence: str) -> str:
    PLACES[sentence] = place
    return sentence


# -- privacy of the training rows -------------------------------------------------------

VALIDATION = _kept(
    "skfairdp.rows",
    "whether rows pass the checks of their form (numbers, lengths, kinds of values), and what is "
    "said where they do not, is assumed public: these checks are the data owner's; no message "
    "shows a value or a number of rows",
)
ONE_ROW_ONE_PERSON = _kept(OWNER, "one row is one person")
START = _kept(OWNER, "the guarantee starts at the array passed to {method}")
NOISE_ALONE = _kept(
    "skfairdp.engine.release:NoisyRelease",
    "{what} through the noisy {noisy} alone, and running time is not part of what is released",
)
ARITHMETIC = _kept(
    "skfairdp.engine.clipping.norms",
    "what a row adds to a sum is computed from that row alone, to the last bit; sums are formed in "
    "float64, and a row's bound is lowered by all that their rounding can move",
)
ATTACKER = _kept(
    "skfairdp.privacy.streams",
    "an attacker who can neither break AES-128 nor read the memory of this process",
)
FLOAT_NOISE = _kept(
    "skfairdp.privacy.noise:NoiseSource",
    "drawn and added in float64, and the guarantee is for real-valued noise: which float64 numbers "
    "can come out depends on the sum that the noise is added to, and what an attacker may read "
    "from their last bits is not covered",
)
GRID_NOISE = _kept(
    "skfairdp.privacy.noise:NoiseSource",
    "drawn exactly, given uniform bits, in whole numbers of a grid of 2**-{bits} of its standard "
    "deviation, to which the sum is rounded before; the rounding, and tails that are never drawn, "
    "are charged",
)
NOISE = "noise from {name}, for {attacker}; it is {how}"
SET = _kept("skfairdp.fairness.groups:encode_groups", "the set of {name} is {known}")
DECLARED, READ_OFF = "declared", "taken from the rows and public"
SEED = "reproducible_noise=True ties {what} to random_state: whoever knows or guesses the seed can "


def closed_sets(*, labels: bool | None = None, groups: bool | None = None) -> tuple[str, ...]:
    """Say whether class labels and groups were declared; None leaves one out."""
    known = {"class labels": labels, "groups": groups}
    return tuple(
        SET.format(name=name, known=DECLARED if declared else READ_OFF)
        for name, declared in known.items()
        if declared is not None
    )


CLOSED_SETS = frozenset(
    text for known in (True, False) for text in closed_sets(labels=known, groups=known)
)


def through_noise(noisy: str = "sums", what: str = "rows reach the model") -> str:
    """Say that rows, or what of them is protected, reach a model through noise alone."""
    return f"{ONE_ROW_ONE_PERSON}; {NOISE_ALONE.format(what=what, noisy=noisy)}"


def starts(method: str = "fit") -> str:
    """Say where the guarantee starts."""
    return START.format(method=method)


def seed_known(what: str = "the noise", undo: str = "subtract it") -> str:
    """Say why reproducible noise protects nobody."""
    return SEED.format(what=what) + undo


# -- several fits, and steps of a Pipeline -----------------------------------------------

BY_POSITION = _kept(
    "skfairdp.certificate.composition",
    "{what} by position, perhaps by label or group too, and neighbours keep these (zero-out): "
    "removing a record would move others from one part to another, so that under add-remove no "
    "finite ε follows; for that, {instead}",
)
FOLDS_BY_POSITION = BY_POSITION.format(
    what="folds were cut", instead="search with cv=RecordSplit()"
)
HELD_OUT_BY_POSITION = BY_POSITION.format(
    what="The rows were held out",
    instead="let each record find its part by itself (RecordSplit), and certify with "
    "holdout='per_record'.",
)
FOLDS_IN_PROPORTION = _kept(
    "skfairdp.certificate.search_fits",
    "each fit followed the plan of its own parameters, for the number of rows of its folds, in "
    "which groups were taken to be as frequent as among all rows",
)
HELD_OUT_BY_DRAW = _kept(
    CERTIFIER,
    "Each record was assigned to training or hold-out by its own draw, so the larger of the two "
    "costs holds for every record.",
)
DECLARED_PUBLIC = _kept(
    CERTIFIER, "Step {name!r} ({kind}) was declared public: it was fitted without protected rows."
)
COUNTS_RELEASED = _kept(
    "skfairdp.certificate.evaluation",
    "The counts of the held-out rows were released once with discrete Laplace noise from {name}, "
    "at ε = {epsilon} for each of these rows.",
)
LATER_STEPS = _kept(
    "skfairdp.certificate.composition",
    "all steps after {name!r} see the rows through their releases alone, so what they learn is "
    "covered too; the labels and groups that they were fitted with are not",
)

# -- bounds from held-out rows -----------------------------------------------------------

INDEPENDENT_ROWS = _kept(
    OWNER,
    "The held-out rows are independent draws from the population that the claim is about, one row "
    "a person.",
)
UNUSED_ROWS = _kept(
    OWNER,
    "They were used neither to train nor to select the model or its key: figures from such rows "
    "would bound nothing.",
)
RECORDED = _kept(OWNER, "{what} as recorded.")
SIZES_GIVEN = _kept(
    "skfairdp.certificate.evaluation",
    "The number of held-out rows of each group (and true label, where it matters) is taken as "
    "given.",
)
SAME_DEPLOYMENT = _kept(
    DEPLOYER,
    "The model is deployed with the preprocessing, threshold, way of predicting and key that were "
    "certified.",
)
PUBLIC_ROWS = _kept(
    CERTIFIER, "The held-out rows were declared public: nothing here protects them."
)
NOISY_COUNTS = _kept(
    "skfairdp.certificate.evaluation",
    "Estimate and counts are the noisy ones; the bound allows for the noise (ε = {epsilon} for "
    "each held-out row).",
)
PUBLIC_CELLS = _kept(CERTIFIER, "The numbers of rows of the (group, label) cells are public.")
SHARED_ERROR = _kept(
    "skfairdp.certificate.evaluation_settings",
    "The error probability is shared by {claims} claims on these rows (planned certificates times "
    "notions{kinds}), so all of them hold together with the stated confidence.",
)
ERROR_APART = _kept(
    "skfairdp.certificate.evaluation",
    "The error probability is apart from that of the bound on the deployed model.",
)
_COUNTED = "The rates count the answers that the model really gave to these rows"
ANSWERS_ALIKE = _kept(
    "skfairdp.certificate.holdout",
    f"{_COUNTED}; asked again, in another order and in {{calls}} parts, it gave each of them the "
    "same answer.",
)
ANSWERS_DRAWN = _kept(
    "skfairdp.certificate.holdout:draws_afresh",
    f"{_COUNTED}, and with them the draws that it makes anew for each answer, independently of its "
    "other answers.",
)
ANSWERS_ONE_BY_ONE = _kept(
    DEPLOYER,
    f"{_COUNTED} one at a time: asked again, in another order and in {{calls}} parts, it answered "
    "some otherwise, so it draws anew at each answer, or rows of one call influence each other. "
    "The claim is about a model that is asked for one row at a time, and that answers without "
    "regard to what it was asked before.",
)
ANSWERS_ASSUMED = _kept(
    DEPLOYER,
    f"{_COUNTED}. An answer depends on the row alone, or on draws that are made anew for it, "
    "independently of all others.",
)
AVERAGED_RATES = _kept(
    DEPLOYER,
    "Rates are averaged over the draws that decide for a row. A draw is fixed by a key and the "
    "person's row, so people with equal rows share it: where few different rows exist, the rates "
    "under the one key that is deployed can differ from the average by any amount.",
)


def held_out_rows(how: str, *, with_labels: bool) -> Iterable[str]:
    """What every bound from held-out rows rests on; `how` says what the rates count."""
    recorded = RECORDED.format(what="Labels and groups are" if with_labels else "Groups are")
    return (INDEPENDENT_ROWS, UNUSED_ROWS, how, recorded, SIZES_GIVEN, SAME_DEPLOYMENT)
