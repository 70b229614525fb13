"""Which GPUs a probe takes, how long its copies are, and what it leaves free."""

from __future__ import annotations

import os
import threading

import pytest

from gputop.probes.catalog.p2p import probe as p2p_walk
from gputop.probes.devices import opening
from gputop.probes.devices.devices import normal_pci, select
from gputop.probes.engine.library import EngineError
from gputop.probes.protocol.messages import DeviceRecord, Hello, MeasuredValue, Note
from gputop.probes.protocol.sizing import GIB, KIB, MIB, choose_sizes
from gputop.probes.protocol.spec import ProbeStopped
from tests.probes.catalog.p2p.test_p2p import run
from tests.probes.scripted_gpus import ScriptedGpus, found


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p2p_walk, "warm", lambda work, seconds: work())


def test_a_slow_pair_uses_shorter_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = ScriptedGpus(2)
    gpus.speeds = {(0, 1): [24.0], (1, 0): [24.0]}
    one_way = found(run(monkeypatch, gpus), "write_bandwidth")["0", "1"]
    assert one_way.bytes_per_copy == 64 * MIB
    assert one_way.value == pytest.approx(24.0)


def test_memory_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProbeStopped) as caught:
        run(monkeypatch, ScriptedGpus(2, free_bytes=28 * GIB))  # a fifth of 141 GiB is 28.2
    assert caught.value.error == "refused"
    tight = ScriptedGpus(2, free_bytes=29 * GIB)
    said = run(monkeypatch, tight)
    assert tight.allocated == ([0, 1], 64 * MIB)
    assert next(m for m in said if isinstance(m, Hello)).devices[0].free_bytes == 29 * GIB
    swept = [m for m in said if isinstance(m, MeasuredValue) and m.name == "write_sweep"]
    assert max(m.bytes_per_copy or 0 for m in swept) == 64 * MIB
    forced = ScriptedGpus(2, free_bytes=28 * GIB)
    run(monkeypatch, forced, force=True)
    assert forced.allocated == ([0, 1], GIB)


def test_wishes_that_make_no_sense_are_refused() -> None:
    for samples in (2, 26, "5", True):
        with pytest.raises(ProbeStopped):
            choose_sizes("gpu", (), {"samples": samples})
    with pytest.raises(ProbeStopped, match="level"):
        choose_sizes("gpu", (), {"level": "fast"})


def test_a_sweep_over_a_slow_pair_takes_no_longer() -> None:
    gpu = DeviceRecord("a", 0, "GPU", memory_bytes=80 * GIB, free_bytes=79 * GIB)
    sizes = choose_sizes("gpu", (gpu,), {"level": "full"})
    swept = sizes.sweep(2)
    assert (swept[0], swept[-1]) == (4 * KIB, GIB)
    assert [sizes.sweep_copies(size, 396e9) for size in (4 * KIB, 64 * MIB, GIB)] == [64, 32, 4]
    assert [sizes.sweep_copies(size, 10e9) for size in (4 * KIB, 64 * MIB, GIB)] == [64, 8, 1]
    slow = sum(size * sizes.sweep_copies(size, 10e9) / 10e9 for size in swept)
    assert slow < len(swept) * 2 * sizes.sample_seconds


@pytest.mark.parametrize("variable", ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
def test_what_hides_a_device_is_named_as_it_is_set(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    devices = ScriptedGpus(2).devices()
    with pytest.raises(ProbeStopped, match=r"is not visible to this process, which sees "):
        select(devices, ("0000:09:00.0",), 1)
    monkeypatch.setenv(variable, "0,1")
    with pytest.raises(ProbeStopped, match=rf"process \({variable}=0,1\), which sees \S+, \S+\.$"):
        select(devices, ("0000:09:00.0",), 1)


def test_what_leaves_too_few_devices_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    gpu = DeviceRecord("a", 0, "GPU")
    with pytest.raises(ProbeStopped, match=r"1 can be used here \(CUDA_VISIBLE_DEVICES=1\)\.$"):
        select([gpu], (), 2)
    with pytest.raises(ProbeStopped, match=r"1 can be used here\.$"):
        select([gpu, DeviceRecord("b", 1, "GPU")], ("a",), 2)


def test_every_probe_of_a_worker_says_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_left_out", [])
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    for _ in range(2):
        said = run(monkeypatch, ScriptedGpus(2), level="quick")
        texts = [m.text for m in said if isinstance(m, Note) and m.topic == "environment"]
        assert texts == ["Left out for this run: CUDA_LAUNCH_BLOCKING."]
        assert "CUDA_LAUNCH_BLOCKING" not in os.environ


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("00000000:06:00.0", "0000:06:00.0"),
        ("0000:AF:00.0", "0000:af:00.0"),
        ("06:00", "0000:06:00.0"),
        ("10001:06:00.0", "10001:06:00.0"),
        ("GPU-6", None),
        ("0", None),
    ],
)
def test_addresses_have_one_spelling(text: str, normal: str | None) -> None:
    assert normal_pci(text) == normal


def test_devices_are_chosen_by_address_or_uuid() -> None:
    all_of_them = ScriptedGpus(3).devices()
    assert [d.index for d in select(all_of_them, ["00000000:02:00.0", "gpu-0"], 2)] == [2, 0]
    assert len(select(all_of_them, [], 2)) == 3
    for wanted in (["0000:09:00.0", "gpu-0"], ["gpu-0"], ["gpu-0", "0000:00:00.0"], ["1", "2"]):
        with pytest.raises(ProbeStopped):
            select(all_of_them, wanted, 2)
    with pytest.raises(ProbeStopped, match="No GPU"):
        select((), [], 2)


@pytest.mark.parametrize("refuses", [False, True])
def test_the_driver_starts_while_the_worker_waits(
    monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    seen: list[tuple[str, bool]] = []
    asked = threading.Event()

    def start() -> None:
        seen.append((threading.current_thread().name, "CUDA_LAUNCH_BLOCKING" in os.environ))
        asked.set()
        if refuses:
            raise EngineError("there is no libcuda.so.1")

    monkeypatch.setattr(opening, "open_runtime", start)
    opening.wake_driver()
    assert asked.wait(10)
    assert seen == [("driver", False)], "in a thread, without what would falsify figures"
    assert "CUDA_LAUNCH_BLOCKING" in opening.drop_overruled_variables(), "a probe names it later"
