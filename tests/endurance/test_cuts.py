"""A limit that leaves something out says so: one input beyond each, and what is then said."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.flags.values import process
from gputop.topology.fleet import intake
from gputop.topology.fleet.foreign import read_text
from gputop.topology.fleet.merging.growing import read_fleet
from gputop.topology.jobs.flight import files as dump_files
from gputop.topology.jobs.ras import answer, text
from gputop.topology.logs.reading.read import read_file
from gputop.topology.model.errors import GputopError
from gputop.topology.model.severity import Verdict
from gputop.topology.recorded.formats.host import lspci
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.linux import process_files
from tests.support.fleet_made import node
from tests.support.places import RECORDINGS
from tests.topology.jobs.flight.test_compare import dumped, entry

RAS = "NCCL version 2.28.9 compiled with CUDA 12.8\n"
GROUPS = "".join(f"{n} 2 1 8 8 16 RUNNING OK\n" for n in range(2))
RANK = "Rank {} has launched up to operation 4 -- GPU 0 managed by process 7 on node h\n"
BEHIND = "#0-0 (0123456789abcdef) MISMATCH\n"
LSPCI = "".join(f"0{n}:00.0 3D controller: NVIDIA Corporation H100\n" for n in range(1, 4))
BANDWIDTH = RECORDINGS / "pasted/h800-2-nvbandwidth.txt"


def _of_fleet(folder: Path) -> str:
    fleet = read_fleet(str(folder))
    assert not fleet.unusable or fleet.verdict is not Verdict.HEALTHY
    return "; ".join(f"{item.path}: {item.why}" for item in fleet.unusable)


def _fleet(change: Callable[[dict[str, Any]], None] = lambda _: None) -> Callable[[Path], str]:
    def made(folder: Path) -> str:
        for number in (1, 2, 3):
            one = node(f"g{number}")
            change(one)
            (folder / f"g{number}.json").write_text(json.dumps(one))
        return _of_fleet(folder)

    return made


def _findings(one: dict[str, Any]) -> None:
    finding = {"id": "x", "severity": "slow", "title": "t"}
    one["findings"] = [finding, finding, finding]


def _of_ras(parse: Callable[[bytes], object], said: object) -> Callable[[Path], str]:
    data = (said if isinstance(said, str) else json.dumps(said)).encode()
    return lambda _: str(parse(data))


def _communicator(**fields: object) -> dict[str, object]:
    return {"nccl_version": "2.28.9", "communicators": [{"hash": "0x1", "size": 8, **fields}] * 2}


def _dumps(folder: Path) -> str:
    for rank in (0, 1):
        calls = [entry(1, process_group=(name, name)) for name in "abc"]
        (folder / f"dump_{rank}").write_bytes(dumped(*calls))
    found = dump_files.read([str(path) for path in sorted(folder.iterdir())])
    return str(found.refused)


def _groups(folder: Path) -> str:
    groups = {name: {"ranks": "[0]"} for name in "abc"}
    (folder / "dump_0").write_text(json.dumps({"pg_config": groups, "entries": []}))
    return str(dump_files.read([str(folder / "dump_0")]).refused)


def _environment(folder: Path) -> str:
    (folder / "7").mkdir()
    (folder / "7/environ").write_bytes(b"A=1\0B=2\0NCCL_ALGO=Ring\0")
    return str(process.read(7, folder))


def _ranks_environment(folder: Path) -> str:
    (folder / "proc").mkdir()
    _environment(folder / "proc")
    tree = FolderTree(folder, live=True)
    return str(process_files.lasting(tree, 7, folder / "proc")["variables"])


def _log(name: str) -> Callable[[Path], str]:
    return lambda _: str(read_file(RECORDINGS / name).more)


CUTS: tuple[tuple[str, int, Callable[[Path], str], str], ...] = (
    ("fleet.intake:MOST_FILES", 2, _fleet(), "not read: there are more than 2 files"),
    ("fleet.reading:MOST_FINDINGS", 2, _fleet(_findings), "more than 2 findings"),
    ("fleet.reading:MOST_FIGURES", 0, _fleet(), "more than 0 figures"),
    ("fleet.reading:MOST_SIZES", 0, _fleet(), "more than 0 sizes"),
    (
        "fleet.foreign:MOST_RUNS",
        0,
        lambda _: str(read_text("g1.txt", BANDWIDTH.read_bytes())),
        "more than 0 measurements",
    ),
    ("jobs.ras.answer:LIMIT_COMMUNICATORS", 1, _of_ras(answer.parse, _communicator()), "1 commun"),
    (
        "jobs.ras.answer:LIMIT_RANKS",
        1,
        _of_ras(answer.parse, _communicator(ranks=[{"rank": 0}, {"rank": 1}])),
        "1 ranks of a communicator",
    ),
    (
        "jobs.ras.answer:LIMIT_RANKS",
        1,
        _of_ras(answer.parse, _communicator(missing_ranks=[{"rank": 0}, {"rank": 1}])),
        "1 missing ranks",
    ),
    (
        "jobs.ras.answer:LIMIT_FUNCTIONS",
        1,
        _of_ras(
            answer.parse,
            _communicator(ranks=[{"rank": 0, "collective_counts": {"A": 1, "B": 1}}]),
        ),
        "1 collectives of a rank",
    ),
    ("jobs.ras.text:LIMIT_COMMUNICATORS", 3, _of_ras(text.parse, RAS + GROUPS), "3 communicators"),
    (
        "jobs.ras.text:LIMIT_COMMUNICATORS",
        1,
        _of_ras(text.parse, RAS + BEHIND + BEHIND.replace("0-0", "0-1")),
        "1 communicators",
    ),
    (
        "jobs.ras.text:LIMIT_RANKS",
        1,
        _of_ras(text.parse, RAS + BEHIND + RANK.format(0) + RANK.format(1)),
        "1 ranks of a communicator",
    ),
    ("jobs.flight.files:LIMIT_GROUPS", 2, _dumps, "of 3 groups gputop compares 2 at most"),
    ("jobs.flight.dump:LIMIT_GROUPS", 2, _groups, "more than 2 groups"),
    ("flags.values.process:LIMIT_VARIABLES", 2, _environment, "more variables than gputop reads"),
    ("flags.values.process:LIMIT_BYTES", 9, _environment, "more variables than gputop reads"),
    (
        "sources.linux.process_files:LIMIT_VARIABLES",
        2,
        _ranks_environment,
        "more variables",
    ),
    (
        "sources.linux.process_files:LIMIT_KEPT",
        0,
        _ranks_environment,
        "more than 0 variables",
    ),
    (
        "recorded.formats.host.lspci:MOST_DEVICES",
        2,
        lambda _: str(lspci.read_blocks(LSPCI.splitlines())),
        "PCI devices, which is gputop's limit",
    ),
    (
        "logs.reading.building:MAX_BLOCK_LINES",
        2,
        _log("rccl-logs/rx7900xtx-2.log"),
        "System blocks",
    ),
    (
        "logs.reading.torch_progress:MAX_RANKS",
        1,
        _log("real-faults/sleep.txt"),
        "lines of PyTorch's watchdog",
    ),
)
"""Limit, a value beyond which the input is, who reads it, and what is said."""


def test_what_a_limit_leaves_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = []
    for place, (limit, most, read, said) in enumerate(CUTS):
        module, _, name = limit.partition(":")
        for value in (None, most):
            folder = tmp_path / f"{place}-{value}"
            folder.mkdir()
            with monkeypatch.context() as patched:
                if value is not None:
                    patched.setattr(import_module(f"gputop.topology.{module}"), name, value)
                try:
                    told = read(folder)
                except GputopError as error:
                    told = str(error)
            if (said in told) is (value is None):
                silent.append((limit, value, told[:300]))
    assert silent == []


def test_a_folder_of_a_fleet_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rack1").mkdir()
    (tmp_path / "g1.json").write_text(json.dumps(node("g1")))
    listed = os.scandir

    def scandir(path: str) -> Any:
        if path.endswith("rack1"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    taken = intake.Intake(str(tmp_path))
    assert taken.take()
    assert list(taken.unusable()) == []
    monkeypatch.setattr(os, "scandir", scandir)
    assert taken.take()
    assert [(item.path, item.why) for item in taken.unusable()] == [
        ("rack1/", "the folder cannot be listed: Permission denied")
    ]
    assert not taken.take(), "nothing came"
