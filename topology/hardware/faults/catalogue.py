"""The catalogue of faults: what a code or line of the kernel's log means, and what to do about it.

The tables beside this file are read at the first fault; a node without any costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ...model.gathered import gathered
from ...model.kernel_event import KernelEvent, KernelSource
from ...model.literals import PatternIndex
from ...model.page import Fix
from ...model.severity import BROKEN, CANNOT_TELL, NOTICE, SLOW, Severity, Sureness
from ...toml import tomllib

ADDRESS = r"[\da-f]{4,8}:[\da-f]{2}:[\da-f]{2}\.[\da-f]"
"""What {dev} stands for in the patterns."""
OTHER = "xid-other"
"""The rule of Xids that no other one has."""
NEW_WORDS = 575
"""Driver since which the first number of Xid 144 to 150 has another form."""
SAME_PLACE = 3
"""So many programs that crash in one part of a GPU make the GPU itself suspect."""
OF_MEMORY = ("FAULT_INFO_TYPE_POISONED", "Double Bit ECC Error")
"""Words of Xid 13 and 31 that speak of the GPU's memory, not of the program."""
WANTS = re.compile(r"(?i)\breset\b")
"""What a line says further of a fault that a reset ends."""
RESET, RESTART, IGNORE = "reset-gpu", "restart-program", "ignore"
ASK = "ask-recovery"
"""Where an Xid 154 does not say, in a word that is known, what the driver wants."""
ASKED = {
    "0x0": (NOTICE, ""), "0x1": (BROKEN, RESET), "0x2": (BROKEN, "restart-node"),
    "0x3": (BROKEN, "drain-p2p"), "0x4": (SLOW, "drain-and-reset"),
}  # fmt: skip
"""What Xid 154 asks for: the numbers of NVML's recovery action."""


_NO_WORD = re.compile(r" ?\([^()]*\{what\}[^()]*\)| \{what\}")
"""The place for a word in what a fault means."""


class FaultGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults that one rule finds."""

    id: str
    title: str
    impact: str
    look: tuple[str, ...]
    after: tuple[str, ...] = ()
    """Rules that explain it."""


class KernelFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of xid.toml, sxid.toml or kernel.toml, whose heads tell the columns."""

    id: str = ""
    code: int = 0
    name: str = ""
    label: str = ""
    """"Xid 145 RLW_RXPIPE"; "" for a line in words."""
    rule: str = OTHER
    says: str = "a number that this version of gputop does not know"
    unit: str = ""
    severity: Severity = CANNOT_TELL
    act: str = ""
    then: str = ""
    fix: tuple[str, ...] = ()
    sure: Sureness = Sureness.CERTAIN
    source: str = ""
    on: str = ""
    asks: int | None = None
    since: int = 0
    before: str = ""
    fatal: str = ""
    words: str = ""
    any: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    many: int = 0
    many_severity: Severity = NOTICE
    clears: str = ""
    back: tuple[str, ...] = ()
    general: bool = False
    adds: tuple[str, ...] = ()

    @property
    def only_adds(self) -> bool:
        """Whether its line is of no fault, but tells more about one before it."""
        return bool(self.adds) and self.rule == OTHER

    def told(self, words: Sequence[str] = ()) -> str:
        """What it means, with the first word of its line where `says` has a place for one."""
        return self.says.replace("{what}", words[0]) if words else _NO_WORD.sub("", self.says)

    def but(self, **changed: Any) -> KernelFault:
        """The same, otherwise."""
        return msgspec.structs.replace(self, **changed)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of kernel.toml; made for a line that may match it, for all of them take 12 ms."""
    return re.compile(_in_full(pattern))


def _in_full(pattern: str) -> str:
    return pattern.replace("{dev}", ADDRESS)


@cache
def rows(name: str) -> Any:
    """One of the files beside this one."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_bytes().decode())


@cache
def groups() -> tuple[FaultGroup, ...]:
    """The groups, the most harmful first."""
    return tuple(msgspec.convert(row, FaultGroup) for row in rows("kernel")["group"])


@cache
def signs() -> tuple[str, ...]:
    """Texts of which each line about a fault holds one."""
    return tuple(rows("kernel")["signs"])


@cache
def faults(kind: str) -> dict[str, KernelFault]:
    """The rows of a source by code: "79", "20034", "aer-fatal"."""
    names = {KernelSource.LINE: ("kernel", "line"), KernelSource.OPERATIONAL: ("nvml", kind)}
    file, name = names.get(KernelSource(kind), (kind, kind))
    table = rows(file)[name]
    made = (msgspec.convert(row, KernelFault) for row in table)
    return {row.id or str(row.code): row for row in made}


