"""The Jobs screen: who runs on the GPUs, how bound, with which variables, and what is hidden."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.screens import NAMES
from gputop.screens.jobs.screen import JobsScreen
from gputop.topology.model.readings import GpuProcess, GpuUse, ProcessReading
from gputop.topology.model.record import Gap
from gputop.topology.model.severity import SLOW
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Container, ContainerKind, Host
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.report import Report
from tests.support.app import SIZES, app_of, give, picture, press, rounds, text
from tests.support.findings_made import diagnosis, finding

HOSTILE = "\x1b]0;owned\x07[red]run\u202e"
AGE_SECONDS = 11_100.0
"""Three hours and five minutes."""
KEY = str(NAMES.index("jobs") + 1)


def snapshot_with(demo: str = "hgx-h100-8", **changed: dict[str, Any]) -> NodeSnapshot:
    """A demo with changed processes: p41001={...}."""
    fresh = DemoFeed(demo).at(7)
    began = fresh.readings.processes[0].started_at
    assert began is not None
    snapshot = replace(fresh, taken_at=began + AGE_SECONDS)
    processes = tuple(
        replace(process, **changed.get(f"p{process.pid}", changed.get("every", {})))
        for process in snapshot.readings.processes
    )
    return replace(snapshot, readings=replace(snapshot.readings, processes=processes))


def decided(snapshot: NodeSnapshot) -> Report:
    return Report(Node(snapshot).decide())


async def open_jobs(pilot: Pilot[Any], snapshot: NodeSnapshot, *keys: str) -> None:
    await give(pilot, decided(snapshot))
    await press(pilot, KEY, *keys)
    await calm(pilot)


async def calm(pilot: Pilot[Any]) -> None:
    """Wait until the variables have been worked out."""
    async for _ in rounds(pilot):
        if "working out" not in text(pilot, "#job"):
            return
    raise AssertionError("nothing was worked out")


def said(pilot: Pilot[Any]) -> str:
    """The panel in one line."""
    return " ".join(text(pilot, "#job").split())


def screen_of(pilot: Pilot[Any]) -> JobsScreen:
    assert isinstance(pilot.app.screen, JobsScreen)
    return pilot.app.screen


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_a_job_is_shown_with_its_ranks(size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await open_jobs(pilot, snapshot_with())
        lines = text(pilot, "#job-list").splitlines()
        assert lines[0] == "1 job, 6 processes on the GPUs"
        assert "torchrun demo · demo · 6 ranks · GPU0-5 · 407 GiB · 3 h 5 min" in lines[2]
        assert lines[3].split()[:9] == ["0", "41000", "GPU0", "all-reduce", "1042", "–", "102", "%",
                                    "67.9"]  # fmt: skip
        head = [line.strip() for line in text(pilot, "#job-head").splitlines()]
        assert "✓ train.py: 6 ranks" in " ".join(head)
        assert head[-1] == "torchrun demo: 6 ranks on GPU0-5, 3 h 5 min · GPU6-7 free"
        assert "Rendezvous localhost:29500" in said(pilot)
        await press(pilot, "down", "down")
        assert text(pilot, "#job").startswith("python3 41001, rank 1\n")
        assert "started by 40999 torchrun" in said(pilot)
        assert "CPUs 0-55,112-167: all of them at this GPU's NUMA node" in said(pilot)
        assert "Sockets eth0, the first in NCCL's order" in said(pilot)
        assert app_of(pilot).trouble == ""
        assert all(len(line) <= size[0] for line in picture(pilot).splitlines())


async def test_variables_are_explained_for_the_gpus_of_the_job() -> None:
    variables = (("CUDA_VISIBLE_DEVICES", "1"), ("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVL", "x"))
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_jobs(pilot, snapshot_with(p41001={"variables": variables}), "down", "down")
        panel = said(pilot)
        assert "* NCCL_P2P_DISABLE=1 Against leaving it out: " in panel
        assert "? NCCL_P2P_LEVL=x" in panel
        assert "* CUDA_VISIBLE_DEVICES=1" in panel
        assert "by the rules of nccl-2.28.9" in panel


async def test_a_process_at_the_wrong_node_is_reported_with_the_command() -> None:
    far = {"cpu_affinity": "56-111", "memory_nodes": "1"}
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_jobs(pilot, snapshot_with(p41001=far), "down", "down")
        assert "✗ far" in text(pilot, "#job-list").splitlines()[4]
        assert "CPUs 56-111: none of them at this GPU's NUMA node" in said(pilot)
        assert "memory of NUMA 1: not this GPU's node" in said(pilot)
        why = screen_of(pilot).why()
        assert why is not None
        assert why.claim == "1 of 1 run far from a GPU of theirs."
        assert "numactl --cpunodebind=0 --membind=0" in why.fix_text
        await press(pilot, "w")
        assert "far from a GPU" in picture(pilot)
        await press(pilot, "escape", "up", "up", "home")
        whole = screen_of(pilot).why()
        assert whole is not None
        assert whole.claim == "1 of 6 run far from a GPU of theirs."


async def test_ranks_on_one_core_stand_out() -> None:
    pinned = {"cpu_affinity": "0"}
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_jobs(pilot, snapshot_with(p41001=pinned, p41002=pinned))
        lines = text(pilot, "#job-list").splitlines()
        assert ["✗ shared" in line for line in lines[3:9]] == [False, True, True, *[False] * 3]
        assert "2 processes are bound to fewer CPUs than they are" in text(pilot, "#job-head")


async def test_a_well_bound_job_has_nothing_to_mend() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await open_jobs(pilot, snapshot_with())
        why = screen_of(pilot).why()
        assert why is not None
        assert (why.claim, why.fix) == ("None runs far from its GPU.", ())


async def test_what_may_not_be_read_is_reported() -> None:
    fields = ("variables", "rank", "world_size", "namespaces", "shm_device", "hostname")
    denied: dict[str, Any] = dict.fromkeys(fields)
    denied["gaps"] = tuple(Gap(field, "no permission") for field in fields)
    async with GpuTop().run_test(size=(120, 50)) as pilot:
        await open_jobs(pilot, snapshot_with(every=denied), "down")
        panel = said(pilot)
        assert "Variables at its start no permission" in panel
        assert "no permission: hostname, namespaces, rank, shm device, variables" in panel
        assert "–" in text(pilot, "#job-list").splitlines()[3]


async def test_a_process_of_another_namespace_has_no_facts_and_no_zeros() -> None:
    snapshot = snapshot_with()
    snapshot = replace(snapshot, readings=replace(snapshot.readings, processes=()))
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await open_jobs(pilot, snapshot, "down")
        lines = text(pilot, "#job-list").splitlines()
        assert lines[0] == "6 jobs, 6 processes on the GPUs"
        assert lines[3].split()[:4] == ["›", "–", "41000", "GPU0"]
        assert "the system shows no process of this number" in said(pilot)


async def test_hostile_names_stay_text() -> None:
    hostile: dict[str, Any] = {
        "user": HOSTILE,
        "command": HOSTILE,
        "parent_command": HOSTILE,
        "job": f"torchrun {HOSTILE}",
        "hostname": HOSTILE,
        "rendezvous": HOSTILE,
        "variables": (("NCCL_DEBUG_FILE", HOSTILE),),
        "gaps": (Gap("memlock_bytes", HOSTILE),),
    }
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_jobs(pilot, snapshot_with(every=hostile))
        for keys in ((), ("down",), ("w",)):
            await press(pilot, *keys)
            shown = picture(pilot)
            assert not {"\x1b", "\x07", "\u202e"} & set(shown)
            assert "[red]run" in shown
        assert app_of(pilot).trouble == ""


async def test_a_run_without_a_name_is_short_in_the_list_and_whole_in_the_panel() -> None:
    run = "torchrun 18ecf10a-cccb-4124-b53c-12223fd1dc18"
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_jobs(pilot, snapshot_with(every={"job": run}))
        line = text(pilot, "#job-list").splitlines()[2]
        assert line.startswith("›torchrun 18ecf10a… · demo · 6 ranks · GPU0-5")
        assert text(pilot, "#job").startswith(run)


async def test_differing_ranks_are_marked_on_the_job() -> None:
    changed = {"variables": (("NCCL_ALGO", "Tree"),), "shm_device": 99}
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_jobs(pilot, snapshot_with(p41002=changed))
        panel = said(pilot)
        assert "NCCL_ALGO: not set on rank 0, 1, 3, 4, 5; Tree on rank 2" in panel
        assert "/dev/shm device 26, device 99" in panel


async def test_what_is_silenced_is_silent_beside_its_job_too() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await open_jobs(pilot, snapshot_with())
        report = app_of(pilot).report
        assert report is not None
        gpu = report.snapshot.machine.gpus[0].address
        odd = finding("ranks-differ", SLOW, "ranks differ here", gpu)
        await give(pilot, Report(report.node, diagnosis(odd), ()))
        assert "! ranks differ here" in text(pilot, "#job")
        app_of(pilot).findings.silence(odd.key)
        await give(pilot, Report(report.node, diagnosis(odd), ()))
        assert "ranks differ here" not in text(pilot, "#job")


@pytest.mark.parametrize(
    ("lists", "kind", "words"),
    [
        ((), None, "no process uses a GPU"),
        ((), "docker", "from inside a container"),
        (None, None, "the driver does not say"),
    ],
)
async def test_an_empty_list_says_why(lists: Any, kind: str | None, words: str) -> None:
    snapshot = snapshot_with()
    gpus = tuple(replace(gpu, processes=lists) for gpu in snapshot.readings.gpus)
    host = replace(
        snapshot.machine.host or Host(),
        container=Container(kind=ContainerKind(kind) if kind else None),
    )
    snapshot = replace(
        snapshot,
        readings=replace(snapshot.readings, gpus=gpus),
        machine=replace(snapshot.machine, host=host),
    )
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await open_jobs(pilot, snapshot)
        assert words in text(pilot, "#job-list")
        assert screen_of(pilot).why() is None
        assert screen_of(pilot).probe_targets() == ()


async def test_the_cursor_stays_on_its_process_and_probes_its_gpus() -> None:
    async with GpuTop().run_test(size=(120, 40)) as pilot:
        await open_jobs(pilot, snapshot_with(), "down", "down", "down")
        snapshot = snapshot_with()
        gpus = snapshot.readings.gpus
        early = GpuProcess(pid=7, kind=GpuUse.COMPUTE, memory_bytes=2**30)
        first = replace(gpus[0], processes=(early, *(gpus[0].processes or ())))
        processes = (*snapshot.readings.processes, ProcessReading(pid=7, command="early"))
        readings = replace(snapshot.readings, gpus=(first, *gpus[1:]), processes=processes)
        await give(pilot, decided(replace(snapshot, readings=readings)))
        await calm(pilot)
        assert text(pilot, "#job").startswith("python3 41002, rank 2\n")
        assert screen_of(pilot).probe_targets() == (gpus[2].address,)
        await press(pilot, "y")
        copied = " ".join(app_of(pilot).clipboard.split())
        assert "Rank 2 of 6 (local 2), 3 h 5 min old" in copied
        await press(pilot, "home")
        assert len(screen_of(pilot).probe_targets()) == 1


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_picture(snap_compare: Any, size: tuple[int, int]) -> None:
    snapshot = snapshot_with(
        p41001={"cpu_affinity": "56-111", "memory_nodes": "1"},
        p41003={"variables": (("NCCL_DEBUG", "WARN"), ("NCCL_P2P_DISABLE", "1"))},
        p41005={"state": "zombie"},
    )

    async def draw(pilot: Pilot[Any]) -> None:
        await open_jobs(pilot, snapshot, "down", "down")

    assert snap_compare(GpuTop(), terminal_size=size, run_before=draw)
