"""Several outputs in one text, what stands around them, and texts that mean harm."""

from __future__ import annotations

import contextlib
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gputop.topology.model.format import Format
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.formats import NAMES
from gputop.topology.recorded.load import HEAD_BYTES, OTHERS, LoadedSnapshot, LoadError, load
from gputop.topology.recorded.sections import plain
from tests.support.cpu import within
from tests.support.places import RECORDINGS

FOLDER = RECORDINGS / "nvidia-smi"
TABLE = (FOLDER / "quadro-err-table.txt").read_text()
TOPO = (
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tPHB\t0-63\t0\t\tN/A\nGPU1\tPHB\t X \t0-63\t0\t\tN/A\n"
)
WRITES = "$ nvidia-smi topo -p2p w\n \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n"


def read(tmp_path: Path, text: str) -> LoadedSnapshot:
    path = tmp_path / "paste.txt"
    path.write_text(text)
    return load([str(path)])


def pair_of(node: NodeSnapshot) -> tuple[str | None, int | None, str | None]:
    first = node.machine.pairs[0]
    return first.ancestor, first.nvlinks_reported, first.p2p_write


def test_all_outputs_of_a_text_become_one_snapshot(tmp_path: Path) -> None:
    text = f"It hangs!\n$ nvidia-smi\n{TABLE}\n$ nvidia-smi topo -m\n{TOPO}\n{WRITES}\nAny idea?\n"
    loaded = read(tmp_path, text)
    node = loaded.snapshot
    assert [(gpu.address, gpu.name, gpu.cpu_affinity) for gpu in node.machine.gpus] == [
        ("0000:65:00.0", "Quadro P1000", "0-63"),
        ("0000:b3:00.0", "Quadro M4000", "0-63"),
    ]
    assert pair_of(node) == ("hostbridge", 0, "chipset not supported")
    assert node.source == ("paste.txt",)
    assert loaded.skipped == (
        ("paste.txt, lines 1, 33", "text that --from does not read"),
    )  # each with the number of its line


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
        lambda text: f"```\n{text}```\n",
        lambda text: text.expandtabs(8),
        lambda text: text.replace("\t", "\u00a0\u00a0"),
        lambda text: text.replace("\t", " | ").replace("GPU0 ", "| GPU0 "),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\x1b[4m" + text.replace("\nGPU0", "\x1b[0m\nGPU0", 1),
        lambda text: "x" * 99 + "\n" + "a log\n" * HEAD_BYTES + text,
        lambda text: "\n".join(line.split("\t0-63")[0] for line in text.splitlines()) + "\n",
        lambda text: "host:~$ nvidia-smi topo -m " + text.lstrip(),
    ],
    ids=["quoted", "fence", "blanks", "no-break", "pipes", "windows", "colours", "late", "bare",
         "prompt"],
)  # fmt: skip
def test_a_matrix_as_pages_mangle_it(tmp_path: Path, change: object) -> None:
    assert callable(change)
    node = read(tmp_path, change(TOPO)).snapshot
    assert len(node.machine.gpus) == 2
    assert {pair.ancestor for pair in node.machine.pairs} == {"hostbridge"}


def test_cells_without_blanks_between_them(tmp_path: Path) -> None:
    text = (
        "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0 X NODENODE 0-7\nGPU1 NODE X NV12 0-7\n"
        "GPU2 NODENV12 X 0-7\n"
    )
    node = read(tmp_path, text).snapshot
    cells = {(pair.src[-1], pair.dst[-1]): pair for pair in node.machine.pairs}
    assert (cells["0", "2"].ancestor, cells["2", "1"].nvlinks_reported) == ("node", 12)


def test_a_matrix_without_its_command_grants_nothing(tmp_path: Path) -> None:
    node = read(tmp_path, WRITES.partition("\n")[2]).snapshot
    assert {pair.p2p_write for pair in node.machine.pairs} == {None}
    assert "without its command" in node.assumptions[0]


