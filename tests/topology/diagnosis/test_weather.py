"""Made-up weeks of counters: which link is named when, and how seldom a healthy one is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import msgspec
import pytest

from gputop.topology.diagnosis.weather import (
    LinkCounts,
    LinkKey,
    LinkWeather,
    WeatherReading,
    WeatherWord,
    reading_of,
    weather,
)
from gputop.topology.hardware.counters import CountedTrouble
from gputop.topology.model.readings import CounterKind, DeviceCounters, NvLinkReading
from tests.support.rule_cases import base

DAY, HOUR = 86400.0, 3600.0
LINKS = 18
SICK = LinkKey(CounterKind.NVLINK, "0000:19:00.0", 7)
KEYS = tuple(LinkKey(CounterKind.NVLINK, "0000:19:00.0", number) for number in range(LINKS))
LOAD = 200e9
"""Bytes a second that a busy link carries."""
Added = Callable[[LinkKey, float], dict[str, int]]
"""What a link adds in an interval that ends at so many days."""
TROUBLES = {
    "recovery_errors": CountedTrouble.RECOVERY,
    "replay_errors": CountedTrouble.REPLAY,
    "crc_errors": CountedTrouble.CRC,
    "link_downed": CountedTrouble.DOWN,
    "out_of_sequence": CountedTrouble.SEQUENCE,
    "tx_bytes": CountedTrouble.TRAFFIC,
}


def week(
    added: Added,
    *,
    days: float = 7,
    step: float = 1.0,
    load: float = LOAD,
    resets: Iterable[int] = (),
    moved: dict[int, float] | None = None,
    keys: tuple[LinkKey, ...] = KEYS,
) -> list[WeatherReading]:
    """A reading every so many days. `resets`: readings before which counters went to 0; `moved`:
    readings whose clock is off by so many seconds."""
    totals: dict[LinkKey, dict[str, int]] = {key: {} for key in keys}
    found = []
    for place in range(int(days / step) + 1):
        if place in resets:
            totals = {key: {} for key in keys}
        links = {}
        for key in keys:
            if place:
                grown = added(key, place * step) | {"tx_bytes": int(load * step * DAY)}
                for name, count in grown.items():
                    totals[key][name] = totals[key].get(name, 0) + count
            links[key] = LinkCounts(
                {name: (TROUBLES[name], count) for name, count in totals[key].items()}
            )
        at = 1e9 + place * step * DAY + (moved or {}).get(place, 0.0)
        found.append(WeatherReading(at, "boot", links))
    return found


def named(readings: list[WeatherReading]) -> dict[LinkKey, WeatherWord]:
    return {one.link: one.word for one in weather(readings) if one.word is not WeatherWord.CALM}


def only(key: LinkKey, **counts: int) -> Added:
    return lambda link, _: dict(counts) if link == key else {}


def test_a_healthy_week_is_calm() -> None:
    assert named(week(lambda _, __: {"crc_errors": 40, "out_of_sequence": 9000})) == {}


def test_a_slow_death_is_named_days_before_the_end() -> None:
    dying = {1: 0, 2: 0, 3: 1, 4: 4, 5: 60, 6: 160, 7: 280}  # 505 in five days, as in marin 8934

    def added(key: LinkKey, day: float) -> dict[str, int]:
        return {"recovery_errors": dying[int(day)]} if key == SICK else {}

    words = [named(week(added, days=day)).get(SICK) for day in range(1, 8)]
    assert words == [
        None,
        None,
        WeatherWord.WATCH,
        WeatherWord.RESEAT,
        WeatherWord.DRAIN,
        WeatherWord.DRAIN,
        WeatherWord.DRAIN,
    ]
    (worst,) = (one for one in weather(week(added, days=5)) if one.link == SICK)
    assert worst.why == "60 recoveries in 24 h of load, 2.5 an hour"
    assert worst.rate(CountedTrouble.RECOVERY) == pytest.approx(2.5)


def test_readings_each_hour_name_it_the_same_day() -> None:
    readings = week(only(SICK, recovery_errors=1), days=1, step=1 / 24)
    assert named(readings) == {SICK: WeatherWord.DRAIN}
    assert named(readings[:4]) == {SICK: WeatherWord.RESEAT}
    assert named(readings[:2]) == {SICK: WeatherWord.WATCH}


def test_a_link_that_flaps_is_named_though_it_is_up_now() -> None:
    def states(*up: bool) -> list[WeatherReading]:
        return [
            WeatherReading(
                1e9 + hour * HOUR,
                "boot",
                {key: LinkCounts({}, up=key != SICK or state) for key in KEYS},
            )
            for hour, state in enumerate(up)
        ]

    assert named(states(True, False, True)) == {SICK: WeatherWord.WATCH}
    flapping = states(True, False, True, False, True, False, True)
    assert named(flapping) == {SICK: WeatherWord.RESEAT}
    assert "3 times down" in next(one.why for one in weather(flapping) if one.link == SICK)
    assert named(week(only(SICK, link_downed=4), days=1)) == {SICK: WeatherWord.RESEAT}


def test_what_all_links_do_is_not_one_links_fault() -> None:
    found = named(week(lambda _, __: {"link_downed": 20}, days=1))
    assert set(found.values()) == {WeatherWord.WATCH}


def test_a_counter_that_went_back_begins_anew() -> None:
    readings = week(only(SICK, recovery_errors=1), days=3, resets=(3,))
    (one,) = (one for one in weather(readings) if one.link == SICK)
    assert (one.word, one.resets) == (WeatherWord.WATCH, 1)
    assert dict(one.grown)[CountedTrouble.RECOVERY] == 1
    healthy = week(lambda _, __: {"crc_errors": 30}, days=3, resets=(2,))
    assert named(healthy) == {}


def test_a_reboot_in_between_is_not_compared() -> None:
    first, second = week(only(SICK, recovery_errors=400), days=1)
    assert weather([first, msgspec.structs.replace(second, boot="another")]) == ()


@pytest.mark.parametrize("seconds", [-2 * DAY, -DAY - 1, 400 * DAY])
def test_a_clock_that_jumps_gives_no_rate(seconds: float) -> None:
    readings = week(only(SICK, recovery_errors=5), days=2, moved={1: seconds})
    assert all(one.hours <= 72 for one in weather(readings))
    assert WeatherWord.DRAIN not in named(readings).values()


def test_an_idle_node_proves_nothing_and_its_errors_still_count() -> None:
    quiet = weather(week(lambda _, __: {}, load=0.0))
    assert {one.word for one in quiet} == {WeatherWord.CALM}
    assert {one.loaded_hours for one in quiet} == {0.0}
    assert named(week(only(SICK, recovery_errors=100), days=1, load=0.0)) == {
        SICK: WeatherWord.DRAIN
    }


def test_a_cable_that_garbles_is_reseated_and_one_that_corrects_a_little_is_not() -> None:
    assert named(week(only(SICK, crc_errors=24 * 500), days=1)) == {SICK: WeatherWord.RESEAT}
    assert named(week(only(SICK, crc_errors=200), days=1)) == {SICK: WeatherWord.WATCH}
    assert named(week(only(SICK, crc_errors=9), days=1)) == {}


def test_congestion_alone_is_watched_at_most() -> None:
    assert named(week(only(SICK, out_of_sequence=10**9), days=1)) == {SICK: WeatherWord.WATCH}


def test_what_was_mended_is_watched() -> None:
    def added(key: LinkKey, day: float) -> dict[str, int]:
        return {"recovery_errors": 100} if key == SICK and day < 3 else {}

    assert named(week(added)) == {SICK: WeatherWord.WATCH}


def test_a_link_that_turned_is_watched() -> None:
    def added(_: LinkKey, day: float) -> dict[str, int]:
        return {"crc_errors": 500 if day > 6 else 2}  # all alike: no sibling shows it

    assert set(named(week(added)).values()) == {WeatherWord.WATCH}


def healthy_week(rng: random.Random) -> Added:
    """Links as they are: a few corrected errors, congestion, a recovery once in a long while."""

    def added(_: LinkKey, __: float) -> dict[str, int]:
        return {
            # One recovery in a link-month, twenty times what DCGM's limit of one allows for.
            "recovery_errors": int(rng.random() < 0.25 / 30),
            "crc_errors": int(rng.expovariate(1 / 20)),
            "out_of_sequence": int(rng.expovariate(1 / 5000)),
        }

    return added


def test_of_10000_healthy_link_weeks_at_most_one_is_drained() -> None:
    rng = random.Random(38)
    weeks = 10_000 // LINKS + 1
    words: list[WeatherWord] = []
    for _ in range(weeks):
        words += named(week(healthy_week(rng), step=0.25)).values()
    assert words.count(WeatherWord.DRAIN) <= 1
    assert words.count(WeatherWord.RESEAT) <= 10
    assert len(words) < weeks * LINKS / 2


def test_links_of_a_snapshot() -> None:
    snapshot = base("demo hgx-h100-8")
    address = snapshot.machine.gpus[0].address
    counters = (
        DeviceCounters(kind=CounterKind.AER, device=address, counts=(("correctable RxErr", 5),)),
        DeviceCounters(
            kind=CounterKind.RDMA,
            device="mlx5_0",
            port=1,
            address="0000:3b:00.0",
            counts=(("port_xmit_data", 100), ("symbol_error", 3), ("unknown", 9)),
        ),
    )
    gpus = tuple(
        msgspec.structs.replace(
            one,
            pcie_replays=2 if one.address == address else None,
            nvlinks=(NvLinkReading(link=3, recovery_errors=4, tx_bytes=5),),
        )
        for one in snapshot.readings.gpus
    )
    readings = msgspec.structs.replace(snapshot.readings, gpus=gpus, counters=counters)
    links = reading_of(msgspec.structs.replace(snapshot, readings=readings)).links
    assert links[LinkKey(CounterKind.NVLINK, address, 3)].counts == {
        "recovery_errors": (CountedTrouble.RECOVERY, 4),
        "tx_bytes": (CountedTrouble.TRAFFIC, 5),
    }
    assert links[LinkKey(CounterKind.NVLINK, address, 3)].up is True
    assert links[LinkKey(CounterKind.AER, address)].counts == {
        "replays": (CountedTrouble.REPLAY, 2),
        "correctable RxErr": (CountedTrouble.CORRECTED, 5),
    }
    assert links[LinkKey(CounterKind.RDMA, "0000:3b:00.0", 1, "mlx5_0")].counts == {
        "port_xmit_data": (CountedTrouble.TRAFFIC, 400),
        "symbol_error": (CountedTrouble.SYMBOL, 3),
    }


def test_pauses_that_one_interface_alone_gets_are_watched() -> None:
    """PFC pauses come from the fabric: siblings that get as many are no fault of a port."""
    keys = [LinkKey(CounterKind.NET, f"0000:{at:02x}:00.0", 0, f"eth{at}") for at in range(4)]

    def readings(*pauses: int) -> list[WeatherReading]:
        def links(times: int) -> dict[LinkKey, LinkCounts]:
            return {
                key: LinkCounts(
                    {
                        "rx_prio3_pause": (CountedTrouble.CONGESTION, 10**6 + times * count),
                        "tx_bytes": (CountedTrouble.TRAFFIC, times * 10**12),
                    }
                )
                for key, count in zip(keys, pauses, strict=True)
            }

        return [WeatherReading(at * 3600.0, "a", links(at)) for at in range(3)]

    alone = {one.link: one.word for one in weather(readings(3, 5, 4, 90_000))}
    assert alone[keys[3]] is WeatherWord.WATCH
    assert set(alone.values()) <= {WeatherWord.WATCH, WeatherWord.CALM}
    assert list(alone.values()).count(WeatherWord.WATCH) == 1
    all_alike = weather(readings(90_000, 91_000, 88_000, 90_000))
    assert {one.word for one in all_alike} == {WeatherWord.CALM}


def test_what_a_driver_was_not_asked_before_is_no_growth() -> None:
    key = LinkKey(CounterKind.NET, "0000:3b:00.0", 0, "eth2")
    files = {"carrier_down_count": (CountedTrouble.DOWN, 3)}
    asked = files | {"rx_pcs_symbol_err_phy": (CountedTrouble.SYMBOL, 10**9)}
    for counts in ((files, asked, asked), (asked, files, asked)):
        readings = [
            WeatherReading(at * HOUR, "a", {key: LinkCounts(one)}) for at, one in enumerate(counts)
        ]
        (found,) = weather(readings)
        assert (found.word, found.grown, found.resets) == (WeatherWord.CALM, (), 0)


def test_one_reading_has_no_weather() -> None:
    found: tuple[LinkWeather, ...] = weather([reading_of(base("demo hgx-h100-8"))])
    assert found == ()
