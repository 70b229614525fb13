"""Lists of devices in NCCL_SOCKET_IFNAME and NCCL_IB_HCA, matched as NCCL does.

A leading "^" turns the choice round, "=" wants whole names instead of beginnings, ":1" behind a
name picks one port (misc/utils.cc:parseStringList, matchIfList).
"""

import re


def listed(text: str, name: str, port: int = -1) -> bool:
    """Whether a list such as "^docker,lo" or "=mlx5_0:1" chooses a device; an empty list does."""
    inverted = text.startswith("^")
    text = text.removeprefix("^")
    exact = text.startswith("=")
    entries = [entry for entry in text.removeprefix("=").split(",") if entry.partition(":")[0]]
    found = not entries
    for entry in entries:
        wanted, colon, number = entry.partition(":")
        digits = re.match(r"[0-9]{1,9}", number, re.ASCII)
        at = -1 if not colon else int(digits[0]) if digits else 0
        named = name == wanted if exact else name.startswith(wanted)
        found = found or (named and (-1 in (at, port) or at == port))
    return found != inverted


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key that orders mlx5_2 before mlx5_10."""
    pieces = re.split(r"([0-9]{1,9})", name)
    return tuple((int(p), "") if p.isascii() and p.isdecimal() else (-1, p) for p in pieces)