def test_of_two_moments_the_first_counts(tmp_path: Path) -> None:
    loaded = read(tmp_path, f"{TOPO}\nlater\n{TOPO.replace('PHB', 'SYS')}")
    assert {pair.ancestor for pair in loaded.snapshot.machine.pairs} == {"hostbridge"}
    assert OTHERS in {why for _, why in loaded.skipped}
    same = read(tmp_path, f"{TOPO}\nlater\n{TOPO}")
    assert "another output of nvidia-smi topo -m; the first one is used" in {
        why for _, why in same.skipped
    }


def test_outputs_that_may_be_of_two_machines_are_named(tmp_path: Path) -> None:
    table = TABLE.replace("|   1  ", "|   x  ")
    said = read(tmp_path, f"{table}\n{TOPO}").snapshot.assumptions
    assert "different numbers of GPUs" in said[0]


def test_a_broken_section_is_named_with_its_line(tmp_path: Path) -> None:
    broken = TOPO.replace("GPU1\tPHB\t X", "GPU1\tPHB\tZZZ")
    with pytest.raises(LoadError, match=r"paste\.txt:\d+: broken nvidia-smi topo -m"):
        read(tmp_path, "hello\n\n" + broken)
    loaded = read(tmp_path, f"{broken}\n{TABLE}")
    assert len(loaded.snapshot.machine.gpus) == 2
    assert any("broken nvidia-smi topo -m" in why for _, why in loaded.skipped)


def test_the_rest_of_a_long_text_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.topology.recorded.kept.KEPT_BYTES", len(TOPO) + 3)
    loaded = read(tmp_path, f"{TOPO}a\nb\nc\n")
    assert loaded.skipped[-1][0] == "paste.txt, from line 5 on"
    assert "looked through for outputs of tools" in loaded.skipped[-1][1]


def test_lines_stay_lines() -> None:
    assert plain(b"a\r\n> b\rc\n>> d") == "a\nb\nc\nd"


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.stem)
def test_a_cut_or_doubled_text_is_read_or_refused(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    for cut in range(0, len(text), max(1, len(text) // 6)):
        with contextlib.suppress(LoadError):
            read(tmp_path, text[:cut] + "\n")
        with contextlib.suppress(LoadError):
            read(tmp_path, text[cut:])
    assert read(tmp_path, text + text).snapshot.machine.gpus


LINES = sorted({line for path in FOLDER.iterdir() for line in path.read_text().splitlines()})


@example(["GPU 0: x (UUID: GPU-1)", "  MIG a Device 0: (UUID: MIG-1)"] * 3)
@given(st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=60)), max_size=30))
def test_any_lines_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("any") / "paste.txt"
    path.write_text("\n".join(lines), encoding="utf-8", errors="replace")
    with contextlib.suppress(LoadError):
        load([str(path)])


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "line",
    ["GPU 0: x (UUID: GPU-1)\n", "GPU0 GPU1\n", "| NVIDIA-SMI 1  Driver Version: 1\n",
     "index, name\n", "GPU 0:\n Link 0: 1 GB/s\n", "GPU 00000000:00:00.0\n A : b\n",
     ">" * 90_000 + "\n", "\n"],
)  # fmt: skip
def test_a_long_text_of_one_line_ends(tmp_path: Path, line: str) -> None:
    with contextlib.suppress(LoadError):
        read(tmp_path, line * (300_000 // len(line)))


@pytest.mark.parametrize("name", NAMES)
def test_the_start_of_a_format_is_sought_line_by_line(name: str) -> None:
    form: Format = import_module(f"gputop.topology.recorded.formats.{name}").FORMAT
    if form.starts is None:
        return
    with within(2):  # a pattern whose blanks cross lines takes 15 s
        for filler in ("\n", " \n", " ", "\t", "# ", "| ", "1 "):
            assert list(form.starts.finditer(f"x{filler * 20_000}x")) == []


def test_lines_of_the_kernel_one_by_one_take_no_square(tmp_path: Path) -> None:
    """Each is an output of its own, which ends where another format begins."""
    path = tmp_path / "dmesg.txt"
    xid = "NVRM: Xid (PCI:0000:08:00): 31, pid={0}, name=chrome, Ch 00000023, intr 0. MMU Fault\n"
    path.write_text("\n".join(f"note {n}\n{xid.format(n)}" for n in range(10000)))
    with within(1.5):
        events = load([str(path)]).snapshot.kernel_events or ()
    assert [event.count for event in events] == [10000]
