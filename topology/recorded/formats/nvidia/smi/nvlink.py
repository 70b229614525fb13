"""`nvidia-smi nvlink -s` and `-e`: state and errors of each NVLink, by number of the GPU."""

from __future__ import annotations

import re
from operator import itemgetter

import msgspec

from .....model.format import FormatError, text_format
from .....model.machine import Gpu, NvLink
from .....model.part import PartialNode
from .....model.readings import GpuReading, NvLinkReading
from .....model.record import Gap, gaps_of
from .document import PrintedGpu, element_of, part_of

TOOL = "nvidia-smi nvlink"
CUT = "left out of the text"
_MOST_LINKS = 64
"""More than any GPU has; a higher number is no count of links."""
_GPU = re.compile(
    r"\A\s*GPU (\d{1,4}):\s*(\S.{0,120}?)?\s*(?:\(UUID: (?:(GPU-[\w-]{1,60})|.{0,60})\))?\s*\Z"
)
_STATE = re.compile(r"\A\s*Link (\d{1,3}): (?:(\d{1,6}(?:\.\d{1,6})?) GB/s|<?(inactive)>?)\s*\Z")
_COUNT = re.compile(
    r"\A\s*Link (\d{1,3}): (Replay|Recovery|CRC)(?: Error)?s?(?: Errors)?\s*:\s*(\d{1,18})\s*\Z",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"\A\s*((?:NvLink|Nvlink|NVLink|Device|NVML)\b.{0,120}?)\s*\Z")
_LEFT_OUT = re.compile(
    r"\A\s*[\[(<]?(?:\.{3,}|\u2026|snip|output omitted|truncated)[\])>]?\s*\Z", re.I
)
_COUNTERS = {"replay": "replay_errors", "recovery": "recovery_errors", "crc": "crc_errors"}
_UNTOLD = ("version", "remote_address", "remote_kind", "remote_link", "p2p_capable")


class _Shown(msgspec.Struct):
    """What the lines say of one GPU."""

    gpu: PrintedGpu
    states: dict[int, float | None] = {}
    """GB/s by link; None for one that is inactive."""
    counts: dict[int, dict[str, int]] = {}
    refused: str = ""
    cut: bool = False
    """Whether somebody left lines out."""

    def line(self, line: str) -> None:
        """Read one line below the GPU's."""
        if state := _STATE.match(line):
            if int(state[1]) < _MOST_LINKS:
                self.states.setdefault(int(state[1]), float(state[2]) if state[2] else None)
        elif count := _COUNT.match(line):
            of_link = self.counts.setdefault(int(count[1]), {})
            of_link.setdefault(_COUNTERS[count[2].lower()], int(count[3]))
        elif _LEFT_OUT.match(line):
            self.cut = True
        elif refused := _REFUSED.match(line):
            self.refused = self.refused or refused[1]


def _parse(lines: list[str]) -> PartialNode:
    shown: dict[int, _Shown] = {}
    now: _Shown | None = None
    for line in lines:
        if gpu := _GPU.match(line):
            values = {"product_name": gpu[2] or "", "uuid": gpu[3] or ""}
            said = element_of(dict(filter(itemgetter(1), values.items())))
            now = shown.setdefault(int(gpu[1]), _Shown(PrintedGpu(said, int(gpu[1]))))
        elif now is not None:
            now.line(line)
    if not shown:
        raise FormatError("no line of a GPU in it")
    part = part_of((item.gpu for item in shown.values()), TOOL)
    found = list(zip(part.gpus, shown.values(), strict=True))
    readings = tuple(_reading(gpu, item) for gpu, item in found if item.counts)
    return msgspec.structs.replace(
        part, gpus=tuple(_linked(gpu, item) for gpu, item in found), gpu_readings=readings
    )


def _linked(gpu: Gpu, shown: _Shown) -> Gpu:
    gpu = gpu.filled(nvlinks=())
    if not shown.states:
        why = f"nvidia-smi prints {shown.refused}" if shown.refused else f"not in {TOOL}"
        return msgspec.structs.replace(gpu, gaps=(*gpu.gaps, Gap("nvlinks", why)))
    unsaid = gaps_of(_UNTOLD, f"not in {TOOL} -s")
    links = tuple(
        NvLink(
            link=number,
            active=rate is not None,
            raw_gbs=rate,
            gaps=unsaid if rate is not None else (Gap("raw_gbs", "the link is inactive"), *unsaid),
        )
        for number, rate in sorted(shown.states.items())
    )
    # nvidia-smi numbers them without a hole; else what is left out is behind the last one.
    last = max(shown.states)
    unseen = set(range(last)) - set(shown.states) or ({last + 1} if shown.cut else set())
    links += tuple(NvLink(link=number, gaps=(Gap("active", CUT), *unsaid)) for number in unseen)
    return gpu.filled(nvlinks=tuple(sorted(links, key=lambda link: link.link)))


def _reading(gpu: Gpu, shown: _Shown) -> GpuReading:
    links = tuple(
        NvLinkReading(
            link=number,
            gaps=tuple(
                Gap(field, f"not in {TOOL} -e")
                for field in (*_COUNTERS.values(), "tx_bytes", "rx_bytes")
                if field not in counts
            ),
            **counts,
        )
        for number, counts in sorted(shown.counts.items())
    )
    return GpuReading(address=gpu.address, nvlinks=links)


_STARTS = re.compile(
    r"(?m)^[ \t]*GPU \d{1,4}:[^\n]{0,200}\n(?:[ \t]*\n){0,3}"
    r"[ \t]*(?:Link \d{1,3}: (?:[\d.]{1,12} GB/s|<inactive>|(?:Replay|Recovery|CRC)\b)|"
    r"(?:Nv|NV)[Ll]ink quer|Device does not have or support N)"
)
FORMAT = text_format(
    id="nvidia-smi nvlink",
    parse=_parse,
    starts=_STARTS,
    needs=(
        "Link 0:",
        "Link 1:",
        "vLink quer",
        "vlink quer",
        "VLink quer",
        "Vlink quer",
        "have or support N",
    ),
    goes_on=re.compile(
        r"[ \t]*(?:GPU \d{1,4}:|Link \d{1,3}[:,]|Device does not|N[vV][lL]ink quer|NVML: |"
        r"[\[(<]?(?:\.{3}|\u2026|snip))"
    ),
    repeats=True,
)
