"""The other ways between two GPUs: reading, kernels, the host, and how size matters."""

from functools import partial
from typing import Any, Optional

from ...devices.devices import Backend, Flow
from ...protocol.messages import DeviceRecord
from ...protocol.sizing import MIB, Sizes
from ...protocol.timing import Sampled, gigabytes_per_second, sample, verdict_of
from .quantities import KERNEL_LATENCY, KERNEL_READ, KERNEL_WRITE, READ, SWEEP, THROUGH_HOST
from .report import STAGED, PairReporter

STAGED_BYTES = 256 * MIB
_FEW = 3
"""Number of samples for figures that are not judged."""


class Paths:
    """Measures the further figures of an ordered pair."""

    def __init__(self, backend: Backend, sizes: Sizes, reporter: PairReporter) -> None:
        self._backend = backend
        self._sizes = sizes
        self._report = reporter

    def read(
        self, reader: DeviceRecord, owner: DeviceRecord, size: int, granted: bool, attempt: int
    ) -> Sampled:
        """Copies on a stream of the reader, like nvbandwidth's device_to_device_memcpy_read_ce."""
        flow = Flow(owner.index, reader.index, reads=True)
        copies = self._sizes.copies
        self._backend.clear(reader.index)
        sampled = sample(
            lambda: gigabytes_per_second(
                copies * size, self._backend.flow_seconds([flow], size, copies).together
            ),
            self._sizes.samples,
        )
        self._report.figure(
            READ, reader, owner, self._backend.copy_engine if granted else STAGED,
            f"{reader.key} reads the memory of {owner.key}, nothing else running",
            sampled, size, copies, attempt=attempt, verdict=self._verdict(owner, reader, size),
        )  # fmt: skip
        return sampled

    def kernel(
        self, doer: DeviceRecord, other: DeviceRecord, size: int, reads: bool, attempt: int
    ) -> Optional[Sampled]:
        """Copies by multiprocessors of the acting GPU; None where no kernel can do it."""
        ends = (other, doer) if reads else (doer, other)
        flow = Flow(ends[0].index, ends[1].index, reads=reads)
        copies, times = self._sizes.copies, []
        self._backend.clear(flow.dst)
        self._backend.kernel_seconds(flow, size, 1)
        for _ in range(self._sizes.samples):
            seconds = self._backend.kernel_seconds(flow, size, copies)
            if seconds is None:
                return None
            times.append(gigabytes_per_second(copies * size, seconds))
        sampled = Sampled(tuple(times))
        quantity = KERNEL_READ if reads else KERNEL_WRITE
        does = "reads the memory of" if reads else "writes into"
        self._report.figure(
            quantity, doer, other, self._backend.kernel_engine,
            f"a kernel of {doer.key} {does} {other.key}, nothing else running",
            sampled, size, copies, attempt=attempt, verdict=self._verdict(*ends, size),
        )  # fmt: skip
        return sampled

    def chase(self, src: DeviceRecord, dst: DeviceRecord) -> None:
        """Latency of one load: each loaded word is the address of the next."""
        hops = self._sizes.hops
        chase = partial(self._backend.chase_seconds, src.index, dst.index, hops)
        if chase() is None:  # the first lap fills the owner's cache and the reader's page tables
            return
        times = [1e6 * seconds / hops for seconds in self._times(chase, self._sizes.samples)]
        self._report.figure(
            KERNEL_LATENCY, src, dst, self._backend.kernel_engine,
            f"a kernel of {src.key} follows pointers in the memory of {dst.key}",
            Sampled(tuple(times)), 8, hops, digits=4,
        )  # fmt: skip

    def staging(
        self, src: DeviceRecord, dst: DeviceRecord, direct: float, granted: bool, attempt: int
    ) -> Sampled:
        """Copies through the host; `direct`: GB/s of the copy engine for the pair."""
        ends = src.index, dst.index
        size = min(STAGED_BYTES, self._sizes.copy_bytes)
        self._backend.clear(dst.index)
        stage = partial(self._backend.staged_seconds, *ends, size)
        stage()
        sampled = Sampled(tuple(gigabytes_per_second(size, t) for t in self._times(stage, _FEW)))
        self._report.figure(
            THROUGH_HOST, src, dst, "copy engine, through pinned host memory",
            f"{src.key} to {dst.key} by way of two pinned buffers on the host",
            sampled, size, 1, attempt=attempt, verdict=self._verdict(src, dst, size),
        )  # fmt: skip
        if sampled.median >= direct:
            what = (
                "P2P gains nothing on this pair" if granted
                else "the driver's own staging is no better, and P2P is not granted"
            )  # fmt: skip
            self._report.note(
                "staging",
                f"{src.key} to {dst.key}: {sampled.median:.1f} GB/s through pinned host memory, "
                f"{direct:.1f} GB/s directly: {what}.",
                src=src.key, dst=dst.key, granted=granted, direct_gbs=round(direct, 3),
                staged_gbs=round(sampled.median, 3),
            )  # fmt: skip
        return sampled

    def sweep(
        self, src: DeviceRecord, dst: DeviceRecord, factor: int, direct: float, granted: bool
    ) -> None:
        """Copies of each size in turn, all queued before the first starts.

        `direct`: GB/s of the copy engine for the pair.
        """
        flow = Flow(src.index, dst.index)
        for size in self._sizes.sweep(factor):
            copies = self._sizes.sweep_copies(size, 1e9 * direct)
            times = [self._backend.flow_seconds([flow], size, copies).together for _ in range(_FEW)]
            sampled = Sampled(tuple(gigabytes_per_second(copies * size, t) for t in times))
            self._report.figure(
                SWEEP, src, dst, self._backend.copy_engine if granted else STAGED,
                f"{src.key} writes into {dst.key}, copy after copy of one size",
                sampled, size, copies,
                details={"time_us": round(1e6 * sorted(times)[_FEW // 2] / copies, 3)},
            )  # fmt: skip

    def _times(self, measure: Any, times: int) -> "list[float]":
        return [float(measure()) for _ in range(times)]

    def _verdict(self, src: DeviceRecord, dst: DeviceRecord, size: int) -> Optional[str]:
        return verdict_of(self._backend.copied_right(src.index, dst.index, size))
