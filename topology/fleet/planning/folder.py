"""Reads the results that lie in a folder: looks, earlier plans, and the names of hosts.

Whatever lies there may be half written, of somebody else or hostile: a file that cannot be used is
named with its reason, and the others count.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import msgspec

from ...model.budget import Budget
from ...model.waiting import read_now
from ..hosts import expand, is_host
from .judging import kind_of
from .looks import ABSENT, FAILED, FINISHED, NO_FILE, NetFlow, NetLook, Round, look_from
from .looks import SCHEMA as NET

PLAN, CHECK = "gputop.fleet-plan/1", "gputop.check/1"
LIMIT_BYTES = 32 * 1024 * 1024
"""Largest file that is read, unpacked: the plan of 100,000 nodes is smaller."""
MOST_FILES = 500_000
MOST_DEPTH = 4
SET_NAME = re.compile(r"set-(\d{1,6})-(\d{1,6})\.txt")
"""What nccl-tests print for a set: round and number of the set."""
_BUS = re.compile(rb"^# Avg bus bandwidth\s*:\s*([0-9.]+)", re.MULTILINE)


_Kind = TypeVar("_Kind", bound=msgspec.Struct)


class _Head(msgspec.Struct):
    schema: str = ""


class _CheckSection(msgspec.Struct):
    host: str | None = None
    product: str = ""


class _CheckHead(msgspec.Struct):
    node: str | None = None
    fleet: _CheckSection | None = None


class PlanPair(msgspec.Struct, frozen=True):
    """A pair as a plan's file has it."""

    a: str
    b: str


class PlanHead(msgspec.Struct, frozen=True):
    """What later rounds need of an earlier plan."""

    round: Round
    hosts: str = ""
    """All that the plan is about, as a list of hosts."""
    pairs: tuple[PlanPair, ...] = ()
    sets: tuple[tuple[str, ...], ...] = ()


@dataclass(slots=True)
class FolderRead:
    """What lies in a folder."""

    looks: list[NetLook] = field(default_factory=list)
    plans: list[PlanHead] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    """Hosts that wrote a check, or that a look or a plan names."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Host -> its kind of GPUs, of those that wrote a check."""
    passed: dict[str, list[str]] = field(default_factory=dict)
    """Why files were passed over -> their names."""
    unanswered: dict[int, int] = field(default_factory=dict)
    """Round -> how many of its pairs gave no file."""
    others: int = 0
    """Sound files of other kinds."""

    @property
    def last_round(self) -> int:
        """The highest round that was planned; 0 for none."""
        return max((head.round for head in self.plans), default=0)

    def skip(self, name: str, why: str) -> None:
        """Note a file that cannot be used."""
        self.passed.setdefault(why, []).append(name)


def read_folder(folder: Path) -> FolderRead:
    """Read a folder and the folders in it. Raises OSError where it cannot be listed."""
    answer = FolderRead()
    texts: list[tuple[int, int, bytes]] = []
    runs: dict[tuple[str, tuple[str, ...]], NetLook] = {}
    budget = Budget("plan")
    for count, path in enumerate(_files(folder, MOST_DEPTH)):
        if budget.over:
            answer.skip(path.name, budget.why)
            break
        if count >= MOST_FILES:
            answer.skip(path.name, f"more than {MOST_FILES} files")
            break
        try:
            data = _content(path)
            found = SET_NAME.fullmatch(path.name)
            if found is not None:
                texts.append((int(found[1]), int(found[2]), data))
            else:
                _read(data, answer, runs)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            answer.skip(path.name, getattr(error, "strerror", None) or str(error)[:200])
    answer.looks += runs.values()
    _sets(texts, answer)
    for look in answer.looks:
        answer.hosts.update(look.hosts)
    for head in answer.plans:
        answer.hosts.update(_names(head))
    answer.looks += silent(answer)
    return answer


