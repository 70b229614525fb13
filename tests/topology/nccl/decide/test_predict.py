"""Single decisions: levels, switches, versions, drivers, domains."""

from __future__ import annotations

import pytest

from gputop.topology.nccl.decide.predict import NoGpusError, predict
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.settings import Settings, strtoll
from gputop.topology.nccl.versions import UnknownVersionError, version_for
from tests.topology.nccl.made import (
    AMD,
    ARM,
    INTEL,
    cpu,
    decide,
    gpu,
    snapshot,
    switch,
    system,
    transports,
)
from tests.topology.nccl.nodes_made import NVSWITCH, PHB, PIX, SYS, pair


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), (" 0x10z", 16), ("010", 8), ("true", 0), ("-3x", -3), ("", 0), ("09", 0)],
)
def test_integers_read_like_c(text: str, value: int) -> None:
    assert strtoll(text)[0] == value


@pytest.mark.parametrize(
    ("env", "label"),
    [
        ({}, "SHM/direct/direct"),
        ({"NCCL_P2P_LEVEL": "PHB"}, "P2P/CUMEM"),
        ({"NCCL_P2P_LEVEL": "3"}, "P2P/CUMEM"),
        ({"NCCL_P2P_LEVEL": "2"}, "SHM/direct/direct"),
        ({"NCCL_P2P_LEVEL": "9"}, "P2P/CUMEM"),
        ({"NCCL_P2P_LEVEL": "phb"}, "SHM/direct/direct"),
        ({"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DISABLE": "1"}, "SHM/direct/direct"),
        ({"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DISABLE": "0x1"}, "SHM/direct/direct"),
        ({"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DISABLE": "2"}, "P2P/CUMEM"),
        ({"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DISABLE": "true"}, "P2P/CUMEM"),
        ({"NCCL_P2P_LEVEL": "SYS", "NCCL_CUMEM_ENABLE": "0"}, "P2P/IPC"),
        ({"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_USE_CUDA_MEMCPY": "1"}, "P2P/CUMEM/CE"),
        ({"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_READ_ENABLE": "1"}, "P2P/CUMEM/read"),
        ({"NCCL_SHM_USE_CUDA_MEMCPY": "1"}, "SHM/CE/direct"),
        ({"NCCL_SHM_USE_CUDA_MEMCPY": "1", "NCCL_SHM_MEMCPY_MODE": "3"}, "SHM/CE/CE"),
    ],
)
def test_labels_of_a_pair_on_one_host_bridge(env: dict[str, str], label: str) -> None:
    assert pair(decide(PHB, env)).label == label


def test_an_ignored_level_is_reported_and_changes_nothing() -> None:
    found = decide(PHB, {"NCCL_P2P_LEVEL": "nvl", "NCCL_P2P_DISABLE": "yes"})
    assert {name for name, _, _ in found.ignored} == {"NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE"}
    assert transports(found) == transports(decide(PHB))


def test_two_gpus_on_amd_use_p2p_through_the_cpu_and_four_do_not() -> None:
    four = SYS.replace(INTEL, AMD)
    assert pair(decide(four)).transport == "SHM"
    two = decide(four, gpus=("0000:02:00.0", "0000:05:00.0"))
    assert (pair(two).transport, pair(two).path) == ("P2P", "SYS")
    assert pair(two).dst_bus_id == "0000:05:00.0"
    assert pair(decide(SYS, gpus=("0000:02:00.0", "0000:05:00.0"))).transport == "SHM"


def test_versions_before_2_23_allow_p2p_by_cpu() -> None:
    amd, arm = SYS.replace(INTEL, AMD), SYS.replace(INTEL, ARM)
    assert pair(decide(amd, library="nccl-2.21.5"), 0, 2).transport == "P2P"
    assert pair(decide(arm, library="nccl-2.21.5"), 0, 2).transport == "SHM"
    assert pair(decide(amd, library="nccl-2.23.4"), 0, 2).transport == "SHM"


def test_a_later_version_names_shared_memory_in_one_word() -> None:
    found = decide(PHB, library="nccl-2.30.7")
    assert pair(found).label == "SHM/direct"
    assert not any("untested" in text for text in found.assumptions)


def test_an_unknown_version_takes_the_nearest_older_rules() -> None:
    version, assumption = version_for("2.29.1")
    assert version.number == "2.28.9"
    assert assumption is not None
    assert "nearest older" in assumption
    with pytest.raises(UnknownVersionError):
        version_for("latest")


def test_refused_paths_go_through_the_cpu() -> None:
    found = decide(NVSWITCH, {"NCCL_P2P_DISABLE": "1"})
    one = pair(found)
    assert (one.path, one.hops, one.bandwidth_gbs) == ("PHB", 2, 48.0)
    near = pair(decide(NVSWITCH))
    assert (near.path, near.hops, near.bandwidth_gbs) == ("NVL", 2, 370.8)


def test_widths_and_speeds_as_the_library_reads_them() -> None:
    def gbs(speed: str, width: str) -> float | None:
        xml = system(
            cpu(
                0,
                switch(
                    1,
                    gpu(2, 0, speed=speed, width=width),
                    gpu(3, 1, speed="64.0 GT/s PCIe"),
                ),
            )
        )
        return pair(decide(xml)).bandwidth_gbs

    assert gbs("32.0 GT/s PCIe", "0") == 48.0
    assert gbs("32.0 GT/s", "16") == 12.0
    assert gbs("16 GT/s", "16") == 24.0
    assert gbs("", "8") == 6.0
    assert gbs("Unknown", "16") == 12.0


