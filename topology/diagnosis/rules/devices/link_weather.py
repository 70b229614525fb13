"""Links that err more than healthy ones do, between two readings: what to do about each."""

from __future__ import annotations

from collections.abc import Iterator

from ....model.english import listing
from ....model.finding import Finding
from ....model.readings import CounterKind
from ....model.severity import NOTICE, SLOW
from ...case import Case
from ...rule import Found, Rule, needed
from ...weather import HARD, LinkWeather, WeatherWord, reading_of, weather

MOST_NAMED, MOST_SHOWN = 4, 8
SOURCE = "counters of the driver and of /sys, two readings"
_IMPACT = {
    WeatherWord.DRAIN: "All traffic over the link waits while it is trained again. Links that do "
    "so this often went down for good within days, and took the job that ran with them.",
    WeatherWord.RESEAT: "Packets are sent again, or the link is trained again while all traffic "
    "over it waits: a collective runs at the pace of its slowest link.",
    WeatherWord.WATCH: "Nothing that a job feels, as long as it stays like this.",
}
_FIX = {
    WeatherWord.DRAIN: (
        "Start no new job here, and have the link looked at before it fails in one.",
        "See what the kernel and the driver say of it. $ gputop events",
    ),
    WeatherWord.RESEAT: (
        "Reseat the cable or transceiver, or the board; where the errors go with the part, replace "
        "it.",
        "See what the kernel and the driver say of it. $ gputop events",
    ),
    WeatherWord.WATCH: (
        "Keep a reading each day, and hold it against the next. "
        "$ gputop check --quick --since before.json",
    ),
}


def _check(case: Case) -> Found:
    if case.earlier is None:
        return None
    found = weather((reading_of(case.earlier), reading_of(case.snapshot)))
    needed(found)
    mine = [one for one in found if _is_ours(one)]
    return tuple(_findings(case, _once(mine)))


def _is_ours(one: LinkWeather) -> bool:
    """Whether no other rule tells it: `nvlink-errors` and `pcie-replays` tell of small growth."""
    if one.word is WeatherWord.CALM:
        return False
    of_gpu = one.link.kind in (CounterKind.NVLINK, CounterKind.AER)
    hard = any(trouble in HARD for trouble, _ in one.grown)
    return not of_gpu or (hard and one.word is not WeatherWord.WATCH)


def _once(found: list[LinkWeather]) -> list[LinkWeather]:
    """Without network interfaces whose RDMA port says the same."""
    ports = {one.link.device for one in found if one.link.kind is CounterKind.RDMA}
    return [
        one for one in found if one.link.kind is not CounterKind.NET or one.link.device not in ports
    ]


def _findings(case: Case, found: list[LinkWeather]) -> Iterator[Finding]:
    for word in WeatherWord:
        links = [one for one in found if one.word is word]
        if not links:
            continue
        names = listing([_name(case, one) for one in links], MOST_NAMED)
        err = "errs" if len(links) == 1 else "err"
        why = f": {links[0].why}" if len(links) == 1 else ""
        yield WEATHER.finding(
            NOTICE if word is WeatherWord.WATCH else SLOW,
            f"{word}: {names} {err} more than a healthy link does{why}",
            devices=dict.fromkeys(one.link.device for one in links if ":" in one.link.device),
            evidence=[(_name(case, one), one.why, SOURCE) for one in links[:MOST_SHOWN]],
            impact=_IMPACT[word],
            fix=_FIX[word],
        )


def _name(case: Case, one: LinkWeather) -> str:
    """As people call it: "NVLink 7 of GPU3", "port 1 of mlx5_2", "eth2", "PCIe of GPU3"."""
    link = one.link
    if link.kind is CounterKind.NVLINK:
        return f"NVLink {link.number} of {case.name(link.device)}"
    if link.kind is CounterKind.RDMA:
        return f"port {link.number} of {link.name}"
    return link.name or f"PCIe of {case.name(link.device)}"


WEATHER = Rule(
    id="link-weather",
    family="D22",
    title="links that err more, between two readings, than healthy ones do",
    evidence="counters of NVLinks, PCIe links and network ports, now and earlier on the same boot",
    over_time=True,
    extra=True,
    disproof="equal counters in two readings under load; a total says nothing",
    sources=(
        "marin-community/marin#8934",
        "marin-community/marin#9086",
        "NVIDIA/DCGM health checks of NVLink and PCIe",
        "ibqueryerrors(8)",
    ),
    check=_check,
)
RULES = (WEATHER,)