def _files(folder: Path, depth: int) -> Iterator[Path]:
    """Regular files that may hold results, in the order of their names; links are not followed."""
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        if entry.is_dir(follow_symlinks=False):
            if depth > 1:
                yield from _files(Path(entry.path), depth - 1)
        elif entry.name.endswith((".json", ".json.gz")) or SET_NAME.fullmatch(entry.name):
            yield Path(entry.path)


def _content(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("not a regular file")
        data = read_now(file, LIMIT_BYTES + 1)
    if path.name.endswith(".gz"):
        with gzip.GzipFile(fileobj=BytesIO(data)) as packed:
            data = packed.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        raise ValueError(f"larger than {LIMIT_BYTES >> 20} MiB")
    return data


def _read(
    data: bytes, answer: FolderRead, runs: dict[tuple[str, tuple[str, ...]], NetLook]
) -> None:
    """Sort one document in; ValueError for one that is broken."""
    try:
        schema = msgspec.json.decode(data, type=_Head).schema
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError("half written, or no JSON document of gputop") from error
    if schema == NET:
        once(look_from(data), runs)
    elif schema == PLAN:
        answer.plans.append(plan_from(data))
    elif schema == CHECK:
        head = _as(data, _CheckHead)
        section = head.fleet or _CheckSection()
        name = section.host or head.node
        if name is not None and is_host(name):
            answer.hosts.add(name)
            answer.kinds[name] = kind_of(section.product)
    else:
        answer.others += 1


def once(look: NetLook, runs: dict[tuple[str, tuple[str, ...]], NetLook]) -> None:
    """Count a run once: both of its nodes may write, and a copy says nothing more."""
    key = (look.run or f"{look.round} {look.taken_at}", tuple(sorted(look.hosts)))
    before = runs.get(key)
    if before is None or (look.finished and not before.finished):
        runs[key] = look


def plan_from(data: bytes) -> PlanHead:
    """Read an earlier plan; ValueError for one that cannot be believed."""
    head = _as(data, PlanHead)
    if not all(map(is_host, _names(head))):
        raise ValueError("a plan that names no hosts")
    if any(pair.a == pair.b for pair in head.pairs):
        raise ValueError("a plan that pairs a node with itself")
    return head


def _as(data: bytes, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"a damaged document of gputop: {error}"[:200]) from error


def _names(head: PlanHead) -> Iterator[str]:
    yield from expand(head.hosts)
    for pair in head.pairs:
        yield from (pair.a, pair.b)
    for one in head.sets:
        yield from one


def _sets(texts: list[tuple[int, int, bytes]], answer: FolderRead) -> None:
    """Looks at sets, from what nccl-tests printed and the plan that has the hosts."""
    plans = {head.round: head.sets for head in answer.plans if head.sets}
    for number, place, data in texts:
        planned = plans.get(number, ())
        if not 1 <= place <= len(planned):
            answer.skip(f"set-{number}-{place}.txt", "no plan in the folder has this set")
            continue
        found = _BUS.search(data)
        gbs = float(found[1]) if found is not None and found[1].count(b".") < 2 else None
        flows = () if gbs is None else (NetFlow(what="all_reduce", gbs=gbs),)
        answer.looks.append(
            NetLook(
                hosts=planned[place - 1],
                status=FAILED if gbs is None else FINISHED,
                why="no average bus bandwidth" if gbs is None else None,
                results=flows,
                round=number,
            )
        )


def silent(answer: FolderRead) -> list[NetLook]:
    """A look that is absent for each pair of a plan that gave no file, once its round has others.

    A launcher that never came so far, or a file system that lost the file, look the same.
    """
    answered = {(look.round, frozenset(look.hosts)) for look in answer.looks}
    begun = {look.round for look in answer.looks}
    found = []
    for head in answer.plans:
        if head.round not in begun:
            continue
        for pair in head.pairs:
            if (head.round, frozenset((pair.a, pair.b))) not in answered:
                answer.unanswered[head.round] = answer.unanswered.get(head.round, 0) + 1
                found.append(
                    NetLook(hosts=(pair.a, pair.b), status=ABSENT, why=NO_FILE, round=head.round)
                )
    return found
