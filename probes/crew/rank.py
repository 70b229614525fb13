"""One rank of a run: a process with one GPU that sees all of them, as under torchrun.

The ranks meet in a file of the run's private folder, so gputop opens no port; NCCL's own bootstrap
uses the interface of the environment. The probe's `Member` does what a step requires.
"""

import dataclasses
import gc
import platform
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..devices.devices import select
from ..protocol.messages import (
    ASKING,
    DeviceRecord,
    Hello,
    MeasuredValue,
    Message,
    Progress,
    WorkerRequest,
)
from ..protocol.quantity import Quantity
from ..protocol.sizing import reserve_bytes, spare_bytes, too_full
from ..protocol.spec import ProbeSpec, ProbeStopped
from ..protocol.status import Status
from ..protocol.timing import Sampled
from .accelerator import Accelerator, RankGroup
from .means import Means, open_means
from .steps import Step, Steps
from .store import Store

Emit = Callable[[Message], None]


class Member:
    """One rank of a run; the subclass of a probe does what a step requires.

    `here`: its device. `group`: all ranks. `devices`: those of all ranks, in order.
    """

    def __init__(
        self,
        here: Accelerator,
        group: RankGroup,
        store: Store,
        devices: Sequence[DeviceRecord],
        rank: int,
        emit: Emit,
        spec: ProbeSpec,
        params: Mapping[str, Any],
    ) -> None:
        self.here = here
        self.group = group
        self.store = store
        self.devices = tuple(devices)
        self.rank = rank
        self.ranks = len(devices)
        self.emit = emit
        self.spec = spec
        self.params = params

    def take(self, step: Step) -> None:
        """Do one step and report it."""
        raise NotImplementedError

    def needed_bytes(self) -> int:
        """Free memory that each GPU needs, besides the reserve for others."""
        return self.spec.memory_bytes_per_gpu

    def share(self, topic: str, value: str) -> "list[str]":
        """Exchange a text with all ranks in a few milliseconds; use a topic once in a run."""
        self.store.set(f"{topic}/{self.rank}", value)
        return [self.store.get(f"{topic}/{r}") for r in range(self.ranks)]

    def meet(self, topic: str) -> None:
        """Wait until all ranks are here."""
        self.share(topic, "here")

    def memory_refusal(self, free_bytes: int) -> str:
        """Why a GPU has too little memory, the same text in every rank; else ""."""
        free = [int(text) for text in self.share("free", str(free_bytes))]
        self.devices = tuple(
            dataclasses.replace(device, free_bytes=free_bytes)
            for device, free_bytes in zip(self.devices, free)
        )
        needed = self.needed_bytes()
        forced = self.params.get("force") is True
        counted = [device for device in self.devices if device.memory_bytes]
        if all(spare_bytes(device, forced=forced) >= needed for device in counted):
            return ""
        return str(too_full(counted, needed, forced=forced))

    def reserve_bytes(self, device: DeviceRecord) -> int:
        """The reserve of memory for others."""
        return reserve_bytes(device, forced=self.params.get("force") is True)

    def figure(
        self, quantity: Quantity, src: str, dst: str, direction: str, taken: Sampled, **more: Any
    ) -> None:
        """Emit the median of several figures, in the unit of the quantity."""
        samples = tuple(round(figure, 3) for figure in taken.samples)
        found = {
            "value": round(taken.median, 3), "unit": quantity.unit, "minimum": min(samples),
            "maximum": max(samples), "samples": samples, **more,
        }  # fmt: skip
        self.say(quantity, src, dst, direction, **found)

    def say(self, quantity: Quantity, src: str, dst: str, direction: str, **more: Any) -> None:
        """Emit a measurement; `more` has its other fields."""
        kind, method, engine = self.here.kind, self.spec.method, self.here.library
        fields: dict[str, Any] = {"counted": quantity.counted, **more}
        self.emit(MeasuredValue(quantity.key, src, dst, method, kind, engine, direction, **fields))


def in_rank_order(devices: Sequence[DeviceRecord]) -> "tuple[DeviceRecord, ...]":
    """The device by PCI address, in a self-test by number."""
    return tuple(sorted(devices, key=lambda d: (d.pci_address or "", d.index)))


def run_rank(
    request: WorkerRequest, emit: Emit, spec: ProbeSpec, steps: Steps, member: "type[Member]"
) -> None:
    """Take all steps as the rank that the request names."""
    params = request.params
    rank, ranks = int(params["rank"]), int(params["ranks"])
    plan = steps(ranks, params, params["cpu"] is True)
    emit(Progress(0, len(plan), plan[0].what))
    means = open_means(params, str(params["library"]), lambda: emit(Progress(0, len(plan), ASKING)))
    backend = means.devices
    records = backend.devices()
    chosen = in_rank_order(select(records, request.devices, spec.minimum_gpus))
    if len(chosen) != ranks:
        raise ProbeStopped(
            Status.REFUSED, f"{ranks} GPUs were named, and {len(chosen)} are different."
        )
    mine = chosen[rank]
    backend.open([mine.index])
    store = Store(str(params["store"]))
    here, group = means.join(mine.index, store, rank, ranks)
    known = {**params, "nccl": means.versions().nccl}
    work = member(here, group, store, chosen, rank, emit, spec, known)
    refusal = work.memory_refusal(backend.free_bytes(mine.index))
    if rank == 0:
        emit(_hello(means, records, work.devices, spec))
    if refusal:
        raise ProbeStopped(Status.REFUSED, refusal)
    # A garbage collection in one rank makes all wait for a millisecond or more.
    gc.collect()
    gc.disable()
    for place, step in enumerate(plan[1:], 1):
        if step.takes_part(rank):
            emit(Progress(place, len(plan), step.what))
            work.take(step)
    work.meet("end")


def _hello(
    means: Means, seen: Sequence[DeviceRecord], used: Sequence[DeviceRecord], spec: ProbeSpec
) -> Hello:
    """The Hello of a run; the selected devices come first, in the order of ranks."""
    keys = {device.key for device in used}
    others = [dataclasses.replace(d, selected=False) for d in seen if d.key not in keys]
    return Hello(
        probe=spec.name,
        method=spec.method,
        python=platform.python_version(),
        device_kind=means.devices.kind,
        devices=(*used, *others),
        **dataclasses.asdict(means.versions()),
    )
