"""The NIC of a GPU where a pasted matrix names NICs and nothing tells where they are."""

from __future__ import annotations

import gputop

PASTED = """\tGPU0\tGPU1\tNIC0\tNIC1
GPU0\t X \tNV18\tPIX\tSYS
GPU1\tNV18\t X \tSYS\tPIX
NIC0\tPIX\tSYS\t X \tSYS
NIC1\tSYS\tPIX\tSYS\t X \n
NIC Legend:\n
  NIC0: mlx5_0
  NIC1: mlx5_1
"""


def test_the_nearest_of_a_matrix_comes_before_one_that_the_prediction_makes_up() -> None:
    node = gputop.load(PASTED)
    found = [node.nic_of(gpu) for gpu in (0, 1)]
    assert [nic.nic for nic in found] == ["mlx5_0", "mlx5_1"]
    assert not any(nic.taken for nic in found)
