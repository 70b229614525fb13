"""Sentences on AMD's nodes: flags as RCCL means them, letters, and names that begin small."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from gputop.commands.asking import load
from gputop.commands.topo import command as topo
from gputop.topology.explain.nccl import library_first
from gputop.topology.explain.pair import why_pair
from gputop.topology.model.units import sentence
from gputop.topology.node import Node
from tests.support.places import RECORDINGS
from tests.support.snapshots import demo_node

RECORDED = RECORDINGS / "rccl-logs"
DEMOS = ("mi250x-8", "mi300x-8", "mi355x-8", "sick-mi300x-8")
NVIDIAS = re.compile(r"NVLink|NVSwitch|NVML|nvidia-smi|nvidia_|\bCUDA\b|A100|H100|Hopper|\bNVL\b")
"""Words of NVIDIA's hardware and tools."""
FLAGS = (
    "NCCL_P2P_READ_ENABLE",
    "NCCL_IGNORE_DISABLED_P2P",
    "NCCL_NVB_DISABLE",
    "NCCL_MNNVL_ENABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_NVLS_NCHANNELS",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_FORCE_FLUSH",
    "NCCL_DMABUF_ENABLE",
    "NCCL_CUMEM_ENABLE",
)


def printed(command: object, *words: str) -> str:
    result = CliRunner().invoke(command, words)  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_speaks_of_amds_hardware(name: str) -> None:
    text = printed(load("flags"), name, "--demo", "mi300x-8")
    assert not NVIDIAS.findall(text), text


def test_the_level_is_called_as_rccl_reads_it() -> None:
    text = printed(load("flags"), "NCCL_P2P_LEVEL", "--demo", "mi300x-8")
    assert "Values: LOC XGMI" in text
    assert "NVL, the level's name on NVIDIA's GPUs, do nothing" in " ".join(text.split())


@pytest.mark.parametrize("demo", DEMOS)
def test_letters_are_explained_without_nvidias_tool(demo: str) -> None:
    text = printed(topo, "--demo", demo)
    assert "codes of PCIe distance" in text
    assert not NVIDIAS.findall(text)
    assert "XGMI = " in text


def test_nvidias_matrix_keeps_its_legend() -> None:
    assert "NV#  = # NVLinks" in printed(topo, "--demo", "hgx-h100-8")


def test_a_single_gpu_of_amds_could_have_no_nvlink_either() -> None:
    alone = printed(topo, "--from", "tests/recordings/amd-public/mi210-static.json")
    assert "Legend:" in alone
    assert "NV" not in alone


@pytest.mark.parametrize("demo", DEMOS)
def test_names_that_begin_small_stay_so(demo: str) -> None:
    text = printed(load("flags"), "--demo", demo)
    assert "- xGMI counters:" in text
    assert "No variable of RCCL" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("xGMI counters are read", "xGMI counters are read."),
        ("cuMem is off", "cuMem is off."),
        ("amdgpu's peer memory is not there.", "amdgpu's peer memory is not there."),
        ("peer access granted: not asked", "Peer access granted: not asked."),
        ("RCCL is unknown", "RCCL is unknown."),
        ("", "."),
    ],
)
def test_a_remark_becomes_a_sentence(text: str, said: str) -> None:
    assert sentence(text) == said


def test_ranks_of_an_rccl_log_are_numbered_by_hip_and_rocm_smi() -> None:
    text = printed(load("log"), str(RECORDED / "rx7900xtx-2.log"))
    assert "pid  hip  smi" in text
    assert "cuda" not in text


def test_one_is_no_plural() -> None:
    text = printed(load("explain"), "0", "1", "--demo", "mi300x-8")
    assert ", 1 hop, " in text
    two = printed(load("explain"), "--gpus", "0,1", "--demo", "mi300x-8")
    assert "1 xGMI link each" in " ".join(two.split())


@pytest.mark.parametrize("pair", [(1, 2), (0, 1)])
def test_the_librarys_sentence_comes_first_whole(pair: tuple[int, int]) -> None:
    report = Node(demo_node("mi250x-8").snapshot)
    report = report.decide()
    a, b = (report.snapshot.machine.gpus[place].address for place in pair)
    why = why_pair(report, a, b)
    turned = library_first(why)
    assert turned.claim.startswith("RCCL 2.22.3 will use P2P/IPC")
    ends = {part.rstrip(".") for part in turned.claim.split(". ")}
    assert ends == {part.rstrip(".") for part in why.claim.split(". ")}
