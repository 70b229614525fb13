"""Matrices, topology XML and outputs of nvidia-smi: none is healthy by itself, each sick twin is.

A twin is the same text after a fault: a GPU off the fabric, a lost GPU, errors of the memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gputop.topology.diagnosis.engine import Diagnosis
from gputop.topology.model.severity import Verdict
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.load import LoadError, load
from tests.support.places import RECORDINGS
from tests.tables import hold

from ...support.rule_cases import diagnosed

FOLDERS = ("nccl-topologies", "nccl-public", "nvidia-public", "nvidia-smi", "pasted", "amd-public",
           "kfd", "amd-smi-mi300x", "amd-smi-mi300x-7", "hgx-h200-4gpu-vm", "mi300x-amdsmi-6",
           "mi300x-amdsmi-7", "rocm-smi-mi250x")  # fmt: skip
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (RECORDINGS / folder).iterdir()
    if path.suffix in (".xml", ".txt", ".md", ".json", ".gz")
)
MATRICES = [
    path
    for path in FILES
    if re.search(r"GPU0\s+GPU1(?s:.{0,2000})GPU0\s+X\s", path.read_text("latin1"))
]
LINK_TYPES = [path for path in FILES if "Link Type between" in path.read_text("latin1")]
XMLS = [path for path in FILES if path.suffix == ".xml" and "nccl" in path.parent.name]
QUERIES = [
    path for path in FILES if path.suffix == ".xml" and "<nvidia_smi_log" in path.read_text()
]
JOINED = 3
"""Fewer joined GPUs are no board: which of two is off the fabric, nobody could say."""
LOST = "Unable to determine the device handle for GPU {}: GPU is lost.  Reboot the system\n"
DRAM = "index, name, ecc.errors.uncorrected.volatile.sram, ecc.errors.uncorrected.volatile.dram\n"


def name(path: Path) -> str:
    return str(path.relative_to(RECORDINGS))


@cache
def read(path: Path) -> NodeSnapshot | None:
    try:
        return load([str(path)]).snapshot
    except LoadError:
        return None  # no answer at all, with its own message


def loud(found: Diagnosis, *severities: str) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (finding.id, finding.devices)
        for finding in found.findings
        if finding.severity in severities
    ]


def _no_text_is_healthy_by_itself(path: Path) -> None:
    snapshot = read(path)
    assert snapshot is None or diagnosed(snapshot).verdict != Verdict.HEALTHY


def test_no_text_is_healthy_by_itself() -> None:
    hold(_no_text_is_healthy_by_itself, FILES, name)


def test_the_sound_ones_raise_no_alarm() -> None:
    """What is known to be wrong with the others is told by tests of their own."""
    known = {"one_missing_nvlink": "nvlink-missing", "one_no_nvlink": "gpu-outside-island"}
    for path in (*MATRICES, *LINK_TYPES, *XMLS, *QUERIES):
        if path.name == "mixed.txt":
            continue  # sick on purpose, in other ways
        snapshot = read(path)
        found = [] if snapshot is None else loud(diagnosed(snapshot), "broken", "slow")
        expected = known.get(path.stem)
        assert [rule for rule, _ in found] == ([expected] if expected else []), path


def joined(path: Path) -> bool:
    """Whether links join all GPUs of it, as those of a board."""
    snapshot = read(path)
    if snapshot is None or (path.suffix != ".xml" and snapshot.machine.gpus[0].nvlinks):
        return False  # beside the state of each link, a matrix alone cannot change
    groups = Node(snapshot).islands
    return len(groups) == 1 and len(groups[0]) > JOINED and len(groups[0]) in (4, 8, 16)


def off_the_matrix(text: str, number: int) -> str:
    """The matrix with the links of one GPU gone from its row and its column."""
    lines = []
    for line in text.split("\n"):
        match = re.match(r"[ \t]*GPU(\d+)(?=[\t ])(?!.*Affinity)", line)
        if match:
            cells = list(re.finditer(r"\S+", line[match.end() :]))
            gone = cells if int(match[1]) == number else cells[number : number + 1]
            for cell in reversed(gone):
                if re.fullmatch(r"NV\d+|XGMI", cell[0]):
                    start, end = (match.end() + place for place in cell.span())
                    line = line[:start] + ("SYS" if cell[0] != "XGMI" else "PCIE") + line[end:]
        lines.append(line)
    return "\n".join(lines)


def off_the_xml(text: str, number: int) -> str:
    """NCCL's XML without the links from and to one GPU."""
    root = ElementTree.fromstring(text)
    homes = [pci for pci in root.iter("pci") if pci.find("gpu") is not None]
    target = homes[number].get("busid")
    for index, home in enumerate(homes):
        (gpu,) = home.findall("gpu")
        for link in gpu.findall("nvlink") + gpu.findall("xgmi"):
            if index == number or link.get("target") == target:
                gpu.remove(link)
    return ElementTree.tostring(root, encoding="unicode")


OFF: list[tuple[Path, Callable[[str, int], str]]] = [
    *((path, off_the_matrix) for path in (*MATRICES, *LINK_TYPES) if joined(path)),
    *((path, off_the_xml) for path in XMLS if joined(path)),
]


def test_there_are_boards_of_each_kind() -> None:
    assert {path.parent.name for path, _ in OFF} >= {"nvidia-public", "nccl-topologies"}
    assert len(OFF) > 6
    assert len(MATRICES) > 8
    assert len(XMLS) > 15


