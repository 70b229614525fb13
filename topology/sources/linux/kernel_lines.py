"""Lines of the kernel's log: faults of GPUs, switches, PCIe, the IOMMU and network adapters."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import count
from operator import itemgetter
from typing import Any

import msgspec

from ...hardware.faults.catalogue import (
    ADDRESS,
    KernelFault,
    cleared,
    faults,
    in_words,
    meanings,
    signs,
)
from ...model.kernel_event import EventKey, KernelEvent, KernelSource, joined, put
from ...model.no_output import is_no_output
from ...model.part import PartialNode
from ...model.surroundings import Software
from ...model.told import is_told

LONGEST = 300
NEWS_SECONDS = 3600.0
"""After so long a line of a live log is history: the state of now is in what the drivers say."""
RESTARTED, ASKS_NOTHING = "the host was started again", "the driver asks for nothing any more"
CAME_BACK, LONG_AGO = "a later line says that it came back", "more than an hour went by without it"
_SINCE = " s after the start"
_CLOCK = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
)
_BRACKETS = (
    r" *\+?\d+\.\d{1,6}|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}"
    r"|[A-Z][a-z]{2} ?\d+ \d\d:\d\d"
)
_BEFORE = r"[\s>|*`]{0,8}(?:kern *:\w+ *: )?"
_KERNEL = r"(?:[\w.-]{1,64} )?kernel(?:\[\d+\])?: +"
_CUT = r"[ \d:+]{0,12}\d\.\d{6}\] "
"""A head without its beginning, as where a paste was marked with the mouse."""
_HEAD = re.compile(
    rf"{_BEFORE}(?:(?P<clock>{_CLOCK}) +)?(?:{_KERNEL})?"
    rf"(?:\d{{1,3}},\d+,(?P<us>\d+),[^;]{{0,40}};)?(?:\[(?P<since>{_BRACKETS})\] ?|{_CUT})?"
)
"""What dmesg, journalctl, syslog and /dev/kmsg print before a line itself; each part may lack."""
KERNELS = re.compile(
    rf"{_BEFORE}(?:\d{{4}}-\d\d-\d\dT[\d:]{{8}},\d+[+-]\d\d:?\d\d |"
    rf"(?:(?:{_CLOCK}) +)?(?:{_KERNEL}|\d{{1,3}},\d+,\d+,[^;]{{0,40}};|\[(?:{_BRACKETS})\] "
    rf"|{_CUT}))"
    r"|[ \t]{4,60}NVRM:? "
)
"""The same, where it shows that the line is the kernel's; NVIDIA's sentences go on without it."""
_XID = re.compile(
    r"Xid \((?:PCI:)?(?P<device>[\da-fA-F]{4,8}:[\da-fA-F]{2}:[\da-fA-F]{2})(?:\.\d)?"
    r"(?: GPU-I:(?P<instance>\d+))?[^)]{0,20}\): (?P<code>0x[\da-f]{1,4}|\d{1,4})\b"
    r"(?:, pid='?(?P<pid>[^,']{0,20})'?)?(?:, name=(?P<process>[^,]{0,40}))?,? ?(?P<rest>.*)"
)
_TOLD = re.compile(
    r"XidCriticalError: Xid=(?P<code>\d{1,4}) on Device=(?P<name>[\w-]{1,60})"
    r"|(?:Detected XID|X[iI][dD] error occurred on GPU \S{1,60}:|\bxid[=:]) ?(?P<other>\d{1,4})\b"
    r"|DCGM_FI_DEV_XID_ERRORS\{[^}]{0,900}\bgpu=\"(?P<gpu>\d{1,3})\"[^}]{0,900}\} "
    r"(?P<last>\d{1,4})\b"
    r"|\bX[iI][dD](?: error)?(?: code)?[ :=#]{1,2}(?P<seen>\d{1,3}) ?(?:\([^)]{1,80}\),? ?)?"
    r"(?P<verb>(?:was |has been |is )?(?:detected|reported|raised|occurred|seen) )?(?:on|for|by) "
    r"(?:GPU |device )?(?:(?:PCI:)?(?P<at>[\da-fA-F]{4,8}:[\da-fA-F]{2}:[\da-fA-F]{2}(?:\.\d)?)"
    r"|(?P<of>GPU-[\da-f-]{4,40}|(?:GPU|nvidia)? ?\d{1,3}\b))"
)
"""An Xid in the words of a device plug-in, DCGM, dcgm-exporter, gpud or another monitor."""
_HEADED = re.compile(r"\W*(?:(?:time|ts|level)=|\d{4}-\d\d-\d\d|[IWEF]\d{4} |(?:ERROR|WARN)\b)")
"""How lines of such programs begin; without it "Xid 48 on GPU 3" is somebody's sentence."""
_NVLINK5 = re.compile(
    r"(?P<unit>[A-Z][A-Z_\d]+) (?P<fatal>Nonfatal|Fatal) XC\d i\d+ Link (?P<link>-?\d+)"
    r"(?: \((?P<info>0x[\da-fA-F]{1,8}) (?P<status>0x[\da-fA-F]{1,8}))?"
)
_LINK = re.compile(r"(?i)\blink (\d{1,2})\b(?: ?\(((?:0x[\da-f]{1,8}[, ]*){3,9})\))?")
_ASKED = re.compile(r"changed from \S+ \([^)]*\) to (0x\d+ \([^)]{1,40}\))")
_PLACE = re.compile(r"GPC \d+, TPC \d+, SM \d+")
_SXID = re.compile(
    rf"(?:nvidia-(?P<name>nvswitch\d+): )?SXid \(PCI:(?P<device>{ADDRESS})\): "
    r"(?P<code>\d{1,6}),? ?"
    r"(?:(?P<more>Severity (?P<level>\d) Engine instance (?P<engine>\d+)|Data \{)"
    r"|(?:(?P<fatal>Fatal|[Nn]on-fatal|Correctable),? ?)?(?:Link (?P<link>\d+) ?)?)"
)
_NAMED = re.compile(rf"NVRM: .*\b({ADDRESS})")
_FIRST = re.compile(rf"(?:\w{{1,20}} )?({ADDRESS}): ")
"""The device of a line whose driver's name may be cut."""
_BOOT = re.compile(r"\bLinux version \d|^-- (?:Boot|Reboot)|\bCommand line: BOOT_IMAGE=")
_DRIVER = re.compile(r"NVRM: loading NVIDIA UNIX .*?\s(\d{3}\.\d{2,3}(?:\.\d{2})?)\b")
LONGEST_LINE = 4096
"""A record of the kernel has 1 KiB (kernel/printk/printk.c), and what prints it adds a head."""
_DRMN = re.compile(r"\bdrmn\d+: (?:amdgpu: )?")
_DRM_ERROR = re.compile(r"\[drm ERROR :(\w+)\] ?")
"""How drm-kmod heads lines of amdgpu (drm-kmod, linuxkpi dev_err and drm_err)."""
Said = dict[str, Any]
"""Fields of an event; "adds": the codes of the faults of which the line tells more."""


