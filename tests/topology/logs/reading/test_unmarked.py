"""Lines without the library's whole head, and settings that people paste."""

from __future__ import annotations

import io

import pytest

from gputop.topology.logs.reading import unmarked
from gputop.topology.logs.reading.pasted_settings import settings_in
from gputop.topology.logs.reading.read import read_log
from gputop.topology.logs.reading.signs import Signs
from gputop.topology.logs.report.report import LogReport
from gputop.topology.model.literals import literals
from gputop.topology.recorded.sought import Vocabulary

UNHEARD = ("literals",)

WARNING = "Cuda failure 'invalid device ordinal'"


class Pieces:
    """A stream that gives one piece at a time."""

    def __init__(self, pieces: list[list[str]]) -> None:
        self.left = iter(pieces)

    def read(self, size: int, /) -> bytes:
        return "".join(f"{line}\n" for line in next(self.left, [])).encode()


def read(*lines: str) -> LogReport:
    return read_log([line.encode() for line in lines], signs=Signs(["frobnicator \\d+ failed"]))


@pytest.mark.parametrize(
    ("head", "where"),
    [
        ("NCCL WARN ", None),
        ("> NCCL WARN ", None),
        ("[rank3]:NCCL WARN ", None),
        ("init.cc:57 NCCL WARN ", "init.cc:57"),
        ("> > misc/socket.cc:57 NCCL WARN ", "misc/socket.cc:57"),
        ("[1,0]<stdout>:n1:22:23 [0] init.cc:57 NCCL WARN ", "init.cc:57"),
        ("12: n1:22:23 [0] init.cc:57 NCCL WARN ", "init.cc:57"),
        ("7:  n1:22:23 [0] init.cc:57 (ncclInit) NCCL WARN ", "init.cc:57"),
        ("2026-11-22T10:00:00.1Z stderr F n1:22:23 [0] init.cc:57 NCCL WARN ", "init.cc:57"),
        ("n1:22:23 [0] init.cu:57 WARN ", "init.cu:57"),
        ("misc/utils.cu:57 WARN ", "misc/utils.cu:57"),
    ],
)
def test_a_warning_is_one_whatever_is_left_of_its_head(head: str, where: str | None) -> None:
    (note,) = read(head + WARNING).notes
    assert (note.level, note.text, note.where) == ("WARN", WARNING, where)


@pytest.mark.parametrize(
    "line",
    [
        "n1:22:23 [0] INFO NET : Using interface ib0:10.0.0.1<0>",
        "[0] INFO Ring 00 :    0   1   2",
        "NCCL INFO Ring 00 :    0   1   2",
    ],
)
def test_versions_that_do_not_name_themselves_are_read(line: str) -> None:
    assert read(line).library_lines == 1


@pytest.mark.parametrize(
    "line",
    ["[0] INFO training starts on GPU 3", "[GPU] WARN low battery", "foo.cu says WARN torch"],
)
def test_other_programs_have_levels_too(line: str) -> None:
    report = read(line)
    assert report.library_lines == 0
    assert report.empty


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("NCCL_P2P_DISABLE=1", {"NCCL_P2P_DISABLE": "1"}),
        ("export NCCL_IB_HCA='=mlx5_0:1'", {"NCCL_IB_HCA": "=mlx5_0:1"}),
        ('declare -x CUDA_VISIBLE_DEVICES="0,1"', {"CUDA_VISIBLE_DEVICES": "0,1"}),
        ("> RCCL_MSCCL_ENABLE=0", {"RCCL_MSCCL_ENABLE": "0"}),
        ("[1,3]<stdout>:NCCL_ALGO=Ring", {"NCCL_ALGO": "Ring"}),
        ("3: NCCL_ALGO=Ring", {"NCCL_ALGO": "Ring"}),
        ("$ NCCL_DEBUG=INFO NCCL_ALGO=Tree ./a -g 8", {"NCCL_DEBUG": "INFO", "NCCL_ALGO": "Tree"}),
        ("mpirun -np 8 -x NCCL_ALGO=Ring -x PATH ./a", {"NCCL_ALGO": "Ring"}),
        ("docker run -e NCCL_SHM_DISABLE=1 --env=HIP_VISIBLE_DEVICES=0 x",
         {"NCCL_SHM_DISABLE": "1", "HIP_VISIBLE_DEVICES": "0"}),
        ('os.environ["NCCL_P2P_LEVEL"] = "NVL"', {"NCCL_P2P_LEVEL": "NVL"}),
        ('    "NCCL_NET": "IB",', {"NCCL_NET": "IB"}),
        ("I tried NCCL_P2P_DISABLE=1 without luck", {}),
        ("root@n1:~# export NCCL_ALGO=Tree", {"NCCL_ALGO": "Tree"}),
        ("# export NCCL_P2P_DISABLE=1", {}),
        ("unhandled cuda error (run with NCCL_DEBUG=INFO for details)", {}),
        ("echo $NCCL_DEBUG", {}),
        ("NCCL_SOCKET_IFNAME: =eth0", {"NCCL_SOCKET_IFNAME": "=eth0"}),
        ('  - UCX_TLS: "rc,cuda"', {"UCX_TLS": "rc,cuda"}),
        ("NCCL_ALGO: the algorithms to take", {}),
    ],
)  # fmt: skip
def test_settings_are_taken_from_scripts_and_not_from_sentences(
    line: str, found: dict[str, str]
) -> None:
    settings = {name.decode(): value.decode() for name, value in settings_in(line.encode())}
    assert settings == found
    shown = {variable.name: variable for variable in read(line).environment}
    assert {name: variable.value for name, variable in shown.items()} == found
    assert all(variable.pasted and variable.line == 1 for variable in shown.values())


