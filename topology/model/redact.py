"""Remove what identifies a machine or a person from a snapshot, consistently.

The same name becomes the same stand-in everywhere, also inside sentences, so that a redacted
snapshot still shows which two values were equal.
"""

import hmac
import ipaddress
import re
from functools import partial
from typing import Any, TypeVar

import msgspec

from .snapshot import NodeSnapshot

UUID = re.compile(
    r"\b(?:GPU-|MIG-)?[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
)
MAC = re.compile(r"\b(?:[0-9a-fA-F]{2}:){5,19}[0-9a-fA-F]{2}\b")
GUID = re.compile(r"\b[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){3,7}\b")
BARE_GUID = re.compile(r"\b(?:0x)?(?=[0-9]*[a-fA-F])[0-9a-fA-F]{16}\b")
NAMED_BY_MAC = re.compile(r"\benx[0-9a-f]{12}\b")
"""The name of an interface that systemd derives from its MAC address."""
PROGRAM = re.compile(
    r"(?<=, name=)[^,'<]{1,40}|(?<=INFO: task )[^:]{1,40}(?=:\d)|(?<=for process )\S.*?(?= pid )"
    r"|(?<= thread )\S.*?(?= pid )"
)
"""How lines of the kernel's log name a program."""
DOMAIN = r"(?:\.[A-Za-z][\w-]*)*"
IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?(?![\d.])")
IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:.])")
PATH = re.compile(r"(?<![\w/.])/(?:[\w.+@~-]+/)*[\w.+@~-]+")

WORD = re.compile(r"\w+")
MOST_TEXTS = 50_000
SAYS_NOTHING = frozenset({bool, int, float, type(None)})
"""What a large snapshot mostly consists of."""
VARIABLE_KEYS = frozenset({"gaps", "name", "value", "origin"})
ELEMENT_KEYS = frozenset({"tag", "attributes", "children"})

PATTERNS = (
    ("uuid", UUID),
    ("mac", MAC),
    ("guid", GUID),
    ("guid", BARE_GUID),
    ("interface", NAMED_BY_MAC),
    ("ip", IPV4),
    ("ip", IPV6),
    ("command", PROGRAM),
)

FIELDS = {
    "hostname": "host",
    "serial": "serial",
    "uuid": "uuid",
    "cluster_uuid": "uuid",
    "boot_id": "uuid",
    "xgmi_hive": "hive",
    "mac": "mac",
    "guid": "guid",
    "lid": "lid",
    "user": "user",
    "command": "command",
    "parent_command": "command",
    "job": "job",
    "nccl_path": "path",
    "torch_path": "path",
    "library_path": "path",
}
"""Fields whose whole value is replaced, and by what kind of stand-in."""

SEARCHED = frozenset({"host", "serial", "uuid", "hive", "mac", "guid", "user", "ip"})

XML_ATTRIBUTES = {"host_hash": "hash", "guid": "hash"}
"""Attributes of a topology XML that identify a machine; both are numbers there."""

LISTS = {"ips": "ip", "arguments": "argument", "programs": "command", "job_names": "job"}

LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")
"""Addresses at which the ranks of a single host meet; every machine has them."""

PLAIN_VALUE = re.compile(r"^[\w^=,:+.*-]{0,64}$")
HOST_VARIABLES = re.compile(r"HOST|ADDR|SERVER|COMM_ID|USER|ENDPOINT|_IP$")
SYSTEM_PATHS = (
    "/.dockerenv",
    "/run/",
    "/proc/",
    "/sys/",
    "/dev/",
    "/usr/",
    "/opt/",
    "/etc/",
    "/var/",
    "/lib",
)
"""Paths that every machine has; they do not say whose machine it is."""

T = TypeVar("T")


