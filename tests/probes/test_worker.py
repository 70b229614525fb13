"""The real worker, under real interpreters."""

from __future__ import annotations

import ast
import io
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gputop.probes import catalog
from gputop.probes.answering import answer
from gputop.probes.protocol.messages import (
    Done,
    Failure,
    Hello,
    MeasuredValue,
    Message,
    WorkerRequest,
    decode,
    encode,
)
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.runner.client import WORKER
from gputop.probes.runner.interpreters import find_interpreter, inspect
from tests.device_kernels.made_up import MadeUpNode
from tests.support.probe_runs import run_probe

PROBES = WORKER.parent
SELF_TEST = WorkerRequest("p2p", params={"device": "cpu", "count": 3, "samples": 3})
QUICK_TEST = WorkerRequest("memory", params={"device": "cpu", "count": 1, "level": "quick"})
WITH_TORCH = WorkerRequest("gemm", params={"device": "cpu", "level": "quick"})
"""A probe that needs torch."""


def run(
    request: WorkerRequest, python: str = sys.executable, deadline_seconds: float = 90.0
) -> Outcome:
    return run_probe(request, python, lambda m: None, deadline_seconds, threading.Event())


def test_the_self_test_measures_every_pair() -> None:
    seen: list[Message] = []
    outcome = run_probe(SELF_TEST, sys.executable, seen.append, 90.0, threading.Event())
    assert (outcome.status, outcome.exit_code) == ("finished", 0), outcome
    assert outcome.hello is not None
    assert outcome.hello.device_kind == "cpu"
    assert outcome.hello.python.split(".")[0] == "3"
    assert outcome.hello.torch is None
    assert [d.key for d in outcome.hello.devices] == ["cpu:0", "cpu:1", "cpu:2"]
    latest = {(m.name, m.src, m.dst): m for m in outcome.latest()}
    assert len(latest) == 6 * 9 + 3 + 2, "of each pair; of two at once; by the host and by size"
    assert {m.device_kind for m in latest.values()} == {"cpu"}
    for (name, _, _), m in latest.items():
        if name == "bytes_arrive":
            assert (m.verdict, m.checked_bytes, m.wrong_bytes) == ("arrived", 1 << 20, 0)
        elif name != "can_access":
            assert m.value is not None
            assert m.minimum is not None
            assert m.maximum is not None
            assert 0 < m.minimum <= m.value <= m.maximum
            assert len(m.samples) == 3
    assert any(isinstance(m, MeasuredValue) for m in seen[: len(seen) // 2]), "not streamed"


def test_a_python_without_torch(bare_python: str) -> None:
    outcome = run(WITH_TORCH, bare_python)
    assert outcome.status == "no-torch"
    assert outcome.message == "This Python has no torch."


def answered(request: WorkerRequest) -> list[Message]:
    """What the worker answers, in this process: torch is imported once for all."""
    replies = io.BytesIO()
    answer(encode(request), replies)
    return [decode(line) for line in replies.getvalue().splitlines()]


def test_no_gpu_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    said = answered(WorkerRequest("gemm"))
    assert isinstance(said[-1], Failure)
    assert said[-1].error == "refused"
    assert said[-1].text.startswith("No GPU")
    assert not any(isinstance(message, MeasuredValue) for message in said)


def test_the_self_test_takes_no_gpu_where_there_is_one(nvidia_node: MadeUpNode) -> None:
    request = WorkerRequest("memory", params={"selftest": True, "level": "quick", "count": 1})
    found = nvidia_node.answers(request, "devices=2", counts=("calls.cuInit",))
    (hello,) = (message for message in found.said if isinstance(message, Hello))
    assert (hello.device_kind, [d.key for d in hello.devices]) == ("cpu", ["cpu:0"])
    assert found.counted["calls.cuInit"] == 0


def test_an_unknown_probe_is_reported() -> None:
    outcome = run(WorkerRequest("nonsense\x1b[2J"))
    assert outcome.status == "failed"
    assert "nonsense" in outcome.message
    assert "\x1b" not in outcome.message


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (WorkerRequest("p2p", ("0000:99:00.0",), {"device": "cpu"}), "0000:99:00.0"),
        (WorkerRequest("p2p", (), {"device": "cpu", "count": 1}), "2 GPUs"),
        (WorkerRequest("p2p", (), {"device": "cpu", "count": "many"}), "count"),
    ],
)
def test_what_cannot_be_done_is_refused(request_: WorkerRequest, word: str) -> None:
    last = answered(request_)[-1]
    assert isinstance(last, Failure)
    assert last.error == "refused"
    assert word in last.text


