"""Where the ranks of a log are."""

from __future__ import annotations

from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.report.places import RankPlace, first_host, gpus_from, normal, places
from tests.support.nccl.logs import lines_of

GPUS = tuple(f"0000:00:0{number}.0" for number in (6, 7, 8, 9))


def test_every_rank_has_its_host_and_its_gpu() -> None:
    log = read_log(lines_of("h200-default"))
    assert gpus_from(log) == GPUS
    assert log.main is not None
    host = first_host(log.main)
    assert host is not None
    assert places(log.main) == {rank: RankPlace(host, address) for rank, address in enumerate(GPUS)}


def test_addresses_of_different_tools_are_spelled_alike() -> None:
    assert normal("00000000:3B:00.0") == normal("0000:3b:00.0") == "0000:3b:00.0"
    assert normal("no address") == "no address"