class Redactor:
    """Gives stand-ins, always the same one for the same value."""

    def __init__(self, key: bytes | None = None) -> None:
        """`key`: a secret; with it a value has one stand-in in every document, else in one."""
        self._key = key
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._given: set[str] = set()
        self._tails: dict[str, str] = {}
        """Values that are searched for inside sentences too, with what may follow them."""
        self._by_word: dict[str, list[str]] = {}
        """The same by their longest word: not each of thousands of users is tried."""
        self._texts: dict[str, str] = {}
        """Sentences already redacted; valid until another value is added."""

    def stand_in(self, kind: str, value: str) -> str:
        """The stand-in for `value`, in the shape of its kind, so that parsers can read it."""
        if not value or not value.strip("0:-. ") or value == "root":
            return value  # all zeros is a fact ("no fabric cluster"), and root is nobody's name
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = _shape(kind, self._number(kind, value), value)
            self._given.add(known)
            if kind in SEARCHED and len(value) >= 3:
                self._search(value, DOMAIN if kind == "host" else "")
            if kind == "host" and "." in value:
                short = value.split(".")[0]
                self._known.setdefault(short, known)
                if short not in self._tails:
                    self._search(short, DOMAIN)
        return known

    def _number(self, kind: str, value: str) -> int:
        if self._key is not None:
            text = value.split(".")[0] if kind == "host" else value  # its short name is the same
            made = hmac.digest(self._key, f"{kind}\0{text}".encode(errors="replace"), "sha256")
            return int.from_bytes(made[:5], "big")
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return self._counts[kind]

    def _search(self, value: str, tail: str) -> None:
        if value not in self._tails:
            # Nothing of a word stands before or after a match, so its words are whole words there.
            key = max(WORD.findall(value), key=len, default="")
            self._by_word.setdefault(key, []).append(value)
        self._tails[value] = tail
        self._texts.clear()

    def text(self, value: str) -> str:
        """A sentence with everything that looks like an identity replaced."""
        redacted = self._texts.get(value)
        if redacted is None:
            redacted = self._text(value)
            if len(self._texts) < MOST_TEXTS:
                self._texts[value] = redacted
        return redacted

    def copy(self, value: Any, kind: type[T]) -> T:
        """The same record or tuple of records of that kind, with stand-ins."""
        return msgspec.convert(replaced(msgspec.to_builtins(value), self), kind)

    def _text(self, value: str) -> str:
        words = {"", *WORD.findall(value)}
        found = {
            original
            for word in words
            for original in self._by_word.get(word, ())
            if original in value
        }
        for original in sorted(found, key=lambda original: (-len(original), original)):
            whole = rf"(?<!\w){re.escape(original)}{self._tails[original]}(?!\w)"
            value = re.sub(whole, _literal(self._known[original]), value)
        for kind, pattern in PATTERNS:
            value = pattern.sub(partial(self._seen, kind), value)
        return PATH.sub(self._path, value)

    def _seen(self, kind: str, match: re.Match[str]) -> str:
        value = match.group()
        if value in self._given or (kind == "ip" and not _is_address(value)):
            return value
        return self.stand_in(kind, value)

    def _path(self, match: re.Match[str]) -> str:
        value = match.group()
        if f"{value}/".startswith(SYSTEM_PATHS) or value in self._given:
            return value
        return self.stand_in("path", value)


def _is_address(text: str) -> bool:
    """Whether the text is an IP address; a version number or a PCI address looks like one."""
    try:
        ipaddress.ip_address(text.split("/")[0])
    except ValueError:
        return False
    return True


def _literal(text: str) -> str:
    return text.replace("\\", r"\\")


def redacted(snapshot: NodeSnapshot) -> NodeSnapshot:
    """The snapshot without host names, serials, UUIDs, MACs, GUIDs, addresses, users and paths."""
    redactor = Redactor()
    plain = msgspec.to_builtins(snapshot)
    learn(plain, redactor)
    return msgspec.convert(replaced(plain, redactor), NodeSnapshot)


