"""Which library predictions follow: what jobs have loaded, by recorded maps of /proc."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gputop.topology.flags.values.process import read as read_process
from gputop.topology.flags.what_if.study import Study
from gputop.topology.jobs.grouping import jobs
from gputop.topology.model.part import part_of
from gputop.topology.model.redact import redacted
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.model.surroundings import Software
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.followed import followed
from gputop.topology.nccl.versions import preferred
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.sources.collect import merge
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.linux.processes import loaded_library, parse
from tests.support.nccl.shared_object import library
from tests.support.places import RECORDINGS

MAPS = RECORDINGS / "loaded-libraries"
WHEEL = "/opt/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"
FOLDER = "/s/nvidia/nccl/lib/libnccl.so.2"
SYSTEM = "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5"


def running(root: Path, **recorded: str) -> list[dict[str, Any]]:
    """The raw answers about processes p41000=... with these recorded maps."""
    entries = []
    for name, maps in recorded.items():
        pid = int(name[1:])
        folder = root / "proc" / name[1:]
        folder.mkdir(parents=True)
        shutil.copy(MAPS / f"{maps}.maps", folder / "maps")
        for path, number in ((WHEEL, b"2.30.7+cuda13.3"), (SYSTEM, b"2.21.5+cuda12.4")):
            place = folder / "root" / path[1:]
            place.parent.mkdir(parents=True)
            place.write_bytes(library(b"NCCL version " + number))
        entries.append({"pid": pid, "library": loaded_library(FolderTree(root), pid, {})})
    return entries


def node(entries: list[dict[str, Any]]) -> NodeSnapshot:
    """The demo with what its processes have loaded; the first four ranks are a job of their own."""
    demo = DemoFeed("hgx-h100-8", version="test").at(0)
    loaded = {
        process.pid: process.library
        for process in parse(
            {"processes": {str(entry.pop("pid")): entry for entry in entries}}
        ).processes
    }
    processes = tuple(
        replace(
            process,
            library=loaded.get(process.pid),
            job="torchrun run-7" if process.pid < 41004 else None,
        )
        for process in demo.readings.processes
    )
    part = part_of(replace(demo, readings=replace(demo.readings, processes=processes)))
    return merge([part], taken_at=demo.taken_at, source=demo.source, gputop="test")


def test_a_job_decides_which_library_is_followed(tmp_path: Path) -> None:
    snapshot = node(running(tmp_path, p41000="torchrun", p41001="torchrun", p41004="none"))
    assert preferred(snapshot.machine) == ("nccl-2.30.7", None)
    assert predict(snapshot).library.version == "2.30.7"
    why = f"predictions follow NCCL 2.30.7, which torchrun run-7 has loaded ({WHEEL})"
    assert followed(snapshot.machine) == Study(snapshot).followed == why
    asked = followed(snapshot.machine, "2.27.5")
    assert asked == (
        "predictions follow NCCL 2.27.5, as asked for; torchrun run-7 has loaded 2.30.7 "
        f"({WHEEL}), which answers about it follow"
    )
    assert predict(snapshot, library="2.27.5").library.version == "2.27.5"


def test_jobs_with_different_libraries_follow_their_own(tmp_path: Path) -> None:
    entries = running(tmp_path, p41000="torchrun", p41001="torchrun", p41004="container")
    snapshot = node(entries)
    program = snapshot.readings.processes[4].command
    assert followed(snapshot.machine) == (
        f"predictions follow NCCL 2.30.7, which torchrun run-7 has loaded ({WHEEL}); "
        f"{program} has loaded 2.21.5 ({SYSTEM}), which answers about it follow"
    )
    first, *others = jobs(snapshot)
    assert (first.name, first.library) == ("torchrun run-7", "nccl-2.30.7")
    assert "nccl-2.21.5" in {job.library for job in others}


def test_a_library_that_was_replaced_is_named_and_not_followed(tmp_path: Path) -> None:
    snapshot = node(running(tmp_path, p41000="replaced"))
    assert preferred(snapshot.machine)[0] == "nccl-2.28.9", "what is installed"
    assert followed(snapshot.machine).endswith(
        f"; torchrun run-7 has loaded one replaced since ({WHEEL})"
    )


def test_paths_and_jobs_of_a_saved_node_are_redacted(tmp_path: Path) -> None:
    hidden = redacted(node(running(tmp_path, p41000="torchrun")))
    said = followed(hidden.machine)
    assert said.startswith("predictions follow NCCL 2.30.7, which torchrun job-")
    assert "run-7" not in said
    assert "venv" not in said
    assert part_of(hidden).software == hidden.machine.software


@pytest.mark.parametrize(
    ("software", "why"),
    [
        (Software(), "2.28.9: no installed NCCL was found"),
        (
            Software(nccl="2.27.5", nccl_path="/usr/lib/libnccl.so.2"),
            "2.27.5, the one of this system (/usr/lib/libnccl.so.2)",
        ),
        (
            Software(nccl="2.27.5", nccl_path=FOLDER, torch="2.9.0", torch_path="/s/torch"),
            f"2.27.5, which a job here would load beside torch 2.9.0 ({FOLDER})",
        ),
    ],
)
def test_without_a_job_the_library_of_the_node_is_followed(software: Software, why: str) -> None:
    machine = replace(DemoFeed("hgx-h100-8").at(0).machine, software=software)
    assert followed(machine) == f"predictions follow NCCL {why}"


def test_a_process_that_is_asked_about_follows_its_own(tmp_path: Path) -> None:
    snapshot = node(running(tmp_path, p41000="container", p7="torchrun"))
    (tmp_path / "proc" / "7" / "environ").write_bytes(b"NCCL_DEBUG=INFO\0")
    process = read_process(7, tmp_path / "proc")
    study = Study(snapshot, own=process.loaded)
    assert study.whose().version == "2.30.7"
    assert study.followed == f"predictions follow NCCL 2.30.7, which process 7 has loaded ({WHEEL})"
    assert Study(snapshot, library="2.21.5", own=process.loaded).whose().version == "2.21.5"
