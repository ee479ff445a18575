"""What a linear head has to be for several of it to be trained in one last step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from skfairdp.engine.randomness import SeededDraws


def check_head(module: nn.Module, head: nn.Linear, row_shape: tuple[int, ...]) -> None:
    """Refuse a head that does not return the module's single logit."""
    if head.out_features != 1:
        raise ValueError(
            f"FairDPClassifier needs a 'net' with one logit; its head has {head.out_features}."
        )
    trained = list(head.parameters())
    own = [head.weight] if head.bias is None else [head.weight, head.bias]
    elsewhere = {
        id(parameter)
        for layer in module.modules()
        if layer is not head
        for parameter in layer.parameters(recurse=False)
    }
    if not all(p.requires_grad for p in own) or len(trained) != len(own):
        raise ValueError(
            "'head' must be a plain linear layer whose weight and bias are both trained; got one "
            "that is frozen or has other parameters."
        )
    if any(id(p) in elsewhere for p in own):
        raise ValueError("'head' shares its weights with another layer; give it its own.")
    reference = next(module.parameters())
    # Not zeros: a connection around the head would not show.
    generator = torch.Generator().manual_seed(0)
    rows = torch.rand((4, *row_shape), generator=generator) * 3.0
    rows = rows.to(dtype=reference.dtype, device=reference.device)
    seen: list[tuple[Tensor, Tensor]] = []
    handle = head.register_forward_hook(lambda _m, i, output: seen.append((i[0], output)))
    try:
        with torch.no_grad(), SeededDraws(0):
            output = module(rows)
            linear = [torch.nn.functional.linear(i, head.weight, head.bias) for i, _ in seen]
    finally:
        handle.remove()
    if (
        len(seen) != 1
        or not torch.equal(seen[0][1].reshape(-1), output.reshape(-1))
        or not torch.allclose(seen[0][1], linear[0], rtol=1e-3, atol=1e-4)
    ):
        raise ValueError(
            "'head' must be the module's last layer: what it returns must be the logit. Name the "
            "right layer, or move what follows it elsewhere."
        )
