"""What asking NVML costs: dear counters are read in turns, what stays is asked once."""

from __future__ import annotations

import pytest

from gputop.topology.sources.nvidia import nvml, nvml_readings
from gputop.topology.sources.nvidia.parse_machine import parse
from gputop.topology.sources.nvidia.parse_readings import parse as parse_moving

from ....support import nvml_fake as fake
from .test_read import Clock, asking, moving_reader, start


def test_nvlink_and_pcie_rates_between_two_readings() -> None:
    binding, clock = fake.Binding(gpus=1), Clock()

    def counter(handle: int, number: int, scope: int) -> int:
        rates = {138: 1000, 139: 500, 197: 3_000_000_000, 198: 0}  # KiB/s and bytes/s
        return int(rates[number] * clock.seconds) % (2**32 if number > 190 else 2**64)

    def state(handle: int, link: int) -> int:
        if link >= 2:
            raise fake.InvalidArgument
        return 1

    binding.answers["nvmlDeviceGetNvLinkState"] = state
    binding.fields = counter
    reader = moving_reader(binding, clock)
    first = parse_moving(reader()).gpu_readings[0]
    assert first.why("nvlink_tx_bytes_per_second") == "needs a second reading"
    assert first.nvlinks == ()  # the first picture does not wait for them
    clock.seconds += 1
    second = parse_moving(reader()).gpu_readings[0]
    assert [link.link for link in second.nvlinks] == [0, 1]
    clock.seconds += 1
    second = parse_moving(reader()).gpu_readings[0]
    assert second.nvlink_tx_bytes_per_second == pytest.approx(1000 * 1024, rel=0.01)
    assert second.nvlink_rx_bytes_per_second == pytest.approx(500 * 1024, rel=0.01)
    assert second.pcie_tx_bytes_per_second == pytest.approx(3e9)
    assert second.pcie_rx_bytes_per_second == 0


def test_what_costs_is_asked_every_tenth_time() -> None:
    binding = fake.Binding(gpus=1)
    binding.answers["nvmlDeviceGetBAR1MemoryInfo"] = lambda handle: {"bar1Used": 5}
    reader = moving_reader(binding)
    for _ in range(20):
        assert parse_moving(reader()).gpu_readings[0].bar1_used_bytes == 5
    assert binding.calls.count("nvmlDeviceGetBAR1MemoryInfo") == 2
    assert binding.calls.count("nvmlDeviceGetUtilizationRates") == 20
    assert "nvmlDeviceGetPcieThroughput" not in binding.calls


def asked_for_traffic(
    binding: fake.Binding, reader: nvml_readings.NvmlReadingsReader, reads: int
) -> list[int]:
    """Ask so often; gives the GPUs whose NVLink counters were asked, in order."""
    asked: list[int] = []

    def counter(handle: int, number: int, scope: int) -> int:
        if number == 138 and scope == 0xFFFFFFFF:
            asked.append(handle)
        return 0

    binding.fields = counter
    for _ in range(reads):
        reader()
    return asked


def with_links(gpus: int, utilization: int) -> fake.Binding:
    binding = fake.Binding(gpus=gpus)
    binding.answers["nvmlDeviceGetUtilizationRates"] = lambda handle: {"gpu": utilization}
    binding.answers["nvmlDeviceGetNvLinkState"] = _two_links
    return binding


def _two_links(handle: int, link: int) -> int:
    if link >= 2:
        raise fake.InvalidArgument
    return 1


def test_busy_gpus_take_turns_with_their_dear_counters() -> None:
    binding = with_links(8, utilization=90)
    asked = asked_for_traffic(binding, moving_reader(binding), 11)
    everyone = list(range(8))
    # None in the first reading, all in the second and fourth, one of eight each time otherwise.
    assert asked == [*everyone, 0, *everyone, 1, 2, 3, 4, 5, 6, 7]


def test_settings_of_many_gpus_are_asked_in_turns() -> None:
    binding = with_links(8, utilization=0)
    asked: list[int] = []
    capability: list[int] = []

    def mode(handle: int) -> list[int]:
        asked.append(handle)
        return [0, 0]

    def able(handle: int, link: int, what: int) -> int:
        capability.append(handle)
        return 1

    binding.answers |= {"nvmlDeviceGetMigMode": mode, "nvmlDeviceGetNvLinkCapability": able}
    reader = nvml.NvmlReader(start(binding))
    for _ in range(2):
        reader()
    assert asked == list(range(8))  # none in the first read, which only names them
    assert len(capability) == 8 * 2
    for _ in range(4):
        raw = reader()
    assert sorted(asked[8:]) == list(range(8))
    assert len(capability) == 8 * 2  # what a link can do is not asked again
    links = [link for gpu in parse(raw).gpus for link in gpu.nvlinks]
    assert [link.p2p_capable for link in links] == [True] * 16


@pytest.mark.parametrize(("gpus", "rounds"), [(2, 6), (8, 12)])
def test_where_a_link_leads_is_asked_again_rarely(gpus: int, rounds: int) -> None:
    binding = with_links(gpus, utilization=0)
    asked: list[int] = []

    def version(handle: int, link: int) -> int:
        asked.append(handle)
        return 6

    binding.answers["nvmlDeviceGetNvLinkVersion"] = version
    reader = nvml.NvmlReader(start(binding))
    for _ in range(2):
        reader()
    everyone = sorted([*range(gpus), *range(gpus)])
    assert sorted(asked) == everyone
    asked.clear()
    for _ in range(rounds):
        reader()
    assert sorted(asked) == everyone


