"""The predicted way between nodes, and the one in NCCL's log."""

from __future__ import annotations

import pytest

from gputop.answers.net import NetWay, agrees, logged, predicted
from gputop.probes.protocol.messages import Log
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import Status
from gputop.reading import read_snapshot

IB = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.2<0>"


def log(rank: int, *ways: tuple[str, int], devices: str = IB) -> Log:
    """What a rank of a node says: its devices, and a label for a communicator of so many ranks."""
    lines = ["NCCL version 2.28.9+cuda13.0", devices]
    for comm, (label, ranks) in enumerate(ways, 1):
        lines += [
            f"ncclCommInitRank comm 0x{comm}{rank} rank {rank} nranks {ranks} cudaDev {rank} "
            f"nvmlDev {rank} busId {rank + 1}000 commId 0xabc{comm}{rank * (ranks == 2)} "
            "- Init START",
            f"Channel 00/0 : {rank}[{rank}] -> {ranks - 1}[{rank}] [send] via {label} "
            f"comm 0x{comm}{rank} nRanks {ranks:02d}",
        ]
    return Log(rank, "".join(f"g1:10{rank}:10{rank} [{rank}] NCCL INFO {line}\n" for line in lines))


def outcome(*logs: Log) -> Outcome:
    return Outcome(Status.FINISHED, "", 1.0, logs=logs)


@pytest.mark.parametrize(
    ("label", "devices", "expected"),
    [
        ("NET/IB/0/GDRDMA", IB, ("IB", True)),
        ("NET/IB/0", IB, ("IB", False)),
        ("NET/IB/1(4)/GDRDMA(PCI)/Shared", IB, ("RoCE", True)),
        ("NET/Socket/0", "NET/Socket : Using [0]eth0:192.0.2.2<0>", ("Socket", False)),
        ("NET/AWS Libfabric/0/GDRDMA", "NET/OFI Selected provider is efa", ("EFA", True)),
        ("NET/FasTrak/2", "Using network FasTrak", ("FasTrak", False)),
        ("P2P/CUMEM", "", ("P2P", None)),
        ("SHM/direct/direct", "", ("SHM", None)),
    ],
)
def test_the_words_for_a_label(label: str, devices: str, expected: tuple[str, bool | None]) -> None:
    (way,) = logged(outcome(log(0, (label, 2), devices=devices)), 2, 1).ways
    assert ((way.transport, way.gdr), way.rail, way.labels) == (expected, None, (label,))


def test_each_rail_has_its_own_communicator() -> None:
    first = log(0, ("NET/IB/0/GDRDMA", 2), ("NET/IB/0/GDRDMA", 4))
    second = log(1, ("NET/IB/1", 2), ("NET/IB/1", 4))
    found = logged(outcome(first, second), 2, 2)
    assert [(way.rail, way.transport, way.gdr) for way in found.ways] == [
        (0, "IB", True), (1, "RoCE", False), (None, "IB and RoCE", None),
    ]  # fmt: skip
    assert found.version == "2.28.9"


def test_no_log_is_no_way() -> None:
    found = logged(outcome(), 2, 2)
    assert (found.ways, found.version) == ((), None)
    assert logged(outcome(Log(0, "\x1b[31m via NET/IB/0 nranks x\n\0")), 2, 1).ways == ()


def test_a_demo_is_predicted_rail_by_rail() -> None:
    snapshot = read_snapshot((), "hgx-h100-8")
    gpus = [gpu.address for gpu in snapshot.machine.gpus]
    found = predicted(snapshot, gpus, {}, "nccl-2.28.9")
    assert [(way.transport, way.gdr, way.nics) for way in found.rails] == [
        ("IB", True, (f"mlx5_{rail}",)) for rail in range(8)
    ]
    assert (whole := found.rail(None)) is not None
    assert whole.transport == "IB"
    slower = predicted(snapshot, gpus[:1], {"NCCL_NET_GDR_LEVEL": "LOC"}, "nccl-2.28.9")
    assert [way.gdr for way in slower.rails] == [False]


def test_what_cannot_be_predicted_says_why() -> None:
    snapshot = read_snapshot((), "hgx-h100-8")
    assert predicted(None, (), {}, None).why_none == "a self-test on the CPU: nothing is predicted"
    found = predicted(snapshot, ["0000:ff:00.0"], {}, "nccl-1.0.0")
    assert found.why_none is not None
    assert found.why_none.startswith("no prediction: ")


@pytest.mark.parametrize(
    ("transport", "gdr", "agreed"),
    [("IB", True, True), ("IB", False, False), ("Socket", False, False), ("IB", None, None),
     (None, None, None)],
)  # fmt: skip
def test_agreement(transport: str | None, gdr: bool | None, agreed: bool | None) -> None:
    """What is not known agrees with nothing, and differs from nothing."""
    expected = NetWay(rail=0, transport="IB", gdr=True)
    assert agrees(expected, NetWay(rail=0, transport=transport, gdr=gdr)) is agreed
    assert agrees(None, expected) is agrees(expected, None) is None
