"""The order of ranks, and the cause of a failure among what they say."""

from __future__ import annotations

from typing import Any

from gputop.probes.crew.crew import reason
from gputop.probes.crew.rank import in_rank_order
from gputop.probes.protocol.messages import DeviceRecord

TORCH_ERROR = """DistBackendError: NCCL error in: /pytorch/torch/csrc/NCCLUtils.cpp:94,
unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.28.9
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
Error while creating shared memory segment /dev/shm/nccl-abc (size 9637888), error: No space left
"""


def device(address: str | None, index: int, **more: Any) -> DeviceRecord:
    return DeviceRecord(address or f"cpu:{index}", index, "x", address, **more)


def test_ranks_follow_the_pci_order() -> None:
    cuda_order = [device("0000:9b:00.0", 0), device("0000:1b:00.0", 1), device("0001:01:00.0", 2)]
    assert [d.index for d in in_rank_order(cuda_order)] == [1, 0, 2]
    assert [d.index for d in in_rank_order([device(None, 1), device(None, 0)])] == [0, 1]


def test_the_cause_is_reported_in_the_words_of_the_library() -> None:
    said = reason(TORCH_ERROR)
    assert said.startswith("ncclSystemError: System call")
    assert said.endswith("error: No space left")
    assert "NCCLUtils" not in said
    assert reason("RuntimeError: something\n else") == "RuntimeError: something else"
