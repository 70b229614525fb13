"""`gputop probe` as it is typed: every probe through the self-test, lists, wrong usage."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from gputop.__main__ import run as run_here
from gputop.answers import probe
from gputop.answers.measured import worst
from gputop.measuring.attended import Attended
from gputop.measuring.planning import plan
from gputop.measuring.state import ProbeRun
from gputop.probes import catalog
from gputop.probes.protocol.messages import WorkerRequest
from gputop.probes.runner.client import Session
from gputop.topology.model.machine import Gpu, Machine
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from tests.grid import share
from tests.support.command import gputop, gputop_here
from tests.support.nccl.rank_runs import made_up
from tests.support.places import ROOT

TWO = Machine(
    gpus=tuple(Gpu(address=f"0000:0{n}:00.0", vendor="nvidia", index=n) for n in range(2))
)
DOCUMENT_KEYS = {
    "schema", "gputop", "source", "assumptions", "probe", "level", "gpus", "status", "message",
    "elapsed_seconds", "interpreter", "versions", "measurements", "notes", "four_numbers",
    "patterns",
}  # fmt: skip


def check_run(run: dict[str, Any]) -> None:
    """One probe's answer has the shape that the schema promises."""
    assert set(run) >= DOCUMENT_KEYS
    assert run["schema"] == "gputop.probe/1"
    assert run["status"] == "finished", run["message"]
    assert run["measurements"]
    fields = {*Measurement.__struct_encode_fields__, "expected"} - {"gaps"}
    for figure in run["measurements"]:
        assert set(figure) >= fields
        assert figure["device_kind"] == "cpu"
        assert figure["expected"] is None
        assert figure["value"] is None or figure["value"] >= 0
        assert figure["method"]


def test_a_probe_alone_gives_its_own_document(tmp_path: Path) -> None:
    done = gputop(
        "probe", "nccl", "--selftest", "--quick", "--json",
        seconds=300, XDG_STATE_HOME=str(tmp_path), **made_up(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert (run["probe"], run["level"]) == ("nccl", "quick")
    check_run(run)
    assert not any(tmp_path.iterdir()), "a self-test is not kept in the history"


def test_without_a_name_all_probes_are_planned() -> None:
    planned = plan((), Machine(), selftest=True)
    assert {step.request.probe for step in planned.steps} == set(catalog.NAMES)


RANKS = ("launch", "collectives", "train-step", "nccl")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="this Python has no torch")
@pytest.mark.parametrize("slow", share([((),), (("gemm",),)], 2))
def test_many_probes_give_one_document(tmp_path: Path, slow: tuple[str, ...]) -> None:
    """The command runs ranks in test_nccl.py; these probes differ from nccl by their steps."""
    names = [name for name in catalog.NAMES if name not in (*RANKS, "gemm")] + [*slow]
    done = gputop("probe", *names, "--selftest", "--quick", "--json", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "gputop.probe/1"
    assert {run["probe"] for run in document["runs"]} == set(names)
    for run in document["runs"]:
        assert run["level"] == "quick"
        check_run(run)
    arrived = {
        figure["verdict"]
        for run in document["runs"]
        for figure in run["measurements"]
        if figure["quantity"] == "bytes_arrive"
    }
    assert arrived == {"arrived"}
    assert not any(tmp_path.iterdir()), "a self-test is not kept in the history"


def test_people_get_at_most_80_columns_and_need_not_read_the_messages() -> None:
    command = f"{sys.executable} -m gputop probe p2p p2p-concurrent --selftest --quick 2>&-"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "one way, GB/s" in done.stdout
    assert "2 of 2 probes finished" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_the_list_fits_and_names_every_probe() -> None:
    done = gputop_here("probe", "--list")
    assert done.returncode == 0
    assert all(name in done.stdout for name in catalog.NAMES)
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    document = json.loads(gputop_here("probe", "--list", "--json").stdout)
    assert {spec["name"] for spec in document["probes"]} == set(catalog.NAMES)
    assert all(entry["seconds"]["quick"] > 0 for entry in document["estimates"])


@pytest.mark.parametrize(
    ("machine", "source", "counts"),
    [(None, [], {2, 4, 8}), (TWO, ["live"], {2})],
)
def test_a_list_says_which_machine_its_costs_are_for(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    machine: Machine | None,
    source: list[str],
    counts: set[int],
) -> None:
    node = NodeSnapshot(taken_at=0.0, machine=machine or Machine())
    monkeypatch.setattr("gputop.answers.probe.settle", lambda feed: node)
    probe.LISTED.ask(probe.ListRequest(names=("memory",), as_json=True))
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == source
    assert {entry["gpus"] for entry in document["estimates"]} == counts


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("p2p", "--quick", "--full"), "not both"),
        (("nothing",), "no probe 'nothing'"),
        (("p2p", "--set", "NCCL_DEBUG=INFO"), "for the probe nccl"),
        (("p2p", "--logs", "x"), "for the probe nccl"),
        (("nccl", "--trace"), "for the probe p2p"),
        (("--list", "--history"), "not both"),
        (("memory", "--deadline", "nan"), "number of seconds"),
        (("memory", "--python", ""), "--python is empty"),
        (("host", "--selftest", "--gpus", "0"), "measures no GPU"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], word: str) -> None:
    done = gputop_here("probe", *arguments, "--selftest")
    assert done.returncode == 64
    assert word in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("p2p", "--nccl-lib", "torch"), "--nccl-lib is for the probes nccl and collectives"),
        (("nccl", "--selftest", "--nccl-lib", "torch"), "--selftest uses torch on the CPU, and"),
        (("--nccl-lib", "/x.so", "--demo", "hgx-h100-8"), "--demo simulates, and loads no library"),
    ],
)
def test_a_library_that_nothing_would_load_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert run_here(["probe", *arguments]) == 64
    told = capsys.readouterr()
    assert said in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)


