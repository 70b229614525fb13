"""NVML, what stays: who the GPUs are, what they are set to, their links, what the driver grants.

The raw answer: {"system": {function: answer}, "devices": [device]}; a device holds
{function: answer} under NVML's own function names, and for calls with arguments:
"maxclock0".."maxclock3" (graphics, SM, memory, video), "threshold0".."threshold3" (shutdown,
slowdown, memory max, GPU max), "cpu_affinity" and "mem_affinity" (64-bit words), "fabric",
"fields" {NVML_FI_ name: {"value": n} | {"ret": code}}, "links" [{"link", "state", "version",
"remote_pci", "remote_type", "cap0", "fields"}], "pairs" [{"peer": index, "ancestor",
"p2p": {"0".."4"}}], "mig" [{"index", function: answer}]. An answer is a value or {"error": text}.
A device that is gone keeps its last answers and gains "lost": text.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ...model.part import Raw
from ...model.source import Source
from ..files.answers import under
from ..files.library_answers import dicts
from ..files.library_rounds import Rounds
from .devices import NvmlDevice, NvmlDevices
from .library import GpuLost, NvmlLibrary, missing, open_library, refused
from .parse_machine import parse
from .questions import IDENTITY, SETTINGS, SYSTEM, UNWIRED

_FIRST = (
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetEnforcedPowerLimit",
)
"""Questions that come first: enough for a row of a table."""
_FIELDS = (
    "NVML_FI_DEV_NVLINK_LINK_COUNT",
    "NVML_FI_DEV_C2C_LINK_COUNT",
    "NVML_FI_DEV_C2C_LINK_GET_MAX_BW",
)
_FABRIC_STRUCTURES = ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t")
_WORDS = 64
"""Room for 4096 CPUs or NUMA nodes; the driver refuses a set that is too small."""
_MAX_MIG = 64
_P2P_NVLINK = "2"
"""NVML_P2P_CAPS_INDEX_NVLINK, as a key of "p2p"; its answer 0 is NVML_P2P_STATUS_OK."""
_TRIES, _AGAIN_SECONDS = 10, 0.05
"""Pauses before refused links are asked again: half a second in all, for a single reading."""
_AT_ONCE = 2
"""GPUs whose settings are asked again in one read."""
_FRESH_TURNS = 3
"""Of its turns, how many until a GPU is asked again for what seldom changes: with 8, 4 minutes."""

# NVML, what it says of each NVLink of a GPU: its state, its rate, where it leads.
#
# On an H200 with driver 580 asking all of it of the 18 links of one GPU takes some 10 ms of a CPU.
MAX_LINKS = 64
"""More links than any GPU has."""
_LINK_FIELDS = ("NVML_FI_DEV_NVLINK_GET_SPEED", "NVML_FI_DEV_NVLINK_REMOTE_NVLINK_ID")
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
    found: list[dict[str, Raw]] = []
    end: list[Raw] = []
    for link in range(MAX_LINKS):
        state = library.ask("nvmlDeviceGetNvLinkState", handle, link)
        if isinstance(state, dict):
            end = [{"link": link, "error": state.get("error")}]
            break
        answers = {"link": link, "state": state}
        kept = known.get(link, {}) if state == _UP else {}
        for key, (name, *what) in _LASTING.items():
            answers[key] = kept[key] if key in kept else library.ask(name, handle, link, *what)
        found.append(answers)
    # Its rate is asked each time: a link that retrains can come back slower.
    fields = library.fields_of_links(handle, _LINK_FIELDS, range(len(found)))
    for answers, values in zip(found, fields, strict=True):
        answers["fields"] = values
    return [*found, *end]


class NvmlReader:
    """Asks NVML once per call; keeps the handles and the answers that cannot change."""

    thorough = False
    """Set for a single reading that has to hold everything."""
    wiring = False
    """Set where only how devices are connected is wanted: on two H200 with driver 580 limits of
    clocks, temperatures and the mode of ECC take 75 of 250 ms."""

    def __init__(self, start: Callable[[], NvmlLibrary] = open_library) -> None:
        self._devices = NvmlDevices(start)
        self._rounds = Rounds(SYSTEM)

    @property
    def again_seconds(self) -> float | None:
        """When the rest is to be asked, after a quick first call."""
        return self._rounds.again_seconds

    def __call__(self) -> Raw:
        """Ask once. Raises SourceAbsent, or RuntimeError when NVML stops counting GPUs."""
        library, devices = self._devices.current()
        rounds = self._rounds
        rounds.begin(partial(_of_system, library), thorough=self.thorough)
        turn = self._turn(len(devices))
        for place, device in enumerate(devices):
            if rounds.fresh or not device.lasting:
                ask = partial(_identity, library, device)
                if not rounds.quick:
                    ask = partial(_lasting, library, device, devices, wiring=self.wiring)
                device.lasting = device.guarded(ask) or device.lasting
            if rounds.quick or (device.answers and place not in turn):
                continue
            fresh = turn.get(place, True)
            settings = device.guarded(
                partial(_settings, library, device, fresh=fresh, wiring=self.wiring)
            )
            device.answers = settings or device.answers
        self._ask_links_again(library, devices)
        rounds.end()
        return self._answers(self._devices.confirmed() if self.thorough else devices)

    def so_far(self) -> Raw:
        """What is known while a question is open: called from another thread, it never waits."""
        devices = self._devices.known
        return self._answers(devices) if devices else None

    def _answers(self, devices: list[NvmlDevice]) -> Raw:
        return {
            "system": self._rounds.system | {"nvmlDeviceGetCount": len(devices)},
            "devices": [device.raw() for device in devices],
        }

    def _turn(self, count: int) -> dict[int, bool]:
        """Places of the GPUs whose settings are asked in this read; all in a single reading.

        With each, whether it is asked again also for what seldom changes.
        """
        rounds = self._rounds
        if self.thorough or count <= _AT_ONCE:
            return dict.fromkeys(range(count), rounds.fresh)
        first = rounds.done * _AT_ONCE
        # The turn of a GPU need not fall on a fresh round: its own turns are counted.
        steps = range(first, first + _AT_ONCE)
        return {step % count: (step // count + 1) % _FRESH_TURNS == 0 for step in steps}

    def _ask_links_again(self, library: NvmlLibrary, devices: list[NvmlDevice]) -> None:
        """Ask for links once more where the driver counts more, or a GPU of the same model has.

        Seen beside a running job: for some seconds the driver refused the links of one of four
        H200 with the words for a GPU that has none; and seen once, at the first call after a boot,
        for both of two H200 (driver 580.159).
        """
        for _ in range(_TRIES if self.thorough else 1):
            most: dict[str, int] = {}
            for device in devices:
                here = max(most.get(_model(device), 0), _reported(device), _counted(device))
                most[_model(device)] = here
            late = [
                device
                for device in devices
                if not (device.lost or _parted(device)) and _reported(device) < most[_model(device)]
            ]
            if not late:
                return
            time.sleep(_AGAIN_SECONDS)
            for device in late:
                found = device.guarded(partial(links, library, device.handle, {}))
                if found and len(found) > _reported(device):
                    device.answers = device.answers | {"links": found}


def _of_system(library: NvmlLibrary, name: str) -> Raw:
    try:
        return library.ask(name)
    except GpuLost as lost:
        return {"error": f"NVMLError_GpuIsLost: {lost}"}


def _model(device: NvmlDevice) -> str:
    return str((device.lasting or {}).get("nvmlDeviceGetName"))


def _reported(device: NvmlDevice) -> int:
    """How many links the driver reported."""
    listed = device.answers.get("links")
    return sum("state" in link for link in listed) if isinstance(listed, list) else 0


def _counted(device: NvmlDevice) -> int:
    """How many links the GPU must have: the driver's count, or one that P2P over NVLink needs."""
    lasting = device.lasting or {}
    fields, pairs = lasting.get("fields"), lasting.get("pairs")
    count = under(fields, _FIELDS[0])
    value = under(count, "value")
    if isinstance(value, int) and 0 < value <= MAX_LINKS:
        return value
    granted = [pair.get("p2p") for pair in pairs or () if isinstance(pair, dict)]
    return int(any(isinstance(p2p, dict) and p2p.get(_P2P_NVLINK) == 0 for p2p in granted))