def said_in(line: str) -> Said | None:
    """What a line says of a fault; None where it says nothing."""
    said = _said_in(line[:LONGEST_LINE])
    return None if said is None else dict(said)


@lru_cache(1024)  # a driver that fails says one thing again and again
def _said_in(line: str) -> Said | None:
    of_linux = _as_linux(line)
    if not any(sign in of_linux for sign in signs()) or is_no_output(line) or is_told(line):
        return None
    if (found := _XID.search(line)) is not None:
        return _of_xid(found)
    if (found := _TOLD.search(line)) is not None:
        return _of_monitor(found, line)
    if (found := _SXID.search(line)) is not None:
        return _of_sxid(found)
    worded = in_words(of_linux)
    if worded is None:
        return None
    said = _of_line(worded[0], worded[1].groupdict())
    if said["device"] is None and (first := _FIRST.match(line)) is not None:
        said["device"] = _address(first[1])
    return said


def _of_monitor(found: re.Match[str], line: str) -> Said | None:
    """What a monitor says; None where its number says that there was no Xid."""
    if found["seen"] and not (found["verb"] or _HEADED.match(line)):
        return None
    code = int(found["code"] or found["other"] or found["last"] or found["seen"])
    name = found["name"] or found["of"] or found["gpu"] or ""
    name = f"GPU {name}" if name.isdecimal() else name
    device = _address(found["at"]) if found["at"] else None
    said = {"kind": KernelSource.XID, "code": str(code), "device": device, "name": name}
    return said if code else None


