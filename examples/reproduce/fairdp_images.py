"""A convolutional network for faces whose convolutions are fixed: two layers of wavelets.

Noise grows with the number of trained weights, and at a small epsilon it drowns learned
filters. A bank of oriented wavelets, absolute values and pooling, twice over, is public,
costs no privacy and leaves one linear layer to train (Tramer and Boneh, "Differentially
private learning needs better features (or much more data)", ICLR 2021, who use the
scattering transform of Mallat). Every image is normalised by itself.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from skorch import NeuralNet
from torch import Tensor, nn

from skfairdp import default_net
from skfairdp.engine.modules import SmallCNN

ORIENTATIONS = 6
SCALES = 2
# A row of features is multiplied by this. With a head whose norm is at most M the score is
# at most M times the norm of the features, so the scale decides what M = 1 means. Chosen on
# a fifth of the training part.
FEATURE_SCALE = 1.5


def wavelets(size: int) -> Tensor:
    """Morlet wavelets in the Fourier domain, shape (SCALES * ORIENTATIONS, size, size)."""
    frequency = torch.fft.fftfreq(size) * 2 * math.pi
    wy, wx = torch.meshgrid(frequency, frequency, indexing="ij")
    bank = []
    for scale in range(SCALES):
        centre, width = 0.75 * math.pi / 2**scale, 0.8 * 2**scale
        for turn in range(ORIENTATIONS):
            angle = math.pi * turn / ORIENTATIONS
            along = wx * math.cos(angle) + wy * math.sin(angle)
            across = 2.0 * (wy * math.cos(angle) - wx * math.sin(angle))
            wave = torch.exp(-((along - centre) ** 2 + across**2) * width**2 / 2)
            blob = torch.exp(-(along**2 + across**2) * width**2 / 2)
            bank.append(wave - blob * wave[0, 0])  # no answer to constant grey
    return torch.stack(bank)


def scattered(images: np.ndarray) -> np.ndarray:
    """Turn images into features: averages, first and second layer of wavelets.

    A face and its mirror image get the same features.

    Parameters
    ----------
    images : ndarray of float32, shape (n, 1, 48, 48)

    Returns
    -------
    ndarray of float32, shape (n, 1872)
    """
    banks = wavelets(48), wavelets(24)
    parts = [_scattered(torch.from_numpy(part), *banks) for part in np.array_split(images, 64)]
    return np.concatenate(parts).astype(np.float32)


def _scattered(images: Tensor, first: Tensor, second: Tensor) -> np.ndarray:
    x = images[:, 0]
    x = (x - x.mean((1, 2), keepdim=True)) / (x.std((1, 2), keepdim=True) + 0.1)
    u = torch.fft.ifft2(torch.fft.fft2(x)[:, None] * first).abs()
    u = F.avg_pool2d(u, 2)
    spectrum = torch.fft.fft2(u)
    v = [F.adaptive_avg_pool2d(torch.fft.ifft2(spectrum * w).abs(), 3) for w in second]
    turns = (SCALES, ORIENTATIONS)
    mirrored = [-turn % ORIENTATIONS for turn in range(ORIENTATIONS)]
    grey = F.adaptive_avg_pool2d(x[:, None], 12)
    one = F.adaptive_avg_pool2d(u, 6).unflatten(1, turns)
    two = torch.stack(v, 2).unflatten(2, turns).unflatten(1, turns)
    layers = (
        grey + grey.flip(-1),
        one + one[:, :, mirrored].flip(-1),
        two + two[:, :, mirrored][:, :, :, :, mirrored].flip(-1),
    )
    return torch.cat([_normalised(layer.flatten(1)) for layer in layers], 1).numpy()


def _normalised(layer: Tensor) -> Tensor:
    return (layer - layer.mean(1, keepdim=True)) / (layer.std(1, keepdim=True) + 1e-3)


def face_features(images: np.ndarray, folder: Path | None) -> np.ndarray:
    """Features of all images, kept in `folder` because they take a minute.

    Parameters
    ----------
    images : ndarray of float32, shape (n, 1, 48, 48)
    folder : Path or None
        The cache. None computes them anew.

    Returns
    -------
    ndarray of float32, shape (n, 1872)
    """
    path = None if folder is None else folder / f"faces_{len(images)}.npy"
    if path is None or not path.exists():
        features = scattered(images)
        if path is None:
            return FEATURE_SCALE * features
        np.save(path, features.astype(np.float16))
    return FEATURE_SCALE * np.load(path).astype(np.float32)


def linear_net() -> NeuralNet:
    """Net for `face_features`: the trained linear layer."""
    return default_net().set_params(module__hidden_sizes=())


def trained_cnn() -> NeuralNet:
    """Net for the images themselves: `SmallCNN`, all of it trained."""
    return NeuralNet(
        SmallCNN,
        criterion=nn.BCEWithLogitsLoss,
        optimizer=torch.optim.Adam,
        lr=0.01,
        train_split=None,
        callbacks=None,
        verbose=0,
    )