def in_words(line: str) -> tuple[KernelFault, re.Match[str]] | None:
    """The first row in words that a line matches; only patterns whose texts it holds are tried."""
    patterns = _patterns()
    for order in _index().possible(line):
        row, pattern = patterns[order]
        if (found := compiled(pattern).search(line)) is not None:
            return row, found
    return None


@cache
def _patterns() -> list[tuple[KernelFault, str]]:
    return [(row, one) for row in faults(KernelSource.LINE).values() for one in row.any]


@cache
def _index() -> PatternIndex:
    return PatternIndex(_in_full(pattern) for _, pattern in _patterns())


@cache
def cleared() -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    """Patterns of lines that end faults, each with these."""
    rows = faults(KernelSource.LINE).values()
    ended = gathered((row.clears, row.id) for row in rows if row.clears)
    return tuple((compiled(pattern), tuple(codes)) for pattern, codes in ended.items())


@cache
def meanings(of: str) -> dict[str, str]:
    """What words in a line of that fault mean: "xid 31", "aer-fatal"."""
    tables = (table["says"] for table in rows("words")["words"] if of in table["of"])
    return {str(word): says for table in tables for word, says in table.items()}


def named(event: KernelEvent) -> str:
    """How words.toml calls its fault."""
    return event.code if event.kind is KernelSource.LINE else f"{event.kind} {event.code}"


def told(event: KernelEvent) -> Iterator[tuple[str, str]]:
    """Further words of an event, each with its meaning: "SDES", "the link went down"."""
    known = meanings(named(event))
    yield from ((word, known[word]) for word in event.details if word in known)
    if named(event) == "xid 74":
        yield from _registers(event.said)


def fixes(fault: KernelFault, device: str | None) -> Iterator[Fix]:
    """What to do: at once, and if it comes back."""
    known = {row["id"]: row for row in rows("actions")["action"]}
    for name in dict.fromkeys(filter(None, (fault.act, fault.then))):
        command = known[name].get("command", "")
        command = command.format(device) if device or "{}" not in command else ""
        root = known[name].get("root", False)
        yield Fix(text=known[name]["text"], command=command, needs_root=root)
    yield from (Fix(text=text) for text in fault.fix)


def fault_of(event: KernelEvent, driver: int | None = None) -> KernelFault:
    """What an event means; `driver`: the first number of NVIDIA's version, where it is known."""
    label = {KernelSource.XID: "Xid ", KernelSource.SXID: "SXid "}.get(event.kind)
    row = faults(event.kind).get(event.code, KernelFault())
    row = row.but(label=f"{label}{event.code}" if label else "")
    if event.kind is KernelSource.LINE and any(map(WANTS.search, event.details)):
        row = row.but(act=row.act or RESET)
    if row.many and event.count >= row.many:
        row = row.but(severity=row.many_severity)
    if row.before and driver is not None and driver < row.since:
        row = row.but(says=row.before.partition(": ")[2])
    elif (change := CHANGES.get(named(event), CHANGES.get(event.kind))) is not None:
        row = change(event, row, driver)
    return row.but(severity=NOTICE) if event.over else row


def _of_switch(event: KernelEvent, row: KernelFault, _driver: int | None) -> KernelFault:
    """The line's own word counts: what is fatal depends on the generation of the switch too."""
    if event.said == "Fatal" and row.severity is not BROKEN:
        row = row.but(severity=BROKEN, act="reset-fabric")
    elif event.said in ("Non-fatal", "Correctable") and row.fatal != "no":
        row = row.but(severity=NOTICE, act=IGNORE)
    fatal = event.said == "Fatal" or (not event.said and row.fatal in ("fatal", "always"))
    return row.but(rule="nvswitch-fatal" if fatal else "nvswitch-error")


def _asked(event: KernelEvent, row: KernelFault, _driver: int | None) -> KernelFault:
    """Xid 154: the driver says itself what it needs."""
    number = event.said.partition(" ")[0]
    severity, act = ASKED.get(number, (BROKEN if event.said else CANNOT_TELL, ASK))
    called = (
        f"what it calls {event.said}" if event.said else "an action that the line does not name"
    )
    wants = meanings("xid 154").get(number, called)
    return row.but(says=f"the driver asks for {wants}", severity=severity, act=act)


