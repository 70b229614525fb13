"""What a job leaves of a topology XML, against ranks that each read it and are put together."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gputop.topology.model.element import Element
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.networks import nets_of, network_of, number_of, reported
from gputop.topology.nccl.system.ranks import Place, gpus_of, ranks_of
from gputop.topology.nccl.system.trimmed import trimmed
from gputop.topology.nccl.xml.draft import ElementDraft, thaw
from gputop.topology.nccl.xml.read import read_topology
from gputop.topology.nccl.xml.write import write_topology
from tests.grid import turns
from tests.support.places import RECORDINGS
from tests.topology.nccl.made import cpu, decide, gpu, nic, switch, system

FILES = sorted((RECORDINGS / "nccl-topologies").glob("*.xml"))
IB = {"NCCL_NET": "IB"}


def nics_of_a_card(bus: int, *names: str) -> str:
    """The ports of one card: NCCL counts the number of a port on."""
    nets = "".join(
        f'<net name="{name}" dev="{dev}" speed="200000" port="{dev + 1}" guid="0x9" gdr="1"/>'
        for dev, name in enumerate(names)
    )
    return f'<pci busid="0000:{bus:02x}:00.0" class="0x020700"><nic>{nets}</nic></pci>'


def by_rank(root: Element, ranks: dict[Place, int], nets: list[Element]) -> Element:
    """graph/topo.cc:ncclTopoGetSystem step by step: fill, trim, then fuse what ranks have."""
    names = [net.get("name") for net in sorted(nets, key=number_of)]
    whole = ElementDraft("system", dict(root.attributes))
    for (_, bus), _ in sorted(ranks.items(), key=lambda item: item[1]):
        own = thaw(root)
        for element in own.walk():
            if element.tag == "gpu" and element.above is not None:
                element.keep = (element.above.attributes["busid"] or "").lower() == bus
            elif element.tag == "net" and element.attributes.get("name") in names:
                element.keep = True
                element.attributes["dev"] = str(names.index(element.attributes["name"]))
        own.trim()
        whole.fuse(own)
    return whole.freeze()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_branches_stand_in_the_order_of_the_ranks_that_keep_them(path: Path) -> None:
    root = read_topology(path.read_bytes(), path.name)
    places = [place for place, _ in gpus_of(root)]
    nets = nets_of(root)
    for seed in range(20):
        chance = random.Random(f"{path.stem} {seed}")
        chosen = chance.sample(places, chance.randint(1, len(places)))
        ranks = {place: rank for rank, place in enumerate(chosen)}
        kept = chance.sample(nets, chance.randint(0, len(nets)))
        assert trimmed(root, ranks, kept, fuses=True) == by_rank(root, ranks, kept)


def test_older_versions_leave_the_order_of_the_file() -> None:
    root = read_topology(
        system(cpu(0, gpu(2, 0), gpu(3, 1), nic(4, 0)), cpu(1, gpu(5, 2))).encode(), "made"
    )
    places = [place for place, _ in gpus_of(root)]
    back = {place: rank for rank, place in enumerate(reversed(places))}
    assert trimmed(root, back, nets_of(root), fuses=False) == root
    turned = trimmed(root, back, nets_of(root), fuses=True)
    # Every rank sees the NIC, and with it the first socket.
    assert [place for place, _ in gpus_of(turned)] == [places[1], places[0], places[2]]
    alone = trimmed(root, back, (), fuses=True)
    assert [place for place, _ in gpus_of(alone)] == [places[2], places[1], places[0]]


def board(*without: int) -> str:
    """Four switches with a GPU and a NIC each, on two sockets, some NICs left out."""
    names = [f"mlx5_{place}" for place in range(4) if place not in without]
    inside = [
        switch(
            16 * place + 1,
            gpu(16 * place + 2, place),
            nic(16 * place + 3, names.index(name), name=name) if name in names else "",
        )
        for place, name in enumerate(f"mlx5_{place}" for place in range(4))
    ]
    return system(cpu(0, *inside[:2]), cpu(1, *inside[2:]))


HIDDEN: dict[str, tuple[int, ...]] = {
    "mlx5_0,mlx5_3": (1, 2), "^mlx5_0": (0,), "=mlx5_2": (0, 1, 3), "mlx5_1:1": (0, 2, 3),
    "^=mlx5_1,mlx5_3": (1, 3), "mlx5": (), "": (),
}  # fmt: skip
"""NCCL_IB_HCA -> the NICs that it leaves out."""


@pytest.mark.parametrize(
    ("wanted", "library"), turns(HIDDEN, ["nccl-2.21.5", "nccl-2.28.9", "nccl-2.30.7"])
)
def test_nics_that_a_list_hides_are_not_there(wanted: str, library: str) -> None:
    without = HIDDEN[wanted]
    hidden = decide(board(), {"NCCL_IB_HCA": wanted}, nodes=2, library=library)
    rest = read_topology(board(*without).encode(), "made")
    if without and library != "nccl-2.21.5":
        rest = by_rank(rest, ranks_of(rest), nets_of(rest))
    absent = decide(write_topology(rest), nodes=2, library=library)
    assert hidden.views == absent.views
    assert hidden.pairs == absent.pairs
    assert hidden.coll_channels == absent.coll_channels


def test_a_list_that_names_no_adapter_leaves_the_sockets() -> None:
    found = decide(board(), {"NCCL_IB_HCA": "mlx4"}, nodes=2)
    assert any("a socket interface eth0" in text for text in found.assumptions)
    root = read_topology(board().encode(), "made")
    settings = Settings({"NCCL_IB_HCA": "mlx4"})
    assert network_of(root, settings).because == "NCCL_IB_HCA names none of the RDMA devices"
    kept = reported(root, network_of(root, Settings(IB)), Settings({**IB, "NCCL_IB_HCA": "mlx4"}))
    assert kept == []


def test_a_port_is_the_one_of_its_own_function() -> None:
    root = read_topology(
        system(cpu(0, gpu(2, 0), nics_of_a_card(3, "mlx5_0", "mlx5_1"))).encode(), "made"
    )
    network = network_of(root, Settings())
    both = ["mlx5_0", "mlx5_1"]
    for wanted, names in {
        "mlx5_1:1": both[1:], "mlx5_1:2": [], "mlx5_0:1": both[:1], "mlx5:1": both,
    }.items():  # fmt: skip
        found = reported(root, network, Settings({"NCCL_IB_HCA": wanted}))
        assert [net.get("name") for net in found] == names


def test_a_list_of_interfaces_hides_the_others_unless_it_names_none() -> None:
    root = read_topology(
        system(cpu(0, gpu(2, 0), nic(3, 0, name="ens{}"), nic(4, 1, name="ens{}"))).encode(), "made"
    )
    network = network_of(root, Settings())
    assert network.name == "Socket"
    for wanted, names in {"=ens1": ["ens1"], "^ens1": ["ens0"], "eth": ["ens0", "ens1"]}.items():
        found = reported(root, network, Settings({"NCCL_SOCKET_IFNAME": wanted}))
        assert [net.get("name") for net in found] == names


def test_what_ranks_put_together_stays_as_it_is() -> None:
    root = read_topology(board().encode(), "made")
    once = trimmed(root, ranks_of(root), nets_of(root), fuses=True)
    assert once != root
    assert trimmed(once, ranks_of(root), nets_of(once), fuses=True) == once