def _as_linux(line: str) -> str:
    """A line of FreeBSD's drm-kmod as Linux prints it: the drivers are the same."""
    if "drm" not in line:
        return line
    return _DRM_ERROR.sub(
        r"[drm:\1 [amdgpu]] *ERROR* ", _DRMN.sub("amdgpu: ", line, count=1), count=1
    )


def _address(text: str) -> str:
    """The address in full, "0000:9b:00.0", of 0000:9b:00, 00000000:9B:00.0 or 0x9b:0x00.0."""
    *domain, bus, device = text.lower().replace("0x", "").split(":")
    return f"{domain[0][-4:] if domain else '0000'}:{bus}:{device}{'' if '.' in device else '.0'}"


def _of_xid(found: re.Match[str]) -> Said:
    code = str(int(found["code"], 16 if found["code"].startswith("0x") else 10))
    said: Said = {"kind": KernelSource.XID, "code": code, "device": _address(found["device"])}
    rest = found["rest"]
    if found["instance"]:
        said["name"] = f"GPU instance {int(found['instance'])}"
    if found["pid"] and found["pid"].isdecimal():
        said["programs"] = (f"{found['process'] or 'a program'} ({found['pid']})",)
    return said | _behind_xid(code, rest)


def _behind_xid(code: str, rest: str) -> Said:
    """What the line of an Xid says behind its number."""
    if (unit := _NVLINK5.search(rest)) is not None:
        words = ("unit", "fatal", "info", "status")
        said = " ".join(unit[word] for word in words if unit[word])
        return {"said": said, "link": None if unit["link"].startswith("-") else int(unit["link"])}
    if (asked := _ASKED.search(rest)) is not None:
        return {"said": asked[1]}
    known = [word for word in meanings(f"xid {code}") if word in rest]
    found: Said = {"details": tuple(known + _PLACE.findall(rest))}
    if (link := _LINK.search(rest)) is not None:
        registers = (link[2] or "").replace(",", " ").split()
        found |= {"link": int(link[1]), "said": " ".join(registers)}
    return found


def _of_sxid(found: re.Match[str]) -> Said:
    said: Said = {"kind": KernelSource.SXID, "code": str(int(found["code"]))}
    said |= {"device": _address(found["device"]), "name": found["name"] or ""}
    link = found["engine"] if found["more"] else found["link"]
    fatal = "Fatal" if found["level"] == "1" else (found["fatal"] or "").capitalize()
    # Two more lines say the same in numbers: they count where the one with the words is missing.
    adds = (said["code"],) if found["more"] else ()
    return said | {"link": None if link is None else int(link), "said": fatal, "adds": adds}


def _of_line(row: KernelFault, groups: dict[str, str | None]) -> Said:
    device, what, process = (groups.get(name) for name in ("device", "what", "process"))
    return {
        "kind": KernelSource.LINE,
        "code": row.id,
        "device": _address(device) if device and ":" in device else None,
        "details": (what.strip(),) if what else (),
        "programs": (process,) if process else (),
        "adds": row.adds,
    }


