"""How much memory a run takes and how long its samples are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .protocol import DeviceRecord
from .spec import ProbeStopped

MIB = 1 << 20
GIB = 1 << 30
_SCRATCH_BYTES = 64 * MIB
_GPU_BUFFERS = (512 * MIB, 64 * MIB)
_SAMPLE_SECONDS = 0.06
_SMALLEST_BYTES = 64 * MIB


@dataclass(frozen=True)
class Sizes:
    """One run's sizes and repeats."""

    buffer_bytes: int
    smallest_bytes: int
    """Slow pairs use shorter copies, down to this."""
    copies: int
    """Copies in one sample."""
    samples: int
    small_bytes: int
    small_copies: int
    """Bytes and number of the copies that latency is taken from."""
    store_bytes: int
    """What the storing kernel writes."""
    first_warm_seconds: float
    """For a source not used before."""
    warm_seconds: float

    def fitting(self, bytes_per_second: float) -> int:
        """Bytes of one copy such that a sample takes about _SAMPLE_SECONDS; halved, never odd."""
        size = self.buffer_bytes
        while (
            size // 2 >= self.smallest_bytes
            and self.copies * size > _SAMPLE_SECONDS * bytes_per_second
        ):
            size //= 2
        return size


def choose_sizes(kind: str, devices: Sequence[DeviceRecord], params: Mapping[str, Any]) -> Sizes:
    """Sizes that leave a fifth of each GPU, and 1 GiB at least, free; ProbeStopped if none do.

    `force` shrinks what is left free to 256 MiB. `samples` (3 to 25) is how often each is timed.
    """
    samples = params.get("samples", 5)
    if type(samples) is not int or not 3 <= samples <= 25:
        raise ProbeStopped("refused", "samples is a number from 3 to 25.")
    if kind == "cpu":
        return Sizes(8 * MIB, 8 * MIB, 4, samples, 16, 50, MIB, 0.01, 0.0)
    for buffer_bytes in _GPU_BUFFERS:
        if all(_fits(device, buffer_bytes, params.get("force") is True) for device in devices):
            return Sizes(
                buffer_bytes, min(buffer_bytes, _SMALLEST_BYTES), 16, samples, 16, 200, 4 * MIB,
                0.25, 0.02,
            )  # fmt: skip
    full = min(devices, key=lambda device: device.free_bytes or 0)
    raise ProbeStopped(
        "refused",
        f"{full.key} has {(full.free_bytes or 0) // MIB} MiB free: the probe wants "
        f"{(2 * _GPU_BUFFERS[-1] + _SCRATCH_BYTES) // MIB} MiB and leaves a fifth of it all free.",
    )


def _fits(device: DeviceRecord, buffer_bytes: int, forced: bool) -> bool:
    total, free = device.memory_bytes or 0, device.free_bytes or 0
    reserve = 256 * MIB if forced else max(total // 5, GIB)
    return free - 2 * buffer_bytes - _SCRATCH_BYTES >= reserve
