"""Events of NVML: taken without waiting, one for each fault, from old and new drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gputop.topology.hardware.faults.catalogue import fault_of
from gputop.topology.model.kernel_event import KernelEvent, KernelSource
from gputop.topology.model.part import PartialNode
from gputop.topology.model.severity import BROKEN, NOTICE, SLOW
from gputop.topology.model.source import SourceAbsent
from gputop.topology.sources.collect import merge
from gputop.topology.sources.linux.kernel_lines import read_lines
from gputop.topology.sources.nvidia.library import NvmlLibrary
from gputop.topology.sources.nvidia.nvml_events import MOST_AT_ONCE, NvmlEventsReader, parse
from tests.support import nvml_fake as fake

SECOND = "0000:02:00.0"
XID, DOUBLE_BIT, MIG = 0x8, 0x2, 0x100


class _TimeoutError(fake.NVMLError):
    value, text = 10, "Timeout"


class EventData:
    def __init__(self, device: int, kind: int, data: int, instance: int = 0xFFFFFFFF) -> None:
        self.device, self.eventType, self.eventData = device, kind, data
        self.gpuInstanceId = instance


class Listened(fake.Binding):
    def __init__(self) -> None:
        self.registered: dict[int, int] = {}
        super().__init__(gpus=2)


def binding(*events: EventData, supported: int = XID | DOUBLE_BIT | MIG | 0x10) -> Listened:
    """A driver with event sets, in which these events wait."""
    made = Listened()
    waiting: Iterator[EventData] = iter(events)

    def wait(_: object, milliseconds: int) -> EventData:
        assert milliseconds == 0  # never blocks
        for event in waiting:
            return event
        raise _TimeoutError

    def register(handle: int, mask: int, _: object) -> None:
        made.registered[handle] = mask

    made.answers |= {
        "nvmlEventSetCreate": lambda: "the set",
        "nvmlDeviceGetSupportedEventTypes": lambda _: supported,
        "nvmlDeviceRegisterEvents": register,
        "nvmlEventSetWait_v2": wait,
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
    }
    return made


def reader(made: fake.Binding) -> NvmlEventsReader:
    return NvmlEventsReader(lambda: NvmlLibrary(made), clock=lambda: 1700000000.0)


def read(made: fake.Binding) -> tuple[KernelEvent, ...]:
    return parse(reader(made)()).kernel_events or ()


def test_what_is_supported_and_wanted_is_registered() -> None:
    made = binding()
    raw = reader(made)()
    assert raw["listening"] == {"0000:01:00.0": 0x10A, SECOND: 0x10A}  # not the clocks, 0x10
    assert made.registered == {0: 0x10A, 1: 0x10A}
    assert raw["events"] == []
    assert raw["operational"] == "not in the installed nvidia-ml-py"


def test_an_xid_is_the_event_that_a_line_of_the_log_is() -> None:
    (event,) = read(binding(EventData(1, XID, 79)))
    assert (event.kind, event.code, event.device) == (KernelSource.XID, "79", SECOND)
    assert event.heard
    assert event.first == "2023-11-14T22:13:20+00:00"
    assert fault_of(event).severity is BROKEN


def test_an_instance_and_a_change_of_mig_are_named() -> None:
    (event,) = read(binding(EventData(0, MIG, 0, 5), EventData(0, MIG, 0, 5)))
    assert (event.name, event.count) == ("GPU instance 5", 2)
    assert fault_of(event).severity is NOTICE


def test_an_error_of_memory_that_has_an_xid_is_told_once() -> None:
    events = read(binding(EventData(1, DOUBLE_BIT, 0), EventData(1, XID, 48)))
    assert [(event.kind, event.code) for event in events] == [(KernelSource.XID, "48")]
    alone = read(binding(EventData(1, DOUBLE_BIT, 0), EventData(0, XID, 48)))
    assert {(event.kind, event.device) for event in alone} == {
        (KernelSource.NVML, SECOND),
        (KernelSource.XID, "0000:01:00.0"),
    }


def test_a_storm_comes_in_bounded_pieces() -> None:
    asked = reader(binding(*(EventData(1, XID, 31) for _ in range(MOST_AT_ONCE + 3))))
    counts = [(parse(asked()).kernel_events or ())[0].count for _ in range(2)]
    assert counts == [MOST_AT_ONCE, MOST_AT_ONCE + 3]


def test_a_driver_without_event_sets_is_asked_once_and_refuses() -> None:
    made = fake.Binding(gpus=2)
    raw = reader(made)()
    assert raw["listening"] == {}
    assert raw["refused"] == dict.fromkeys(
        ("0000:01:00.0", SECOND), "the driver makes no event set"
    )
    assert parse(raw).kernel_events == ()


def test_a_gpu_without_events_is_refused_alone() -> None:
    made = binding()

    def supported(handle: int) -> int:
        if handle:
            raise fake.NotSupported
        return XID

    made.answers["nvmlDeviceGetSupportedEventTypes"] = supported
    raw = reader(made)()
    assert raw["listening"] == {"0000:01:00.0": XID}
    assert "Not Supported" in raw["refused"][SECOND]


def test_a_single_reading_asks_nothing() -> None:
    made = binding(EventData(1, XID, 79))
    asked = reader(made)
    asked.thorough = True
    assert asked()["events"] == []
    assert made.starts == 0


def test_where_there_is_no_driver_the_source_nvml_says_so() -> None:
    def absent() -> NvmlLibrary:
        raise SourceAbsent("no driver")

    assert NvmlEventsReader(absent)()["events"] == []


def test_the_log_tells_more_than_nvml_of_the_same_fault() -> None:
    line = (
        "NVRM: Xid (PCI:0000:02:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x8 0x0)"
    )
    heard = parse(reader(binding(EventData(1, XID, 145), EventData(1, XID, 79)))())

    def codes(*parts: PartialNode) -> list[tuple[str, bool]]:
        found = merge(parts, taken_at=1.0, source=("live",), gputop="")
        return [(event.code, event.heard) for event in found.kernel_events or ()]

    assert codes(read_lines([line]), heard) == [("145", False), ("79", True)]
    assert codes(heard) == [("145", True), ("79", True)]


class Params:
    """A structure of the binding."""

    def __init__(self, **known: Any) -> None:
        for name in ("uuid", "sourceModule"):
            setattr(self, name, b"")
        for name in ("dataType", "eventType", "eventData", "severity", "moduleEventCode"):
            setattr(self, name, 0)
        self.gpuInstanceId = 0xFFFFFFFF
        self.__dict__.update(known)


def newest(*fill: dict[str, Any], xid: Callable[[], int] | None = None) -> fake.Binding:
    """A driver 615, whose set gives GPU operational events too."""
    made = binding()
    waiting = iter(fill)

    def wait(_: object, params: Params) -> None:
        for known in waiting:
            params.__dict__.update(known)
            return
        raise _TimeoutError

    def legacy(_: object, params: Params) -> None:
        if xid is None:
            raise fake.NotSupported
        params.__dict__["xidCode"] = xid()

    made.c_nvmlGpuOperationalEventConfig_v1_t = lambda *_: Params()  # type: ignore[attr-defined]
    made.c_nvmlEventSetWait_v3_t = Params  # type: ignore[attr-defined]
    made.c_nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1_t = Params  # type: ignore[attr-defined]
    made.answers |= {
        "nvmlEventSetRegisterGpuOperationalEvents_v1": lambda *_: None,
        "nvmlEventSetWait_v3": wait,
        "nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1": legacy,
    }
    return made


OPERATIONAL = {"dataType": 1, "uuid": b"GPU-1\0\0", "sourceModule": b"nvlink\0", "severity": 40}


def test_operational_events_are_used_where_the_driver_has_them() -> None:
    made = newest(OPERATIONAL | {"moduleEventCode": 7}, {"uuid": b"GPU-0", "eventType": XID})
    operational, xid = read(made)
    assert (operational.kind, operational.device) == (KernelSource.OPERATIONAL, SECOND)
    assert operational.said == "nvlink 7"
    fault = fault_of(operational)
    assert (fault.severity, fault.told(operational.details)) == (
        BROKEN,
        "a fatal operational event (nvlink 7)",
    )
    assert (xid.kind, xid.device) == (KernelSource.XID, "0000:01:00.0")


@pytest.mark.parametrize(("severity", "harm"), [(20, NOTICE), (30, SLOW), (40, BROKEN)])
def test_the_severity_of_an_operational_event_counts(severity: int, harm: object) -> None:
    (event,) = read(newest(OPERATIONAL | {"severity": severity}))
    assert fault_of(event).severity is harm


def test_an_operational_event_of_an_xid_is_the_xid() -> None:
    (event,) = read(newest(OPERATIONAL, xid=lambda: 79))
    assert (event.kind, event.code, event.device) == (KernelSource.XID, "79", SECOND)


def test_a_driver_that_refuses_them_is_heard_as_before() -> None:
    made = newest()

    def refuse(*_: object) -> None:
        raise fake.FunctionNotFound

    made.answers["nvmlEventSetRegisterGpuOperationalEvents_v1"] = refuse
    made.answers["nvmlEventSetWait_v2"] = lambda *_: refuse()
    assert "FunctionNotFound" in reader(made)()["operational"]
