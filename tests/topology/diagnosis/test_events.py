"""What happens while one watches: ticks with their amount, states with their begin and end."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from gputop.topology.diagnosis.events import Event, Watcher
from gputop.topology.model.kernel_event import HEARD, KernelEvent, KernelSource
from gputop.topology.model.machine import Fabric, Gpu, Machine
from gputop.topology.model.readings import (
    CounterKind,
    DeviceCounters,
    EccCounts,
    NvLinkReading,
    Readings,
)
from gputop.topology.model.severity import BROKEN, NOTICE, SLOW
from gputop.topology.model.snapshot import NodeSnapshot, Problem, ProblemKind, SourceState
from gputop.topology.model.surroundings import Interface, RdmaDevice, RdmaPort
from gputop.topology.recorded.demos import demo
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.sources.linux.kernel_lines import read_lines
from gputop.widgets.spans import text_of
from gputop.widgets.status import news_line
from tests.support.app import gpu, reading

A, B = gpu(0), gpu(1)


def at(seconds: float, gpus: tuple[Gpu, ...] = (A, B), **moved: Any) -> NodeSnapshot:
    """A node of two GPUs, the first of which reads so."""
    machine = moved.pop("machine", None) or Machine(gpus=gpus)
    readings = tuple(reading(gpu, **(moved if gpu.address == A.address else {})) for gpu in gpus)
    return NodeSnapshot(taken_at=seconds, machine=machine, readings=Readings(gpus=readings))


def watched(*snapshots: NodeSnapshot) -> tuple[Event, ...]:
    watcher = Watcher()
    for snapshot in snapshots:
        watcher.see(snapshot)
    return watcher.events


def link(number: int, **counters: Any) -> NvLinkReading:
    return NvLinkReading(link=number, **counters)


def test_a_total_is_no_news_and_a_tick_is() -> None:
    assert watched(at(1, pcie_replays=4000)) == ()
    assert watched(at(1, pcie_replays=4000), at(2, pcie_replays=4000)) == ()
    (event,) = watched(
        at(1, pcie_replays=4000),
        at(2, pcie_replays=4003),
        at(3, pcie_replays=4003),
        at(9, pcie_replays=4010),
    )
    assert (event.device, event.amount, event.times) == (A.address, 10, 2)
    assert (event.first_at, event.last_at) == (2, 9)
    assert event.text == "GPU0: +10 PCIe replays"


def test_the_newest_comes_first_though_the_clock_was_set_back() -> None:
    first, second = watched(
        at(9001, pcie_replays=1),
        at(9002, pcie_replays=2),
        at(1002, pcie_replays=2, throttle_reasons=()),
        at(1003, pcie_replays=2, throttle_reasons=("hw thermal",)),
    )
    assert (first.what, second.what) == ("throttled: hw thermal", "PCIe replays")
    assert "hw thermal" in text_of(news_line((first, second), 1004.0, 6))
    assert "more" not in text_of(news_line((first, second), 1004.0, 6))


def test_links_of_one_gpu_are_one_event() -> None:
    quiet = (link(3, replay_errors=7, crc_errors=0), link(4, replay_errors=0, crc_errors=0))
    ticked = (link(3, replay_errors=8, crc_errors=0), link(4, replay_errors=5, crc_errors=2))
    crc, replays = sorted(
        watched(at(1, nvlinks=quiet), at(2, nvlinks=ticked)), key=lambda event: event.what
    )
    assert replays.text == "GPU0, links 3 and 4: +6 NVLink replays"
    assert replays.times == 1
    assert crc.text == "GPU0, link 4: +2 NVLink CRC errors"


def test_a_counter_that_was_not_read_is_not_zero() -> None:
    assert watched(at(1), at(2, pcie_replays=9)) == ()
    assert watched(at(1, pcie_replays=9), at(2), at(3, pcie_replays=9)) == ()
    (event,) = watched(at(1, pcie_replays=9), at(2), at(3, pcie_replays=11))
    assert event.amount == 2


def test_a_reset_and_another_card_begin_anew() -> None:
    assert watched(at(1, pcie_replays=9), at(2, pcie_replays=0)) == ()
    (event,) = watched(at(1, pcie_replays=9), at(2, pcie_replays=0), at(3, pcie_replays=1))
    assert event.amount == 1
    other = replace(A, uuid="GPU-another")
    swapped = at(2, (other, B), pcie_replays=500)
    assert watched(at(1, pcie_replays=9), swapped) == ()


def test_ecc_counts_by_their_harm() -> None:
    found = watched(
        at(1, ecc=EccCounts(corrected_volatile=1, uncorrected_volatile=0, remap_pending=False)),
        at(2, ecc=EccCounts(corrected_volatile=3, uncorrected_volatile=1, remap_pending=True)),
    )
    assert {event.what: event.harm for event in found} == {
        "corrected ECC errors": NOTICE,
        "uncorrected ECC errors": BROKEN,
        "row remapping waits for a reset": SLOW,
    }


def test_throttling_begins_and_ends_and_comes_back() -> None:
    hot: dict[str, Any] = {"throttle_reasons": ("sw power cap", "hw thermal")}
    calm: dict[str, Any] = {"throttle_reasons": ("sw power cap",)}
    (begun,) = watched(at(1, **calm), at(2, **hot), at(3, **hot))
    assert (begun.text, begun.lasting, begun.last_at) == ("GPU0: throttled: hw thermal", True, 2)
    (over,) = watched(at(1, **calm), at(2, **hot), at(3, **calm))
    assert (over.text, over.last_at) == ("GPU0: throttled: hw thermal, over", 3)
    (again,) = watched(at(1, **calm), at(2, **hot), at(3, **calm), at(4, **hot))
    assert again.text == "GPU0: throttled: hw thermal, 2 times"
    # What held from the start is a finding; a power cap is every day's.
    assert watched(at(1, **hot), at(2, **hot)) == ()
    assert watched(at(1, throttle_reasons=()), at(2, **calm)) == ()
    # A reading that says nothing ends nothing.
    (still,) = watched(at(1, **calm), at(2, **hot), at(3, throttle_reasons=None))
    assert still.lasting


def test_a_gpu_is_lost_or_gone() -> None:
    (lost,) = watched(at(1), at(2, lost=True))
    assert (lost.text, lost.harm) == ("GPU0: lost", BROKEN)
    (gone,) = watched(at(1), at(2, (B,)))
    assert gone.text == "GPU0: gone from the node"
    (back,) = watched(at(1), at(2, (B,)), at(3))
    assert back.text == "GPU0: gone from the node, over"
    # A GPU that only PCI shows, and the driver names later under a number, was never gone.
    bare = Gpu(address=A.address, vendor="nvidia")
    assert watched(at(1, (bare, B)), at(2), at(3)) == ()


def test_links_fabric_and_ports() -> None:
    links = tuple(replace(link, active=link.link != 2) for link in A.nvlinks)
    well = replace(A, fabric=Fabric(state="completed"))
    sick = replace(A, nvlinks=links, fabric=Fabric(state="in progress"))
    found = watched(at(1, (well, B)), at(2, (sick, B)))
    assert {event.text for event in found} == {
        "GPU0: NVLink 2 down",
        "GPU0: not in the NVSwitch fabric",
    }

    def net(state: str, up: bool) -> NodeSnapshot:
        ports = (RdmaPort(port=1, state=state), RdmaPort(port=2, state="ACTIVE"))
        return at(
            1,
            machine=Machine(
                gpus=(A, B),
                rdma=(RdmaDevice(name="mlx5_0", address="0000:18:00.0", ports=ports),),
                interfaces=(
                    Interface(name="ib0", address="0000:18:00.0", up=up),
                    Interface(name="ib0d1", address="0000:18:00.0", up=not up),
                    Interface(name="veth1", up=up),
                ),
            ),
        )

    found = watched(net("ACTIVE", True), net("DOWN", False), net("DOWN", False))
    assert {event.text for event in found} == {
        "mlx5_0: port 1 not active",
        "ib0: link down",
        "ib0d1: link down, over",
    }


def test_the_newest_comes_first_and_nothing_new_is_the_same_object() -> None:
    watcher = Watcher()
    assert not watcher.see(at(1, pcie_replays=0, lost=False))
    assert watcher.see(at(2, pcie_replays=1))
    assert watcher.see(at(3, pcie_replays=1, lost=True))
    assert [event.what for event in watcher.events] == ["lost", "PCIe replays"]
    before = watcher.events
    assert not watcher.see(at(4, pcie_replays=1, lost=True))
    assert watcher.events is before
    assert watcher.since == 1


def test_a_healthy_demo_makes_no_news() -> None:
    for name in demo.names():
        feed = DemoFeed(name)
        assert watched(*(feed.at(tick) for tick in range(0, 60, 5))) == (), name


def logged(seconds: float, *lines: str, read: bool = True) -> NodeSnapshot:
    """The node, with lines of its kernel's log."""
    states = (SourceState(source="kernel_log", age_seconds=0.1),)
    denied = Problem(source="kernel_log", kind=ProblemKind.ABSENT, text="not for this user")
    events = read_lines(lines).kernel_events or UNSET
    problems = () if read else (denied,)
    return replace(at(seconds), kernel_events=events, states=states, problems=problems)


