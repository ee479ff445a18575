"""What the figures of certificates rest on: each sentence once, with the place that keeps it true.

A place is the code that keeps an assumption (``module`` or ``module:name``), or the person who
has to. Sentences with braces are filled in by those who state them.
"""

from __future__ import annotations

from collections.abc import Iterable

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
COLUMNS = _kept(
    "skfairdp.preprocessing.cells:refuse_dtype",
    "names, number and order of the columns are public, and so is which of them hold dates, which "
    "are refused",
)
CELLS = _kept(
    OWNER,
    "the guarantee starts at the table passed to fit, and is about its cells: how they were read "
    "from a file is not part of it",
)
COUNTED_CELLS = _kept(
    "skfairdp.engine.table_release:TableRelease",
    "cells reach the levels through noisy counts alone, and how long that takes is not part of "
    "what is released",
)
LEVELS = _kept(
    "skfairdp.additive.design:levels_of",
    "the levels of the columns {how}, and are not counted here",
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
POSITIVE_OUTCOME = _kept(
    CERTIFIER, "The positive outcome is {positive!r}, and the other one {other!r}."
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
    "under the one key that is deployed can differ from the average by any amount. Draws of noise "
    "on the parameters that a model made once and keeps (a smoothed net's 'n_draws') belong to the "
    "model: the average is not over others.",
)
NO_CERTAIN_ROW = _kept(
    "skfairdp.postprocessing.smoothed",
    "No row, however unusual, is more certain of its decision than the weights' length allows.",
)

# -- what single mechanisms add ----------------------------------------------------------

PUBLIC_BOUNDS = _kept(
    OWNER,
    "Bounds and categories of the features were read off the rows and declared public: nothing "
    "protects the smallest and largest values and the set of categories.",
)
BOUNDS_DECLARED = _kept(
    OWNER, "feature_bounds and max_row_norm were declared, not computed from rows"
)
NOT_PURE = _kept(
    "skfairdp.inprocessing.functional.classifier",
    "Laplace noise on floating-point numbers is not a pure mechanism",
)
PARITY_ROWS = _kept(OWNER, "the rows of public_parity are public: nothing protects them")
VALIDATION_ROWS = _kept(OWNER, "the validation rows were declared public: nothing protects them")
GROUP_SIZES_HIDDEN = _kept(
    "skfairdp.inprocessing.attribute.lagrangian_dual",
    "how many people are in a group is protected",
)
DECLINING = _kept(
    "skfairdp.inprocessing.attribute.lagrangian_dual",
    "whoever declines to disclose the attribute, or discloses it after all, is covered by the same "
    "epsilon",
)
RANDOMIZED_FIRST = _kept(
    "skfairdp.inprocessing.attribute.randomized",
    "local: the attribute of each row was randomised by itself before anything looked at it, so "
    "the answers themselves could be published",
)
OTHERS_PUBLIC = _kept(OWNER, "features, labels and the number of rows are public")
RANDOMNESS = _kept(
    "skfairdp.privacy.streams", "randomness from {name}; the guarantee is for {attacker}"
)
ASKED_ANEW = _kept(
    "skfairdp.inprocessing.attribute.randomized",
    f"{ONE_ROW_ONE_PERSON}; every fit asks anew and spends epsilon once more",
)
THINNED = _kept(
    "skfairdp.preprocessing.thinned",
    "the (group x label) table was released at epsilon {epsilon}, and every record was kept by a "
    "draw of its own with a probability made from that table",
)
MODEL_EACH = _kept(
    "skfairdp.postprocessing.group_models",
    "one model for each group, trained on that group's rows alone: a record is in one group, so "
    "the largest epsilon of all groups holds for every record",
)

# -- votes of teachers -------------------------------------------------------------------

VOTES_PLANNED = _kept(
    "skfairdp.aggregation.voting",
    "epsilon is that of {tests}{votes} noisy votes, numbers fixed in advance, however many took "
    "place; an answer that a gate refused is charged like any other",
)
ONE_TEACHER = _kept(
    "skfairdp.aggregation.shards",
    "the number of teachers and the noise were fixed in advance; each record drew its teacher by "
    "itself, so that it reaches one teacher alone",
)
QUERIES_PUBLIC = _kept(
    OWNER, "the public rows and their groups need no protection, and nothing protects them"
)
TEACHERS = _kept(
    "skfairdp.aggregation.teachers.training",
    "each teacher has random numbers of its own, and one that fails votes for the first class in "
    "silence; its kind of model was tried on public rows, about as many as two average shards "
    "hold, and delta is below 1/n for the true n",
)
ATTRIBUTE_VOTES = _kept(OWNER, "features and labels of all rows are public; {learned}")
STUDENT = _kept(
    CERTIFIER,
    "The answers counted are those of the teachers to public queries. This model is the student "
    "that learned from them; its own differences need held-out rows.",
)
QUERIERS = _kept(
    DEPLOYER,
    "Nothing protects people who query: who is answered depends on the groups and predictions of "
    "those who asked before, and the table of answers is printed.",
)

# -- searches ----------------------------------------------------------------------------

BEST_OF_MANY = _kept(
    "skfairdp.model_selection.search",
    "the best of a random number of candidates (mean {mean}, truncated negative binomial of shape "
    "{shape}), each drawn from the same prior with noise of its own; the number was drawn before, "
    "and neither it nor anything of the other candidates is released",
)
DEAREST_REPEATED = _kept(
    "skfairdp.model_selection.budget",
    "every candidate costs at most the one event that is repeated, at every order of the "
    "accountant",
)
HELD_OUT_WITH_CHANCE = _kept(
    "skfairdp.model_selection.holding_out",
    "each record was held out by its own draw with probability {fraction}",
)
ONE_TABLE_EACH = _kept(
    "skfairdp.model_selection.scoring",
    "held-out records reach the search through one table of counts a candidate, at epsilon "
    "{epsilon}, whose search costs no more at any order",
)
LABELS_PUBLIC = _kept(OWNER, "the set of class labels is public")
SETS_PUBLIC = _kept(OWNER, "the sets of class labels and of groups are public")
TIME_OF_SEARCH = _kept(
    OWNER,
    f"{ONE_ROW_ONE_PERSON}; running time and memory, which grow with the number of candidates, are "
    "not part of what is released",
)
TIME_OF_MANY = _kept(OWNER, f"{ONE_ROW_ONE_PERSON}; running time is not part of what is released")
ALL_COMPOSE = _kept(
    "skfairdp.model_selection.specification",
    "{fits} models were trained on the same records and compose; {n} tables of held-out counts, "
    "at epsilon {epsilon} each, compose",
)

# -- releases of representations ---------------------------------------------------------

EXACT_RELEASE = _kept(
    "skfairdp.representation.randomizers",
    "pure and exact in integers: {how}, so rounding weakens nothing",
)
RELEASE_ALONE = _kept(
    OWNER,
    f"{ONE_ROW_ONE_PERSON}, and the release is all that anybody sees of the row: labels, groups "
    "and columns passed on beside it are not covered",
)
RELEASE_NOISE = _kept(
    "skfairdp.privacy.streams",
    "noise of calls without ids from {name}; of calls with ids from BLAKE2b under a secret 256-bit "
    "key; the guarantee is for {attacker}, and who cannot tell keyed BLAKE2b from random",
)
RELEASES_COUNTED = _kept(
    "skfairdp.representation.release_memory",
    "one release costs ε = {epsilon}; since the last fit transform was called {fresh} times "
    "without ids, each of which is another release, and {remembered} with ids, which is one "
    "release of each distinct row of a person, however often; the total is for a person who was in "
    "all of these calls with one row",
)
CHANGED_ROW = _kept(
    OWNER,
    "a person whose row changed pays once more for each distinct row, and that it changed is not "
    "protected; nor is a row for which the encoder gives other numbers elsewhere (another "
    "processor or library): it gets other noise, and pays once more; calls before the last fit, "
    "and calls of copies and of restored pickles, are not in this count",
)
ONE_RELEASE = _kept(
    DEPLOYER,
    "each person is predicted from one release at ε = {epsilon} and nothing else: from k different "
    "releases of a person the bound is tanh(kε/2), and a predictor that also sees the group or "
    "another column has no bound",
)
NOT_FITTED_ON = _kept(DEPLOYER, "the predictor was not fitted on the person who is predicted")
FEATURES_ALONE = _kept(
    DEPLOYER, "the row is released from its features alone, not from the group or the label"
)

# -- bounds from the noise of training, and from a gate ----------------------------------

LAST_STEP = (
    _kept(
        CERTIFIER,
        "The bound is about rates averaged over the noise of the last training step, not about the "
        "one model that was released.",
    ),
    _kept(
        "skfairdp.inprocessing.fairdp.classifier",
        "Two classes; a row is positive when its probability exceeds one half; a bias of the head, "
        "if there is one, is clipped, projected and noised with its weights.",
    ),
    _kept(
        "skfairdp.inprocessing.fairdp.classifier",
        "The last step of the head is plain gradient descent (no Adam, momentum, weight decay or "
        "averaging) after its weights were clipped.",
    ),
)
ANSWERS_SO_FAR = _kept(
    DEPLOYER,
    "It is counted on the table of the {answers} answers given so far. It says nothing about "
    "people who have not asked or were not answered, about other models that learn from these "
    "answers, or about how often answers are right.",
)
ORDER_OF_QUERIES = _kept(
    DEPLOYER, "Which queries were answered depends on the order in which they came."
)
REFUSALS = _kept(DEPLOYER, "A refusal is a decision too, and the gate does not even out refusals.")


# -- several at once ---------------------------------------------------------------------


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


def of_training(
    noise: str,
    *,
    labels: bool,
    groups: bool | None,
    what: str = "rows reach the model",
    also: Iterable[str] = (),
) -> tuple[str, ...]:
    """What training by noisy sums rests on; `noise` says where the noise is from."""
    sets = closed_sets(labels=labels, groups=groups)
    return (*sets, *also, noise, ARITHMETIC, through_noise(what=what), starts())


def of_attribute(
    protected: str, noise: str, *, groups: bool, also: Iterable[str] = ()
) -> tuple[str, ...]:
    """What training rests on where the sensitive attribute alone is protected, in these words."""
    (groups_known,) = closed_sets(groups=groups)
    return (
        f"protects {protected}",
        f"{groups_known}; {GROUP_SIZES_HIDDEN}",
        *also,
        noise,
        ARITHMETIC,
        through_noise(what="the attribute reaches the model"),
    )


def held_out_rows(how: str, *, with_labels: bool) -> Iterable[str]:
    """What every bound from held-out rows rests on; `how` says what the rates count."""
    recorded = RECORDED.format(what="Labels and groups are" if with_labels else "Groups are")
    return (INDEPENDENT_ROWS, UNUSED_ROWS, how, recorded, SIZES_GIVEN, SAME_DEPLOYMENT)