def learn(value: Any, redactor: Redactor) -> None:
    """First pass: learn the identities from the fields that hold them; `value` is of JSON."""
    if isinstance(value, dict):
        for name, member in value.items():
            if member.__class__ in SAYS_NOTHING or not member:
                continue
            if name in FIELDS and isinstance(member, str):
                redactor.stand_in(FIELDS[name], member)
            elif name in LISTS and isinstance(member, (list, tuple)):
                for item in member:
                    redactor.stand_in(LISTS[name], str(item))
            else:
                learn(member, redactor)
    elif isinstance(value, (list, tuple)):
        for member in value:
            learn(member, redactor)


def replaced(value: Any, redactor: Redactor) -> Any:
    """Second pass: the same with stand-ins."""
    if isinstance(value, dict):
        if value.keys() == VARIABLE_KEYS:
            return {
                **value,
                "value": _variable(value, redactor),
                "origin": redactor.text(value["origin"]),
            }
        if value.keys() == ELEMENT_KEYS:
            return _element(value, redactor)
        return {
            name: member
            if member.__class__ in SAYS_NOTHING or not member
            else _field(name, member, redactor)
            for name, member in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [replaced(member, redactor) for member in value]
    return redactor.text(value) if isinstance(value, str) else value


def _element(element: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """An element of a topology XML; the root's name is that of a machine."""
    kinds = XML_ATTRIBUTES | ({"name": "host"} if element["tag"] == "system" else {})
    attributes = [
        [name, redactor.stand_in(kinds[name], value)]
        if name in kinds and value.strip("0x")
        else [name, redactor.text(value)]
        for name, value in element["attributes"]
    ]
    children = [_element(child, redactor) for child in element["children"]]
    return {"tag": element["tag"], "attributes": attributes, "children": children}


def _field(name: str, value: Any, redactor: Redactor) -> Any:
    if name in FIELDS and isinstance(value, str):
        return redactor.stand_in(FIELDS[name], value)
    if name in LISTS and isinstance(value, (list, tuple)):
        return [redactor.stand_in(LISTS[name], str(item)) for item in value]
    if name == "variables" and isinstance(value, (list, tuple)):
        return [[item, _variable({"name": item, "value": v}, redactor)] for item, v in value]
    if name == "rendezvous" and isinstance(value, str):
        host, colon, port = value.rpartition(":")
        if host in LOOPBACK:
            return value
        kind = "ip" if _is_address(host.strip("[]")) else "host"
        return f"{redactor.stand_in(kind, host)}{colon}{port}"
    return replaced(value, redactor)


def _variable(variable: dict[str, Any], redactor: Redactor) -> str:
    """A value of a variable: numbers, words and device lists stay, the rest is replaced."""
    value = str(variable["value"])
    if HOST_VARIABLES.search(variable["name"]) or not PLAIN_VALUE.match(value):
        return redactor.stand_in("value", value)
    return redactor.text(value)


def _shape(kind: str, number: int, value: str) -> str:
    if kind == "uuid":
        prefix = value[:4] if value.startswith(("GPU-", "MIG-")) else ""
        return f"{prefix}00000000-0000-4000-8000-{number:012d}"
    if kind == "mac":
        return "02:00:" + ":".join(f"{number >> shift & 255:02x}" for shift in (24, 16, 8, 0))
    if kind == "guid":
        return "0000:" + ":".join(f"{number >> shift & 0xFFFF:04x}" for shift in (32, 16, 0))
    if kind == "hash":
        return f"0x{number:x}"
    if kind == "interface":
        return f"enx0200{number:08x}"
    if kind == "ip":
        mask = "/" + value.split("/")[1] if "/" in value else ""
        if ":" in value:
            return f"2001:db8::{number:x}{mask}"
        return f"192.0.2.{number % 256}{mask}"
    if kind == "job":
        return f"{value.split()[0]} job-{number}"
    if kind == "path":
        return f"/redacted/{number}"
    return f"{kind}-{number}"