XID = f"NVRM: Xid (PCI:{A.address}): 74, pid=1, name=x, NVLink: fatal error detected on link 4"
CRASHED = f"NVRM: Xid (PCI:{A.address}): 31, pid=7, name=x, MMU Fault: ENGINE GRAPHICS"


def test_a_new_line_of_the_kernel_is_news_as_harmful_as_its_fault() -> None:
    assert watched(logged(1, XID), logged(2, XID)) == ()
    assert watched(logged(1, read=False), logged(2, XID), logged(3, XID)) == ()
    first, second = watched(logged(1), logged(2, CRASHED), logged(3, CRASHED, XID, XID))
    assert (first.device, first.harm, first.amount, first.parts) == (A.address, BROKEN, 2, (4,))
    assert first.text.startswith("GPU0, link 4: +2 Xid 74: ")
    assert (second.harm, second.amount) == (NOTICE, 1)


def test_a_fault_that_comes_back_after_its_end_is_news() -> None:
    reset = f"NVRM: Xid (PCI:{A.address}): 154, GPU recovery action changed from 0x1 (x) to 0x0 (x)"
    before = logged(1, XID, reset)
    assert before.kernel_events
    events = [one for one in watched(before, logged(2, XID, reset, XID)) if "Xid 74" in one.what]
    assert [(one.amount, one.harm) for one in events] == [(1, BROKEN)]


