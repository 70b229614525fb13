"""NVML, what it says of each NVLink of a GPU: its state, its rate, where it leads.

On an H200 with driver 580 asking all of it of the 18 links of one GPU takes some 10 ms of a CPU.
"""

from __future__ import annotations

from typing import Any

from ...model.part import Raw
from ..files.library_answers import dicts
from .library import NvmlLibrary, refused

MAX_LINKS = 64
"""More links than any GPU has."""
_FIELDS = ("NVML_FI_DEV_NVLINK_GET_SPEED", "NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID")
_LASTING: dict[str, tuple[Any, ...]] = {
    "version": ("nvmlDeviceGetNvLinkVersion",),
    "remote_pci": ("nvmlDeviceGetNvLinkRemotePciInfo",),
    "remote_type": ("nvmlDeviceGetNvLinkRemoteDeviceType",),
    "cap0": ("nvmlDeviceGetNvLinkCapability", 0),
}
"""What stays as long as a link is up, by its key in the answer."""
_UP = 1

Lasting = dict[int, dict[str, Raw]]
"""Answers that stay, by the number of the link."""


def lasting(links: Raw) -> Lasting:
    """What need not be asked again of the links that were up. A refusal is asked again."""
    return {
        link["link"]: {key: link[key] for key in _LASTING if not refused(link.get(key))}
        for link in dicts(links)
        if link.get("state") == _UP
    }


def links(library: NvmlLibrary, handle: object, known: Lasting) -> list[Raw]:
    """Describe link after link until the driver knows no more; the refusal is the last entry."""
    found: list[Raw] = []
    for link in range(MAX_LINKS):
        state = library.ask("nvmlDeviceGetNvLinkState", handle, link)
        if isinstance(state, dict):
            return [*found, {"link": link, "error": state.get("error")}]
        answers = {"link": link, "state": state}
        kept = known.get(link, {}) if state == _UP else {}
        for key, (name, *what) in _LASTING.items():
            answers[key] = kept[key] if key in kept else library.ask(name, handle, link, *what)
        # Its rate is asked each time: a link that retrains can come back slower.
        answers["fields"] = library.fields(handle, _FIELDS, scope=link)
        found.append(answers)
    return found
