"""Parts of the probe nccl: environment, steps, logs, leftovers, what counts as the cause."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gputop.probes.catalog.nccl.probe import SPEC
from gputop.probes.catalog.nccl.rank import NEEDED_BYTES, NcclMember, steps
from gputop.probes.crew import environment as rank_environment
from gputop.probes.crew import logs as rank_logs
from gputop.probes.crew.crew import reason
from gputop.probes.crew.rank import in_rank_order
from gputop.probes.protocol.messages import DeviceRecord, Log
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.spec import ProbeStopped
from gputop.probes.runner import leftovers

TORCH_ERROR = """DistBackendError: NCCL error in: /pytorch/torch/csrc/NCCLUtils.cpp:94,
unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.28.9
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
Error while creating shared memory segment /dev/shm/nccl-abc (size 9637888), error: No space left
"""


def test_the_job_environment_stays_as_it_is(tmp_path: Path) -> None:
    job = {
        "NCCL_P2P_LEVEL": "PHB", "NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": "/home/me/nccl.log",
        "NCCL_COMM_ID": "10.0.0.1:2345", "NCCL_TOPO_DUMP_FILE": "/home/me/topo.xml", "HOME": "/h",
    }  # fmt: skip
    made = rank_environment.rank_environment(job, {"A": "1"}, str(tmp_path), 3, cpu=False)
    assert made.pop("NCCL_DEBUG_FILE") == str(tmp_path / "rank3.log")
    assert made.pop("NCCL_DEBUG_SUBSYS") == "INIT,ENV,GRAPH,P2P,SHM,NET,TUNING"
    assert made.pop("TORCH_NCCL_DEBUG_INFO_TEMP_FILE").startswith(str(tmp_path))
    assert made.pop("TORCHINDUCTOR_CACHE_DIR") == str(tmp_path / "inductor")
    assert made == {"NCCL_P2P_LEVEL": "PHB", "NCCL_DEBUG": "INFO", "HOME": "/h", "A": "1"}
    own = {"TORCHINDUCTOR_CACHE_DIR": "/fast/cache"}
    again = rank_environment.rank_environment(own, {}, str(tmp_path), 0, cpu=False)
    assert again["TORCHINDUCTOR_CACHE_DIR"] == "/fast/cache"
    text, details = rank_environment.what_was_done(job, {"A": "1"}, loopback=False)
    assert "NCCL_DEBUG=WARN" in text
    assert "NCCL_COMM_ID" in text
    assert details["replaced"]["NCCL_DEBUG_FILE"] == "/home/me/nccl.log"
    assert details["left_out"].keys() == {"NCCL_COMM_ID", "NCCL_TOPO_DUMP_FILE"}


def test_a_quiet_environment_needs_no_words() -> None:
    text, details = rank_environment.what_was_done({"HOME": "/h"}, {}, loopback=False)
    assert text == ""
    assert details["own"]["NCCL_DEBUG"] == "INFO"


def test_a_probe_that_times_calls_wants_no_log_of_them(tmp_path: Path) -> None:
    job = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL", "NCCL_P2P_DISABLE": "1", "HOME": "/h"}
    made = rank_environment.rank_environment(
        job, {"RCCL_MSCCL_ENABLE": "0"}, str(tmp_path), 0, cpu=False, debug_log=False
    )
    assert made["NCCL_DEBUG"] == "WARN"
    assert "NCCL_DEBUG_SUBSYS" not in made
    assert made["NCCL_P2P_DISABLE"] == "1"
    text, details = rank_environment.what_was_done(
        job, {"RCCL_MSCCL_ENABLE": "0"}, loopback=False, debug_log=False
    )
    assert details["variables"] == {"NCCL_P2P_DISABLE": "1", "RCCL_MSCCL_ENABLE": "0"}
    assert "NCCL_DEBUG=INFO" in text
    assert "slow" in text


def test_the_loopback_is_set_for_nccl_alone() -> None:
    assert rank_environment.changes_of({"loopback": True}) == {"NCCL_SOCKET_IFNAME": "lo"}
    assert rank_environment.changes_of({}) == {}


@pytest.mark.parametrize(
    "wanted",
    [["A"], {"A=B": "c"}, {"": "c"}, {"A": "\0"}, {"A": 1}, {"A": "x" * 5000}, {"A\n": "x"}],
)
def test_what_cannot_be_set_is_refused(wanted: object) -> None:
    with pytest.raises(ProbeStopped) as caught:
        rank_environment.changes_of({"set": wanted})
    assert caught.value.error == "refused"


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_every_ordered_pair_is_a_step(ranks: int) -> None:
    plan = steps(ranks, {}, False)
    pairs = [(step.src, step.dst) for step in plan if step.kind == "transfer"]
    assert len(set(pairs)) == len(pairs) == ranks * (ranks - 1)
    assert [step.first for step in plan if step.kind == "all-reduce"] == [True, False]
    assert [step.kind for step in plan[:2]] == ["open", "init"]


def device(address: str | None, index: int, **more: Any) -> DeviceRecord:
    return DeviceRecord(address or f"cpu:{index}", index, "x", address, **more)


def test_ranks_follow_the_pci_order() -> None:
    cuda_order = [device("0000:9b:00.0", 0), device("0000:1b:00.0", 1), device("0001:01:00.0", 2)]
    assert [d.torch_index for d in in_rank_order(cuda_order)] == [1, 0, 2]
    assert [d.torch_index for d in in_rank_order([device(None, 1), device(None, 0)])] == [0, 1]


class OneRankStore:
    """A store in which the other ranks have spoken already."""

    def __init__(self, **said: str) -> None:
        self.said = {name.replace("_", "/"): text for name, text in said.items()}

    def set(self, name: str, value: str) -> None:
        self.said[name] = value

    def get(self, name: str) -> bytes:
        return self.said[name].encode()


@pytest.mark.parametrize(
    ("mine", "other", "force", "word"),
    [
        (60 << 30, 70 << 30, False, ""),
        (60 << 30, 10 << 30, False, "0000:02:00.0"),
        (60 << 30, 10 << 30, True, ""),
        (NEEDED_BYTES, 70 << 30, True, "0000:01:00.0"),
    ],
)
def test_too_little_memory_on_any_gpu_stops_all_ranks(
    mine: int, other: int, force: bool, word: str
) -> None:
    gpus = [device(f"0000:0{i + 1}:00.0", i, memory_bytes=80 << 30) for i in range(2)]
    store = OneRankStore(free_1=str(other))
    here: Any = None
    params = {"force": force}
    member = NcclMember(here, None, store, gpus, 0, lambda message: None, SPEC, params)
    refusal = member.memory_refusal(mine)
    assert (word in refusal) if word else (refusal == "")
    assert member.devices[1].free_bytes == other


def test_the_cause_is_told_in_the_words_of_the_library() -> None:
    said = reason(TORCH_ERROR)
    assert said.startswith("ncclSystemError: System call")
    assert said.endswith("error: No space left")
    assert "NCCLUtils" not in said
    assert reason("RuntimeError: something\n else") == "RuntimeError: something else"


def test_a_log_that_is_no_file_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not for you")
    (tmp_path / "rank0.log").symlink_to(secret)
    os.mkfifo(tmp_path / "rank1.log")
    (tmp_path / "rank2.log").mkdir()
    for rank in range(4):
        assert list(rank_logs.pieces(str(tmp_path), rank)) == [Log(rank, "")]


def test_pieces_of_a_log_join_again(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(50_000))
    (tmp_path / "rank0.log").write_text(text)
    outcome = Outcome("finished", "", 0.0, logs=tuple(rank_logs.pieces(str(tmp_path), 0)))
    assert outcome.ranks_logged() == (0,)
    assert outcome.log_of(0) == text


HOLD = """
import mmap, os, sys
for number, path in enumerate(sys.argv[1:]):
    descriptor = os.open(path, os.O_RDWR)
    if number % 2:
        kept = mmap.mmap(descriptor, 4096)
        os.close(descriptor)
