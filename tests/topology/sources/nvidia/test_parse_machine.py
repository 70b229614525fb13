"""The driver refuses the links of a GPU for a moment, though it has some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.machine import Machine
from gputop.topology.model.record import GRANTED, REFUSED
from gputop.topology.sources.nvidia import nvml
from gputop.topology.sources.nvidia.library import open_library
from gputop.topology.sources.nvidia.parse_machine import parse
from gputop.topology.wiring.codes import UNKNOWN
from gputop.topology.wiring.relations import relation

from ....support import nvml_fake as fake

LINKS = 18
ONE, OTHER, THIRD = (f"0000:0{number}:00.0" for number in (1, 2, 3))


class Busy(fake.Binding):
    """Three GPUs with 18 links to switches each; GPU 1 refuses its links so many times."""

    def __init__(self, refusals: int, at_link: int = 0) -> None:
        super().__init__(gpus=3)
        self.refusals, self.at_link = refusals, at_link
        self.answers |= {
            "nvmlDeviceGetName": lambda handle: "NVIDIA H200",
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
            "nvmlDeviceGetNvLinkState": self.state,
            "nvmlDeviceGetNvLinkRemoteDeviceType": lambda handle, link: 2,
            "nvmlDeviceGetTopologyCommonAncestor": lambda handle, peer: 30,
        }

    def state(self, handle: int, link: int) -> int:
        if link >= LINKS:
            raise fake.InvalidArgument
        if handle == 1 and link == self.at_link and self.refusals > 0:
            self.refusals -= 1
            raise fake.NotSupported
        return 1


def read(binding: fake.Binding, *, thorough: bool = True) -> Any:
    reader = nvml.NvmlReader(lambda: open_library(load=lambda: binding, root=Path("/nowhere")))
    reader.thorough = thorough
    answer = reader()
    return answer if thorough else reader()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_AGAIN_SECONDS", 0.0)


@pytest.mark.parametrize("at_link", [0, 5, 17])
@pytest.mark.parametrize("thorough", [True, False])
def test_what_is_refused_for_a_moment_is_asked_again(at_link: int, thorough: bool) -> None:
    gpus = parse(read(Busy(1, at_link), thorough=thorough)).gpus
    assert [len(gpu.nvlinks) for gpu in gpus] == [LINKS] * 3


def test_links_that_stay_refused_are_unknown_not_missing() -> None:
    part = parse(read(Busy(1000)))
    assert [len(gpu.nvlinks) for gpu in part.gpus] == [LINKS, 0, LINKS]
    assert part.gpus[1].why("nvlinks") == f"Not Supported, {REFUSED}"
    machine = Machine(gpus=part.gpus, pairs=part.pairs)
    assert relation(machine, ONE, THIRD).code == "NV18"
    assert relation(machine, ONE, OTHER).code == UNKNOWN
    assert relation(machine, OTHER, THIRD).code == UNKNOWN


def test_a_model_without_links_is_asked_once() -> None:
    binding = Busy(0)

    def none(handle: int, link: int) -> int:
        raise fake.NotSupported

    binding.answers["nvmlDeviceGetNvLinkState"] = none
    part = parse(read(binding))
    assert {gpu.why("nvlinks") for gpu in part.gpus} == {"Not Supported"}
    assert binding.calls.count("nvmlDeviceGetNvLinkState") == 3
    assert relation(Machine(gpus=part.gpus, pairs=part.pairs), ONE, OTHER).code == "PHB"


class Booting(Busy):
    """Both GPUs of a node deny their links for some calls, and grant P2P over NVLink."""

    def __init__(self, refusals: int) -> None:
        super().__init__(0)
        self.left = refusals
        self.answers["nvmlDeviceGetNvLinkState"] = self.starting
        self.answers["nvmlDeviceGetP2PStatus"] = lambda handle, peer, what: 0

    def starting(self, handle: int, link: int) -> int:
        if link >= LINKS:
            raise fake.InvalidArgument
        if self.left > 0:
            self.left -= 1
            raise fake.NotSupported
        return 1


@pytest.mark.parametrize("refusals", [3, 9])
def test_links_that_all_gpus_deny_are_asked_again_where_p2p_needs_them(refusals: int) -> None:
    gpus = parse(read(Booting(refusals))).gpus
    assert [len(gpu.nvlinks) for gpu in gpus] == [LINKS] * 3


def test_links_that_all_gpus_deny_for_good_are_unknown_where_p2p_needs_them() -> None:
    part = parse(read(Booting(10_000)))
    assert {gpu.why("nvlinks") for gpu in part.gpus} == {f"Not Supported, {GRANTED}"}
    machine = Machine(gpus=part.gpus, pairs=part.pairs)
    assert relation(machine, ONE, OTHER).code == UNKNOWN


def test_mig_hides_links_for_good() -> None:
    binding = Busy(1000)
    binding.answers["nvmlDeviceGetMigMode"] = lambda handle: [int(handle == 1)] * 2
    part = parse(read(binding))
    assert part.gpus[1].why("nvlinks") == "Not Supported"
    assert binding.calls.count("nvmlDeviceGetNvLinkState") == 2 * (LINKS + 1) + 1
