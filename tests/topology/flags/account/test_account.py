"""A flag explained for a node, and what is set."""

from __future__ import annotations

import pytest

from gputop.answers.flags import FlagsAnswer, page
from gputop.printing.render import blocks_of, texts
from gputop.topology.flags.account.account import account, plain
from gputop.topology.flags.account.overview import overview
from gputop.topology.flags.catalogue.catalogue import Flag, catalogue
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.feeds import DemoFeed
from tests.tables import hold


def study_of(demo: str, **values: str) -> Study:
    return Study(DemoFeed(demo, version="0").at(0), values=values)


def account_text(demo: str, name: str, **values: str) -> str:
    flag = catalogue().flag(name)
    assert flag is not None
    return " ".join(" ".join(texts(blocks_of(account(flag, study_of(demo, **values))), 80)).split())


def test_a_source_names_the_library_once() -> None:
    found = {
        flag.name: section.paragraphs[0]
        for flag in catalogue().flags
        for section in plain(flag)
        if section.title == "Source" and flag.group in ("nccl", "rccl")
    }
    named = {name: text.upper().split() for name, text in found.items()}
    assert {
        n: words for n, words in named.items() if words.count("NCCL") + words.count("RCCL") != 1
    } == {}
    assert found["NCCL_TUNER_CONFIG_FILE"] == "NCCL ext-tuner/example"
    assert found["RCCL_MSCCLPP_ENABLE"] == "RCCL init.cc"
    assert found["NCCL_RINGS"].startswith("RCCL graph/search.cc")


def test_the_p2p_level_on_a_pcie_box_reads_like_advice() -> None:
    text = account_text("pcie-l40s-8", "NCCL_P2P_LEVEL")
    for part in (
        "Of 28 pairs, 4 behind one PCIe switch (PIX) use P2P now; 8 on one CPU (PHB) and 16 on "
        "two CPUs (SYS) go by SHM.",
        "PHB would give it to the 8 PHB, SYS to all 24.",
        "LOC and NVL would take it away from all 4 that have it.",
        "16 SYS SHM/direct/direct 0..3 with 4..7",
        "takes 4 hops PIX by P2P, 2 PHB by SHM, 2 SYS by SHM",
        "nothing: it is the default",
        "the same as LOC: no pair is NVL",
        "Not known, where transports change and no predicted time does",
        "With PHB GPUs 0..3 and GPUs 4..7 use nothing but P2P among themselves",
        "The IOMMU passes the GPUs' addresses through (identity)",
        "ACS is off at every PCIe port",
        "NVML calls P2P possible for these pairs",
        "The driver is assumed to grant peer access: it was not asked.",
        "gputop probe p2p",
        "NCCL graph/paths.cc:ncclGetLevel",
    ):
        assert part in text, part


def test_on_nvlink_the_same_flag_is_told_otherwise() -> None:
    text = account_text("hgx-h100-8", "NCCL_P2P_LEVEL")
    assert (
        "All 28 pairs are joined by NVLink (NVL) and use P2P as it is: no higher level adds any."
        in text
    )
    assert "NVL PIX PXB PHB SYS nothing" in text


def test_on_a_cube_mesh_pairs_through_a_relay_stand_together() -> None:
    text = account_text("dgx-1v", "NCCL_P2P_LEVEL")
    assert "joined by NVLink through another GPU (NVB) and use P2P as it is" in text
    assert "NVL would take it away from 12 NVB." in text
    assert "12 NVB P2P/indirect" in text


@pytest.mark.parametrize(
    ("demo", "name", "parts"),
    [
        ("hgx-h100-8", "NCCL_PXN_DISABLE", ("GPU-NIC pairs: PXN -> SYS", "over two nodes")),
        ("hgx-h100-8", "NCCL_NET_GDR_READ", ("64 GPU-NIC pairs: GPUDirect RDMA on -> for",)),
        ("hgx-h100-8", "NCCL_IB_DISABLE", ("64 GPU-NIC pairs: the NIC is not used",)),
        ("hgx-h100-8", "NCCL_ALGO", ("256 MiB: NVLS Simple, 16 channels -> Ring",)),
        ("hgx-h100-8", "NCCL_MAX_CTAS", ("With fewer of them the links are not filled",)),
        ("hgx-h100-8", "NCCL_MIN_CTAS", ("More channels than that go over the same links",)),
        ("pcie-l40s-8", "NCCL_ALGO", ("nothing is left to choose, the call fails fails fails",)),
        ("pcie-l40s-8", "NCCL_SHM_DISABLE", ("2 of 2 per node",)),
        ("mi300x-8", "NCCL_NVLS_ENABLE", ("nothing: RCCL has no NVLS",)),
        ("dgx-1v", "NCCL_P2P_LEVEL", ("no pair is farther apart than NVB",)),
    ],
)
def test_outcomes_say_what_they_are_about(demo: str, name: str, parts: tuple[str, ...]) -> None:
    flag = catalogue().flag(name)
    assert flag is not None
    found = account(flag, study_of(demo))
    cells = [" ".join(" ".join(row) for row in one.table) for one in found]
    said = [" ".join((*one.paragraphs, *one.bullets)) for one in found]
    text = " ".join((*cells, *said))
    for part in parts:
        assert part in text, text