def counted(seconds: float, *counters: DeviceCounters) -> NodeSnapshot:
    snapshot = at(seconds)
    return replace(snapshot, readings=replace(snapshot.readings, counters=counters))


def port(**counts: int) -> DeviceCounters:
    told = tuple(counts.items())
    return DeviceCounters(kind=CounterKind.RDMA, device="mlx5_2", port=1, counts=told)


def test_a_counter_of_the_kernel_that_was_zero_is_news_as_it_grows() -> None:
    assert watched(counted(1, port(link_downed=4))) == ()
    assert watched(counted(1), counted(2, port(link_downed=4))) == ()  # nobody asked before
    (event,) = watched(counted(1, port()), counted(2, port(link_downed=2)))
    assert (event.text, event.harm) == (
        "mlx5_2 port 1: +2 times that the link went down",
        SLOW,
    )
    (event,) = watched(
        counted(1, port(link_downed=4)), counted(2, port()), counted(3, port(link_downed=1))
    )
    assert event.amount == 1  # it was reset in between


def test_what_a_driver_is_asked_later_is_no_news_until_it_grows() -> None:
    def interface(**counts: int) -> DeviceCounters:
        return DeviceCounters(kind=CounterKind.NET, device="eth2", counts=tuple(counts.items()))

    late = [interface(carrier_down_count=1), *[interface(rx_pcs_symbol_err_phy=9)] * 2]
    assert watched(*(counted(at, one) for at, one in enumerate(late, 1))) == ()
    (event,) = watched(
        counted(1, interface()),
        counted(2, interface(rx_pcs_symbol_err_phy=0)),
        counted(3, interface(rx_pcs_symbol_err_phy=4)),
    )
    assert event.text == "eth2: +4 symbol errors"


def test_what_grows_all_day_on_a_healthy_port_is_no_news() -> None:
    assert watched(counted(1, port(np_cnp_sent=1)), counted(2, port(np_cnp_sent=900))) == ()


def test_errors_of_a_gpus_link_are_told_of_the_gpu() -> None:
    def link_of(count: int) -> DeviceCounters:
        told = (("correctable BadTLP", count), ("correctable RxErr", 1))
        return DeviceCounters(kind=CounterKind.AER, device=A.address, counts=told)

    (event,) = watched(counted(1, link_of(3)), counted(2, link_of(5)))
    assert event.text == "GPU0: +2 corrected PCIe errors (BadTLP)"


def test_what_nvml_tells_is_news_though_nobody_may_read_the_log() -> None:
    heard = KernelEvent(kind=KernelSource.XID, code="79", device=A.address, text=f"{HEARD}Xid 79")
    (event,) = watched(at(1), replace(at(2), kernel_events=(heard,)))
    assert event.text.startswith("GPU0: +1 Xid 79")
    assert event.harm is BROKEN