def test_a_link_that_was_down_is_described_anew() -> None:
    binding = with_links(1, utilization=0)
    state, version = [1], [6]
    binding.answers["nvmlDeviceGetNvLinkVersion"] = lambda handle, link: version[0]
    two = binding.answers["nvmlDeviceGetNvLinkState"]
    binding.answers["nvmlDeviceGetNvLinkState"] = lambda *which: two(*which) and state[0]
    reader = nvml.NvmlReader(start(binding))

    def seen() -> tuple[bool | None, str | None]:
        link = parse(reader()).gpus[0].nvlinks[0]
        return link.active, link.version

    reader()
    assert seen() == (True, "4.0")
    version[0] = 7
    assert seen() == (True, "4.0")
    state[0] = 0
    assert seen() == (False, "5.0")
    state[0], version[0] = 1, 6
    assert seen() == (True, "4.0")


def test_a_single_reading_asks_for_the_settings_of_all() -> None:
    binding = with_links(8, utilization=0)
    reader = asking(binding)
    reader.thorough = True
    for _ in range(3):
        binding.calls.clear()
        reader()
        assert binding.calls.count("nvmlDeviceGetNvLinkState") == 8 * 3


def test_counters_of_idle_gpus_are_asked_rarely() -> None:
    binding = with_links(8, utilization=0)
    asked = asked_for_traffic(binding, moving_reader(binding), 44)
    assert len(asked) == 2 * 8 + 8
    assert sorted(asked[16:]) == list(range(8))


def test_a_thorough_reading_holds_everything_at_once() -> None:
    binding, clock = with_links(2, utilization=0), Clock()
    binding.fields = lambda handle, number, scope: int(1000 * clock.seconds)
    reader = moving_reader(binding, clock)
    reader.thorough = True
    for reading in parse_moving(reader()).gpu_readings:
        assert [link.link for link in reading.nvlinks] == [0, 1]
        assert reading.nvlink_tx_bytes_per_second == pytest.approx(1000 * 1024, rel=0.1)
        assert reading.pcie_tx_bytes_per_second is not None


def test_wiring_alone_is_the_same_and_asks_for_no_limits() -> None:
    answers = {}
    limits = {
        "nvmlDeviceGetMaxClockInfo",
        "nvmlDeviceGetTemperatureThreshold",
        "nvmlDeviceGetEccMode",
    }
    for wiring in (False, True):
        binding = with_links(4, utilization=0)
        binding.answers |= dict.fromkeys(limits, lambda *_: 1)
        reader = asking(binding)
        reader.thorough, reader.wiring = True, wiring
        answers[wiring] = parse(reader())
        assert (limits & set(binding.calls) == set()) is wiring
    for whole, wired in zip(answers[False].gpus, answers[True].gpus, strict=True):
        for name in ("address", "nvlinks", "numa_node", "cpu_affinity", "memory_bytes"):
            assert getattr(whole, name) == getattr(wired, name), name
    assert answers[False].pairs == answers[True].pairs


def test_one_call_asks_for_the_fields_of_all_links_of_a_gpu() -> None:
    counts = []
    for links in (2, 18):
        binding = fake.Binding(gpus=2)

        def state(handle: int, link: int, links: int = links) -> int:
            if link >= links:
                raise fake.InvalidArgument
            return 1

        binding.answers["nvmlDeviceGetNvLinkState"] = state
        binding.fields = lambda handle, number, scope: 1
        moving = moving_reader(binding)
        moving.thorough = True
        read = parse_moving(moving()).gpu_readings
        assert [len(gpu.nvlinks) for gpu in read] == [links] * 2
        assert len(parse(asking(binding)()).gpus[0].nvlinks) == links
        counts.append(binding.calls.count("nvmlDeviceGetFieldValues"))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("gpus", "call_seconds", "most_slept"),
    [
        (1, 0.001, 0.026),  # some milliseconds for a GPU's state and as many for its links
        (2, 0.001, 0.012),
        (8, 0.001, 0.012),
        (2, 0.0001, 0.045),  # a driver that answers at once: most is waiting, as it must be
        (2, 0.004, 0.025),  # a slow one: the first window is lost, and the counters watched anew
    ],
)
def test_a_single_reading_asks_while_it_watches_its_counters(
    gpus: int, call_seconds: float, most_slept: float
) -> None:
    binding, clock = with_links(gpus, utilization=0), Clock()
    slept: list[float] = []

    def state(handle: int, link: int) -> int:
        clock.seconds += call_seconds
        return _two_links(handle, link)

    def use(handle: int) -> dict[str, int]:
        clock.seconds += 10 * call_seconds
        return {"gpu": 0}

    def counter(handle: int, number: int, scope: int) -> int:
        clock.seconds += 0.0002 if number in (197, 198) else 2.5 * call_seconds
        rates = {138: 1e6, 139: 1e6, 197: 3e9, 198: 3e9}  # KiB/s and bytes/s
        return int(rates.get(number, 0) * clock.seconds) % (2**32 if number > 190 else 2**64)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.sleep(seconds)

    binding.answers["nvmlDeviceGetNvLinkState"] = state
    binding.answers["nvmlDeviceGetUtilizationRates"] = use
    binding.fields = counter
    reader = nvml_readings.NvmlReadingsReader(start(binding), clock, sleep)
    reader.thorough = True
    for reading in parse_moving(reader()).gpu_readings:
        assert reading.pcie_tx_bytes_per_second == pytest.approx(3e9, rel=0.05)
        assert reading.nvlink_tx_bytes_per_second == pytest.approx(1e6 * 1024, rel=0.05)
        assert [link.link for link in reading.nvlinks] == [0, 1]
    assert sum(slept) <= most_slept
