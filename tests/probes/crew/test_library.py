"""Ranks with NCCL alone, without torch: real processes, a made-up driver and a library beside it.

The library is loaded from its file, as on a node, and tells by its words what is wrong with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from gputop.probes.crew import means
from gputop.probes.crew.crew import Crew
from gputop.probes.devices.devices import Versions
from gputop.probes.protocol.messages import Hello, Log, MeasuredValue, Note, Progress, WorkerRequest
from gputop.probes.protocol.spec import ProbeStopped
from gputop.probes.runner.client import Session
from tests.device_kernels.made_up import Answered, MadeUpNode

GPUS = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0")
TWO = "devices=2"
SMALL = "memory_mib=2800"
"""So little memory that collectives take messages of at most 64 MiB."""
ONE_MIB: dict[str, Any] = {"level": "quick", "operations": ["all_reduce"]}


class Ranks:
    """Runs probes by ranks on made-up nodes, each run in a folder of its own."""

    def __init__(self, folder: Path, library: str, node: MadeUpNode) -> None:
        self.folder, self.library, self.node = folder, library, node

    def run(
        self, probe: str, *words: str, gpus: int = 2, skips: str = "", **params: Any
    ) -> Answered:
        asked = {
            "folder": str(self.folder), "library": self.library, "library_found": "by a test",
            "library_named": True, "seconds": 500, **params,
        }  # fmt: skip
        found = self.node.answers(WorkerRequest(probe, GPUS[:gpus], asked), *words, skips=skips)
        assert list(self.folder.iterdir()) == [], "nothing of a run stays"
        return found


def figures(found: Answered, *names: str) -> list[MeasuredValue]:
    return [m for m in found.said if isinstance(m, MeasuredValue) and m.name in names]


@pytest.fixture
def ranks(tmp_path: Path, nvidia_node: MadeUpNode) -> Ranks:
    folder = tmp_path / "run"
    folder.mkdir()
    return Ranks(folder, f"{nvidia_node.folder}/libnccl.so.2", nvidia_node)


def test_nccl_without_torch(ranks: Ranks) -> None:
    found = ranks.run("nccl", TWO, "memory_mib=4000", "nccl_version=21805")
    hello = next(m for m in found.said if isinstance(m, Hello))
    assert (hello.torch, hello.nccl, hello.nccl_path) == (None, "2.18.5", ranks.library)
    assert [d.key for d in hello.devices] == list(GPUS[:2])
    (finished,) = figures(found, "collective_finishes")
    assert (finished.verdict, finished.engine, finished.device_kind) == ("finished", "NCCL", "gpu")
    reduced = figures(found, "all_reduce_busbw")
    assert [(m.bytes_per_copy, m.verdict) for m in reduced] == [
        (4 << 20, "verified"), (64 << 20, "verified"),
    ]  # fmt: skip
    assert round(reduced[1].value or 0) == 299, "300 GB/s, and a microsecond for each call"
    moved = found.figures("send_receive")
    assert {pair: m.verdict for pair, m in moved.items()} == {
        ("1", "2"): "verified", ("2", "1"): "verified",
    }  # fmt: skip
    logs = {m.rank: m.text for m in found.said if isinstance(m, Log)}
    assert logs == {rank: f"made-up:1:1 [{rank}] NCCL INFO rank {rank}\n" for rank in (0, 1)}
    (note,) = (m for m in found.said if isinstance(m, Note) and m.topic == "library")
    assert note.text == f"Without torch: version 2.18.5 of {ranks.library} (by a test)."
    assert note.details["version"] == "2.18.5"
    first = next(m for m in found.said if isinstance(m, Progress))
    assert "torch" not in first.what


@pytest.mark.parametrize(
    ("version", "set_", "runs"),
    [
        ("23007", {}, False),
        ("23102", {}, True),
        ("23203", {"NCCL_RUN_RAS_DIAGNOSTICS": "0"}, True),
        ("23203", {"NCCL_RUN_RAS_DIAGNOSTICS": "0", "NCCL_RUN_DIAGNOSTICS": "0"}, False),
    ],
)
def test_the_library_s_own_diagnostics_run_where_it_has_them(
    ranks: Ranks, version: str, set_: dict[str, str], runs: bool
) -> None:
    found = ranks.run("nccl", TWO, "memory_mib=4000", f"nccl_version={version}", set=set_)
    said = {m.rank: m.text for m in found.said if isinstance(m, Log) if "NCCL DIAG" in m.text}
    assert list(said) == ([0] if runs else [])
    assert any(isinstance(m, Log) and "NCCL INFO rank 1" in m.text for m in found.said)
    notes = [m.text for m in found.said if isinstance(m, Note) and m.topic == "diagnostics"]
    assert len(notes) == runs
    (started, _) = figures(found, "communicator_init")
    assert ("without the 8 ms" in started.direction) == runs
    if runs:
        assert "made-up:1 NCCL DIAG NCCL diagnostics completed in 7.5 ms" in said[0]
        assert "NCCL_RUN_RAS_DIAGNOSTICS=0" in notes[0] or not set_


def test_every_collective_without_torch(ranks: Ranks) -> None:
    found = ranks.run("collectives", "devices=3", SMALL, gpus=3, level="quick")
    by = {m.name: m for m in found.said if isinstance(m, MeasuredValue)}
    assert {m.verdict for m in by.values()} == {"verified"}
    assert all(m.value and "while the GPU was held" in m.details["timing"] for m in by.values())
    # 300 GB/s, of which a link carries 4/3 in an all-reduce and 2/3 of what all have in common.
    rates = {name.removesuffix("_busbw"): round(m.value or 0, -1) for name, m in by.items()}
    assert rates == {
        "all_reduce": 390.0, "all_gather": 200.0, "reduce_scatter": 200.0, "all_to_all": 100.0,
        "broadcast": 290.0, "send_receive": 150.0,
    }  # fmt: skip


def test_wrong_data_is_found(ranks: Ranks) -> None:
    found = ranks.run("collectives", TWO, SMALL, "spoil=nccl@1", level="quick")
    wrong = {m.name: (m.verdict, m.wrong_bytes) for m in found.said if isinstance(m, MeasuredValue)}
    assert wrong == {
        f"{name}_busbw": ("wrong-data", 8 if name == "all_to_all" else 4)
        for name in (
            "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_receive",
        )
    }, "a number of each part that arrived at the second GPU"  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("ncclCommInitRank=2;last_error=no space left",
         "initialising the communicator: ncclSystemError of ncclCommInitRank: unhandled system "
         "error; no space left"),
        ("ncclCommInitRank=1",
         "initialising the communicator: ncclUnhandledCudaError of ncclCommInitRank: unhandled "
         "cuda error"),
        ("ncclAllReduce=1@1",
         "initialising the communicator: ncclUnhandledCudaError of ncclAllReduce: unhandled cuda "
         "error"),
        ("ncclAllReduce=6@300", "all-reduce of 1 MiB, in place: ncclRemoteError of ncclAllReduce: "
         "unknown result code"),
    ],
)  # fmt: skip
def test_an_error_of_the_library_is_told_in_its_words(ranks: Ranks, words: str, said: str) -> None:
    found = ranks.run("collectives", TWO, SMALL, words, **ONE_MIB)
    assert found.failure.error == "failed"
    where, _, what = found.failure.text.partition(", ")
    assert where in ("rank 0 (0000:01:00.0)", "rank 0 (rank 0)", "rank 1 (0000:02:00.0)")
    assert what == said


def test_a_library_that_hangs_meets_the_deadline(ranks: Ranks, tmp_path: Path) -> None:
    late = tmp_path / "late"
    words = f"hang.ncclCommInitRank={late}"
    found = ranks.run("nccl", TWO, "memory_mib=4000", words, skips=str(late))
    assert found.failure.error == "timed-out"
    assert "No end after 500 s. rank 0 (0000:01:00.0): initialising" in found.failure.text
    (collective,) = figures(found, "collective_finishes")
    assert (collective.verdict, collective.why) == ("timed-out", found.failure.text)


def test_a_communicator_that_does_not_block(ranks: Ranks) -> None:
    """NCCL_COMM_BLOCKING=0 of the job: the answer is not there yet, and is asked for again."""
    found = ranks.run("collectives", TWO, SMALL, "polls=3", **ONE_MIB)
    assert {m.verdict for m in figures(found, "all_reduce_busbw")} == {"verified"}


def test_what_cannot_be_loaded_is_one_sentence(ranks: Ranks, tmp_path: Path) -> None:
    ranks.library = str(tmp_path / "libnccl.so.2")
    Path(ranks.library).write_text("no library")
    found = ranks.run("collectives", TWO, SMALL)
    assert found.failure.error == "refused"
    assert found.failure.text.startswith(f"the library cannot be loaded: {ranks.library}: ")
    ranks.library = "libm.so.6"
    found = ranks.run("collectives", TWO, SMALL)
    said = "libm.so.6 has no ncclGetVersion: it is no NCCL or RCCL, or too old"
    assert found.failure.text == f"{said}."
    found = ranks.run("collectives", TWO, SMALL, library_named=False)
    assert found.failure.error == "no-torch", "one that was only found leaves it to torch"
    assert found.failure.text == f"Without torch: {said}. --nccl-lib names another library."


def test_without_our_kernels_nothing_is_checked_and_nothing_measured(ranks: Ranks) -> None:
    found = ranks.run("collectives", TWO, SMALL, "cuModuleLoadData=222")
    assert found.failure.error == "no-torch"
    assert found.failure.text.startswith(
        "Without torch nothing can check the data: cuModuleLoadData answered 222"
    )
    assert not figures(found, "all_reduce_busbw")


def test_rccl_is_not_for_nvidia(ranks: Ranks, tmp_path: Path) -> None:
    path = tmp_path / "librccl.so.1"
    path.symlink_to(ranks.library)
    ranks.library = str(path)
    found = ranks.run("collectives", TWO, SMALL)
    assert found.failure.text == f"{path} is not for GPUs of NVIDIA."


@pytest.fixture
def node_with(libraries: Callable[..., str]) -> Iterator[Callable[..., MadeUpNode]]:
    """Give a node of another vendor, or whose library lacks a function."""
    nodes: list[MadeUpNode] = []

    def make(vendor: str, lacks: str = "") -> MadeUpNode:
        nodes.append(MadeUpNode(libraries(vendor, lacks), vendor))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


def test_an_old_library_has_no_last_error(
    ranks: Ranks, node_with: Callable[..., MadeUpNode]
) -> None:
    ranks.node = node_with("nvidia", "ncclGetLastError")
    ranks.library = f"{ranks.node.folder}/libnccl.so.2"
    found = ranks.run("collectives", TWO, SMALL, "ncclCommInitRank=2;last_error=none", **ONE_MIB)
    assert found.failure.text.endswith(
        "ncclSystemError of ncclCommInitRank: unhandled system error"
    )


def test_a_node_of_amd(ranks: Ranks, node_with: Callable[..., MadeUpNode]) -> None:
    """RCCL is loaded; the kernel of this machine lists no such GPU to compile for."""
    ranks.node = node_with("amd")
    ranks.library = f"{ranks.node.folder}/librccl.so.1"
    found = ranks.run("collectives", TWO, SMALL)
    assert "/sys/class/kfd does not list 0000:01:00.0" in found.failure.text


def test_rccl_by_itself_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torch no version of HIP says which library it is."""
    gpus = SimpleNamespace(runtime=SimpleNamespace(is_hip=True), versions=Versions)
    rccl = SimpleNamespace(version=lambda: "2.21.5")
    monkeypatch.setattr(means, "open_driver", lambda: gpus)
    monkeypatch.setattr(means, "load_library", lambda path, *, named: rccl)
    said = means.open_means({}, "/opt/rocm/lib/librccl.so.1", lambda: None).versions()
    assert (said.library, said.nccl, said.hip) == ("RCCL", "2.21.5", None)
    with pytest.raises(ProbeStopped, match=r"libnccl\.so\.2 is not for GPUs of AMD") as found:
        means.open_means({}, "/a/libnccl.so.2", lambda: None)
    assert found.value.error == "no-torch"
    request = WorkerRequest("nccl", (), {"library": "/opt/rocm/lib/librccl.so.1"})
    crew = Crew(request, (), (), print, 5, lambda *asked: None)
    assert crew.library == "RCCL", "also where no rank came to say it"


