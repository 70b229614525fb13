"""Topologies at the library's own limits, of which each side is tried."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gputop.topology.nccl.decide.predict import NoGpusError, predict
from gputop.topology.nccl.system.build import TooManyError, build_system
from gputop.topology.nccl.system.limits import too_large
from gputop.topology.nccl.versions import version_for
from gputop.topology.nccl.xml.read import read_topology
from tests.topology.nccl.made import snapshot

PCI = (
    '<pci busid="{bus}" class="0x030200" vendor="0x10de" device="0x2330" '
    'link_speed="32.0 GT/s PCIe" link_width="16">{inside}</pci>'
)
CPU = (
    '<cpu numaid="{numa}" host_hash="{host}" affinity="ffffffff" arch="x86_64" '
    'vendor="GenuineIntel" familyid="6" modelid="143">{inside}</cpu>'
)


def gpus(first: int, count: int) -> Iterator[str]:
    """GPUs of one CPU."""
    for place in range(first, first + count):
        inside = f'<gpu dev="{place}" sm="90" rank="{place}" gdr="1"/>'
        yield PCI.format(bus=f"0000:{place // 16:02x}:{place % 16:02x}.0", inside=inside)


def text(*counts: int, host: str = "0x{}") -> bytes:
    """A topology of CPUs with so many GPUs each."""
    cpus = [
        CPU.format(
            numa=place,
            host=host.format(place),
            inside="".join(gpus(sum(counts[:place]), count)),
        )
        for place, count in enumerate(counts)
    ]
    return f'<system version="1">{"".join(cpus)}</system>'.encode()


@pytest.mark.parametrize(
    ("library", "counts", "why"),
    [
        ("nccl-2.20.5", (32, 32), None),
        ("nccl-2.20.5", (33, 1), "XML parser is limited to 32 subnodes"),
        ("nccl-2.28.9", (63, 63), None),  # 255 elements
        ("nccl-2.28.9", (63, 64), "XML parser is limited to 256 nodes"),
        ("nccl-2.29.7", (63, 64), "XML parser is limited to 256 nodes"),
        ("nccl-2.29.2", (129,), "XML parser is limited to 128 subnodes"),
        ("nccl-2.29.7", (129,), "XML parser is limited to 256 nodes"),
        ("rccl-2.21.5", (64, 64), None),
    ],
)
def test_a_file_is_refused_where_its_parser_ends(
    library: str, counts: tuple[int, ...], why: str | None
) -> None:
    version = version_for(library)[0]
    assert too_large(read_topology(text(*counts, host="0x1"), "a.xml"), version) == why


def test_several_hosts_of_one_domain_have_room_for_each_gpu() -> None:
    root = read_topology(text(60, 60, 60), "a.xml")
    assert too_large(root, version_for("nccl-2.28.9")[0]) is None
    assert too_large(root, version_for("rccl-2.21.5")[0]) is None
    lone = read_topology(text(60, 60, 60, host="0x1"), "a.xml")
    assert too_large(lone, version_for("nccl-2.28.9")[0]) is not None


def test_elements_that_the_library_skips_do_not_count() -> None:
    inside = '<other/><nic><net name="a" dev="0"/></nic>' + "<note/>" * 300
    data = f'<system version="1">{CPU.format(numa=0, host="0x1", inside=inside)}</system>'
    root = read_topology(data.encode(), "a.xml")
    assert too_large(root, version_for("nccl-2.28.9")[0]) is None


def test_more_nodes_of_a_kind_or_links_are_refused_where_they_are_made() -> None:
    amd = read_topology(text(65, host="0x1"), "a.xml")
    with pytest.raises(TooManyError, match=r"too many nodes of type 0 \(GPU\)"):
        build_system(amd, version_for("rccl-2.21.5")[0])
    old = read_topology(text(33, host="0x1"), "a.xml")
    with pytest.raises(TooManyError, match=r"too many Topo links \(max 32\)"):
        build_system(old, version_for("nccl-2.20.5")[0])


@pytest.mark.parametrize(
    ("library", "why"),
    [
        ("nccl-2.28.9", "NCCL 2.28.9 refuses this topology: XML parser is limited to 256 nodes"),
        (
            "rccl-2.21.5",
            "RCCL 2.21.5 refuses this topology: tried to create too many nodes of type 0",
        ),
    ],
)
def test_nothing_is_predicted_of_what_the_library_refuses(library: str, why: str) -> None:
    with pytest.raises(NoGpusError, match=re.escape(why)):
        predict(snapshot(text(127, host="0x1").decode()), library=library)
