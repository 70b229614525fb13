"""What a driver granted or refused, NICs, several hosts and parts of a GPU in the prediction."""

from __future__ import annotations

from msgspec.structs import replace

from gputop.topology.model.machine import GpuPair
from gputop.topology.model.snapshot import DataVerdict, Measurement, NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.settings import Settings
from tests.topology.nccl.made import SWITCH, cpu, decide, gpu, nic, snapshot, switch, system
from tests.topology.nccl.nodes_made import HIDDEN, NVSWITCH, PIX, pair


def with_words(xml: str, read: str, write: str) -> NodeSnapshot:
    """That node, with the driver's words for every pair."""
    made = snapshot(xml)
    gpus = [gpu.address for gpu in made.machine.gpus]
    pairs = tuple(
        GpuPair(src=a, dst=b, p2p_read=read, p2p_write=write) for a in gpus for b in gpus if a != b
    )
    return replace(made, machine=replace(made.machine, pairs=pairs))


def test_a_refusal_of_the_driver() -> None:
    words = "chipset not supported", "ok"
    pcie = predict(with_words(PIX, *words), Settings(), library="2.28.9")
    one = pair(pcie)
    assert (one.transport, one.path) == ("SHM", "PHB")
    assert pcie.failure is None
    assert any("chipset not supported" in step.because for step in one.steps)
    linked = with_words(NVSWITCH, *words)
    found = predict(linked, Settings(), library="2.28.9")
    assert found.failure is not None
    assert "NVLink" in found.failure
    for value, transport in (("1", "SHM"), ("2", "P2P")):
        settings = Settings({"NCCL_IGNORE_DISABLED_P2P": value})
        other = predict(linked, settings, library="2.28.9")
        assert other.failure is None
        assert pair(other).transport == transport


def test_a_measured_refusal_of_the_runtime() -> None:
    made = snapshot(PIX)
    src, dst = (gpu.address for gpu in made.machine.gpus)
    refusal = Measurement(
        probe="p2p", quantity="can_access", src=src, dst=dst, verdict=DataVerdict.NOT_GRANTED
    )
    found = predict(replace(made, measurements=(refusal,)), Settings(), library="2.28.9")
    assert (pair(found).transport, pair(found, 1, 0).transport) == ("SHM", "P2P")
    assert any(step.basis == "measured" for step in pair(found).steps)


def test_a_faster_nic_beats_shared_memory_until_it_is_forbidden() -> None:
    xml = system(
        cpu(0, switch(1, gpu(2, 0), nic(3, 0))), cpu(1, switch(4, gpu(5, 1), nic(6, 1)))
    ).replace('modelid="143"', 'modelid="85"')
    one = pair(decide(xml))
    assert (one.path, one.transport) == ("NET", "NET")
    assert one.label == "NET/IB/0/GDRDMA"
    assert decide(xml).nodes == 2
    assert pair(decide(xml, {"NCCL_NET_DISABLE_INTRA": "1"})).transport == "SHM"


def test_without_p2p_and_shm_each_gpu_is_a_node_on_sockets() -> None:
    found = decide(NVSWITCH, {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"})
    assert found.nodes == 4
    assert [view.ranks for view in found.views] == [(0,), (1,), (2,), (3,)]
    assert pair(found).labels == ("NET/Socket/0", "NET/Socket/0/Shared")
    assert pair(found, 1, 0).labels == ("NET/Socket/0/Shared",)
    assert pair(found).hops is None
    assert any("eth0" in text for text in found.assumptions)


def test_nothing_is_left_is_a_failure() -> None:
    env = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET_DISABLE_INTRA": "1"}
    found = decide(NVSWITCH, env)
    assert found.failure is not None
    assert pair(found).transport == "none"


def test_gdr_by_distance_and_by_flag() -> None:
    xml = system(cpu(0, switch(1, gpu(2, 0), nic(3, 0)), gpu(5, 1)))
    nets = {net.rank: net for net in decide(xml).views[0].nets}
    assert (nets[0].gdr_send, nets[0].to[2]) == ("Default", "PIX")
    assert (nets[1].gdr_send, nets[1].to[2]) == ("Disabled", "PHB")
    far = decide(xml, {"NCCL_NET_GDR_LEVEL": "PHB"}).views[0].nets
    assert {net.gdr_send for net in far} == {"Default"}
    assert any("NCCL_NET_GDR_LEVEL" in step.because for step in far[0].steps)


def test_a_relay_to_the_nic() -> None:
    xml = system(
        cpu(0, switch(1, gpu(2, 0, [(HIDDEN, 18, SWITCH)]), nic(3, 0))),
        cpu(1, switch(4, gpu(5, 1, [(HIDDEN, 18, SWITCH)]))),
    )
    nets = {net.rank: net for net in decide(xml).views[0].nets}
    assert (nets[1].to[2], nets[1].pxn_rank, nets[1].back[2]) == ("PXN", 0, "SYS")
    direct = {net.rank: net for net in decide(xml, {"NCCL_PXN_DISABLE": "1"}).views[0].nets}
    assert (direct[1].to[2], direct[1].pxn_rank) == ("SYS", -1)


def test_hosts_in_one_nvlink_domain() -> None:
    xml = system(
        *(
            cpu(
                0,
                *(gpu(2 + n, 2 * host + n, [(HIDDEN, 18, SWITCH)]) for n in range(2)),
                host=f"0x{host + 1}",
            )
            for host in range(2)
        )
    )
    assert {pair.label for pair in decide(xml).pairs} == {"P2P/MNNVL"}
    off = decide(xml, {"NCCL_MNNVL_ENABLE": "0"})
    assert pair(off, 0, 2).transport != "P2P"


def test_parts_of_a_gpu_get_no_p2p() -> None:
    made = snapshot(NVSWITCH)
    gpus = tuple(
        replace(gpu, mig_enabled=gpu.address.startswith("0000:02")) for gpu in made.machine.gpus
    )
    found = predict(
        replace(made, machine=replace(made.machine, gpus=gpus)), Settings(), library="2.28.9"
    )
    assert pair(found).transport == "SHM"
    assert pair(found, 1, 2).transport == "P2P"
    assert any("MIG is on" in step.because for step in pair(found).steps)
    assert found.graphs.nvls is None
    assert any("MIG" in text for text in found.assumptions)