def speak(command: list[str], line: bytes, **more: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=line, capture_output=True, timeout=60, cwd="/", **more)  # type: ignore[call-overload,no-any-return]


def test_it_runs_bare_from_the_root_folder() -> None:
    command = [sys.executable, "-S", "-E", str(WORKER)]
    last = decode(speak(command, encode(WITH_TORCH)).stdout.splitlines()[-1])
    assert last == Failure("no-torch", "This Python has no torch.")
    assert isinstance(decode(speak(command, encode(QUICK_TEST)).stdout.splitlines()[-1]), Done)


@pytest.mark.parametrize("line", [b"", b"{}\n", b"\xff\xfe\n", b'{"v":1,"kind":"done"}\n'])
def test_a_bad_request_gets_an_answer(line: bytes) -> None:
    answer = speak([sys.executable, "-S", "-E", str(WORKER)], line)
    last = decode(answer.stdout)
    assert isinstance(last, Failure)
    assert last.error == "bad-request"
    assert answer.returncode == 2


def test_what_c_code_prints_stays_out_of_the_answers(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.puts(b'NCCL INFO from C')\n"
        "libc.fflush(None)\n"
        "os.write(1, b'written to descriptor 1\\n')\n"
        "print('printed by Python', flush=True)\n"
        "os.system('echo from a child')\n"
        "__version__ = '1.13.1'\n"
    )
    answer = speak(
        [sys.executable, str(WORKER)], encode(WITH_TORCH), env={"PYTHONPATH": str(tmp_path)}
    )
    messages = [decode(line) for line in answer.stdout.splitlines()]
    assert messages[-1] == Failure("refused", "torch 1.13.1 is too old: 2.1 is needed.")
    for text in (b"NCCL INFO from C", b"descriptor 1", b"printed by Python", b"from a child"):
        assert text in answer.stderr


