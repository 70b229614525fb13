"""Outputs of two machines in one text are told apart, and those of one machine stay together."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from gputop.topology.recorded.pasted import PastedText, read_pasted
from tests.support.places import RECORDINGS

TABLES = sorted((RECORDINGS / "nvidia-smi").glob("*-table.txt"))
MATRICES = sorted(
    [*(RECORDINGS / "nvidia-smi").glob("*topo.txt"), *(RECORDINGS / "nvidia-public").glob("*.txt")]
)
FELL = "{} {} kernel: NVRM: Xid (PCI:0000:{}:00): 79, pid=1234, GPU has fallen off the bus."
WHEN = "Nov  2 10:00:01"


def read(text: str) -> PastedText:
    found = read_pasted(text.encode(), "text")
    assert found is not None
    return found


def gpus(pasted: PastedText) -> list[tuple[str, str | None]]:
    return [(gpu.address, gpu.name) for gpu in pasted.snapshot.machine.gpus]


def pairs(paths: list[Path]) -> list[tuple[str, str]]:
    """Two recordings of different machines at a time, as texts."""
    texts = [path.read_text() for path in paths]
    return list(itertools.pairwise(texts))


@pytest.mark.parametrize(
    ("one", "other"), [*pairs(TABLES), *pairs(MATRICES)], ids=lambda text: str(len(text))
)
def test_two_outputs_of_one_tool_that_contradict_are_two_machines(one: str, other: str) -> None:
    both = read(f"{one}\nand the other one:\n\n{other}")
    assert gpus(both) == gpus(read(one))
    assert [gpus(more) for more in both.others] == [gpus(read(other))]


@pytest.mark.parametrize("path", [*TABLES, *MATRICES], ids=lambda path: path.name)
def test_the_same_output_twice_is_one_machine(path: Path) -> None:
    text = path.read_text()
    assert read(f"{text}\n\nand an hour later:\n\n{text}").others == ()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("root@a1:~# ", "root@a2:~# "),
        ("[me@a1 ~]$ ", "[me@a2 work]$ "),
        ("a1$ ", "a2$ "),
        ("(base) me@a1.site:~$ ", "(base) me@a2.site:~$ "),
    ],
)
def test_prompts_of_two_hosts_are_two_machines(first: str, second: str) -> None:
    table = TABLES[0].read_text()
    fell = FELL.format(WHEN, "a2", "3b").partition("kernel: ")[2]
    both = read(f"{first}nvidia-smi\n{table}\n{second}dmesg | grep NVRM\n[ 812.1] {fell}\n")
    assert [both.host, *(other.host for other in both.others)] == ["a1", "a2"]
    assert not both.snapshot.kernel_events
    assert both.others[0].snapshot.kernel_events
    same = read(f"{first}nvidia-smi\n{table}\n{first}dmesg | grep NVRM\n[ 812.1] {fell}\n")
    assert (same.host, same.others) == ("a1", ())
    assert same.snapshot.kernel_events


def test_kernel_lines_of_two_hosts_stay_in_their_places() -> None:
    lines = [
        FELL.format(WHEN, host, bus) for host, bus in (("a1", "3b"), ("a2", "43"), ("a1", "5e"))
    ]
    one = read("\n".join(lines))
    (other,) = one.others
    assert (one.host, other.host) == ("a1", "a2")
    assert [event.device for event in one.snapshot.kernel_events or ()] == [
        "0000:3b:00.0",
        "0000:5e:00.0",
    ]
    assert [event.device for event in other.snapshot.kernel_events or ()] == ["0000:43:00.0"]
    assert [line for line in other.sections[0].lines if line] == [lines[1]]
    assert other.sections[0].first + other.sections[0].lines.index(lines[1]) == 2


def test_the_last_line_counts_without_a_line_end() -> None:
    text = "\n".join(FELL.format(WHEN, "a1", bus) for bus in ("3b", "5e"))
    assert [event.device for event in read(text).snapshot.kernel_events or ()] == [
        "0000:3b:00.0",
        "0000:5e:00.0",
    ]


def test_a_container_is_no_host() -> None:
    table = TABLES[0].read_text()
    fell = FELL.format(WHEN, "a1", "3b")
    both = read(f"root@3f2a1b4c5d6e:/work# nvidia-smi\n{table}\nroot@a1:~# dmesg\n{fell}\n")
    assert both.others == ()
