"""First use: fresh interpreters, what they answer, that they end, and where caches lie."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from gputop.probes.catalog.launch import first_use
from gputop.probes.catalog.launch import probe as launch
from gputop.probes.catalog.launch.first_use import FirstUse
from gputop.probes.catalog.launch.probe import caches
from gputop.probes.protocol.messages import (
    MeasuredValue,
    Message,
    Note,
    WorkerRequest,
    decode,
    encode,
)
from gputop.probes.protocol.spec import ProbeStopped
from gputop.probes.runner import children
from tests.probes.catalog.launch.compiling_torch import made_torch
from tests.support.places import ROOT

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="no torch")


def run(**params: object) -> list[Message]:
    said: list[Message] = []
    request = WorkerRequest("launch", params={"device": "cpu", "count": 2, **params})
    launch.run(request, said.append)
    assert [decode(encode(message)) for message in said] == said
    return said


def figures(said: list[Message]) -> dict[str, MeasuredValue]:
    return {m.variant: m for m in said if isinstance(m, MeasuredValue)}


def test_quick_on_the_host() -> None:
    found = figures(run(level="quick"))
    assert found.keys() == {"import torch", "first kernel", "first matmul", "empty kernel"}
    for figure in found.values():
        assert figure.value is not None
        assert 0 < figure.value < 60
        assert (figure.name, figure.unit, figure.device_kind) == ("first_use", "s", "cpu")
        assert figure.why is None
    assert found["import torch"].src == ""
    assert found["first matmul"].src == "cpu:0"
    assert found["first matmul"].details["steady_us"] > 0
    assert found["import torch"].value > found["empty kernel"].value  # type: ignore[operator]


def test_normal_compiles_in_a_private_folder_and_names_the_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, seen = tmp_path / "folder", tmp_path / "seen"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(made_torch(tmp_path / "made")))
    monkeypatch.setenv("SEEN", str(seen))
    said = run(level="normal", folder=str(folder), compile_backend="made-up")
    found = figures(said)
    assert "first scaled_dot_product_attention" in found
    assert seen.read_text() == "made-up, False\nmade-up, True\n", "a cache, empty and full"
    compiled = [found[f"torch.compile, {cache}"] for cache in ("empty cache", "full cache")]
    for figure in compiled:
        assert figure.value is not None
        assert figure.value > figure.details["steady_us"] / 1e6
    assert "torch.compile" not in found
    assert list(folder.iterdir()) == []
    (note,) = [m for m in said if isinstance(m, Note) and m.topic == "caches"]
    assert {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH"} <= {
        cache["variable"] for cache in note.details["caches"]
    }


def added(*steps: str) -> dict[str, dict[str, Any]]:
    # In this process: a fresh interpreter with a real torch is what test_quick_on_the_host has.
    plan = {
        "cpu": True,
        "indices": [0],
        "steps": ["import", *steps],
        "backend": "eager",
        "started": 0.0,
    }
    found = {answer["variant"]: answer for answer in FirstUse(plan).answers()}
    assert not [answer for answer in found.values() if "why" in answer]
    return found


def test_what_normal_adds_to_quick_runs_with_torch() -> None:
    assert list(added("dtypes", "attention")) == [
        "import torch",
        "first matmul, float16",
        "first matmul, float32",
        "first scaled_dot_product_attention",
    ]


@pytest.mark.grid  # a test above compiles with a made-up torch; the real compiler takes 4 s
def test_normal_compiles_with_torch() -> None:
    compiled = added("compile")["torch.compile"]
    assert compiled["seconds"] > compiled["details"]["steady_us"] / 1e6


def test_no_compile_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch._Fresh, "measure", lambda *rest, **more: None)
    (note,) = [m for m in run(compile_backend="eager") if isinstance(m, Note) and
               m.topic == "compile"]  # fmt: skip
    assert "no private folder" in note.text


def speaking(tmp_path: Path, text: str) -> list[str]:
    script = tmp_path / "child.py"
    script.write_text(text)
    return [sys.executable, "-S", str(script)]


def test_a_child_that_hangs_is_ended(tmp_path: Path) -> None:
    command = speaking(tmp_path, "import time\nprint('{}', flush=True)\ntime.sleep(600)\n")
    before = psutil.Process().children()
    said = children.answers(command, os.environ, 1.0)
    assert next(said) == {}
    with pytest.raises(ProbeStopped) as caught:
        next(said)
    assert caught.value.error == "timed-out"
    assert psutil.Process().children() == before


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("print('no answer')", "no answer"),
        ("print('[1]')", "no answer"),
        ("raise SystemExit('out of \\x1b[2Jluck')", "luck"),
        ("import os\nos.kill(os.getpid(), 11)", "SIGSEGV"),
        ("print('x' * 200000)", "no line"),
    ],
)
def test_a_child_that_fails_says_how(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(ProbeStopped, match=word) as caught:
        list(children.answers(speaking(tmp_path, text), os.environ, 20.0))
    assert caught.value.error == "failed"
    assert "\x1b" not in str(caught.value)


PARENT = """
import json, os, sys, time
from gputop.probes.runner import children
plan = json.dumps({"cpu": True, "indices": [0], "steps": ["import"], "started": time.monotonic()})
command = [sys.executable, sys.argv[1], str(os.getpid()), plan]
for answer in children.answers(command, os.environ, 60): print(answer, flush=True)
"""


def test_the_fresh_interpreter_dies_with_its_parent(tmp_path: Path) -> None:
    # A torch that never finishes importing: the child is in the middle of its work when it must go.
    (tmp_path / "torch.py").write_text("import os, time\nos.write(2, b'x')\ntime.sleep(600)\n")
    script = Path(first_use.__file__)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with subprocess.Popen([sys.executable, "-c", PARENT, str(script)], env=environment) as parent:
        until = time.monotonic() + 60
        below: list[psutil.Process] = []
        while not below and time.monotonic() < until:
            below = psutil.Process(parent.pid).children()
            time.sleep(0.01)
        assert below
        while str(script) not in " ".join(below[0].cmdline()) and time.monotonic() < until:
            time.sleep(0.01)
        parent.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive


class ScriptedCuda:
    """torch.cuda, and torch round it, with a clock that every call moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.cuda = self
        self.version = type("version", (), {"hip": None})
        self.uint8 = "uint8"
        self.opened: list[int] = []
        self.launched = 0
        monkeypatch.setattr(
            "gputop.probes.catalog.launch.first_use.time.perf_counter", lambda: self.now
        )

    def init(self) -> None:
        self.now += 0.2

    def device(self, index: int) -> Any:
        return open(os.devnull)

    def empty(self, *shape: int, **more: Any) -> None:
        if "device" in more:
            self.opened.append(int(more["device"][-1]))
            self.now += 0.5 / len(self.opened)
        if more.get("pin_memory"):
            raise RuntimeError("CUDA error: out of memory\nsome more")

    def synchronize(self, index: int) -> None:
        self.now += 1e-6 * self.launched
        self.launched = 0

    def _sleep(self, cycles: int) -> None:
        self.launched += 1
        self.now += 3e-6

    def CUDAGraph(self) -> Any:  # noqa: N802
        scripted = self

        class Graph:
            def replay(self) -> None:
                scripted.launched += 100
                scripted.now += 5e-6

        return Graph()

    def graph(self, graph: object) -> Any:
        return open(os.devnull)


