"""What only some text shows is not called healthy, and the answer lists what the text shows."""

from __future__ import annotations

import pytest

from gputop.topology.diagnosis.engine import Diagnosis
from gputop.topology.diagnosis.evidence import LACKING
from gputop.topology.diagnosis.finding import Finding
from gputop.topology.recorded.load import load
from tests.support.places import RECORDINGS

from ...support.rule_cases import diagnosed

ALL_OF_GPU = "nvidia-smi -q"
LINKS = "nvidia-smi nvlink -s"


def diagnosis(name: str) -> Diagnosis:
    return diagnosed(load([str(RECORDINGS / name)]).snapshot)


def missing(found: Diagnosis) -> Finding:
    (one,) = [finding for finding in found.findings if finding.id == LACKING]
    return one


@pytest.mark.parametrize(
    ("name", "count", "shown"),
    [
        (
            "nvidia-public/b300-8-topo.txt",
            5,
            "CPUs near them, relations of the GPUs, NVLinks of each pair, relations of the NICs, "
            "NICs",
        ),
        ("hgx-h200-4gpu-vm/nvidia-smi-topo-m.txt", 3, "CPUs near them, "),
        ("nccl-topologies/nvswitch_2s_intel.xml", 7, "addresses of the GPUs, models of the GPUs"),
        ("amd-public/mi250x-8-showtoponuma.txt", 1, "CPUs near them"),
    ],
)
def test_the_answer_counts_and_lists_what_a_text_shows(name: str, count: int, shown: str) -> None:
    found = diagnosis(name)
    assert found.verdict == "cannot tell"
    one = missing(found)
    things = f"{count} thing{'s' * (count > 1)}"
    assert one.title.startswith(f"nothing wrong in the {things} that this text can show; not known")
    assert one.evidence[0].what == f"read: {things}"
    assert one.evidence[0].value.startswith(shown)


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("nvidia-public/b300-8-topo.txt", [ALL_OF_GPU, LINKS]),
        ("nvidia-smi/l40s-q.txt", []),
        ("nvidia-smi/h200-csv.txt", []),
        ("nvidia-smi/v100-4-page.md", []),
        ("hgx-h200-4gpu-vm/sysfs.tar.gz", [ALL_OF_GPU, LINKS]),
        ("amd-public/mi210-static.json", ["amd-smi static --json", "amd-smi metric --json"]),
    ],
)
def test_what_to_fetch_is_what_the_text_lacks(name: str, commands: list[str]) -> None:
    found = diagnosis(name)
    assert found.verdict == "cannot tell"
    fixes = [fix.command for fix in missing(found).fix]
    assert fixes[0] == "gputop snapshot -o node.json"
    tree = [command for command in fixes[1:] if command.startswith("tar ")]
    assert bool(tree) == (not name.endswith(".tar.gz"))
    assert [command for command in fixes[1:] if command not in tree] == commands


@pytest.mark.parametrize("name", ["hgx-h200-4gpu-live/snapshot.json", "hgx-h200-4gpu-vm"])
def test_a_node_of_which_all_was_read_is_healthy(name: str) -> None:
    found = diagnosis(name)
    assert (found.verdict, found.lacking) == ("healthy", ())


def test_a_text_without_variables_says_nothing_of_variables() -> None:
    silent = {"flag-costs", "flag-ignored", "device-order", "driver-not-answering", "driver-fails"}
    assert silent <= set(diagnosis("nvidia-public/b300-8-topo.txt").unexamined)
    assert silent <= set(diagnosis("hgx-h200-4gpu-live/snapshot.json").examined)
