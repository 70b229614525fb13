"""Limits of the attributes of a topology XML; only nonsense is refused.

NCCL reads numbers with C's strtol and strtoull (graph/xml.h), which take "0x10" and stop at the
first other character; unknown elements and attributes are skipped there and not judged here.
"""

import math
import re
from functools import lru_cache

_NUMBER = re.compile(r"\s*([+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}))(?![\w.])", re.ASCII)
_HEX = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,16}", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-fA-F]{1,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]", re.ASCII)
_HIDDEN = re.compile(r"[fF]{4,8}(?::[fF]{2,4}){1,2}(?:\.[fF0])?", re.ASCII)
"""What the driver gives for an NVLink end that a virtual machine does not see."""
_CLASS = re.compile(r"0[xX][0-9a-fA-F]{1,8}", re.ASCII)
_MASK = re.compile(r"(?:0[xX])?[0-9a-fA-F,]*", re.ASCII)

KEPT = 1024
"""Numbers: large files repeat most."""
MOST_LINKS = 4096
"""NVLinks to one target; today's GPUs have 18."""
MOST_MBPS = 2**31 - 1

_INTEGERS: dict[tuple[str, str], tuple[int, int]] = {
    ("system", "version"): (0, 2**31 - 1),
    ("cpu", "numaid"): (-1, 65_535),
    ("cpu", "familyid"): (0, 65_535),
    ("cpu", "modelid"): (0, 65_535),
    ("pci", "vendor"): (0, 0xFFFF),
    ("pci", "device"): (0, 0xFFFF),
    ("pci", "subsystem_vendor"): (0, 0xFFFF),
    ("pci", "subsystem_device"): (0, 0xFFFF),
    ("pci", "link_width"): (0, 1024),
    ("gpu", "dev"): (-1, 65_535),
    ("gpu", "sm"): (0, 65_535),
    ("gpu", "rank"): (-1, 2**24),
    ("gpu", "gdr"): (0, 1),
    ("gpu", "arch"): (0, 2**32 - 1),
    ("nvlink", "count"): (0, MOST_LINKS),
    ("xgmi", "count"): (0, MOST_LINKS),
    ("c2c", "count"): (0, MOST_LINKS),
    ("c2c", "bw"): (0, 10**7),
    ("net", "dev"): (-1, 65_535),
    ("net", "speed"): (-1, MOST_MBPS),
    ("net", "port"): (0, 65_535),
    ("net", "maxconn"): (0, 2**31 - 1),
    ("net", "gdr"): (0, 1),
    ("net", "coll"): (0, 1),
    ("net", "net"): (0, 1),
    ("net", "gin"): (0, 1),
    ("net", "rma"): (0, 1),
}
"""Least and greatest value. A NIC may say -1 for a speed that it does not know."""

_NEVER_EMPTY = {
    ("system", "version"), ("cpu", "numaid"), ("gpu", "dev"), ("gpu", "sm"), ("gpu", "rank"),
    ("nvlink", "count"), ("xgmi", "count"), ("c2c", "count"), ("c2c", "bw"), ("net", "dev"),
}  # fmt: skip
"""NCCL itself writes an empty link_width and link_speed where /sys says nothing."""


@lru_cache(KEPT)
def number(text: str) -> int | None:
    """The whole number at the start, in base 16 or 10; None when there is none.

    A number of 20 digits and more is none; octal "010" counts as ten, for no file means eight.
    """
    match = _NUMBER.match(text)
    if match is None:
        return None
    digits = match[1].lower()
    return int(digits, 16 if "0x" in digits else 10)


def is_address(text: str) -> bool:
    """Whether it is a PCI address, "0000:3b:00.0", with a domain of up to eight digits."""
    return _ADDRESS.fullmatch(text) is not None


def is_hidden(text: str) -> bool:
    """Whether it is the address of a device that the driver hides: all digits are f."""
    return _HIDDEN.fullmatch(text) is not None


def complaint(tag: str, name: str, value: str) -> str | None:
    """Say what is wrong with an attribute, as a clause; None when it makes sense."""
    limits = _INTEGERS.get((tag, name))
    if limits is not None:
        return _integer(value, *limits, empty=(tag, name) not in _NEVER_EMPTY)
    if name == "busid" and tag == "pci":
        return None if is_address(value) else "is not a PCI address"
    if name == "target" and tag in ("nvlink", "xgmi", "pcilink"):
        return None if is_address(value) or is_hidden(value) else "is not a PCI address"
    if (tag, name) == ("pci", "class") or name == "tclass":
        return None if not value or _CLASS.fullmatch(value) else "is not a PCI class"
    if (tag, name) in (("cpu", "host_hash"), ("net", "guid")):
        return None if not value or _HEX.fullmatch(value) else "is not a number of base 16"
    if (tag, name) == ("cpu", "affinity"):
        return None if _MASK.fullmatch(value) else "is not a CPU mask"
    return _latency(value) if (tag, name) == ("net", "latency") else None


def _integer(value: str, least: int, most: int, *, empty: bool) -> str | None:
    if empty and not value:
        return None
    found = number(value)
    if found is None:
        return "is not a whole number"
    return None if least <= found <= most else f"is not between {least} and {most}"


def _latency(value: str) -> str | None:
    try:
        microseconds = float(value or "0")
    except ValueError:
        return "is not a number"
    fits = math.isfinite(microseconds) and 0 <= microseconds < 1e9
    return None if fits else "is no latency in microseconds"
