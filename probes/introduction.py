"""How a probe of copies begins: open the wanted devices, and say who answers."""

import dataclasses
import platform
from collections.abc import Callable, Sequence

from .devices import Backend, select
from .protocol import DeviceRecord, Hello, Message, Note, Progress, Request
from .spec import ProbeSpec

Emit = Callable[[Message], None]


def introduce(
    backend: Backend, request: Request, spec: ProbeSpec, emit: Emit, dropped: Sequence[str]
) -> "list[DeviceRecord]":
    """The requested devices with their free memory; emits a Hello. ProbeStopped if too few.

    `dropped`: names of variables that were taken out of this process's environment.
    """
    records = backend.devices()
    chosen = select(records, request.devices, spec.minimum_gpus)
    emit(Progress(0, 1, f"opening {', '.join(record.key for record in chosen)}"))
    backend.open([record.torch_index for record in chosen])
    opened = [
        dataclasses.replace(record, free_bytes=backend.free_bytes(record.torch_index))
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