def test_reads_are_for_sm80_over_nvlink_alone() -> None:
    a100 = NVSWITCH.replace('sm="90"', 'sm="80"')
    assert pair(decide(a100)).label == "P2P/CUMEM/read"
    assert pair(decide(NVSWITCH)).label == "P2P/CUMEM"
    assert pair(decide(PIX.replace('sm="90"', 'sm="80"'))).label == "P2P/CUMEM"


def test_a_relay_is_named_and_can_be_switched_off() -> None:
    def link(to: int) -> tuple[str, int, str]:
        return f"0000:{to:02x}:00.0", 2, "0x030200"

    chain = system(
        cpu(0, gpu(2, 0, [link(3)]), gpu(3, 1, [link(2), link(4)])), cpu(1, gpu(4, 2, [link(3)]))
    )
    one = pair(decide(chain), 0, 2)
    assert (one.label, one.via, one.path) == ("P2P/indirect/1[1]", 1, "NVB")
    off = pair(decide(chain, {"NCCL_NVB_DISABLE": "1"}), 0, 2)
    assert (off.transport, off.via, off.path) == ("SHM", None, "SYS")


def test_broadcom_levels_of_one_chip_are_one_switch() -> None:
    parent = 'vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x0001"'
    child = 'vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x1001"'
    xml = system(
        cpu(
            0,
            switch(1, switch(2, gpu(3, 0), ids=child), switch(4, gpu(5, 1), ids=child), ids=parent),
        )
    )
    assert pair(decide(xml)).path == "PIX"
    assert pair(decide(xml.replace("0xc030", "0x1234"))).path == "PXB"


def test_visible_devices_make_the_communicator() -> None:
    found = decide(NVSWITCH, {"CUDA_VISIBLE_DEVICES": "2,0"})
    assert ranked(found) == ["0000:04:00.0", "0000:02:00.0"]
    with pytest.raises(NoGpusError):
        decide(NVSWITCH, {"CUDA_VISIBLE_DEVICES": ""})


def ranked(found: Prediction) -> list[str]:
    """PCI addresses by rank."""
    return [address for _, address in sorted({(p.src, p.src_bus_id) for p in found.pairs})]


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 3, 0, 2), (2, 0, 3)])
def test_the_order_in_which_gpus_are_named_is_that_of_their_ranks(order: tuple[int, ...]) -> None:
    addresses = [f"0000:{bus:02x}:00.0" for bus in (2, 3, 4, 5)]
    wanted = [addresses[place] for place in order]
    listed = decide(NVSWITCH, {"CUDA_VISIBLE_DEVICES": ",".join(map(str, order))})
    named = decide(NVSWITCH, gpus=wanted)
    assert ranked(listed) == ranked(named) == wanted
    # What ranks read is put together in their order, so that rings of ranks look alike.
    plain = decide(NVSWITCH, gpus=sorted(wanted))
    assert plain.graphs.ring is not None
    assert listed.graphs == plain.graphs == named.graphs
    # Versions before 2.22 read the GPUs in the order of the file.
    old = decide(NVSWITCH, gpus=wanted, library="nccl-2.21.5").graphs.ring
    assert old is not None
    assert ranked(decide(NVSWITCH, gpus=wanted, library="nccl-2.21.5")) == wanted
    assert old.orders != plain.graphs.ring.orders


def test_gpus_without_a_rank_take_no_part() -> None:
    xml = NVSWITCH.replace('rank="3" ', "")
    assert max(pair.src for pair in decide(xml).pairs) == 2
    none = NVSWITCH
    for rank in range(4):
        none = none.replace(f'rank="{rank}" ', "")
    assert len(decide(none).pairs) == 12


def test_rccl_has_names_and_defaults_of_its_own() -> None:
    link = [("0000:03:00.0", 1, "0x038000")]
    xml = system(
        cpu(0, gpu(2, 0, link), gpu(3, 1, [("0000:02:00.0", 1, "0x038000")]), kind=AMD),
        version="2",
    )
    xml = xml.replace("nvlink", "xgmi").replace("0x030200", "0x038000")
    xml = xml.replace(' sm="90"', ' sm="104" gcn="gfx942" arch="94"')
    found = decide(xml, library="rccl-2.21.5")
    assert (pair(found).path, pair(found).label) == ("XGMI", "P2P/IPC")
    assert pair(found).bandwidth_gbs == 48.0
    off = decide(xml, {"NCCL_P2P_LEVEL": "NVL"}, library="rccl-2.21.5")
    assert any(name == "NCCL_P2P_LEVEL" for name, _, _ in off.ignored)
    assert [choice.protocol for choice in found.choices][-1] == "SIMPLE"
    assert decide(xml, library="rccl-2.26.6").choices == ()
    assert predict(snapshot(xml), Settings()).library.name == "rccl"


def test_steps_end_with_the_one_that_decides() -> None:
    for xml in (PIX, PHB, SYS, NVSWITCH):
        for decision in decide(xml).pairs:
            assert any(step.decides for step in decision.steps)
            assert all(step.question and step.answer and step.source for step in decision.steps)
            assert {step.basis for step in decision.steps} <= {"read", "measured", "assumed"}


def test_a_view_explains_nvls_domain_and_nics() -> None:
    steps = decide(NVSWITCH).views[0].steps
    assert steps["domain"][0].answer == "yes"
    assert steps["nvls"][-1].answer == "yes"
    off = decide(NVSWITCH, {"NCCL_NVLS_ENABLE": "0"})
    assert off.graphs.nvls is None
    assert off.views[0].steps["nvls"][-1].because == "NCCL_NVLS_ENABLE=0"
    assert decide(PIX).views[0].steps["nvls"][-1].question == "is there an NVSwitch?"


def test_gpus_where_no_library_looks_for_them_take_no_part() -> None:
    with pytest.raises(NoGpusError, match="none below a CPU"):
        decide(system(cpu(0, "<net>", gpu(3, 0), gpu(4, 1), "</net>")))