def test_nothing_is_offered_to_try_where_no_value_changes_anything() -> None:
    assert "Try it" not in account_text("hgx-h100-8", "NCCL_NVB_DISABLE")
    assert "not known not known" not in account_text("mi300x-8", "NCCL_ALGO")
    assert "gputop explain 0 2 --set NCCL_P2P_LEVEL=PHB" in account_text(
        "pcie-l40s-8", "NCCL_P2P_LEVEL"
    )


def test_a_value_that_is_set_is_named_with_what_is_odd_about_it() -> None:
    assert "It is ignored: the name must be written exactly" in account_text(
        "pcie-l40s-8", "NCCL_P2P_LEVEL", NCCL_P2P_LEVEL="phb"
    )
    assert "It has no effect: NCCL_P2P_DISABLE=1 beats it." in account_text(
        "pcie-l40s-8", "NCCL_P2P_LEVEL", NCCL_P2P_LEVEL="PHB", NCCL_P2P_DISABLE="1"
    )


def test_a_flag_that_the_library_does_not_read_has_no_outcomes() -> None:
    text = account_text("hgx-h100-8", "RCCL_MODEL_MATCHING_DISABLE")
    assert "NCCL does not read it, RCCL does" in text
    assert "What each value would do" not in text


def _every_flag_can_be_explained(flag: Flag) -> None:
    sections = account(flag, STUDY)
    lines = texts(blocks_of(sections), 80)
    assert lines[0]
    assert max(map(len, lines)) <= 80
    assert flag.changes.split()[0] in " ".join(lines)
    assert texts(blocks_of(plain(flag)), 80)


def test_every_flag_can_be_explained() -> None:
    hold(_every_flag_can_be_explained, catalogue().flags, lambda flag: flag.name)


STUDY = study_of("pcie-l40s-8")


def test_what_is_set_is_sorted_into_what_it_does() -> None:
    study = study_of(
        "hgx-h100-8",
        NCCL_P2P_DISABLED="1",
        NCCL_P2P_LEVEL="nvl",
        NCCL_SHM_DISABLE="1",
        NCCL_NVLS_ENABLE="0",
        NCCL_ALGO="rings",
        CUDA_DEVICE_ORDER="PCI_BUS_ID",
    )
    found = {entry.name: entry for entry in overview(study, {"NCCL_ALGO": "/etc/nccl.conf"})}
    assert {name: entry.status for name, entry in found.items()} == {
        "NCCL_P2P_DISABLED": "unknown",
        "NCCL_P2P_LEVEL": "ignored",
        "NCCL_SHM_DISABLE": "nothing",
        "NCCL_NVLS_ENABLE": "changes",
        "NCCL_ALGO": "fatal",
        "CUDA_DEVICE_ORDER": "not predicted",
    }
    assert found["NCCL_P2P_DISABLED"].closest[0] == "NCCL_P2P_DISABLE"
    assert found["NCCL_ALGO"].origin == "/etc/nccl.conf"
    text = "\n".join(texts(page(FlagsAnswer(study=study)).blocks, 80))
    assert "unknown name" in text
    assert "ignored" in text


def test_a_container_image_shows_nothing_alarming() -> None:
    image = {
        "NCCL_VERSION": "2.27.7",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "TORCH_NCCL_USE_COMM_NONBLOCKING": "0",
        "CUDA_MODULE_LOADING": "LAZY",
        "NCCL_FASTRAK_IFNAME": "eth1",
        "HSA_TOOLS_LIB": "librocprofiler.so",
    }
    entries = overview(study_of("hgx-h100-8", **image), {})
    assert {entry.status for entry in entries} == {"not predicted"}
    (hsa,) = (entry for entry in entries if entry.name == "HSA_TOOLS_LIB")
    assert hsa.said == "It is not described here."


def test_a_node_without_gpus_still_says_what_is_set() -> None:
    empty = NodeSnapshot(taken_at=0.0)
    study = Study(empty, values={"NCCL_P2P_LEVEL": "nvl", "NCCL_ALGO": "Ring"})
    assert study.trouble() is not None
    assert [entry.status for entry in overview(study, {})] == ["not predicted", "ignored"]
    (size,) = overview(Study(empty, values={"NCCL_BUFFSIZE": "8M"}), {})
    assert "counts as 8." in size.said
    nothing = FlagsAnswer(study=Study(empty, values={}), cannot_predict="no GPU")
    assert "0 GPUs" in "\n".join(texts(page(nothing).blocks, 80))