def _crashed(event: KernelEvent, row: KernelFault, _driver: int | None) -> KernelFault:
    """Xid 13 and 31: a program's own fault, unless it is memory or always the same place."""
    places = {word for word in event.details if word.startswith("GPC ")}
    if set(event.details) & set(OF_MEMORY):
        return row.but(severity=BROKEN, unit="memory", act="run-diagnostics", then="")
    if len(places) == 1 and len(event.programs) >= SAME_PLACE:
        says = f"{len(event.programs)} programs crashed in the same part of the GPU"
        act, then, sure = "run-diagnostics", "contact-support", Sureness.POSSIBLE
        return row.but(says=says, severity=SLOW, unit="gpu", act=act, then=then, sure=sure)
    return row


def _link_failed(event: KernelEvent, row: KernelFault, _driver: int | None) -> KernelFault:
    """Xid 74: bits that are harmless or corrected, alone, end nothing."""
    bits = [says for _, says in _registers(event.said)]
    calm = bits and all(says.startswith(("harmless", "corrected")) for says in bits)
    return row.but(severity=NOTICE, act=IGNORE) if calm else row


def _registers(said: str) -> Iterator[tuple[str, str]]:
    """The bits of the registers of Xid 74 that are set, and what they mean."""
    for place, text in enumerate(said.split(), 1):
        for bits, says in meanings(f"xid 74 {place}").items():
            on = [bit for bit in bits.split() if int(text, 16) >> int(bit) & 1]
            if on:
                yield f"register {place}, bit {', '.join(on)}", says


def _of_nvlink5(event: KernelEvent, row: KernelFault, driver: int | None) -> KernelFault:
    """Xid 144 to 150: unit, reason and status say which part of a link, and how bad."""
    unit, fatal, *numbers = [*event.said.split(), "", "", "", ""][:4]
    act = RESET if fatal == "Fatal" else "watch-link"
    harm = {"Fatal": BROKEN, "Nonfatal": NOTICE}.get(fatal, row.severity)
    row = row.but(
        label=f"{row.label} {unit}".strip(), severity=harm, act=act, then="contact-support"
    )
    if not all(numbers):
        return row
    info, status = (int(number, 16) for number in numbers)
    old = info & 0x3FF if driver is None or driver < NEW_WORDS else None
    new = info & 0x7F if driver is None or driver >= NEW_WORDS else None
    reason = info >> 20 & 0x3F
    same = [
        known
        for known in rows("nvlink5")["nvlink5"]
        if (str(known["xid"]), known.get("reason", 0)) == (event.code, reason)
        and unit in known["unit"]
        and (known["v1"] == old or known["v2"] == new)
    ]
    same = _of_status(same, status)
    if not same:
        return row
    # The bit above the name of the unit raises what would end nothing to a fatal error.
    worst = _worst_act(same, raised=bool(info >> (10 if same[0]["v1"] == old else 7) & 1))
    if worst == RESET or fatal != "Fatal":
        row = row.but(severity=BROKEN if worst == RESET else NOTICE, act=worst)
    return row.but(says=_said_of(same[0], reason, row.says), then=same[0].get("then", ""))


def _of_status(same: list[dict[str, Any]], status: int) -> list[dict[str, Any]]:
    """The entries of a status, else those of any of its bits."""
    exact = [one for one in same if one.get("status", status) == status]
    return exact or [one for one in same if one["status"] & status]


def _worst_act(same: list[dict[str, Any]], *, raised: bool) -> str:
    acts = {one.get("promoted", one["act"]) if raised else one["act"] for one in same}
    return next((act for act in (RESET, RESTART) if act in acts), IGNORE)


def _said_of(known: dict[str, Any], reason: int, says: str) -> str:
    """What an entry says, with the words of the reason where it has one."""
    words = rows("nvlink5")["reasons"].get(str(reason), "") if "reason" in known else ""
    said = "an NVLink went down" if "NETIR_LINK_DOWN" in known["unit"] else says
    return f"{said}: {words}" if words else said


Change = Callable[[KernelEvent, KernelFault, "int | None"], KernelFault]
CHANGES: dict[str, Change] = {
    "xid 13": _crashed, "xid 31": _crashed, "xid 74": _link_failed, "xid 154": _asked,
    KernelSource.SXID: _of_switch,
    **{f"xid {code}": _of_nvlink5 for code in range(144, 151)},
}  # fmt: skip
"""Faults of which more words of their lines change what they mean."""
