"""One rank of the probe nccl: a process with one GPU that sees all of them, as under torchrun.

The ranks meet in a file of the run's private folder (torch's FileStore), so nothing of ours
listens; NCCL's own bootstrap uses the interface that the environment gives it. Transfers go through
`batch_isend_irecv`, because torch makes a communicator of two ranks for a bare `send`.
"""

import dataclasses
import datetime
import importlib
import os
import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

from .accelerator import Accelerator
from .devices import Backend, select
from .opening import open_backend
from .protocol import DeviceRecord, Hello, Measurement, Message, Progress, Request
from .rank_steps import MIB, Step, steps
from .spec import ProbeSpec, ProbeStopped
from .timing import Sampled, gigabytes_per_second

NEEDED_BYTES = 2048 * MIB
"""On each GPU: the library's buffers, up to 1.5 GB with many channels, and ours."""
SAMPLES = 5
_SLOW_SECONDS = 0.1
"""A first try that takes longer than this is timed less often."""
_FOREVER = datetime.timedelta(days=2)
"""torch's own deadline must never come first: it would write dumps and abort."""

Emit = Callable[[Message], None]


def in_rank_order(devices: Sequence[DeviceRecord]) -> "tuple[DeviceRecord, ...]":
    """By PCI address; the devices of a self-test by their number."""
    return tuple(sorted(devices, key=lambda d: (d.pci_address or "", d.torch_index)))


def run_rank(request: Request, emit: Emit, spec: ProbeSpec) -> None:
    """Go through all steps as the rank that the request names."""
    params = request.params
    rank, ranks, folder = int(params["rank"]), int(params["ranks"]), str(params["folder"])
    if os.getppid() != params["parent"]:
        os._exit(1)
    plan = steps(ranks, cpu=params["cpu"] is True)
    emit(Progress(0, len(plan), plan[0].what))
    backend = open_backend(params)
    records = backend.devices()
    chosen = in_rank_order(select(records, request.devices, spec.minimum_gpus))
    if len(chosen) != ranks:
        raise ProbeStopped("refused", f"{ranks} GPUs were named, and {len(chosen)} are different.")
    torch = importlib.import_module("torch")
    dist = importlib.import_module("torch.distributed")
    if not dist.is_available() or not (backend.kind == "cpu" or dist.is_nccl_available()):
        raise ProbeStopped("refused", f"torch {torch.__version__} is built without NCCL or RCCL.")
    mine = chosen[rank]
    here = Accelerator(torch, mine.torch_index, cpu=backend.kind == "cpu")
    store = dist.FileStore(os.path.join(folder, "store"), ranks)
    store.set_timeout(_FOREVER)
    member = _Member(here, dist, store, chosen, rank, emit, spec.method)
    refusal = member.memory_refusal(backend.free_bytes(mine.torch_index), params.get("force"))
    if rank == 0:
        emit(_hello(backend, records, member.devices, spec))
    if refusal:
        raise ProbeStopped("refused", refusal)
    for place, step in enumerate(plan[1:], 1):
        if step.kind != "transfer" or rank in (step.src, step.dst):
            emit(Progress(place, len(plan), step.what))
            member.take(step)
    member.meet("end")


def _hello(
    backend: Backend, seen: Sequence[DeviceRecord], used: Sequence[DeviceRecord], spec: ProbeSpec
) -> Hello:
    """Who answers; the selected devices come first, in the order of their ranks."""
    keys = {device.key for device in used}
    others = [dataclasses.replace(d, selected=False) for d in seen if d.key not in keys]
    return Hello(
        probe=spec.name,
        method=spec.method,
        python=platform.python_version(),
        device_kind=backend.kind,
        devices=(*used, *others),
        **dataclasses.asdict(backend.versions()),
    )