print(flush=True)
sys.stdin.read()
"""


def test_only_new_files_that_nobody_holds_go(tmp_path: Path) -> None:
    def make(name: str) -> Path:
        path = tmp_path / name
        path.write_bytes(bytes(4096))
        return path

    make("nccl-older1")
    before = leftovers.shared_files(str(tmp_path))
    held, mapped = make("nccl-held01"), make("nccl-mapped")
    make("nccl-garbag")
    make("sem.other")
    (tmp_path / "nccl-link00").symlink_to(tmp_path / "sem.other")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(held), str(mapped)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        other.stdout.readline()
        removed = leftovers.remove_shared_files(before, str(tmp_path))
        assert removed == ["nccl-garbag"]
        other.kill()
        other.wait()
    assert leftovers.remove_shared_files(before, str(tmp_path)) == ["nccl-held01", "nccl-mapped"]
    assert {p.name for p in tmp_path.iterdir()} == {"nccl-older1", "sem.other", "nccl-link00"}


def test_a_file_of_an_old_name_that_is_new_goes_too(tmp_path: Path) -> None:
    path = tmp_path / "nccl-abcdef"
    path.write_bytes(b"old")
    before = leftovers.shared_files(str(tmp_path))
    (tmp_path / "keeps-the-inode").write_bytes(b"")
    path.rename(tmp_path / "moved")
    path.write_bytes(b"new")
    assert leftovers.remove_shared_files(before, str(tmp_path)) == ["nccl-abcdef"]


def test_only_a_folder_of_ours_is_removed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    leftovers.remove_folder(str(theirs))
    assert theirs.is_dir()
    ours = Path(leftovers.folder_path())
    assert not ours.exists()
    made = tmp_path / ours.name
    (made / "below").mkdir(parents=True)
    leftovers.remove_folder(str(made))
    assert not made.exists()
    leftovers.remove_folder(str(made))


def test_a_folder_that_is_there_is_not_taken(tmp_path: Path) -> None:
    """The keeper makes it itself, so nobody else can have put anything there."""
    folder = tmp_path / "gputop-probe-x"
    folder.mkdir()
    (folder / "file").write_text("theirs")
    keeper = Path(leftovers.__file__).parent / "keeper.py"
    command = [sys.executable, "-I", "-S", str(keeper), str(os.getpid()), str(folder), "/bin/true"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 126
    assert str(folder) in done.stderr
    assert (folder / "file").exists()
