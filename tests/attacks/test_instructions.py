"""Attacks of test_rows_apart in processes of their own, whose libraries use other instructions.

torch multiplies by Intel's MKL here, and convolves by oneDNN. Both choose kernels by the processor,
and environment variables hold them to those of lesser ones. numpy's OpenBLAS multiplies nothing
that belongs to a row; its kernels are held too, to see that nothing changes.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import numpy as np
import torch
from pytest import MonkeyPatch
from torch import nn
from skfairdp.engine.clipping.norms import product_error
from skfairdp.engine.modules import MLP, SmallCNN
from skfairdp.records.sampling import PersonRows
from skfairdp.engine.row_blocks import block_rows
from skfairdp.foundation.assumptions import EXACTLY
from tests.attacks.test_rows_apart import ROUNDED, TURNED, by_place, kinked, rehearsed

torch.set_num_threads(int(sys.argv[1]))
assert kinked(50, 1, 257, tries=20) <= ROUNDED
for make, width, n in (
    (lambda: MLP(107), 107, 256),
    (lambda: MLP(784, 1, (256, 128), nn.ReLU), 784, 200),
    (lambda: SmallCNN((1, 24, 24)), 576, 60),
):
    torch.manual_seed(0)
    clipper, rows = rehearsed(make(), width, float(n)), block_rows(n)
    X, y, order = torch.randn(n, width), torch.zeros(n), torch.randperm(n)
    norms, half = clipper.norms(X, (y,), rows), n // 2 + 1
    assert torch.equal(clipper.norms(X[order], (y,), rows), norms[order])
    assert torch.equal(clipper.norms(X[:half], (y[:half],), rows), norms[:half])
    print(norms.numpy().tobytes().hex())
    # Persons of two rows, the first ones left out: what may move is in the margin.
    two = [PersonRows(np.full(k, 2), 2) for k in (n // 2, n // 2 - 3)]
    whole = clipper.norms(X, (y,), rows, two[0])[3:]
    part = clipper.norms(X[6:], (y[6:],), rows, two[1])
    error = product_error(clipper.product_terms, 2) * 16**2
    assert float((part / whole - 1.0).abs().max()) <= error
by_place(MonkeyPatch(), TURNED)
torch.manual_seed(0)
caught = rehearsed(MLP(6, 1, (4,)), 6)
assert caught.serving(torch.zeros(2, 6)).arithmetic == EXACTLY
assert kinked(50, 1, 257, tries=20, every=2) <= ROUNDED
assert kinked(50, 1, 257, tries=20, every=2, rehearse=False) > 1.5
"""

AVX2 = {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
SSE = {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"}
HELD: dict[str, dict[str, str]] = {
    "nothing": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", **AVX2},
    "default": {"ATEN_CPU_CAPABILITY": "default", **AVX2},
    "sse": {"ATEN_CPU_CAPABILITY": "default", **SSE},
    "torch alone": {"ATEN_CPU_CAPABILITY": "avx2"},
    "compatible": {"MKL_CBWR": "COMPATIBLE"},
    "strict": {"MKL_CBWR": "AVX2,STRICT"},
    "OpenBLAS of Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "OpenBLAS of Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "held",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "default" else pytest.mark.campaign)
        for name in HELD
    ],
)
def test_rows_stay_apart_whatever_the_kernels(held, threads):
    """In two processes, which give the same bits."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, str(threads)],
            env={**os.environ, "OMP_NUM_THREADS": str(threads), **HELD[held]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = [process.communicate() for process in processes]
    for process, (_, error) in zip(processes, answers, strict=True):
        assert process.returncode == 0, error
    assert answers[0][0] == answers[1][0]
