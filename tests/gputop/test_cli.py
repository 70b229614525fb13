"""The plain commands: exit codes, stdout for documents alone, one line for every refusal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.support.command import gputop
from tests.support.places import RECORDINGS, ROOT, TESTS

RECORDING = str(RECORDINGS / "hgx-h200-4gpu-vm")


@pytest.mark.parametrize(
    "arguments",
    [
        ("bogus",),
        ("topo", "--format", "poster"),
        ("topo", "--demo", "no-such-node"),
        ("topo", "--from", "/nonexistent"),
        ("topo", "--from", ""),
        ("topo", "--from", RECORDING, "--demo", "hgx-h100-8"),
        ("probe", "no-such-probe"),
        ("--bogus",),
    ],
)
def test_wrong_usage_is_64(arguments: tuple[str, ...]) -> None:
    done = gputop(*arguments)
    assert done.returncode == 64, done
    assert done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_an_unusable_file_is_3(tmp_path: Path) -> None:
    path = tmp_path / "x\x1b[31m.json"
    path.write_text("{")
    done = gputop("snapshot", "--from", str(path))
    assert done.returncode == 3
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "\x1b" not in done.stderr


def test_demos_are_listed() -> None:
    done = gputop("--demo")
    assert done.returncode == 0
    assert "hgx-h100-8" in done.stdout


def test_a_snapshot_is_one_document_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    assert gputop("snapshot", "--demo", "sick-h100-8", "-o", str(path)).returncode == 0
    document = json.loads(path.read_text())
    assert document["schema"] == "gputop.snapshot/1"
    assert document["source"] == ["demo sick-h100-8"]
    again = gputop("snapshot", "--from", str(path), "--json")
    assert json.loads(again.stdout)["machine"] == document["machine"]


@pytest.mark.parametrize("form", ["matrix", "tree", "dot", "graphml", "svg", "json"])
def test_every_form_of_topo(form: str) -> None:
    done = gputop("topo", "--demo", "hgx-h100-8", "--format", form)
    assert done.returncode == 0, done.stderr
    assert "GPU" in done.stdout
    if form == "json":
        document = json.loads(done.stdout)
        assert document["schema"] == "gputop.topo/1"
        assert {"gputop", "source", "assumptions"} <= document.keys()


def test_topo_of_the_recording_is_what_nvidia_smi_printed() -> None:
    printed = (Path(RECORDING) / "nvidia-smi-topo-m.txt").read_text()
    printed = printed.replace("\x1b[4m", "").replace("\x1b[0m", "")
    done = gputop("topo", "--from", RECORDING)
    cells = [line.split("\t") for line in done.stdout.splitlines()[:5]]
    assert cells == [line.split("\t") for line in printed.splitlines()[:5]]


def test_redaction_takes_the_uuid_out() -> None:
    plain = json.loads(gputop("snapshot", "--demo", "dgx-1v").stdout)
    done = gputop("snapshot", "--demo", "dgx-1v", "--redact")
    for gpu in plain["machine"]["gpus"]:
        assert gpu["uuid"] not in done.stdout
        assert gpu["address"] in done.stdout


def test_without_a_gpu_there_is_nothing_to_measure() -> None:
    fakes = str(TESTS / "fakes")
    done = gputop("probe", "p2p", PYTHONPATH=fakes, GPUTOP_FAKE_NVML="absent")
    assert done.returncode == 3
    assert "no GPU to measure" in done.stderr


def test_a_python_without_torch_is_reported(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    python.chmod(0o755)
    done = gputop("probe", "gemm", "--selftest", "--python", str(python))
    assert done.returncode == 3
    assert "torch" in done.stderr


def test_probes_are_listed_with_their_cost() -> None:
    done = gputop("probe", "--list")
    assert done.returncode == 0
    assert "p2p" in done.stdout
    assert json.loads(gputop("probe", "--list", "--json").stdout)["schema"] == "gputop.probes/1"


def test_ctrl_c_ends_the_worker_and_says_so() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gputop", "probe", "p2p", "--selftest"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = psutil.Process(process.pid)
    end = time.monotonic() + 60
    below: list[psutil.Process] = []
    while time.monotonic() < end and not any(_is_worker(process) for process in below):
        time.sleep(0.01)
        below = seen.children(recursive=True)
    assert below
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Cancelled" in said
    assert "Traceback" not in said
    assert not [
        process for process in below if process.is_running() and process.status() != "zombie"
    ]


def _is_worker(process: psutil.Process) -> bool:
    try:
        # The keeper names the worker too, as its argument; the worker runs it.
        return any(word.endswith("worker.py") for word in process.cmdline()[1:2])
    except psutil.Error:
        return False


@pytest.mark.parametrize(
    ("arguments", "end", "code"),
    [
        ("flags --all", "| head -1", 0),
        ("snapshot --demo hgx-h100-8", ">&-", 0),
        ("--version", "> /dev/full", 3),
        ("--bogus", "2> /dev/full", 64),
        ("explain --demo hgx-h100-8", "> /dev/full", 3),
        ("topo --from -", "<&-", 3),
        ("--demo hgx-h100-8", "<&-", 64),
        ("probe p2p --quick --demo sick-h100-8", "2>&-", 1),
    ],
)
def test_an_output_that_cannot_be_written_is_no_fault_of_ours(
    arguments: str, end: str, code: int
) -> None:
    if "/dev/full" in end and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    line = f"{shlex.quote(sys.executable)} -m gputop {arguments} {end}"
    status = "exit ${PIPESTATUS[0]}"
    done = subprocess.run(
        ["bash", "-c", f"{line}; {status}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done
    assert "our fault" not in done.stderr
    assert "Traceback" not in done.stderr


def test_an_answer_is_whole_where_nobody_reads_the_messages_beside_it() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("a driver answers here, and nothing may be left to say")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "gputop", "snapshot"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=writing,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema"] == "gputop.snapshot/1"


def test_a_reason_of_two_sources_is_reported_once() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("a driver answers here")
    lines = gputop("snapshot").stderr.splitlines()
    reasons = [line.partition(": ")[2] for line in lines]
    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize("command", ["flags", "flags NCCL_P2P_DISABLE", "explain", "explain 0 1"])
def test_an_error_that_is_expected_is_a_sentence_and_not_our_fault(command: str) -> None:
    done = gputop(*command.split(), "--demo", "hgx-h100-8", "--set", "CUDA_VISIBLE_DEVICES=")
    assert done.returncode == 3, done
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