def test_what_the_library_read_counts_more_than_what_was_pasted() -> None:
    said = "n1:2:3 [0] NCCL INFO NCCL_ALGO set by environment to Ring"
    for lines in (("NCCL_ALGO=Ring", said), (said, "NCCL_ALGO=Ring")):
        (variable,) = read(*lines).environment
        assert not variable.pasted


def test_a_sign_needs_words_about_the_library_or_a_gpu() -> None:
    assert [
        note.line for note in read("frobnicator 3 failed", "GPU frobnicator 3 failed").notes
    ] == [2]


def test_general_words_need_the_library_itself() -> None:
    lines = ["torch: Too many open files", "NET/Socket: Too many open files"]
    report = read_log([line.encode() for line in lines], signs=Signs((), ["Too many open files"]))
    assert [note.line for note in report.notes] == [2]


def test_signs_are_found_where_chunks_of_a_file_meet() -> None:
    filler = b"step 1 loss 2.31\n" * 61_680
    line = b"GPU frobnicator 7 failed\n"
    for shift in range(0, 40, 3):
        text = filler + b"." * (16 + shift) + b"\n" + line + filler
        log = read_log(io.BytesIO(text), signs=Signs(["frobnicator \\d+ failed"]))
        assert [(note.line, note.text) for note in log.notes] == [(61_682, line.decode().strip())]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("Too many open files", [[{"Too many open files"}]]),
        ("[Cc]uda failure 7(?:00|02)\\b", [[{"uda failure 7"}]]),
        ("libnccl\\.so: gone", [[{"libnccl.so: gone"}]]),
        ("a+bcd?e", [[{"bc"}]]),
        ("(?:alpha|beta) \\d+", [[{"alpha", "beta"}]]),
        ("(?:alpha|beta)? gamma", [[{" gamma"}]]),
        ("(?!never) a .* words", [[{" words"}]]),
        ("alpha.*gamma", [[{"alpha"}, {"gamma"}]]),
        ("one thing|another", [[{"one thing"}], [{"another"}]]),
        ("\\d+ \\w+", [[{" "}]]),
        ("\\d+|word", []),
    ],
)
def test_the_texts_that_a_pattern_needs(pattern: str, texts: list[list[set[str]]]) -> None:
    found = [sorted(map(sorted, sets)) for sets in literals(pattern)]
    assert found == [sorted(map(sorted, sets)) for sets in texts]


def test_a_pattern_is_tried_where_all_that_it_needs_is_near() -> None:
    signs = Signs(["\\[rank\\d\\]: .*frobnicated", "Lost|Found"])
    for text, found in (
        (b"[rank0]: hello\n[rank1]: hello", set()),
        (b"[rank0]: hello\n[rank1]: it frobnicated", {b"frobnicated"}),
        (b"Found it", {b"Found"}),
    ):
        assert set(signs.present(Vocabulary(text))) == found


def test_a_pattern_without_a_text_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match="any line may match"):
        Signs(["\\d+|word"])


@pytest.mark.parametrize("head", ["", "> ", "Channel 00/0 : ", "> Channel 03 : "])
def test_connections_without_the_head_of_their_lines(head: str) -> None:
    (communicator,) = read(f"{head}9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA").communicators
    (transport,) = communicator.transports
    assert (transport.src, transport.dst, transport.label) == (9, 2, "NET/IB/0/GDRDMA")
    assert bool(transport.channels) == ("Channel" in head)
    assert transport.text == head.removeprefix("> ") + (
        "9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA"
    )


@pytest.mark.parametrize(
    "line",
    ["flight 9[a] -> 2[b] via NET/work", "9[a] -> 2[b] via NETWORK", "9 -> 2 via NET/IB/0"],
)
def test_other_programs_have_ways_too(line: str) -> None:
    assert not read(line).communicators


def test_a_system_block_needs_no_communicator() -> None:
    head = "n1:22:23 [0] NCCL INFO "
    log = read(
        f"{head}=== System : maxBw 48.0 totalBw 48.0 ===",
        f"{head}CPU/0-0 (1/2/-1)",
        f"{head}+ PCI[48.0] - GPU/0-68000 (8)",
    )
    assert not log.communicators
    assert [node.name for node in log.systems[0].nodes] == ["CPU/0-0", "GPU/0-68000"]


@pytest.mark.parametrize("most", [0, 300, 1 << 20])
@pytest.mark.parametrize("new", [2, 40])
def test_lines_that_come_again_say_the_same_whether_or_not_they_are_remembered(
    monkeypatch: pytest.MonkeyPatch, most: int, new: int
) -> None:
    monkeypatch.setattr(unmarked, "MOST_REMEMBERED", most)
    same = ["GPU frobnicator 7 failed", "RuntimeError: NCCL error in x", "NCCL_ALGO=Ring", "dull"]
    pieces = [[*same, *(f"GPU {piece} {at}" for at in range(new))] for piece in range(40)]
    report = read_log(Pieces(pieces), signs=Signs(["frobnicator \\d+ failed"]))
    assert [(note.text, note.line, note.count) for note in report.notes] == [
        (same[0], 1, 40), (same[1], 2, 40)
    ]  # fmt: skip
    assert [(found.name, found.count) for found in report.environment] == [("NCCL_ALGO", 40)]
    assert report.kinds == {"elsewhere": 40 * (1 + new), "sign": 40, "framework": 40, "setting": 40}


def test_a_line_of_progress_that_names_no_version_opens_none_when_it_comes_again() -> None:
    work = "WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=4, NumelOut=4)"
    line = f"[E ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught {work} CUDA Version:"
    report = read("one", "two", "three", *[line, "12.4"] * 3)
    assert [progress.work for progress in report.progress] == [3]
    assert report.versions.beside is None
