"""What versions of NCCL do differently, one small machine for each difference."""

from __future__ import annotations

import pytest

from gputop.topology.nccl.nodes import GPU, NET
from gputop.topology.nccl.prediction import Graphs
from gputop.topology.nccl.search.graphs import search_graphs
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.system.compute import Computed
from gputop.topology.nccl.system.domains import views
from gputop.topology.nccl.versions import version_for
from gputop.topology.nccl.xml.read import read_topology

from .made import AMD, ARM, INTEL, SWITCH, cpu, decide, gpu, nic, switch, system
from .nodes import nvswitch

C2C = '<c2c bw="25000" count="10"/></gpu>'
P2P_OFF = {"NCCL_P2P_DISABLE": "1"}
PEX4 = 'vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa00{}"'
PEX5 = 'vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x{}000"'
GPU_CLASS = "0x030200"


def seen(
    xml: str, library: str, env: dict[str, str] | None = None, *, more_nodes: bool = False
) -> list[Computed]:
    """The domains of a machine under one version."""
    version, _ = version_for(library)
    root = read_topology(xml.encode(), "made")
    return views(root, version, Settings(env or {}), more_nodes=more_nodes)


def path(xml: str, library: str, env: dict[str, str] | None = None) -> tuple[str, float]:
    """Type and bandwidth of the path from GPU 0 to GPU 1."""
    there = seen(xml, library, env)[0].system.nodes[GPU][0].paths[GPU][1]
    return there.type.name, there.bandwidth_gbs


def to_nic(xml: str, library: str, env: dict[str, str] | None = None) -> tuple[str, float]:
    """Type and bandwidth of the path from GPU 0 to NIC 0, in a job over two hosts."""
    there = seen(xml, library, env, more_nodes=True)[0].system.nodes[GPU][0].paths[NET][0]
    return there.type.name, there.bandwidth_gbs


def graphs(
    xml: str, library: str, env: dict[str, str] | None = None, *, more_nodes: bool = False
) -> tuple[Graphs, list[str]]:
    """What is searched for in the first domain, with what the version refuses."""
    one = seen(xml, library, env, more_nodes=more_nodes)[0]
    found = search_graphs(one.system, one.version, one.settings, nvls=True)
    return found, one.system.refusals


def grace(count: int = 2, *, below_switch: bool = False) -> str:
    """GPUs with C2C to the one CPU."""
    inside = []
    for rank in range(count):
        one = gpu(0x10 + rank, rank).replace("</gpu>", C2C)
        inside.append(switch(0x60 + rank, one) if below_switch else one)
    return system(cpu(0, *inside, kind=ARM))


def two_sockets(kind: str) -> str:
    """A GPU on each of two sockets, with a NIC beside the second."""
    return system(cpu(0, gpu(0x10, 0), kind=kind), cpu(1, gpu(0x20, 1), nic(0x60, 0), kind=kind))


def test_limits_of_the_search_are_those_of_devices_from_2_30_on() -> None:
    """P2P refused: GPUs meet through CPUs, while their devices are still joined by NVLink."""
    node = nvswitch(8, 90, 18).replace("32.0 GT/s", "16.0 GT/s")
    found = {}
    for library in ("2.29.7", "2.30.7"):
        heads = graphs(node, library, P2P_OFF)[0].nvls
        assert heads is not None
        found[library] = heads.bw_intra, heads.bw_inter
    assert found == {"2.29.7": (24.0, 50.0), "2.30.7": (40.0, 60.0)}


def test_c2c_is_an_nvlink_from_2_19_to_2_25() -> None:
    node = grace()
    libraries = ("2.18.6", "2.19.3", "2.25.1", "2.26.2")
    found = {library: path(node, library) for library in libraries}
    assert found == {
        "2.18.6": ("PHB", 48.0),
        "2.19.3": ("NVL", 250.0),
        "2.25.1": ("NVL", 250.0),
        "2.26.2": ("C2C", 250.0),
    }
    pairs = [decide(node, library=library).pair(0, 1) for library in libraries]
    assert [pair and pair.transport for pair in pairs] == ["SHM", "P2P", "P2P", "P2P"]


