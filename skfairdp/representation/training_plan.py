"""What private training of an encoder is planned and promised to cost."""

from __future__ import annotations

from typing import Any

from skfairdp.assumptions import of_training, seed_known
from skfairdp.privacy.accounting.calibration import noise_multiplier_for
from skfairdp.privacy.accounting.plan_cost import guarantee
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource, noise_text
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes, check_delta, expected_batch_size

RAW = "the encoder's weights were learned from them without noise"


def resolved_epochs(encoder: Any) -> int:
    if encoder.max_epochs == "auto":
        return 100 if encoder.train_privately or encoder.objective == "fair_codes" else 25
    return int(encoder.max_epochs)


def training_plan(encoder: Any, n: int) -> Plan:
    """Calibrate the noise of private training; `n` is public where no size is declared."""
    sizes = Sizes.of_all(n, encoder.dataset_size)
    delta = float(encoder.delta)
    check_delta(delta, sizes.total)

    size, clip = expected_batch_size(encoder.batch_size, sizes.total), float(encoder.max_grad_norm)

    def plan(noise_multiplier: float) -> Plan:
        gradient = ("gradient", clip, noise_multiplier * clip)
        return sizes.plan(sizes.batches(resolved_epochs(encoder), size, gradient), delta=delta)

    return plan(noise_multiplier_for(float(encoder.training_epsilon), delta, plan))


def training_promise(
    encoder: Any, plan: Plan | None, noise: NoiseSource, *, groups: bool
) -> PrivacyGuarantee:
    """State what training promises to the training rows: void where that is nothing.

    `groups`: whether there are groups; their set is taken from the rows.
    """
    protects = encoder._unit
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
            groups=False if groups else None,
            what="rows reach the networks",
            persons=protects == "person",
        ),
    )
