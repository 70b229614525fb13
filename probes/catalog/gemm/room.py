"""Chooses the matrix multiplications that fit into a device's free memory."""

from collections.abc import Callable
from typing import Optional

from ...protocol.messages import DeviceRecord, Message, Note
from ...protocol.sizing import MIB, spare_bytes
from ...protocol.spec import ProbeStopped
from .bench import FLUSH_BYTES
from .cases import LIBRARY_BYTES, Multiplication, fitting

Emit = Callable[[Message], None]


def room_bytes(device: DeviceRecord, kind: str, *, forced: bool) -> Optional[int]:
    """Memory for operands, results and the flush buffer; None on a CPU, which has no limit.

    `forced`: take more of the device (see `sizing.reserve_bytes`).
    """
    return None if kind == "cpu" else spare_bytes(device, forced=forced) - LIBRARY_BYTES


def plan(
    device: DeviceRecord, wanted: "tuple[Multiplication, ...]", room: Optional[int], emit: Emit
) -> "tuple[Multiplication, ...]":
    """The cases that fit; ProbeStopped if none does."""
    if room is None:
        return wanted
    kept, dropped = fitting(wanted, lambda case: case.memory_bytes + FLUSH_BYTES <= room)
    if not kept:
        raise ProbeStopped(
            "refused",
            f"{device.key} has {(device.free_bytes or 0) // MIB} MiB free: too little for any "
            f"shape beside the {((device.free_bytes or 0) - room - LIBRARY_BYTES) // MIB} MiB that "
            "stay free.",
        )
    if dropped:
        shapes = ", ".join(case.name for case in dropped[:3]) + (" ..." if len(dropped) > 3 else "")
        text = f"{device.key}: {len(dropped)} cases do not fit the free memory: {shapes}."
        emit(Note("gemm-memory", text, {"left_out": [case.name for case in dropped]}))
    return kept
