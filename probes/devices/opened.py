"""The first steps of a probe: finds and selects devices, says Hello, reads free memory."""

import dataclasses
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..protocol.messages import (
    ASKING,
    IMPORTING,
    DeviceRecord,
    Hello,
    Message,
    Note,
    Progress,
    WorkerRequest,
)
from ..protocol.sizing import spare_bytes
from ..protocol.spec import ProbeSpec
from .devices import Backend, Devices, select
from .opening import drop_overruled_variables, open_backend, open_torch

Emit = Callable[[Message], None]

_MEMORY_INFO = Path("/proc/meminfo")
_GROUPS = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""The memory cgroup of versions 2 and 1, as a container sees its own."""
_OWN_GROUPS = Path("/proc/self/cgroup")


def open_devices(
    request: WorkerRequest, spec: ProbeSpec, emit: Emit
) -> "tuple[Backend, tuple[DeviceRecord, ...]]":
    """The driver's devices and the selected ones with their free memory; emits a Hello.

    ProbeStopped without a device or without the requested one.
    """
    dropped = drop_overruled_variables()
    emit(Progress(0, 1, ASKING))
    backend = open_backend(request.params)
    return backend, tuple(_introduce(backend, request, spec, emit, dropped))


def open_torch_devices(
    request: WorkerRequest, spec: ProbeSpec, emit: Emit
) -> "tuple[Devices, tuple[DeviceRecord, ...]]":
    """The same for torch's devices; ProbeStopped also without torch."""
    dropped = drop_overruled_variables()
    emit(Progress(0, 1, IMPORTING))
    devices = open_torch(request.params, lambda: emit(Progress(0, 1, ASKING)))
    return devices, tuple(_introduce(devices, request, spec, emit, dropped))


def _introduce(
    backend: Devices, request: WorkerRequest, spec: ProbeSpec, emit: Emit, dropped: Sequence[str]
) -> "list[DeviceRecord]":
    """The requested devices with their free memory; emits a Hello. ProbeStopped if too few.

    `dropped`: names of variables that were removed from this process's environment.
    """
    records = backend.devices()
    chosen = select(records, request.devices, spec.minimum_gpus)
    emit(Progress(0, 1, f"opening {', '.join(record.key for record in chosen)}"))
    backend.open([record.index for record in chosen])
    opened = [
        dataclasses.replace(record, free_bytes=backend.free_bytes(record.index))
        for record in chosen
    ]
    others = [dataclasses.replace(r, selected=False) for r in records if r not in chosen]
    emit(
        Hello(
            probe=spec.name,
            method=spec.method,
            python=platform.python_version(),
            device_kind=backend.kind,
            devices=(*opened, *others),
            **dataclasses.asdict(backend.versions()),
        )
    )
    if dropped:
        emit(Note("environment", f"Left out for this run: {', '.join(dropped)}."))
    return opened


def largest_fitting(
    sizes: Sequence[int], devices: Sequence[DeviceRecord], *, forced: bool
) -> "int | None":
    """The first of these sizes (largest first) that every device can spare, or None."""
    spare = min(spare_bytes(device, forced=forced) for device in devices)
    return next((size for size in sizes if size <= spare), None)


def host_free_bytes(
    memory_info: Path = _MEMORY_INFO,
    groups: "Sequence[tuple[Path, str, str]]" = _GROUPS,
    own_groups: Path = _OWN_GROUPS,
) -> int:
    """Host memory that this process may take: available on the machine and in its cgroups."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    free = 1024 * _numbers(memory_info).get("MemAvailable:", free // 1024)
    for folder, limit_name, used_name in _with_own(groups, own_groups):
        limit, used = _text(folder / limit_name).strip(), _text(folder / used_name).strip()
        if limit.isdigit() and used.isdigit():
            counts = _numbers(folder / "memory.stat")
            # The kernel gives up cached files before it refuses memory.
            cached = counts.get("total_inactive_file", counts.get("inactive_file", 0))
            free = min(free, max(0, int(limit) - int(used) + cached))
    return free


def _with_own(
    groups: "Sequence[tuple[Path, str, str]]", own_groups: Path
) -> "Iterator[tuple[Path, str, str]]":
    """The roots of cgroups, and each group that this process is in: a job has one of its own."""
    yield from groups
    for line in _text(own_groups).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        for root, limit_name, used_name in groups:
            group = root / path.lstrip("/")
            for folder in (group, *group.parents):
                if root in folder.parents:
                    yield folder, limit_name, used_name


def _numbers(path: Path) -> "dict[str, int]":
    """Parse lines of a name and a number."""
    words = [line.split() for line in _text(path).splitlines()]
    return {each[0]: int(each[1]) for each in words if len(each) > 1 and each[1].isdigit()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