@pytest.mark.parametrize(
    ("below_switch", "refusing"),
    [(False, set()), (True, {"2.19.3", "2.21.5"})],
)
def test_the_search_for_the_cpu_of_a_gpu_went_in_circles(
    below_switch: bool, refusing: set[str]
) -> None:
    node = grace(below_switch=below_switch)
    libraries = ("2.18.6", "2.19.3", "2.21.5", "2.22.3", "2.25.1", "2.28.9")
    refused = {one for one in libraries if seen(node, one)[0].system.refusals}
    assert refused == refusing
    failure = decide(node, library="2.21.5").failure
    assert (failure is not None and "circle" in failure) == below_switch


def test_below_two_switches_the_cpu_is_not_found_up_to_2_25() -> None:
    one = gpu(0x10, 0).replace("</gpu>", C2C)
    node = system(cpu(0, switch(0x60, switch(0x61, one)), kind=ARM))
    found = {v: bool(seen(node, v)[0].system.refusals) for v in ("2.22.3", "2.25.1", "2.26.2")}
    assert found == {"2.22.3": True, "2.25.1": True, "2.26.2": False}


def test_c2c_and_a_host_bridge_in_a_row_are_p2c_from_2_27_5_on() -> None:
    """The NIC of a GPU that may not use GPUDirect is reached through the CPU."""
    one = gpu(0x10, 0, gdr=0).replace("</gpu>", C2C)
    node = system(cpu(0, switch(0x60, one, nic(0x70, 0)), kind=ARM))
    found = {v: to_nic(node, v)[0] for v in ("2.26.2", "2.27.3", "2.27.5", "2.28.9")}
    assert found == {"2.26.2": "PHB", "2.27.3": "PHB", "2.27.5": "P2C", "2.28.9": "P2C"}


def test_without_gdr_far_nics_are_diverted_too_up_to_2_20() -> None:
    """GPU 0 has fewest hops to the CPU of its NVLink neighbour, while its NIC is below its own."""
    bridge = [[(f"0000:{bus:02x}:00.0", 2, GPU_CLASS)] for bus in (0x20, 0x10)]
    deep = switch(0x60, switch(0x61, gpu(0x10, 0, bridge[0])))
    node = system(cpu(0, deep, nic(0x70, 0)), cpu(1, gpu(0x20, 1, bridge[1])))
    env = {"NCCL_PXN_DISABLE": "1"}
    found = {library: to_nic(node, library, env)[0] for library in ("2.20.5", "2.21.5")}
    assert found == {"2.20.5": "SYS", "2.21.5": "PHB"}


def test_2_18_knows_no_figure_for_two_sockets_of_amd() -> None:
    figures = {v: path(two_sockets(AMD), v)[1] for v in ("2.18.6", "2.19.3", "2.28.9")}
    assert figures == {"2.18.6": 48.0, "2.19.3": 16.0, "2.28.9": 16.0}


def test_sends_need_nvlink_on_every_gpu_up_to_2_18() -> None:
    node = system(cpu(0, switch(0x60, gpu(0x10, 0), gpu(0x11, 1), nic(0x70, 0))))
    said = {}
    for library in ("2.18.6", "2.19.3"):
        one = seen(node, library, more_nodes=True)[0]
        there = one.system.nodes[GPU][0], one.system.nodes[NET][0]
        said[library] = tuple(check.mode for check in one.gdr.both(*there))
    assert said == {"2.18.6": ("Disabled", "Default"), "2.19.3": ("Default", "Default")}


def test_the_gpu_of_a_nic_is_among_its_nearest_since_2_19() -> None:
    """GPU 0 has no other NIC than the one beside GPU 1."""
    node = two_sockets(INTEL)
    owner = {
        library: seen(node, library, more_nodes=True)[0].system.nodes[NET][0].local_gpu
        for library in ("2.18.6", "2.19.3")
    }
    assert owner == {"2.18.6": 0, "2.19.3": 1}


