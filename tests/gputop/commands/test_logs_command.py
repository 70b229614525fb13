"""`gputop log`: what it prints, its JSON and its exit codes."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from gputop.__main__ import run
from gputop.exits import ANSWERED, CANNOT_TELL, OWN_ERROR, USAGE
from tests.support.nccl.logs import RECORDED, lines_of
from tests.support.places import CAPTURES, RECORDINGS

LOG = str(RECORDED / "h200-p2pdis.log.gz")
TOPOLOGY = CAPTURES / "hgx-h200-4gpu-vm" / "nccl-topo.xml"


def test_it_says_what_the_log_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", LOG]) == ANSWERED
    out = capsys.readouterr().out
    assert "NCCL 2.28.9 for cuda13.0" in out
    assert "agrees with the log in all" in out
    assert "NVLink is there and a flag keeps NCCL from using it" in out
    assert "NCCL_P2P_DISABLE=1  line 77, 4 times" in out
    assert "SHM/direct/direct" in out
    assert "Ring: 2 channels × 20.0 GB/s PHB/PIX" in out
    assert "0000:00:06.0" in out
    assert max(map(len, out.splitlines())) <= 80


def test_json_has_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", LOG, "--json"]) == ANSWERED
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "gputop.log/1"
    assert set(found) >= {"gputop", "source", "assumptions"}
    assert found["source"] == ["h200-p2pdis.log.gz"]
    assert found["library"]["version"] == "2.28.9"
    assert found["agreement"]["differ"] == 0
    assert found["agreement"]["comparable"]
    (comm,) = found["communicators"]
    assert comm["transports"][0]["label"] == "SHM/direct/direct"
    assert {row["id"] for row in found["findings"]} == {"nvlink-unused-by-flag", "nvls-off-by-flag"}


def test_a_mixed_paste_on_stdin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = (RECORDINGS / "pasted" / "mixed.txt").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(mixed)))
    assert run(["log", "-"]) == ANSWERED
    out = capsys.readouterr().out
    assert "also read: NAME=VALUE (lines 4-5); lspci (lines 8-87); nvidia-smi topo -m" in out
    places = [out.index(title) for title in ("lost a message", "does not do its work", "ACS sends")]
    assert places == sorted(places)
    assert "line 48: ACSCtl: SrcValid+ TransBlk- ReqRedir+" in out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(mixed)))
    assert run(["log", "-", "--json"]) == ANSWERED
    found = json.loads(capsys.readouterr().out)
    acs = next(row for row in found["findings"] if row["id"] == "acs-redirect")
    assert [proof["line"] for proof in acs["proof"]] == [48, 62]
    assert acs["cause"]
    assert [row["tool"] for row in found["outputs"]][:2] == ["NAME=VALUE", "lspci"]


def test_outputs_without_a_finding_are_no_all_clear(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", str(RECORDINGS / "pasted" / "a100-switch-tree.txt")]) == ANSWERED
    out = capsys.readouterr().out
    assert "no rule finds a fault in what these outputs show; what they leave out is not" in out


def test_outputs_that_prove_nothing_say_what_to_paste(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "output.txt"
    file.write_text("hello\n# Collective test starting: all_reduce_perf\n")
    assert run(["log", str(file)]) == CANNOT_TELL
    said = capsys.readouterr().err
    assert "line 2: nccl-tests proves nothing here" in said
    assert "paste its whole output" in said


def test_a_node_on_stdin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (RECORDINGS / "pasted" / "a100-switch-tree.txt").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run(["topo", "--from", "-"]) == ANSWERED
    assert "GPU0\t X \tPIX\tPHB" in capsys.readouterr().out
    assert run(["topo", "--from", "-", "--from", "-"]) == USAGE
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hello\n\nworld\n")))
    assert run(["topo", "--from", "-"]) == CANNOT_TELL
    assert (
        "(line 1: hello; line 3: world); what helps: nvidia-smi topo -m" in capsys.readouterr().err
    )


def test_stdin_and_the_rules_of_another_version(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stdin:
        buffer = io.BytesIO(b"\n".join(lines_of("h200-default")))

    monkeypatch.setattr("sys.stdin", Stdin)
    assert run(["log", "-", "--nccl", "2.30.7"]) == ANSWERED
    assert "nccl-2.30.7" in capsys.readouterr().out


@pytest.mark.skipif(not TOPOLOGY.exists(), reason="needs shared/captures")
def test_a_node_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", LOG, "--from", str(TOPOLOGY)]) == ANSWERED
    assert "nccl-topo.xml" in capsys.readouterr().out


def test_a_node_with_other_gpus_is_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", LOG, "--demo", "pcie-l40s-8"]) == ANSWERED
    assert "not compared: the GPUs of the log are not those of this node" in capsys.readouterr().out


def pasted(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    class Stdin:
        buffer = io.BytesIO(text.encode())

    monkeypatch.setattr("sys.stdin", Stdin)


def test_text_without_the_librarys_head_is_answered_with_cause_proof_and_cure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "export NCCL_DEBUG=INFO\nRuntimeError: CUDA error: mapping of buffer object failed\n"
    pasted(monkeypatch, text)
    assert run(["log", "-", "--json"]) == ANSWERED
    document = json.loads(capsys.readouterr().out)
    (finding,) = document["findings"]
    assert finding["proof"] == [{"line": 2, "text": text.splitlines()[1]}]
    assert finding["sureness"] == "likely"
    assert "BAR1" in finding["cause"]
    assert finding["fix"]
    assert all(
        fix["text"] and set(fix) == {"text", "command", "needs_root"} for fix in finding["fix"]
    )
    assert document["next"] is None
    (variable,) = document["environment"]
    assert (variable["name"], variable["pasted"]) == ("NCCL_DEBUG", True)


def test_where_no_cause_is_named_the_next_step_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pasted(monkeypatch, "n1: Test NCCL failure common.cu:1204 'unhandled cuda error'\n")
    assert run(["log", "-"]) == ANSWERED
    out = capsys.readouterr().out
    assert "this log does not say why" in out
    assert "Next: the same run with NCCL_DEBUG=INFO" in out


def test_what_is_not_understood_is_quoted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pasted(monkeypatch, "hello\n\nthe coffee machine failed\n")
    assert run(["log", "-"]) == CANNOT_TELL
    said = capsys.readouterr().err
    assert "line 1: hello; line 3: the coffee machine failed" in said
    assert "NCCL_DEBUG=INFO" in said


def test_a_table_that_is_not_there_is_no_fault_of_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/package/absent.toml")

    monkeypatch.setattr("gputop.answers.log.known_signs", missing)
    assert run(["log", LOG]) == OWN_ERROR
    said = capsys.readouterr().err
    assert "absent.toml" in said
    assert LOG not in said


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = tmp_path / "bare.txt"
    bare.write_bytes(b"epoch 1 loss 0.3\n")
    broken = tmp_path / "broken.gz"
    broken.write_bytes(b"\x1f\x8bnot gzip at all")
    assert run(["log", str(bare)]) == CANNOT_TELL
    assert "NCCL_DEBUG=INFO" in capsys.readouterr().err
    assert run(["log", str(broken)]) == CANNOT_TELL
    assert "gzip" in capsys.readouterr().err
    assert run(["log", str(tmp_path / "missing")]) == USAGE
    assert "no such file" in capsys.readouterr().err
    assert run(["log", str(tmp_path)]) == CANNOT_TELL
    assert "not a regular file" in capsys.readouterr().err
    assert run(["log"]) == USAGE
    assert run(["log", LOG, "--nccl", "gloo"]) == USAGE


def test_files_of_the_kernel_and_devices_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "/proc/self/status"]) == CANNOT_TELL
    assert "size is 0 bytes" in capsys.readouterr().err
    opened: list[str] = []
    open_it = os.open

    def open_noted(path: str, flags: int, *rest: int) -> int:
        opened.append(str(path))
        return open_it(path, flags, *rest)

    monkeypatch.setattr(os, "open", open_noted)
    for arguments in (["log", "/dev/zero"], ["topo", "--from", "/dev/zero"]):
        assert run(arguments) == USAGE
        assert "/dev/zero: not a regular file" in capsys.readouterr().err
    assert "/dev/zero" not in opened


def test_from_rebuilds_the_node_of_a_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(b"\n".join(lines_of("h200-default")))
    assert run(["topo", "--from", str(log)]) == 0
    said = capsys.readouterr().out
    assert "GPU3" in said
    assert "NV" in said


def test_check_counts_what_a_log_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(
        b"n1:7:7 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-x to "
        b"9637892 bytes, error: No space left on device (28)\n"
    )
    assert run(["check", "--quick", "--from", str(log)]) == 2
    assert "/dev/shm is full" in capsys.readouterr().out


def test_hostile_text_is_harmless(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    head = b"v\x1b[31mm:1:1 [0] NCCL "
    evil = b"\x1b]0;owned\x07[bold red]\x00\xe2\x80\xae" + b"A" * 5000
    log = tmp_path / "evil.log"
    log.write_bytes(
        b"\n".join(
            [
                head + b"WARN " + evil,
                head + b"INFO NCCL_ALGO set by environment to " + evil,
                head + b"INFO Channel 00/0 : 0[0] -> 1[1] via NET/" + evil[:60] + b"/0",
                head + b"INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId "
                b"60 commId 0x1 - Init START",
                head + b"INFO === System : maxBw 9.. totalBw 1 ===",
                head + b"INFO + PCI[...] - GPU/0-60 (0)",
            ]
        )
    )
    for options in ([], ["--json"]):
        assert run(["log", str(log), *options]) == ANSWERED
        out = capsys.readouterr().out
        assert all(char.isprintable() or char == "\n" for char in out)
        assert "\u202e" not in out or options
