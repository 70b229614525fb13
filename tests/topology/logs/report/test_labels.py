"""Labels of ordered pairs: many pairs take one pass."""

from __future__ import annotations

from gputop.topology.logs.report.communicator import Communicator, Transport
from tests.support.cpu import within


def transport(src: int, dst: int, label: str, line: int, connection: int = 0) -> Transport:
    return Transport(
        src=src, dst=dst, label=label, connection=connection, direction=None, channels=(0,),
        line=line, text="",
    )  # fmt: skip


def made(*transports: Transport) -> Communicator:
    return Communicator(ident="0x1", line=1, nranks=4, transports=transports)


def test_labels_of_one_pair_and_of_all() -> None:
    comm = made(
        transport(2, 0, "NET", 9), transport(0, 1, "SHM", 4, 1), transport(0, 1, "P2P", 5),
        transport(0, 1, "P2P", 6), transport(1, 0, "P2P", 7),
    )  # fmt: skip
    assert comm.labels(0, 1) == ("P2P", "SHM")
    assert (comm.labels(2, 0), comm.labels(0, 2)) == (("NET",), ())
    assert list(comm.all_labels().items()) == [
        ((0, 1), ("P2P", "SHM")), ((1, 0), ("P2P",)), ((2, 0), ("NET",)),
    ]  # fmt: skip


def test_thousands_of_pairs_take_one_pass() -> None:
    comm = made(*(transport(0, peer, "NET", peer) for peer in range(20_000)))
    with within(2):
        assert len(comm.all_labels()) == 20_000
