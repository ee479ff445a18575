"""What has to be known about a module before it may see private rows."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

__all__ = ["find_head", "refuse_mixing_modules"]


def refuse_mixing_modules(module: nn.Module) -> None:
    """Refuse layers that mix the records of a batch or keep statistics of them.

    Batch normalisation makes one record's output depend on its whole batch, and its
    running statistics are un-noised sums over private rows that would leave with
    the weights. Instance normalisation does the latter when it tracks statistics.
    Dropout acts on each record by itself and is allowed.

    Parameters
    ----------
    module : torch.nn.Module

    Raises
    ------
    ValueError
        Naming the layer and what to use instead.

    Examples
    --------
    >>> from torch import nn
    >>> from skfairdp.engine.inspection import refuse_mixing_modules
    >>> refuse_mixing_modules(nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)))
    """
    for name, layer in module.named_modules():
        where = (
            f"The layer {name!r} ({type(layer).__name__})"
            if name
            else (f"The module {type(layer).__name__}")
        )
        if isinstance(layer, _BatchNorm):
            raise ValueError(
                f"{where} normalises by statistics of the whole batch, so the gradient of one "
                "record cannot be bounded by itself. Use torch.nn.GroupNorm or LayerNorm "
                "instead."
            )
        if isinstance(layer, _InstanceNorm) and layer.track_running_stats:
            raise ValueError(
                f"{where} keeps running statistics of private rows. Set "
                "track_running_stats=False or use torch.nn.GroupNorm instead."
            )


def find_head(module: nn.Module, name: str | None = None) -> tuple[str, nn.Linear]:
    """Return the linear output layer of a module.

    Parameters
    ----------
    module : torch.nn.Module
    name : str or None, default=None
        Name of the layer in ``module.named_modules()``. None takes the attribute
        ``head`` if it is linear, else the last ``torch.nn.Linear`` in the order of
        definition.

    Returns
    -------
    name : str
        Its name in ``module.named_modules()`` (``""`` if the module itself is linear).
    head : torch.nn.Linear

    Raises
    ------
    ValueError
        If there is no such layer, or the one named is not linear.

    Examples
    --------
    >>> from torch import nn
    >>> from skfairdp.engine.inspection import find_head
    >>> find_head(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)))[0]
    '2'
    """
    kind = type(module).__name__
    layers = dict(module.named_modules())
    linear = [key for key, layer in layers.items() if isinstance(layer, nn.Linear)]
    choice = ", ".join(map(repr, linear)) or "none"
    if name is not None:
        if name not in layers:
            raise ValueError(
                f"The module {kind} has no layer {name!r}; its linear layers are: {choice}."
            )
        head = layers[name]
        if not isinstance(head, nn.Linear):
            raise ValueError(
                f"The head must be a torch.nn.Linear; {name!r} is a {type(head).__name__}. "
                f"The linear layers of {kind} are: {choice}."
            )
        return name, head
    if not linear:
        raise ValueError(
            f"The module {kind} has no torch.nn.Linear, so it has no head whose weights could "
            "be clipped. End it in a linear layer called `head`."
        )
    chosen = "head" if "head" in linear else linear[-1]
    head = layers[chosen]
    assert isinstance(head, nn.Linear)
    return chosen, head