class _Events:
    """The events so far: those that may still hold, and those that a later line ended."""

    def __init__(self) -> None:
        self.held: dict[EventKey, KernelEvent] = {}
        self.over: dict[EventKey, KernelEvent] = {}
        self.driver: str | None = None
        self._near: str | None = None
        """The device that NVIDIA's driver named last: it breaks its longer sentences into lines."""
        self._begun: dict[tuple[str, str | None], list[tuple[int, EventKey]]] = {}
        """The keys of the events of a code, and of a code and a device (None for any), in the order
        in which they began: a line that tells more finds its event without a search through all."""
        self._number = count()

    def read(self, line: str) -> None:
        """Take the next line; patterns take the square of the length of what is no line of it."""
        line = line[:LONGEST_LINE]
        head = _HEAD.match(line)
        text = (line if head is None else line[head.end() :]).strip()
        if _BOOT.search(text):
            self.end(RESTARTED)
        if "NVRM: " in text:
            self._read_nvidia(text)
        said = said_in(text)
        if said is None:
            self._came_back(text)
            return
        if said["device"] is None and "NVRM: " in text:
            said["device"] = self._near
        if self._goes_on(said.pop("adds", ()), said):
            return
        when = "" if head is None else _time(head)
        event = KernelEvent(text=text[:LONGEST], first=when, last=when, **said)
        self._hold(event)
        if said["code"] == "154" and said.get("said", "").startswith("0x0 "):
            self.end(ASKS_NOTHING, device=event.device)

    def _read_nvidia(self, text: str) -> None:
        """Which driver it is, and which device it names."""
        if (driver := _DRIVER.search(text)) is not None:
            self.driver = driver[1]
        if (named := _NAMED.search(text)) is not None:
            self._near = _address(named[1])

    def _goes_on(self, adds: tuple[str, ...], said: Said) -> bool:
        """Whether the line only tells more of an event before it, or of one that nobody knows."""
        latest = [last for code in adds if (last := self._latest(code, said["device"]))]
        if latest:
            key = max(latest, key=itemgetter(0))[1]
            before = self.held[key]
            details = joined(before.details, said.get("details", ()))
            self.held[key] = msgspec.structs.replace(before, details=details)
            return True
        of_line = bool(adds) and said["kind"] is KernelSource.LINE
        return of_line and faults(KernelSource.LINE)[said["code"]].only_adds

    def _hold(self, event: KernelEvent) -> None:
        key = put(self.held, event)
        if key is not None:
            begun = next(self._number), key
            for device in {event.device, None}:
                self._begun.setdefault((event.code, device), []).append(begun)

    def _latest(self, code: str, device: str | None) -> tuple[int, EventKey] | None:
        """The event of a code that began last, of a device or of any, if it may still hold."""
        begun = self._begun.get((code, device), [])
        while begun and begun[-1][1] not in self.held:
            begun.pop()
        return begun[-1] if begun else None

    def _came_back(self, text: str) -> None:
        for pattern, codes in cleared() if self.held else ():
            if (found := pattern.search(text)) is not None:
                device = found["device"] and _address(found["device"])
                for code in codes:
                    self.end(CAME_BACK, code=code, device=device)

    def end(self, why: str, **alike: object) -> None:
        """The events with these fields ended."""
        for key, event in tuple(self.held.items()):
            if all(getattr(event, name) == value for name, value in alike.items()):
                del self.held[key]
                put(self.over, msgspec.structs.replace(event, over=why))


def _time(head: re.Match[str]) -> str:
    """When a line was printed, as it is written; else in seconds since the start of the host."""
    since = (head["since"] or "").strip()
    if head["clock"] or not (head["us"] or re.fullmatch(r"\d+\.\d+", since)):
        return head["clock"] or since
    return f"{int(head['us']) / 1e6 if head['us'] else float(since):.1f}{_SINCE}"


def _seconds(when: str) -> float:
    return float(when.removesuffix(_SINCE)) if when.endswith(_SINCE) else math.inf


def read_lines(log: Iterable[str], uptime: float = 0.0) -> PartialNode:
    """The faults in lines of the kernel's log, in any of the forms that people paste.

    `uptime`: seconds since the start of the host, where the lines are those of now; else 0.
    """
    events = _Events()
    for line in log:
        events.read(line)
    for event in tuple(events.held.values()):
        if uptime - _seconds(event.last) > NEWS_SECONDS:
            events.end(LONG_AGO, text=event.text, last=event.last)
    return PartialNode(
        kernel_events=(*events.held.values(), *events.over.values()),
        software=None if events.driver is None else Software(nvidia_driver=events.driver),
    )
