"""What the harness of training counts, without a GPU."""

from __future__ import annotations

import pytest

from tests.harness.training.kernels import shares
from tests.harness.training.plans import SHAPES, starts

KERNELS = [(0, 40, "gemm"), (30, 60, "ncclDevKernel"), (50, 70, "gelu"), (90, 100, "ncclKernel")]


def test_the_shares_of_overlapping_kernels() -> None:
    found = shares(KERNELS, 2)
    assert found == {
        "compute_s": pytest.approx(30e-6),
        "communication_s": pytest.approx(20e-6),
        "exposed_s": pytest.approx(10e-6),
        "busy_s": pytest.approx(40e-6),
    }


def test_every_layout_has_every_size_and_batch_once() -> None:
    keys = [run.key for start in starts() for run in start]
    assert len(set(keys)) == len(keys) == 36


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_model_has_the_parameters_that_are_counted(shape: object) -> None:
    from tests.harness.training import llama  # imports torch
    from tests.harness.training.plans import TrainedShape

    assert isinstance(shape, TrainedShape)
    with llama.torch.device("meta"):
        made = llama.Llama(shape)
    assert sum(one.numel() for one in made.parameters()) == shape.parameters
