"""Links in a pasted text: inactive ones, those of a guest, and those that somebody left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS
from tests.support.rule_cases import diagnosed

FOLDER = RECORDINGS / "nvidia-smi"
UP, DOWN = "25.781 GB/s", "<inactive>"


def read(folder: Path, text: str) -> NodeSnapshot:
    file = folder / "links.txt"
    file.write_text(text)
    return load([str(file)]).snapshot


def gpu(number: int, up: int, count: int = 6, name: str = "Tesla V100-SXM2-32GB") -> str:
    uuid = f"GPU-0000000{number}-0000-0000-0000-000000000000"
    links = (f"\t Link {link}: {UP if link < up else DOWN}\n" for link in range(count))
    return f"GPU {number}: {name} (UUID: {uuid})\n{''.join(links)}"


def loud(snapshot: NodeSnapshot) -> list[tuple[str, str]]:
    return [
        (finding.id, finding.severity)
        for finding in diagnosed(snapshot).findings
        if finding.severity in ("broken", "slow", "cannot-tell")
        and finding.id != "evidence-missing"
    ]


def test_inactive_links_of_one_gpu_are_told_with_their_number() -> None:
    snapshot = load([str(FOLDER / "v100-inactive.txt")]).snapshot
    one = diagnosed(snapshot).findings[0]
    assert (one.id, one.severity) == ("nvlink-inactive", "cannot-tell")
    assert one.title.startswith("2 of 6 NVLinks of GPU3 inactive")
    assert "inactive: 3, 5" in one.evidence[0].value


@pytest.mark.parametrize(
    ("ups", "name", "expected"),
    [
        ((6, 6, 6, 4), "Tesla V100-SXM2-32GB", [("nvlink-inactive", "cannot-tell")]),
        ((6, 6, 6, 6), "Tesla V100-SXM2-32GB", []),
        ((4, 4, 4, 4), "Tesla V100-SXM2-32GB", []),  # a guest with half of the mesh
        ((0, 0), "Tesla V100-PCIE-32GB", []),
        ((12, 12, 11, 12), "NVIDIA A100-SXM4-80GB", [("nvlink-down", "slow")]),
        ((4, 4), "NVIDIA A100 80GB PCIe", []),  # one bridge of three
        ((0, 0), "NVIDIA A100 80GB PCIe", []),
        ((18,), "NVIDIA H100 80GB HBM3", []),
        ((17,), "NVIDIA H100 80GB HBM3", [("nvlink-down", "slow")]),
    ],
)
def test_links_are_held_against_the_model(
    tmp_path: Path, ups: tuple[int, ...], name: str, expected: list[tuple[str, str]]
) -> None:
    count = 12 if "A100" in name else 18 if "H100" in name else 6
    text = "".join(gpu(number, up, count, name) for number, up in enumerate(ups))
    assert loud(read(tmp_path, text)) == expected


def test_links_that_somebody_left_out_are_not_missing(tmp_path: Path) -> None:
    snapshot = load([str(FOLDER / "h100-nvlink-errors.md")]).snapshot
    assert loud(snapshot) == []
    assert [lack.id for lack in diagnosed(snapshot).lacking] == ["memory", "errors", "bus"]
    head = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    pair = head + f"\t Link 0: {UP}\n\t Link 1: {UP}\n"
    # The list of one GPU may end because somebody cut it, that of one among several does not.
    assert loud(read(tmp_path, pair)) == []
    whole = pair.replace("GPU 0", "GPU 1").replace("0000)", "0001)")
    whole += "".join(f"\t Link {link}: {UP}\n" for link in range(2, 18))
    assert loud(read(tmp_path, pair + whole)) == [("nvlink-missing", "slow")]
    for cut in ("...", "[...]", "(snip)"):
        assert loud(read(tmp_path, f"{pair}\t {cut}\n")) == []
    assert loud(read(tmp_path, f"{pair}\t Link 17: {UP}\n")) == []