class _Member:
    """One rank among the others."""

    def __init__(
        self,
        here: Accelerator,
        dist: Any,
        store: Any,
        devices: Sequence[DeviceRecord],
        rank: int,
        emit: Emit,
        method: str,
    ) -> None:
        self._here = here
        self._dist = dist
        self._store = store
        self.devices = tuple(devices)
        self._rank = rank
        self._ranks = len(devices)
        self._emit = emit
        self._method = method

    def _share(self, topic: str, value: str) -> "list[str]":
        """Tell all ranks, hear all ranks."""
        self._store.set(f"{topic}/{self._rank}", value)
        return [self._store.get(f"{topic}/{r}").decode() for r in range(self._ranks)]

    def meet(self, topic: str) -> None:
        """Wait until all ranks are here."""
        self._share(topic, "here")

    def memory_refusal(self, free_bytes: int, force: object) -> str:
        """Why there is too little memory on some GPU, the same in every rank; else empty."""
        free = [int(text) for text in self._share("free", str(free_bytes))]
        self.devices = tuple(
            dataclasses.replace(device, free_bytes=one) for device, one in zip(self.devices, free)
        )
        for device in self.devices:
            total = device.memory_bytes or 0
            reserve = 256 * MIB if force is True else total // 5
            if (device.free_bytes or 0) < NEEDED_BYTES + reserve and total:
                return (
                    f"{device.key} has {(device.free_bytes or 0) // MIB} MiB free: the probe wants "
                    f"{NEEDED_BYTES // MIB} MiB and leaves {reserve // MIB} MiB free."
                )
        return ""

    def take(self, step: Step) -> None:
        """Do one step and report it."""
        if step.kind == "init":
            self._initialise()
        elif step.kind == "all-reduce":
            self._all_reduce(step)
        else:
            self._transfer(step)

    def _initialise(self) -> None:
        """The communicator comes to be with the first collective."""
        here, dist = self._here, self._dist
        started = time.perf_counter()
        dist.init_process_group(
            here.backend,
            store=dist.PrefixStore("group", self._store),
            rank=self._rank,
            world_size=self._ranks,
            timeout=_FOREVER,
        )
        ones = here.pattern(4, 0).fill_(1)
        dist.all_reduce(ones)
        here.wait()
        seconds = round(time.perf_counter() - started, 3)
        direction = f"rank {self._rank}, up to its first all-reduce of 4 bytes"
        self._say("init", self.devices[self._rank].key, "", direction, value=seconds, unit="s")

    def _all_reduce(self, step: Step) -> None:
        here, size = self._here, step.size_bytes
        mine = here.pattern(size, self._rank)
        data = mine.clone()
        self._dist.all_reduce(data)
        expected = mine.clone().zero_()
        for rank in range(self._ranks):
            expected += here.pattern(size, rank)
        wrong = here.wrong_bytes(data, expected)
        total = sum(int(text) for text in self._share(f"wrong/{size}", str(wrong)))
        direction = f"all ranks add {size // MIB} MiB of float32 up"
        found: dict[str, Any] = {
            "checked_bytes": size * self._ranks,
            "wrong_bytes": total,
            "bytes_per_copy": size,
        }
        if self._rank == 0 and (step.first or total):
            verdict = "wrong-data" if total else "finished"
            self._say("collective", "", "", direction, verdict=verdict, **found)
        once = here.seconds(lambda: self._dist.all_reduce(data), 1)
        samples, times = self._repeats(f"slow/{size}", once)

        def sample() -> float:
            data.copy_(mine)
            return here.seconds(lambda: self._dist.all_reduce(data), times)

        taken = [gigabytes_per_second(size, sample()) for _ in range(samples)]
        if self._rank != 0:
            return
        # Bytes that a ring sends over each link, over the time: nccl-tests/doc/PERFORMANCE.md.
        factor = 2 * (self._ranks - 1) / self._ranks
        found |= {"verdict": "wrong-data" if total else "verified", "copies_per_sample": times}
        for name, by in (("all-reduce-algbw", 1.0), ("all-reduce-busbw", factor)):
            self._figure(name, "", "", direction, Sampled(tuple(by * x for x in taken)), found)

    def _repeats(self, topic: str, seconds: float) -> "tuple[int, int]":
        """How many samples of how many calls; rank 0's first try decides for all."""
        slow = float(self._share(topic, f"{seconds:.6f}")[0])
        if slow > _SLOW_SECONDS:
            return 3, 1
        return SAMPLES, 10 if slow < _SLOW_SECONDS / 40 else 2

    def _transfer(self, step: Step) -> None:
        here, sends = self._here, self._rank == step.src
        sent = here.pattern(step.size_bytes, 1000 + 97 * step.src + step.dst)
        data = sent.clone() if sends else sent.clone().zero_()
        dist, peer = self._dist, step.dst if sends else step.src

        def move() -> None:
            operation = dist.P2POp(dist.isend if sends else dist.irecv, data, peer)
            for work in dist.batch_isend_irecv([operation]):
                work.wait()

        move()
        here.wait()
        wrong = 0 if sends else here.wrong_bytes(data, sent)
        topic = f"slow/{step.src}/{step.dst}"
        once = here.seconds(move, 1)
        if sends:
            slow = float(self._store.get(topic))
        else:
            slow = once
            self._store.set(topic, f"{slow:.6f}")
        samples, times = (1, 1) if float(f"{slow:.6f}") > _SLOW_SECONDS else (3, 4)
        taken = [here.seconds(move, times) for _ in range(samples)]
        if sends:
            return
        speeds = Sampled(tuple(gigabytes_per_second(step.size_bytes, one) for one in taken))
        src, dst = self.devices[step.src].key, self.devices[step.dst].key
        found: dict[str, Any] = {
            "verdict": "wrong-data" if wrong else "verified",
            "checked_bytes": step.size_bytes,
            "wrong_bytes": wrong,
            "bytes_per_copy": step.size_bytes,
            "copies_per_sample": times,
        }
        direction = f"{src} sends, {dst} receives, nothing else running"
        self._figure("send-receive", src, dst, direction, speeds, found)

    def _figure(
        self, name: str, src: str, dst: str, direction: str, taken: Sampled, more: "dict[str, Any]"
    ) -> None:
        samples = tuple(round(figure, 3) for figure in taken.samples)
        self._say(
            name, src, dst, direction, value=round(taken.median, 3), unit="GB/s",
            minimum=min(samples), maximum=max(samples), samples=samples, **more,
        )  # fmt: skip

    def _say(self, name: str, src: str, dst: str, direction: str, **more: Any) -> None:
        kind = "cpu" if self._here.device == "cpu" else "gpu"
        engine = self._here.library
        self._emit(Measurement(name, src, dst, self._method, kind, engine, direction, **more))