def test_keeper_worker_and_ranks_need_no_torch_and_leave_nothing(
    bare_python: str, nvidia_node: MadeUpNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", nvidia_node.folder)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    late = tmp_path / "late"
    monkeypatch.setenv("GPUTOP_MADE_UP", f"{TWO};{SMALL};hang.ncclAllReduce={late}")
    params = {"library": f"{nvidia_node.folder}/libnccl.so.2", "seconds": 500, **ONE_MIB}
    before = psutil.Process().children(recursive=True)
    below: list[psutil.Process] = []

    def listen(message: object) -> None:
        if isinstance(message, Progress) and message.done and not below:
            now = psutil.Process().children(recursive=True)
            below.extend(process for process in now if process not in before)
            worker = next(p for p in below if p.name() == "gputop-probe")
            worker.kill()

    with Session(bare_python, threading.Event(), children=True) as session:
        outcome = session.run(WorkerRequest("collectives", GPUS[:2], params), listen, 90, last=True)
    assert (outcome.status, outcome.signal_name) == ("died", "SIGKILL")
    assert len(below) == 5
    assert not any(p.is_running() and p.status() != "zombie" for p in below)
    left = [name for name in os.listdir(tmp_path) if name != "late"]
    assert left == ["python"], "the interpreter that the test made"
