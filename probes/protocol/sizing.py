"""Chooses the memory of a run and the length of its samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .messages import DeviceRecord
from .spec import ProbeStopped, level_of
from .status import DeviceKind, Status

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
_SCRATCH_BYTES = 64 * MIB
_GPU_BUFFERS = {"quick": (256 * MIB, 64 * MIB), "normal": (GIB, 512 * MIB, 64 * MIB)}
"""Sizes of each of the two buffers of a GPU; the largest that fits is used."""
_LARGEST_COPY_BYTES = 512 * MIB
_SMALLEST_BYTES = 64 * MIB


@dataclass(frozen=True)
class Sizes:
    """Sizes and repeats of a run."""

    buffer_bytes: int
    copy_bytes: int
    """Bytes of one copy of a fast pair."""
    smallest_bytes: int
    """The smallest copy of a slow pair."""
    copies: int
    """Copies in one sample."""
    samples: int
    sample_seconds: float
    """Approximate limit for the duration of a sample."""
    small_bytes: int
    small_copies: int
    """Bytes of the copies that measure latency, and their number."""
    store_bytes: int
    """Bytes that the storing kernel writes."""
    first_warm_seconds: float
    """Warm-up of a new source; at the level "quick" only while copies get faster."""
    warm_seconds: float
    hops: int
    """Loads of a pointer chase in one sample."""
    smallest_sweep_bytes: int

    def fitting(self, bytes_per_second: float, most_bytes: Optional[int] = None) -> int:
        """Bytes of one copy, halved until a sample takes at most `sample_seconds`."""
        size = self.copy_bytes if most_bytes is None else most_bytes
        while (
            size // 2 >= self.smallest_bytes
            and self.copies * size > self.sample_seconds * bytes_per_second
        ):
            size //= 2
        return size

    def sweep(self, factor: int) -> tuple[int, ...]:
        """Sizes of copies from `smallest_sweep_bytes` to 1 GiB, or to the size of the buffers."""
        sizes = [self.smallest_sweep_bytes]
        while sizes[-1] * factor <= min(self.buffer_bytes, GIB):
            sizes.append(sizes[-1] * factor)
        return tuple(sizes)

    def sweep_copies(self, size_bytes: int, bytes_per_second: float) -> int:
        """Copies in one sample of a sweep: 2 GiB together, at least 4 and at most 64.

        A slow pair gets fewer, at least one, to take about `sample_seconds`.
        """
        enough = int(self.sample_seconds * bytes_per_second / size_bytes)
        return max(1, min(enough, max(4, min(64, 2 * GIB // size_bytes))))


def choose_sizes(kind: str, devices: Sequence[DeviceRecord], params: Mapping[str, Any]) -> Sizes:
    """Sizes that leave a fifth of each GPU free, at least 1 GiB; ProbeStopped if none do.

    `force` leaves only 256 MiB free. `samples`: repeats of each figure, 3 to 25. `level`: as in
    spec.py.
    """
    quick = level_of(params) == "quick"
    samples = params.get("samples", 3 if quick else 5)
    if type(samples) is not int or not 3 <= samples <= 25:
        raise ProbeStopped(Status.REFUSED, "samples is a number from 3 to 25.")
    if kind == DeviceKind.CPU:
        return Sizes(
            buffer_bytes=8 * MIB, copy_bytes=8 * MIB, smallest_bytes=8 * MIB, copies=4,
            samples=samples, sample_seconds=1.0, small_bytes=16, small_copies=50,
            store_bytes=MIB, first_warm_seconds=0.01, warm_seconds=0.0, hops=2000,
            smallest_sweep_bytes=4 * KIB,
        )  # fmt: skip
    buffers, forced = _GPU_BUFFERS["quick" if quick else "normal"], params.get("force") is True
    for buffer_bytes in buffers:
        wanted = 2 * buffer_bytes + _SCRATCH_BYTES
        if all(wanted <= spare_bytes(device, forced=forced) for device in devices):
            return Sizes(
                buffer_bytes=buffer_bytes,
                copy_bytes=min(buffer_bytes, _LARGEST_COPY_BYTES),
                smallest_bytes=min(buffer_bytes, _SMALLEST_BYTES),
                copies=8 if quick else 16,
                samples=samples,
                sample_seconds=0.03 if quick else 0.06,
                small_bytes=16,
                small_copies=200,
                store_bytes=MIB if quick else 4 * MIB,
                first_warm_seconds=0.25,
                warm_seconds=0.0 if quick else 0.02,
                hops=20_000,
                smallest_sweep_bytes=4 * KIB,
            )
    raise too_full(devices, 2 * buffers[-1] + _SCRATCH_BYTES, forced=forced)


def reserve_bytes(device: DeviceRecord, *, forced: bool) -> int:
    """Memory of a GPU to leave free: a fifth, at least 1 GiB; `forced`: 256 MiB."""
    return 256 * MIB if forced else max((device.memory_bytes or 0) // 5, GIB)


def spare_bytes(device: DeviceRecord, *, forced: bool) -> int:
    """Memory that a probe may take of a GPU; negative if the reserve is not free."""
    return (device.free_bytes or 0) - reserve_bytes(device, forced=forced)


def too_full(devices: Sequence[DeviceRecord], wanted_bytes: int, *, forced: bool) -> ProbeStopped:
    """The refusal, which names the GPU with the least memory to spare."""
    full = min(devices, key=lambda device: spare_bytes(device, forced=forced))
    reserve = reserve_bytes(full, forced=forced)
    return ProbeStopped(
        Status.REFUSED,
        f"{full.key} has {(full.free_bytes or 0) // MIB} MiB free: the probe wants "
        f"{wanted_bytes // MIB} MiB and leaves {reserve // MIB} MiB free.",
    )
