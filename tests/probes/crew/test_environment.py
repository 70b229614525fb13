"""The environment of a rank is that of the job, but for the probe's own variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.probes.crew import environment as rank_environment
from gputop.probes.protocol.spec import ProbeStopped


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


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"])
def test_what_only_a_new_process_reads_is_refused(name: str) -> None:
    with pytest.raises(ProbeStopped, match=f"{name} counts when a process starts"):
        rank_environment.changes_of({"set": {name: "/somewhere"}})