def test_a_path_that_is_no_python_is_reported_once() -> None:
    done = gputop("probe", "memory", "nccl", "--selftest", "--quick", "--python", "/nowhere/python")
    assert done.returncode == 3
    assert done.stderr.count("/nowhere/python") == 1


def test_without_a_folder_for_its_files_a_probe_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", full_disk)
    request = WorkerRequest("nccl", params={"device": "cpu"})
    with Session(sys.executable, threading.Event(), torch=True) as session:
        outcome = session.run(request, lambda message: None, 5.0)
    assert outcome.status == "failed"
    assert "TMPDIR" in outcome.message


def full_disk() -> str:
    """What tempfile.gettempdir does where it can write nowhere."""
    raise FileNotFoundError(2, "No usable temporary directory found")


def test_ctrl_c_ends_everything_and_keeps_what_was_measured() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gputop", "probe", "--selftest", "--json"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Probes run under"):
            break
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        below = psutil.Process(process.pid).children(recursive=True)
        if any("worker.py" in " ".join(child.cmdline()) for child in below):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    statuses = {run["status"] for run in json.loads(out)["runs"]}
    assert "cancelled" in statuses
    assert statuses <= {"finished", "cancelled"}
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive


def test_what_is_broken_counts_more_than_what_could_not_be_told() -> None:
    assert worst([0, 2, 3, 1]) == 2
    assert worst([0, 3, 1]) == 3
    assert worst([0, 2, 130, 3]) == 130
    assert worst([0]) == 0


def test_a_second_interrupt_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    attended = Attended(plan(("memory",), Machine(), selftest=True))

    def driver_call_that_never_ends() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(attended, "_run", driver_call_that_never_ends)
    before = signal.getsignal(signal.SIGINT)
    assert list(attended.ends()) == []
    assert attended.interrupted
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_while_a_result_is_printed_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attended = Attended(plan(("memory", "host"), Machine(), selftest=True))
    results = list(attended._plan.steps)

    def run() -> None:
        for result in results:
            attended._events.put(result)
        attended._events.put(None)

    monkeypatch.setattr(attended, "_run", run)
    printed: list[ProbeRun] = []
    for ended in attended.ends():
        if not printed:
            signal.raise_signal(signal.SIGINT)
        printed.append(ended)
    assert printed == results
    assert attended.interrupted


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (
            ("--quick", "--demo", "sick-h100-8"),
            "▼ 3 of 6 probes low, simulated: GPU3 has 16 of 18 NVLinks up; GPU3 runs at PCIe gen5 "
            "x8 instead of gen5 x16",
        ),
        (
            ("p2p", "--quick", "--demo", "sick-h100-8"),
            "▼ p2p low, simulated: GPU3 has 16 of 18 NVLinks up",
        ),
        (("--quick", "--demo", "hgx-h100-8"), "✓ 5 probes, simulated: nothing low"),
    ],
)
def test_the_first_line_says_what_is_low_and_why(arguments: tuple[str, ...], first: str) -> None:
    done = gputop_here("probe", *arguments)
    assert " ".join(done.stdout.partition("\n\n")[0].split()) == first
    assert done.returncode == ("low" in first.split(",")[0])