def _parted(device: NvmlDevice) -> bool:
    """Whether MIG is on, which hides the links."""
    mode = device.answers.get("nvmlDeviceGetMigMode")
    return isinstance(mode, list) and mode[:1] == [1]


def _identity(library: NvmlLibrary, device: NvmlDevice) -> dict[str, Raw]:
    return {name: library.ask(name, device.handle) for name in _FIRST}


def _lasting(
    library: NvmlLibrary, device: NvmlDevice, devices: list[NvmlDevice], *, wiring: bool
) -> dict[str, Raw]:
    handle = device.handle
    answers: dict[str, Raw] = {name: library.ask(name, handle) for name in IDENTITY}
    for kind in () if wiring else range(4):
        answers[f"maxclock{kind}"] = library.ask("nvmlDeviceGetMaxClockInfo", handle, kind)
        answers[f"threshold{kind}"] = library.ask("nvmlDeviceGetTemperatureThreshold", handle, kind)
    answers["cpu_affinity"] = library.ask("nvmlDeviceGetCpuAffinity", handle, _WORDS)
    answers["mem_affinity"] = library.ask("nvmlDeviceGetMemoryAffinity", handle, _WORDS, 0)
    answers["fields"] = library.fields(handle, _FIELDS)
    answers["pairs"] = [
        {
            "peer": peer.index,
            "ancestor": library.ask("nvmlDeviceGetTopologyCommonAncestor", handle, peer.handle),
            "p2p": {
                str(what): library.ask("nvmlDeviceGetP2PStatus", handle, peer.handle, what)
                for what in range(5)
            },
        }
        for peer in devices
        if peer is not device and peer.handle is not None and not peer.lost
    ]
    return answers


