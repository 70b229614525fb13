"""Small nodes for the tests of single decisions."""

from __future__ import annotations

from gputop.topology.nccl.prediction import PairDecision
from tests.topology.nccl.made import SWITCH, cpu, gpu, switch, system

HIDDEN = "fffffff:ff:ff.0"


PIX = system(cpu(0, switch(1, gpu(2, 0), gpu(3, 1))))


PHB = system(cpu(0, gpu(2, 0), gpu(3, 1)))


SYS = system(cpu(0, gpu(2, 0), gpu(3, 1)), cpu(1, gpu(4, 2), gpu(5, 3)))


NVSWITCH = system(cpu(0, *(gpu(2 + n, n, [(HIDDEN, 18, SWITCH)]) for n in range(4))))


def pair(prediction: object, src: int = 0, dst: int = 1) -> PairDecision:
    found = prediction.pair(src, dst)  # type: ignore[attr-defined]
    assert found is not None
    return found  # type: ignore[no-any-return]
