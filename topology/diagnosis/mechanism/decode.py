"""A line about a failure in words that no row knows: what failed, the code, who can be guilty."""

from __future__ import annotations

import ipaddress
import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from ...model.finding import Finding
from ...model.gathered import gathered
from ...model.page import Fact, Fix
from ...model.severity import CANNOT_TELL, Origin, Sureness
from ...toml import tomllib
from .causes import PossibleCause, matching, ranked
from .codes import Code, Family, code_in
from .speaking import speaking

MOST = 4
"""Findings of one text."""
MOST_LINES = 4
ID = "failed-operation"
UNSAID = "Nothing in this text says who is guilty."
NOBODY = "the lines before it, and the same run with more output (NCCL_DEBUG=INFO)"


LONGEST = 160
"""Characters of a line in a title."""
_NAMED = re.compile(r"[\w.()-]{2,40}")
"""A token that is a name."""


class FailedOperation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of operations.toml."""

    layer: str
    any: tuple[str, ...] = ()
    """Functions, objects and phrases: the operation itself."""
    names: tuple[str, ...] = ()
    """Programs and libraries that do it: who says a line, or what it speaks of, and not what
    failed."""
    does: str
    sources: tuple[str, ...]
    cause: tuple[PossibleCause, ...]


class FailingLine(NamedTuple):
    """One line of a text."""

    number: int
    text: str


class Decoded(NamedTuple):
    """What one line proves."""

    operation: FailedOperation | None
    token: str
    """The operation as the line names it: "ncclDevCommCreate"."""
    code: Code | None
    words: str = ""
    """The line, shortened."""
    by_name: bool = False
    """Whether the line names only a program or library, and no operation of it."""

    @property
    def key(self) -> str:
        """What lines of one failure have in common: the operation, else the code."""
        if self.operation is not None:
            return self.operation.does
        return self.code.name if self.code else ""

    @property
    def ends(self) -> bool:
        """Whether it says how a process ended, and nothing of what it did."""
        return self.operation is not None and self.operation.does == RUN_ON

    @property
    def title(self) -> str:
        """What failed, as one clause."""
        code, operation = self.code, self.operation
        if operation is not None and not self.ends:
            # A code that stands in place of a name is said behind it.
            if self.by_name:
                return f"a line about {self.token} speaks of a failure: {self._said}"
            named = _NAMED.fullmatch(self.token) and not (code and self.token in code.said)
            what = f"{self.token} cannot" if named else "something failed to"
            return f"{what} {operation.does}: {self._said}"
        if code is not None and code.family is Family.SIGNAL:
            return f"a process was ended by {code.said}"
        if code is not None and code.family is Family.EXIT:
            return f"a process ended with {code.said}"
        return f"a line speaks of a failure: {code.said}" if code else ""

    @property
    def _said(self) -> str:
        return self.code.said if self.code else self.words


TABLES = (
    "operations.toml", "drivers.toml", "containers.toml", "frameworks.toml", "general.toml",
)  # fmt: skip
LAUNCHER, SHARED, PROGRAM = "launcher", "shared memory", "program"
RUN_ON = "keep a process of the job running"


@cache
def operations() -> tuple[FailedOperation, ...]:
    """The operations in the order of the files: those that name a program or tool come first."""
    texts = [Path(__file__).with_name(name).read_bytes().decode() for name in TABLES]
    rows = [row for text in texts for row in tomllib.loads(text)["operation"]]
    return tuple(msgspec.convert(row, FailedOperation) for row in rows)


def decode(text: str) -> Decoded | None:
    """What a line that speaks of a failure proves; None where it names no operation and no code."""
    code = code_in(text)
    spoken = speaking(text)
    launched = code is not None and code.family in (Family.SIGNAL, Family.EXIT)
    named: Decoded | None = None
    for operation in operations():
        if not _may_say(operation, launched):
            continue
        found = _first(operation.any, spoken)
        if found is not None and (named is None or _usual(operation, code)):
            return Decoded(operation, _token(found, operation), code, _shortened(text))
        if named is None and (found := _first(operation.names, spoken)) is not None:
            named = Decoded(operation, _token(found, operation), code, _shortened(text), True)
    return named or (None if code is None else Decoded(None, "", code))


def _may_say(operation: FailedOperation, launched: bool) -> bool:
    """Whether it may be what a line is of: how a process ended, or another failure."""
    if launched:
        return operation.layer in (LAUNCHER, SHARED)
    return operation.layer != LAUNCHER


def _usual(operation: FailedOperation, code: Code | None) -> bool:
    """Whether the code is one of those with which the operation is known to fail."""
    return code is not None and any(code.name in cause.codes for cause in operation.cause)


def _first(patterns: tuple[str, ...], text: str) -> re.Match[str] | None:
    return matching(patterns).search(text) if patterns else None


def _token(found: re.Match[str], operation: FailedOperation) -> str:
    token = found[0].strip(" :")
    return operation.layer if "/" in token else token


def _shortened(text: str) -> str:
    return textwrap.shorten(text, LONGEST)


def decoded_findings(
    lines: Iterable[FailingLine], echoes: Iterable[FailingLine], around: Sequence[str], source: str
) -> list[Finding]:
    """One finding for each failed operation and code.

    `echoes`: lines that say only that something failed; of them an operation counts, a code does
    not. `around`: what else the text says.
    """
    decoded = [(line, decode(line.text)) for line in lines]
    decoded += [(line, _of_operation(decode(line.text))) for line in echoes]
    groups = gathered((what.key, (line, what)) for line, what in decoded if what is not None)
    ordered = sorted(groups.values(), key=lambda group: _vague(group[0][1].operation))
    return [_finding(group, around, source) for group in ordered[:MOST]]


def _vague(operation: FailedOperation | None) -> int:
    """An operation says more than how a process ended, a library's more than a program's."""
    return 2 if operation is None else int(operation.layer == PROGRAM)


def _of_operation(what: Decoded | None) -> Decoded | None:
    if what is None or what.operation is None or what.ends or what.by_name:
        return None
    return what


def _finding(
    group: Sequence[tuple[FailingLine, Decoded]], around: Sequence[str], source: str
) -> Finding:
    # Of lines about one operation some may give its code.
    what = next((one for _, one in group if one.code is not None), group[0][1])
    causes = what.operation.cause if what.operation else ()
    candidates = ranked(causes, around, what.code)
    values = tuple(dict.fromkeys(said for line, _ in group for said in named(line.text)))
    first = candidates[0] if candidates else None
    return Finding.of(
        id=ID,
        severity=CANNOT_TELL,
        title=what.title,
        evidence=tuple(
            Fact(what=f"line {line.number}", value=line.text, source=source, line=line.number)
            for line, _ in group[:MOST_LINES]
        ),
        cause="; ".join(values) if values else "" if candidates else UNSAID,
        look=(first.needs,) if first else (NOBODY,),
        fix=first.fix if first else (Fix(text=f"what that shows: {NOBODY}"),),
        candidates=candidates,
        sources=what.operation.sources if what.operation else ("the code's own header",),
        sureness=Sureness.POSSIBLE,
        count=len(group),
        origin=Origin.LOG,
    )


_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
HTTP = ("GET ", "POST", "HEAD", "PUT ", "OPTI")
_BYTES = re.compile(r"\b(?:0x)?([0-9a-f]{16})\b")
NETWORKS = (
    ("127.0.0.0/8", "the loopback: no other host reaches it"),
    (
        "169.254.0.0/16",
        "link-local: no address of its network, or a cloud's service",
    ),
    ("172.17.0.0/16", "the bridge that docker makes by itself: no other host reaches it"),
    ("192.168.122.0/24", "the bridge that libvirt makes by itself: no other host reaches it"),
    ("10.244.0.0/16", "a pod's, of the network that flannel takes by itself"),
    ("100.64.0.0/10", "of carriers and overlays such as Tailscale"),
)
"""Networks by the default of the tool that makes them (RFC 3927, RFC 6598, tools' manuals)."""


def named(text: str) -> tuple[str, ...]:
    """One clause for each value of a line that says more than its digits."""
    return tuple(dict.fromkeys((*_addresses(text), *_spelled(text))))


def _addresses(text: str) -> list[str]:
    found = []
    for word in _ADDRESS.findall(text):
        try:
            address = ipaddress.ip_address(word)
        except ValueError:
            continue
        for network, what in NETWORKS:
            if address in ipaddress.ip_network(network):
                found.append(f"{word} is {what}")
    return found


def _spelled(text: str) -> list[str]:
    """Numbers of eight bytes whose bytes, the lowest first, are a text: "GET /met"."""
    found = []
    for word in _BYTES.findall(text):
        data = bytes.fromhex(word)[::-1]
        if all(32 <= byte < 127 for byte in data):
            said = data.decode("ascii")
            what = "an HTTP request, such as a monitor's" if said[:4] in HTTP else "a text"
            found.append(f'{word} spells "{said}": {what}')
    return found
