"""Adult, one-hot, as the engine gets it; made-up rows of the same shape without the data."""

from __future__ import annotations

import os

import numpy as np
import torch
from sklearn.pipeline import make_pipeline

from skfairdp.datasets import fetch_adult
from skfairdp.preprocessing import PublicEncoder, PublicScaler

__all__ = ["adult_rows"]


def adult_rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (float32), labels (0/1) and sex (0/1) of the training part."""
    if not os.environ.get("SKFAIRDP_DATA"):
        print("SKFAIRDP_DATA is not set: made-up rows of Adult's shape are used.")
        generator = np.random.default_rng(0)
        X = generator.random((32_561, 107), dtype=np.float32)
        return X, (X[:, 0] > 0.75).astype(int), generator.integers(0, 2, len(X))
    bunch = fetch_adult()
    scale = make_pipeline(
        PublicScaler(bunch.bounds, log_columns=bunch.log_columns), PublicEncoder(bunch.categories)
    )
    train = np.asarray(bunch.split) == "train"
    X = np.asarray(scale.fit_transform(bunch.data[train]), dtype=np.float32)
    y = np.asarray(bunch.target)[train].astype(int)
    sex = np.asarray(bunch.sensitive_features)[train]
    _, codes = np.unique(sex.reshape(len(sex), -1)[:, 0].astype(str), return_inverse=True)
    return X, y, codes


def as_tensors(
    X: np.ndarray, y: np.ndarray, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows in the dtypes of the module, on a device."""
    rows, labels = np.ascontiguousarray(X), y.astype(np.float32)
    return torch.from_numpy(rows).to(device), torch.from_numpy(labels).to(device)