@pytest.mark.parametrize(("path", "without"), OFF, ids=lambda value: getattr(value, "name", ""))
def test_a_gpu_off_the_fabric_is_found(
    path: Path, without: Callable[[str, int], str], tmp_path: Path
) -> None:
    whole = read(path)
    assert whole is not None
    for number in (0, len(whole.machine.gpus) - 1):
        file = tmp_path / f"{number}{path.suffix}"
        file.write_text(without(path.read_text(), number))
        found = loud(diagnosed(load([str(file)]).snapshot), "broken", "slow")
        gpus = sorted(whole.machine.gpus, key=lambda gpu: (gpu.index is None, gpu.index))
        (one,) = found
        assert gpus[number].address in one[1]
        assert len(one[1]) == 1 or path.stem == "one_missing_nvlink"


@pytest.mark.parametrize("path", [*MATRICES, *XMLS], ids=name)
def test_a_lost_gpu_is_found(path: Path, tmp_path: Path) -> None:
    snapshot = read(path)
    assert snapshot is not None
    address = snapshot.machine.gpus[0].address
    if address.startswith("topo:"):
        address = "0000:41:00.0"
        file = tmp_path / "page.txt"
        file.write_text(f"{path.read_text()}\n$ nvidia-smi\n{LOST.format(address)}")
        sick = load([str(file)]).snapshot
    else:
        file = tmp_path / "said.txt"
        file.write_text(LOST.format(address))
        sick = load([str(path), str(file)]).snapshot
    assert ("gpu-lost", (address,)) in loud(diagnosed(sick), "broken")


@pytest.mark.parametrize("path", QUERIES, ids=name)
def test_a_gpu_that_is_lost_for_every_question_is_found(path: Path, tmp_path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    for value in root.findall("gpu")[0].iter():
        if not len(value) and value.tag != "pci_bus_id":
            value.text = "[GPU is lost]"
    file = tmp_path / "q.xml"
    file.write_text(ElementTree.tostring(root, encoding="unicode"))
    assert [rule for rule, _ in loud(diagnosed(load([str(file)]).snapshot), "broken")] == [
        "gpu-lost"
    ]


@pytest.mark.parametrize("path", QUERIES, ids=name)
@pytest.mark.parametrize("others", ["0", "N/A"])
def test_errors_of_the_memory_are_found(path: Path, others: str, tmp_path: Path) -> None:
    """Whatever the driver keeps of the SRAM."""
    root = ElementTree.parse(path).getroot()
    counts = root.findall("gpu/ecc_errors/volatile")[0]
    for value in counts:
        value.text = "3" if value.tag == "dram_uncorrectable" else others
    file = tmp_path / "q.xml"
    file.write_text(ElementTree.tostring(root, encoding="unicode"))
    found = loud(diagnosed(load([str(file)]).snapshot), "notice")
    assert "ecc-uncorrected" in [rule for rule, _ in found]


@pytest.mark.parametrize("path", MATRICES, ids=name)
@pytest.mark.parametrize("sram", ["0", "[N/A]"])
def test_errors_of_the_memory_beside_a_matrix_are_found(
    path: Path, sram: str, tmp_path: Path
) -> None:
    snapshot = read(path)
    assert snapshot is not None
    table = "".join(
        f"{number}, NVIDIA H100 80GB HBM3, {sram}, {3 * (number == 1)}\n"
        for number in range(len(snapshot.machine.gpus))
    )
    file = tmp_path / "page.txt"
    file.write_text(f"{path.read_text()}\n\n{DRAM}{table}")
    found = diagnosed(load([str(file)]).snapshot)
    (one,) = [finding for finding in found.findings if finding.id == "ecc-uncorrected"]
    assert one.title.endswith("on GPU1")


AMD_TABLES = [path for path in FILES if re.search(r"(?m)^ACCESS TABLE:", path.read_text("latin1"))]
AMD_BOARDS = [path for path in AMD_TABLES if joined(path)]
UMC = """[{"gpu": 1, "ecc": {"total_correctable_count": 0, "total_uncorrectable_count": 3},
"ecc_blocks": {"UMC": {"correctable_count": 0, "uncorrectable_count": 3}}}]"""


@pytest.mark.parametrize("path", [*AMD_TABLES, *LINK_TYPES], ids=name)
def test_errors_of_the_memory_beside_a_matrix_of_amd_are_found(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "metric.json"
    file.write_text(UMC)
    found = diagnosed(load([str(path), str(file)]).snapshot)
    (one,) = [finding for finding in found.findings if finding.id == "ecc-uncorrected"]
    assert one.title.endswith("on GPU1")
    assert found.verdict != Verdict.HEALTHY


def without_row(text: str, number: int) -> str:
    """The tables of AMD's tools as they are when one GPU is gone."""
    lines, who = [], list[str]()
    for line in text.split("\n"):
        words = line.split()
        if words and all(
            re.fullmatch(r"GPU\d+|[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.\d", w) for w in words
        ):
            who = words
            lines.append("   ".join(["", *words[:number], *words[number + 1 :]]))
        elif who and words[:1] == who[number : number + 1]:
            continue
        elif who and words and words[0] in who and len(words) > len(who):
            lines.append("   ".join([*words[: number + 1], *words[number + 2 :]]))
        else:
            lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize("path", AMD_BOARDS, ids=name)
def test_a_gpu_that_is_gone_from_a_matrix_of_amd_is_found(path: Path, tmp_path: Path) -> None:
    whole = read(path)
    assert whole is not None
    for number in (0, len(whole.machine.gpus) - 1):
        file = tmp_path / f"{number}.txt"
        file.write_text(without_row(path.read_text(), number))
        snapshot = load([str(file)]).snapshot
        assert len(snapshot.machine.gpus) == len(whole.machine.gpus) - 1
        found = [one.id for one in diagnosed(snapshot).findings]
        assert "board-incomplete" in found or "amd-few-gpus" in found
    assert "board-incomplete" not in [one.id for one in diagnosed(whole).findings]