def test_a_broken_torch_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open\\x1b[1m')\n")
    answer = speak(
        [sys.executable, str(WORKER)], encode(WITH_TORCH), env={"PYTHONPATH": str(tmp_path)}
    )
    last = decode(answer.stdout.splitlines()[-1])
    assert last == Failure("no-torch", "torch does not import: libcudart.so.12: cannot open")


def test_no_module_here_shadows_another(tmp_path: Path) -> None:
    """Under `worker.py` the folder of probes is not on sys.path."""
    (tmp_path / "torch.py").write_text(
        "import sys, os\n__version__ = '1.0'\n"
        "os.write(2, repr([p for p in sys.path if 'probes' in p]).encode())\n"
    )
    answer = speak(
        [sys.executable, str(WORKER)], encode(WITH_TORCH), env={"PYTHONPATH": str(tmp_path)}
    )
    assert b"[]" in answer.stderr


@pytest.mark.parametrize("path", sorted(PROBES.rglob("*.py")), ids=lambda p: p.stem)
def test_the_syntax_is_that_of_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


def old_pythons() -> list[str]:
    named = [shutil.which(f"python3.{minor}") for minor in (9, 10)]
    kept = sorted(Path.home().glob(".pyenv/versions/3.[91]*/bin/python3.[91]*"))
    found = {str(p) for p in (*named, *kept) if p and "config" not in str(p)}
    asked = [inspect(path, "a test") for path in sorted(found)]
    return [i.path for i in asked if (i.python_version or "").startswith(("3.9.", "3.10."))]


def test_it_runs_under_the_oldest_python_there_is() -> None:
    pythons = old_pythons()
    if not pythons:
        pytest.skip("no Python 3.9 or 3.10 here")
    everything = (
        "import importlib, runpy, sys\n"
        f"w = runpy.run_path({str(WORKER)!r})\n"
        f"w['_load_package']({str(PROBES)!r})\n"
        "for name in sys.argv[1:]: importlib.import_module('gputop_probes.' + name)\n"
        "assert not {'torch', 'textual'} & sys.modules.keys()\n"
    )
    names = [
        ".".join(path.relative_to(PROBES).with_suffix("").parts)
        for path in PROBES.rglob("*.py")
        if path.stem != "__init__"
    ]
    for python in pythons:
        subprocess.run([python, "-S", "-E", "-c", everything, *names], check=True, timeout=60)
        assert run(QUICK_TEST, python).status == "finished"
        if inspect(python, "a test").torch_version is None:
            assert run(WITH_TORCH, python).status == "no-torch"


def test_an_old_python_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "python"
    answer = {"python": "3.8.18", "executable": str(path), "prefix": "/x", "torch": "2.4.1"}
    path.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    path.chmod(0o755)
    assert inspect(str(path), "PATH").why_not == "Python 3.8.18 is older than 3.9"


def test_interpreters_are_found_without_importing_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare_python: str
) -> None:
    site = tmp_path / "site" / "torch"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text("raise SystemExit('imported')\n")
    (site / "version.py").write_text("__version__ = '2.9.1+cu130'\ncuda: object = '13.0'\n")
    gpu_build = tmp_path / "gpu" / "bin" / "python"
    gpu_build.parent.mkdir(parents=True)
    gpu_build.write_text(f'#!/bin/sh\nPYTHONPATH={site.parent} exec "{sys.executable}" -S "$@"\n')
    gpu_build.chmod(0o755)
    monkeypatch.setattr(sys, "executable", bare_python)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "nothing"))
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "gpu"))
    choice = find_interpreter()
    assert choice.chosen is not None
    assert choice.chosen.path == str(gpu_build)
    assert (choice.chosen.torch_version, choice.chosen.cuda) == ("2.9.1+cu130", "13.0")
    assert [i.why_not for i in choice.looked_at] == [
        "has no torch", "is not a program that can be run", None,
    ]  # fmt: skip
    first, *others = choice.sentences()
    assert str(gpu_build) in first
    assert "CONDA_PREFIX" in first
    assert len(others) == 2
    assert find_interpreter(bare_python).chosen is None


MEASURED_SECONDS = {
    "quick": {
        "launch": (5, 7), "host": (2, 4), "memory": (1, 2.2), "p2p": (0.8, 2.5), "gemm": (4, 6.5),
        "p2p-concurrent": (0.8, 2.5),
        "collectives": (7, 8.5), "train-step": (7.5, 12),
        "nccl": (5.5, 7),
    },
    "normal": {
        "launch": (14, 18), "host": (9, 13), "memory": (1.5, 3), "p2p": (7, 10.5),
        "gemm": (9, 12),
        "p2p-concurrent": (3, 7), "collectives": (13, 16), "train-step": (13, 16),
        "nccl": (5.5, 7),
    },
}  # fmt: skip
"""On four H200 with the start, torch in the page cache or not: shortest and longest. Those of
copies are of two H200, where they need no torch, with what four took longer before; those of the
train step at the normal level were 9 and 11 before two layouts of about 2.5 s each were added."""


def test_a_probe_says_what_it_costs() -> None:
    for level, by_name in MEASURED_SECONDS.items():
        for name, (shortest, longest) in by_name.items():
            spec = catalog.load(name).SPEC
            assert spec.name == name
            seconds = spec.estimate_seconds(4, level)
            assert 0.8 * shortest < seconds < 1.25 * longest, (name, level)
    for name in catalog.NAMES:
        spec = catalog.load(name).SPEC
        cost = [spec.estimate_seconds(4, level) for level in ("quick", "normal", "full")]
        assert cost == sorted(cost), name
        assert spec.deadline_seconds(8) > 5 * spec.estimate_seconds(8)
    with pytest.raises(KeyError):
        catalog.load("os")