def answers_of(monkeypatch: pytest.MonkeyPatch, *steps: str) -> list[dict[str, Any]]:
    fresh = FirstUse({"cpu": False, "indices": [0, 1], "steps": list(steps), "backend": ""})
    fresh._torch = ScriptedCuda(monkeypatch)
    return list(fresh.answers())


def test_each_context_is_timed_after_the_library_came_up(monkeypatch: pytest.MonkeyPatch) -> None:
    init, first, second = answers_of(monkeypatch, "contexts")
    assert (init["variant"], init["seconds"]) == ("CUDA init", pytest.approx(0.2))
    assert (first["index"], first["seconds"]) == (0, pytest.approx(0.5))
    assert (second["index"], second["seconds"]) == (1, pytest.approx(0.25))


def test_what_a_launch_costs_alone_and_in_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    empty, graph = answers_of(monkeypatch, "empty", "graph")
    assert empty["details"]["steady_us"] == pytest.approx(3.0)
    assert empty["details"]["back_to_back_us"] == pytest.approx(4.0)
    assert empty["details"]["launch_and_wait_us"] == pytest.approx(4.0)
    assert graph["details"]["replay_us"] == pytest.approx(105.0)
    assert graph["details"]["steady_us"] == pytest.approx(1.05)


def test_what_a_step_cannot_do_it_says_and_the_next_one_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pinned, empty = answers_of(monkeypatch, "pinned", "empty")
    assert pinned["why"].startswith("RuntimeError: CUDA error: out of memory")
    assert "seconds" not in pinned
    assert empty["variant"] == "empty kernel"


MOUNTS = """\
22 1 0:20 / / rw - overlay overlay rw
23 22 0:21 / /tmp rw shared:1 - tmpfs tmpfs rw
24 22 8:1 / /home/a\\040b rw - nfs4 server:/home rw
"""


def test_where_caches_lie_and_whether_they_last() -> None:
    environment = {
        "HOME": "/home/a b",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",
        "TRITON_HOME": "/opt",
        "CUDA_CACHE_DISABLE": "1",
    }
    found = {c.variable: c for c in caches(environment, is_hip=False, mounts=MOUNTS)}
    inductor, triton = found["TORCHINDUCTOR_CACHE_DIR"], found["TRITON_CACHE_DIR"]
    cuda = found["CUDA_CACHE_PATH"]
    assert (inductor.filesystem, inductor.is_set) == ("tmpfs", True)
    assert "gone with a restart" in inductor.line
    assert (triton.path, triton.filesystem) == ("/opt/.triton/cache", "overlay")
    assert "gone with the container" in triton.line
    assert (cuda.path, cuda.filesystem, cuda.ephemeral) == (
        "/home/a b/.nv/ComputeCache",
        "nfs4",
        None,
    )
    assert cuda.off == "CUDA_CACHE_DISABLE"
    assert "AMD_COMGR_CACHE_DIR" in {c.variable for c in caches({}, is_hip=True)}
    unknown = caches(environment, is_hip=False, mounts="")[0]
    assert (unknown.filesystem, unknown.ephemeral) == (None, None)


def test_the_eager_layer_gives_every_weight_a_gradient() -> None:
    import torch

    layer = first_use._Layer(torch, "cpu")
    given = torch.zeros(1, first_use._TOKENS, first_use._WIDTH, dtype=torch.bfloat16)
    found = layer(given)
    assert found.shape == given.shape
    found.sum().backward()
    weights = [*layer._norms, *layer._square, *layer._wide, layer._narrow]
    assert len(weights) == 9
    assert all(weight.grad is not None for weight in weights)
