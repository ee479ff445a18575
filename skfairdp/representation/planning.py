"""Plans and prices of training an encoder, from its settings and public facts."""

from __future__ import annotations

import math
from typing import Any

from skfairdp.foundation.assumptions import of_training, seed_known
from skfairdp.inprocessing.fair_path.classifier import FairPathClassifier
from skfairdp.privacy.accounting.calibration import noise_multiplier_for
from skfairdp.privacy.accounting.plan_cost import guarantee
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource, noise_text
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes, check_delta, expected_batch_size
from skfairdp.receipts import Quote, RowFacts
from skfairdp.receipts.quoted import priced
from skfairdp.representation.randomizers import LaplaceRandomizer, ResponseRandomizer

RAW = "the encoder's weights were learned from them without noise"

_FAR = 1e6  # a norm that no gradient of a row reaches


def resolved_epochs(encoder: Any) -> int:
    if encoder.max_epochs == "auto":
        return 100 if encoder.train_privately or encoder.objective == "fair_codes" else 25
    return int(encoder.max_epochs)


def training_plan(encoder: Any, sizes: Sizes) -> Plan:
    """Calibrate the noise of private training."""
    delta = float(encoder.delta)
    check_delta(delta, sizes.total)

    size, clip = expected_batch_size(encoder.batch_size, sizes.total), float(encoder.max_grad_norm)

    def plan(noise_multiplier: float) -> Plan:
        gradient = ("gradient", clip, noise_multiplier * clip)
        steps = sizes.batches(resolved_epochs(encoder), size, gradient)
        return sizes.plan(steps, delta=delta, exact_noise=True)

    return plan(noise_multiplier_for(float(encoder.training_epsilon), delta, plan))


def training_promise(
    encoder: Any, plan: Plan | None, noise: NoiseSource, facts: RowFacts
) -> PrivacyGuarantee:
    """State the guarantee of the training rows, which may be void."""
    protects = facts.unit
    if plan is None:
        return PrivacyGuarantee.void(RAW)
    if noise.reproducible:
        return PrivacyGuarantee.void(seed_known(), protects=protects)
    return guarantee(
        plan,
        protects=protects,
        assumptions=of_training(
            noise_text(noise),
            labels=encoder.classes is not None,
            groups=None if facts.groups is None else False,  # their set is that of the rows
            what="rows reach the networks",
            persons=protects == "person",
        ),
    )


def randomizer_of(encoder: Any) -> LaplaceRandomizer | ResponseRandomizer:
    """Build the randomiser of an encoder from its settings."""
    epsilon, d = float(encoder.epsilon), encoder.n_components
    if encoder.noise == "laplace":
        return LaplaceRandomizer(epsilon, d, float(encoder.bound))
    return ResponseRandomizer(epsilon, d, encoder.n_values)


def fitting_quote(encoder: Any, facts: RowFacts, noise: NoiseSource) -> Quote:
    """Price the training of an encoder's networks."""
    private = bool(encoder.train_privately)
    sizes = Sizes.of_all(facts.n, encoder.dataset_size) if private else None
    plan = None if sizes is None else training_plan(encoder, sizes)
    stated = training_promise(encoder, plan, noise, facts)
    return Quote(type(encoder).__name__, facts, stated, plan, charge=stated, sizes=sizes)


def path_of(encoder: Any, seed: int) -> FairPathClassifier:
    """The path, not fitted yet, whose score an encoder cuts."""
    private = bool(encoder.train_privately)
    return FairPathClassifier(
        encoder.net,
        notion=encoder.notion,
        tolerance=encoder.tolerance,
        epsilon=encoder.training_epsilon if private else math.inf,
        delta=encoder.delta,
        max_grad_norm=encoder.max_grad_norm if private else _FAR,
        dataset_size=encoder.dataset_size if private else None,
        batch_size=encoder.batch_size,
        max_epochs=resolved_epochs(encoder),
        classes=encoder.classes,
        random_state=seed,
        reproducible_noise=encoder.reproducible_noise,
        progress=encoder.progress,
    )


def codes_quote(encoder: Any, facts: RowFacts) -> Quote:
    """Price the training of fair codes."""
    if not encoder.train_privately:
        void = PrivacyGuarantee.void(RAW)
        return Quote(type(encoder).__name__, facts, void, charge=void)
    return priced(path_of(encoder, 0), facts)