def _settings(
    library: NvmlLibrary, device: NvmlDevice, *, fresh: bool, wiring: bool
) -> dict[str, Raw]:
    handle = device.handle
    asked = (name for name in SETTINGS if not (wiring and name in UNWIRED))
    answers: dict[str, Raw] = {name: library.ask(name, handle) for name in asked}
    answers["links"] = links(library, handle, {} if fresh else lasting(device.answers.get("links")))
    answers["fabric"] = _fabric(library, handle)
    mode = answers["nvmlDeviceGetMigMode"]
    answers["mig"] = _mig(library, handle) if isinstance(mode, list) and mode[:1] == [1] else []
    return answers


def _fabric(library: NvmlLibrary, handle: object) -> Raw:
    """Ask with the newest structure that both the binding and the driver know."""
    answer: Raw = {"error": "not in the installed nvidia-ml-py"}
    for name in (*_FABRIC_STRUCTURES, "c_nvmlGpuFabricInfo_t"):
        structure: Any = getattr(library.binding, name, None)
        if structure is None:
            continue
        info = structure()
        # The function fills the structure that it is given and returns only a status.
        old = name == "c_nvmlGpuFabricInfo_t"
        call = "nvmlDeviceGetGpuFabricInfo" if old else "nvmlDeviceGetGpuFabricInfoV"
        answer = library.ask(call, handle, ctypes.byref(info))
        if answer == 0:
            return _structure(info)
        if not missing(answer):
            return answer
    return answer


def _structure(info: Any) -> Raw:
    names = [field[0] for field in info._fields_]
    values = {name: getattr(info, name) for name in names}
    return {
        name: list(value) if isinstance(value, ctypes.Array | bytes) else value
        for name, value in values.items()
    }


def _mig(library: NvmlLibrary, handle: object) -> list[Raw]:
    count = library.ask("nvmlDeviceGetMaxMigDeviceCount", handle)
    instances: list[Raw] = []
    for index in range(min(count, _MAX_MIG) if isinstance(count, int) else 0):
        part = library.handle("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if part is None:
            continue  # the numbering has holes
        names = (
            "nvmlDeviceGetUUID",
            "nvmlDeviceGetName",
            "nvmlDeviceGetGpuInstanceId",
            "nvmlDeviceGetComputeInstanceId",
            "nvmlDeviceGetMemoryInfo",
            "nvmlDeviceGetAttributes_v2",
        )
        instances.append({"index": index} | {name: library.ask(name, part) for name in names})
    return instances


SOURCE = Source(
    id="nvml", interval_seconds=20, deadline_seconds=3, reader=NvmlReader, opening=True, parse=parse
)
