"""What a comparison says of ten pairs: faults, sisters, drivers, variables, libraries, kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gputop.topology.diff.diff import NodeDiff, diff
from gputop.topology.diff.record import ChangedPart, DiffRelation, DiffVerdict, NodeChange
from gputop.topology.diff.side import side_of
from gputop.topology.model.machine import Machine
from gputop.topology.model.readings import NvLinkReading
from gputop.topology.model.severity import BROKEN, NOTICE, SLOW
from gputop.topology.model.snapshot import EnvironmentVariable, NodeSnapshot, decode, encode
from tests.grid import share
from tests.support.rule_cases import HOUR_SECONDS, base, cases, edited, with_figures

H100 = base("demo hgx-h100-8")
CASES = {case.name: case for case in cases()}
Change = Callable[[Machine], dict[str, Any]]


def compared(before: NodeSnapshot, now: NodeSnapshot) -> NodeDiff:
    return diff(side_of("A", before), side_of("B", now))


def with_machine(snapshot: NodeSnapshot, **fields: Any) -> NodeSnapshot:
    machine = msgspec.structs.replace(snapshot.machine, **fields)
    return msgspec.structs.replace(snapshot, machine=machine)


def changed(snapshot: NodeSnapshot, path: str, value: object) -> NodeSnapshot:
    return edited(snapshot, [{"path": path, "value": value}])


def sister(snapshot: NodeSnapshot) -> NodeSnapshot:
    """Another machine of the kind: other UUIDs, serials and host name, and one slot elsewhere."""
    gpus = tuple(
        msgspec.structs.replace(gpu, uuid=f"GPU-of-g2-{place}", serial=f"2{place}")
        for place, gpu in enumerate(snapshot.machine.gpus)
    )
    assert snapshot.machine.host is not None
    host = msgspec.structs.replace(snapshot.machine.host, hostname="g2", boot_id="other")
    return with_machine(snapshot, gpus=gpus, host=host)


def with_variables(snapshot: NodeSnapshot, **values: str) -> NodeSnapshot:
    found = tuple(
        EnvironmentVariable(name=name, value=value, origin="environment")
        for name, value in values.items()
    )
    return msgspec.structs.replace(snapshot, environment=found)


def without_gpu(snapshot: NodeSnapshot, index: int) -> NodeSnapshot:
    machine, gone = snapshot.machine, snapshot.machine.gpus[index].address
    return with_machine(
        snapshot,
        gpus=tuple(gpu for gpu in machine.gpus if gpu.address != gone),
        pairs=tuple(pair for pair in machine.pairs if gone not in (pair.src, pair.dst)),
    )


def change(found: NodeDiff, what: str) -> NodeChange:
    return next(one for one in found.changes if one.what == what)


PAIRS = [
    (
        "links and lanes lost", H100, base("demo sick-h100-8"),
        "Worse: 2 NVLinks of GPU3 are down; PCIe of GPU3 has x8 instead of x16; all-reduce 1 GiB "
        "473 GB/s (predicted) → 355 GB/s (predicted)",
    ),
    (
        "a GPU lost", H100, CASES["gpu-lost-in-operation"].snapshot,
        "Worse: fallen off the bus: GPU3",
    ),
    (
        "memory errors", CASES["ecc-uncorrected-grows"].earlier,
        CASES["ecc-uncorrected-grows"].snapshot,
        "Worse: new memory errors that ECC could not correct on GPU2",
    ),
    (
        "ACS", base("demo pcie-l40s-8"), CASES["acs-redirect"].snapshot,
        "Worse: ACS sends P2P through the root complex: GPU0-GPU1",
    ),
    (
        "a port down", H100, CASES["nic-port-down"].snapshot,
        "Worse: port of mlx5_3 is down, and 7 like it are up",
    ),
    (
        "two sisters", H100, sister(H100),
        "Nothing that both tell differs: hardware, wiring, driver, firmware, settings and what the "
        "library decides",
    ),
    (
        "other driver", H100, decode(encode(H100).replace(b"570.133.20", b"580.95.05")),
        "Other, and nothing shows harm: driver 570.133.20 → 580.95.05; GSP firmware "
        "570.133.20 → 580.95.05",
    ),
    (
        "other variables", H100, with_variables(H100, NCCL_ALGO="Ring"),
        "Worse: NCCL_ALGO=Ring: all-reduce over 8 GPUs drops from about 473 to about 356 GB/s "
        "busbw",
    ),
    (
        "other library", H100, changed(H100, "machine.software.nccl", "2.21.5"),
        "Other, and nothing shows harm: NCCL 2.28.9 → 2.21.5 (no decision changes here, 32 known "
        "defects that may be met here come with it)",
    ),
    (
        "other demo", H100, base("demo pcie-l40s-8"),
        "Worse: another kind of machine, 8 × NVIDIA L40S in place of 8 × NVIDIA H100 80GB HBM3; "
        "all-reduce 1 GiB 473 GB/s (predicted) → 20.0 GB/s (estimate)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "now", "said"), [pair[1:] for pair in PAIRS],
                         ids=[pair[0] for pair in PAIRS])  # fmt: skip
def test_the_line_that_answers(before: NodeSnapshot, now: NodeSnapshot, said: str) -> None:
    assert compared(before, now).answer[0] == said


@pytest.mark.parametrize("name", share(sorted(CASES)[::9], 3))
def test_a_node_beside_itself_is_the_same(name: str) -> None:
    found = compared(CASES[name].snapshot, CASES[name].snapshot)
    assert found.verdict is DiffVerdict.SAME, found.answer
    assert not found.uncompared or CASES[name].snapshot.machine.gpus


@pytest.mark.parametrize("name", share(sorted(CASES)[::5], 4))
def test_the_way_back_is_never_worse_by_a_finding(name: str) -> None:
    """What came one way is gone the other way, where both were asked."""
    case = CASES[name]
    if case.earlier is not None or case.base.startswith("text "):
        return
    healthy = with_figures(base(case.base), case.figures)
    there, back = compared(healthy, case.snapshot), compared(case.snapshot, healthy)
    assert {one.id for one in there.came} >= {one.id for one in back.gone}
    assert not {one.key for one in there.came} & {one.key for one in back.came}


def test_a_lost_gpu_is_named_and_no_place_is_compared() -> None:
    found = compared(H100, without_gpu(H100, 3))
    gone = change(found, "GPU3 gone")
    assert gone.severity is BROKEN
    assert gone.devices == (H100.machine.gpus[3].address,)
    assert found.answer[0].startswith("Worse: GPU3 gone; all-reduce 1 GiB 473")
    assert not [one for one in found.changes if one.part is ChangedPart.WIRING]


def test_a_sister_with_fewer_gpus_is_worse() -> None:
    found = compared(H100, sister(without_gpu(H100, 3)))
    assert found.relation is DiffRelation.SISTER
    assert change(found, "GPUs").severity is BROKEN


def test_a_sister_is_judged_by_the_names_of_its_devices() -> None:
    found = compared(base("demo sick-h100-8"), sister(base("demo sick-h100-8")))
    assert found.verdict is DiffVerdict.SAME
    assert {one.id for one in compared(H100, sister(base("demo sick-h100-8"))).came} == {
        "nvlink-down", "pcie-width",
    }  # fmt: skip


def test_a_gpu_in_another_slot_is_the_same_gpu() -> None:
    first, second = H100.machine.gpus[:2]
    moved = (
        msgspec.structs.replace(first, uuid=second.uuid),
        msgspec.structs.replace(second, uuid=first.uuid),
        *H100.machine.gpus[2:],
    )
    found = compared(H100, with_machine(H100, gpus=moved))
    assert change(found, "GPU1 at another address").before == first.address
    assert found.verdict is DiffVerdict.OTHER


def test_a_nic_that_went() -> None:
    rdma = H100.machine.rdma
    found = compared(H100, with_machine(H100, rdma=(*rdma[:3], *rdma[4:])))
    assert found.answer[0].startswith(f"Worse: NIC {rdma[3].name} gone; ")
    assert compared(with_machine(H100, rdma=rdma[1:]), H100).changes[0].gain


def later(snapshot: NodeSnapshot, hours: float = 1.0) -> NodeSnapshot:
    return msgspec.structs.replace(snapshot, taken_at=snapshot.taken_at + hours * HOUR_SECONDS)


def with_replays(snapshot: NodeSnapshot, count: int | None) -> NodeSnapshot:
    first, *rest = snapshot.readings.gpus
    links = (NvLinkReading(link=0, replay_errors=count), NvLinkReading(link=1, replay_errors=count))
    gpu = msgspec.structs.replace(first, nvlinks=links, pcie_replays=count)
    readings = msgspec.structs.replace(snapshot.readings, gpus=(gpu, *rest))
    return msgspec.structs.replace(snapshot, readings=readings)


def test_counters_that_grew_are_told_and_links_added() -> None:
    found = compared(with_replays(H100, 2), later(with_replays(H100, 3)))
    assert change(found, "NVLink replays").now == "GPU0 +2 in 1 h 0 min"
    assert change(found, "PCIe replays").now == "GPU0 +1 in 1 h 0 min"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (with_replays(H100, 5), later(with_replays(H100, 2))),  # set back
        (with_replays(H100, 2), with_replays(H100, 5)),  # no time between
        (later(with_replays(H100, 2)), with_replays(H100, 5)),  # the wrong way round
        (with_replays(H100, 2), later(sister(with_replays(H100, 5)))),  # another machine
        (with_replays(H100, None), later(with_replays(H100, 5))),  # not read before
    ],
)
def test_counters_that_prove_nothing(before: NodeSnapshot, now: NodeSnapshot) -> None:
    assert not [one for one in compared(before, now).changes if one.part is ChangedPart.COUNTERS]


def test_what_only_the_second_tells_is_not_called_new() -> None:
    matrix = base("text nvidia-public/b300-8-topo.txt")
    found = compared(matrix, CASES["power-limit-low"].snapshot)
    assert found.verdict is DiffVerdict.CANNOT_TELL
    assert found.verdict.exit_code == 3
    assert {one.id for one in found.unproven} >= {"power-limit-low"}
    assert not found.came
    assert any(one.part == "findings" for one in found.uncompared)


def test_a_driver_beside_the_harm_is_named_as_changed_too() -> None:
    sick = changed(base("demo sick-h100-8"), "machine.host.kernel", "6.9.1")
    found = compared(H100, sick)
    assert "changed too: kernel 6.8.0-60-generic → 6.9.1" in found.answer[1]


def test_figures_within_the_spread_are_no_change_and_a_loss_is() -> None:
    healthy = with_figures(base("hgx-h200-4gpu-live"), ("p2p",))

    def slower(share: float) -> NodeSnapshot:
        return edited(
            healthy,
            [{"path": "measurements[quantity=write_bandwidth].value", "times": share}],
        )

    assert not [
        one for one in compared(healthy, slower(0.93)).changes if one.what.startswith("p2p")
    ]
    lost = change(compared(healthy, slower(0.8)), "p2p write bandwidth over NV18")
    assert lost.severity is SLOW
    gained = change(compared(slower(0.8), healthy), "p2p write bandwidth over NV18")
    assert gained.gain
    assert gained.severity is NOTICE


@pytest.mark.parametrize(
    ("path", "value", "what", "severity"),
    [
        ("machine.gpus[*].power_limit_watts", 500.0, "power limit", SLOW),
        ("machine.gpus[2].power_limit_watts", 500.0, "power limit", SLOW),
        ("machine.gpus[*].power_limit_watts", 800.0, "power limit", NOTICE),
        ("machine.gpus[*].vbios", "96.00.B9", "VBIOS", NOTICE),
        ("machine.host.memory_bytes", 2**40, "memory of the host", SLOW),
        ("machine.host.memory_bytes", 2**42, "memory of the host", NOTICE),
    ],
)
def test_which_way_a_fact_moved(path: str, value: object, what: str, severity: object) -> None:
    found = change(compared(H100, changed(H100, path, value)), what)
    assert found.severity is severity
    if severity is SLOW:
        back = change(compared(changed(H100, path, value), H100), what)
        assert back.gain


@pytest.mark.parametrize(
    "name",
    [
        "device-node-denied-hides", "driver-mismatch-nvml-refuses", "driver-not-answering-hangs",
        "driver-not-answering-library-missing", "driver-not-answering-amd-unread",
        "container-seven-of-eight",
    ],
)  # fmt: skip
def test_links_that_nobody_read_are_not_called_lost(name: str) -> None:
    case = CASES[name]
    found = compared(base(case.base), case.snapshot)
    assert not [one for one in found.changes if " of GPUs (" in one.what]


def test_a_driver_that_does_not_answer_is_no_all_clear() -> None:
    case = CASES["driver-not-answering-hangs"]
    assert compared(base(case.base), case.snapshot).verdict is DiffVerdict.CANNOT_TELL
    assert compared(base(case.base), sister(case.snapshot)).verdict is DiffVerdict.CANNOT_TELL


@pytest.mark.parametrize("name", share(sorted(CASES)[::4], 4))
def test_the_first_line_always_says_something(name: str) -> None:
    case = CASES[name]
    said, compared_ = compared(base(case.base), case.snapshot).answer
    assert not said.endswith((": ", ":", "; "))
    assert compared_.startswith("A → B: ")
