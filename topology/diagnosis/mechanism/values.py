"""What values in a line are: classes of addresses, bytes that spell a text."""

from __future__ import annotations

import ipaddress
import re

_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
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


HTTP = ("GET ", "POST", "HEAD", "PUT ", "OPTI")