@pytest.mark.parametrize(
    ("parent", "child", "flat"),
    [
        (PEX4.format(1), PEX4.format(1), {"2.19.3", "2.20.5"}),
        (PEX4.format(1), PEX4.format(2), {"2.20.5"}),
        (PEX5.format(0), PEX5.format(1), {"2.20.5"}),
        ("", "", set()),
    ],
)
def test_switches_of_one_chip_are_flattened_since_2_20(
    parent: str, child: str, flat: set[str]
) -> None:
    inside = [switch(0x61 + rank, gpu(0x10 + rank, rank), ids=child) for rank in range(2)]
    node = system(cpu(0, switch(0x60, *inside, ids=parent)))
    assert {v for v in ("2.19.3", "2.20.5") if path(node, v)[0] == "PIX"} == flat


def test_nvls_takes_three_gpus_up_to_2_28_3() -> None:
    node = nvswitch(2, 90, 18)
    found = {}
    for library in ("2.28.3", "2.28.7"):
        prediction = decide(node, library=library)
        found[library] = prediction.graphs.nvls is not None
        steps = prediction.views[0].steps["nvls"]
        assert any("GPUs at least?" in step.question for step in steps)
    assert found == {"2.28.3": False, "2.28.7": True}


def chain() -> str:
    """Three GPUs in a row of NVLinks that are slower than the NIC of each."""
    inside = []
    for rank, far in {0: (1,), 1: (0, 2), 2: (1,)}.items():
        links = [(f"0000:{0x10 + to:02x}:00.0", 1, GPU_CLASS) for to in far]
        inside.append(switch(0x60 + rank, gpu(0x10 + rank, rank, links), nic(0x70 + rank, rank)))
    return system(cpu(0, *inside))


def test_2_30_refuses_a_domain_whose_nvlink_leads_through_another_one() -> None:
    node = chain()
    found = {library: seen(node, library) for library in ("2.29.7", "2.30.7")}
    ranks = [[gpu.rank for gpu in one.system.nodes[GPU]] for one in found["2.30.7"]]
    assert ranks == [[0, 2], [1]]
    refused = {library: [one.system.refusals for one in parts] for library, parts in found.items()}
    assert refused["2.29.7"] == [[], []]
    assert any("another domain" in text for text in refused["2.30.7"][0])
    failure = decide(node, library="2.30.7").failure
    assert failure is not None
    assert "another domain" in failure


def test_from_2_29_on_nodes_without_any_nic_are_refused() -> None:
    node = nvswitch(4, 90, 18)
    refused = {v: bool(graphs(node, v, more_nodes=True)[1]) for v in ("2.28.9", "2.29.2", "2.30.7")}
    assert refused == {"2.28.9": False, "2.29.2": True, "2.30.7": True}
    said = [" ".join(decide(node, library=v, nodes=2).assumptions) for v in ("2.28.9", "2.29.2")]
    assert ["does not start over several nodes without" in text for text in said] == [False, True]


def test_gpus_of_other_domains_count_as_devices_in_2_30() -> None:
    env = {**P2P_OFF, "NCCL_SHM_DISABLE": "1"}
    node = system(
        cpu(0, gpu(0x10, 0, sm=80), gpu(0x11, 1, sm=90)),
    ).replace("</gpu>", f'<nvlink target="fffffff:ff:ff.0" count="18" tclass="{SWITCH}"/></gpu>')
    found = {}
    for library in ("2.29.7", "2.30.7"):
        newer = next(one for one in seen(node, library, env) if one.system.nodes[GPU][0].rank == 1)
        found[library] = newer.system.min_sm
    assert found == {"2.29.7": 90, "2.30.7": 80}


@pytest.mark.parametrize(
    ("kind", "older", "newer"),
    [
        (AMD, 16.0, 24.0),
        (AMD.replace("175", "25"), 16.0, 24.0),
        (AMD.replace("175", "191"), 16.0, 32.0),
        (AMD.replace("175", "26"), 16.0, 32.0),
        (AMD.replace("175", "143"), 16.0, 16.0),
        (AMD.replace("175", "23"), 16.0, 16.0),
        (INTEL.replace("143", "173"), 22.0, 40.0),
        (INTEL.replace("143", "143"), 22.0, 22.0),
    ],
)
def test_2_31_knows_newer_cpus(kind: str, older: float, newer: float) -> None:
    """Zen 3 to 5 by either way of counting families; Granite Rapids below Sapphire Rapids."""
    figures = [path(two_sockets(kind), v)[1] for v in ("2.30.7", "2.31.2", "2.32.3")]
    assert figures == [older, newer, newer]
