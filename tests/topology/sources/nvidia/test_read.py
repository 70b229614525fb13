"""Asking NVML: what is refused becomes data, what is gone is said, what costs is asked rarely."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.source import SourceAbsent
from gputop.topology.sources.nvidia import nvml, nvml_readings
from gputop.topology.sources.nvidia.library import NvmlLibrary, open_library
from gputop.topology.sources.nvidia.parse_machine import parse
from gputop.topology.sources.nvidia.parse_readings import parse as parse_moving
from tests.support.places import ROOT

from ....support import nvml_fake as fake


def start(binding: fake.Binding, root: Path = Path("/nowhere")) -> Callable[[], NvmlLibrary]:
    return partial(open_library, load=lambda: binding, root=root)


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def asking(binding: fake.Binding) -> nvml.NvmlReader:
    """A reader that asks everything at its first reading, as a plain command does."""
    reader = nvml.NvmlReader(start(binding))
    reader.thorough = True
    return reader


def test_the_first_reading_of_a_session_asks_only_for_a_row() -> None:
    binding = fake.Binding(gpus=2)
    binding.answers["nvmlDeviceGetSerial"] = lambda handle: "serial"
    reader = nvml.NvmlReader(start(binding))
    first = parse(reader())
    assert [gpu.name for gpu in first.gpus] == ["GPU number 0", "GPU number 1"]
    assert first.gpus[0].why("serial") == "not asked"
    assert first.gpus[0].why("nvlinks") == "not asked"
    assert reader.again_seconds is not None
    assert "nvmlDeviceGetP2PStatus" not in binding.calls
    assert parse(reader()).gpus[0].serial == "serial"
    assert reader.again_seconds is None


def moving_reader(
    binding: fake.Binding, clock: Clock | None = None
) -> nvml_readings.NvmlReadingsReader:
    clock = clock or Clock()
    return nvml_readings.NvmlReadingsReader(start(binding), clock, clock.sleep)


def absence(binding: fake.Binding, root: Path) -> SourceAbsent:
    with pytest.raises(SourceAbsent) as caught:
        nvml.NvmlReader(start(binding, root))()
    return caught.value


def test_importing_a_source_does_not_load_the_binding() -> None:
    names = ("nvml", "nvml_readings")
    imports = "; ".join(f"import gputop.topology.sources.nvidia.{name}" for name in names)
    code = f"{imports}; import sys; sys.exit('pynvml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_what_an_old_binding_lacks_is_a_gap() -> None:
    raw = asking(fake.Binding())()
    gpus = parse(json.loads(json.dumps(raw))).gpus
    assert [gpu.address for gpu in gpus] == ["0000:01:00.0", "0000:02:00.0"]
    assert gpus[0].name == "GPU number 0"
    assert gpus[0].serial is None
    assert gpus[0].why("serial") == "the installed nvidia-ml-py does not know this function"
    assert gpus[0].why("nvlinks") == "the installed nvidia-ml-py does not know this function"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (fake.FunctionNotFound, "the installed driver does not know this function"),
        (fake.NotSupported, "Not Supported"),
        (fake.NoPermission, "no permission"),
    ],
)
def test_a_refused_call_is_a_gap_with_its_reason(error: type[fake.NVMLError], why: str) -> None:
    binding = fake.Binding()

    def refuse(*arguments: Any) -> Any:
        raise error

    binding.answers["nvmlDeviceGetSerial"] = refuse
    binding.answers["nvmlDeviceGetUtilizationRates"] = refuse
    assert parse(asking(binding)()).gpus[0].why("serial") == why
    reading = parse_moving(moving_reader(binding)()).gpu_readings[0]
    assert (reading.utilization_percent, reading.why("utilization_percent")) == (None, why)


def test_text_that_is_not_utf8_is_a_gap() -> None:
    binding = fake.Binding()
    binding.answers["nvmlDeviceGetName"] = lambda handle: b"\xff\xfe".decode()
    gpu = parse(asking(binding)()).gpus[0]
    assert gpu.name is None
    assert "no text" in str(gpu.why("name"))


def test_a_hostile_name_is_kept_as_text_and_cut() -> None:
    binding = fake.Binding()
    name = "[red]\x1b]0;owned\x07" + "A" * 1_000_000
    binding.answers["nvmlDeviceGetName"] = lambda handle: name
    found = parse(asking(binding)()).gpus[0].name
    assert found is not None
    assert name.startswith(found)
    assert len(found) == 512


def test_mig_instances_are_listed_past_a_hole() -> None:
    binding = fake.Binding(gpus=1)

    def part(handle: int, index: int) -> str:
        if index == 1:
            raise fake.InvalidArgument
        return f"part {index}"

    binding.answers |= {
        "nvmlDeviceGetMigMode": lambda handle: [1, 1],
        "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 3,
        "nvmlDeviceGetMigDeviceHandleByIndex": part,
        "nvmlDeviceGetUUID": lambda handle: f"MIG-{handle}",
        "nvmlDeviceGetGpuInstanceId": lambda handle: 5,
        "nvmlDeviceGetMemoryInfo": lambda handle: {"total": 10 << 30, "free": 4, "used": 6},
    }
    gpu = parse(asking(binding)()).gpus[0]
    assert (gpu.mig_enabled, gpu.memory_bytes) == (True, 10 << 30)
    assert [(item.index, item.uuid) for item in gpu.mig_instances] == [
        (0, "MIG-part 0"),
        (2, "MIG-part 2"),
    ]
    assert gpu.mig_instances[0].gpu_instance == 5
    assert gpu.mig_instances[0].compute_instance is None


def test_a_gpu_lost_between_two_readings_is_reported_and_the_others_go_on() -> None:
    binding = fake.Binding(gpus=3)
    stays, moves = asking(binding), moving_reader(binding)
    assert parse_moving(moves()).problems == ()
    before = parse(stays()).gpus
    binding.lost = {1}
    part = parse_moving(moves())
    assert [reading.lost for reading in part.gpu_readings] == [False, True, False]
    assert [problem.kind for problem in part.problems] == ["lost"]
    assert "0000:02:00.0" in part.problems[0].text
    assert part.gpu_readings[1].utilization_percent is None
    assert part.gpu_readings[2].utilization_percent == 7
    assert parse(stays()).gpus == before  # it stays on screen with what it said last


def test_a_gpu_that_is_no_longer_counted_is_lost() -> None:
    binding = fake.Binding(gpus=3)
    moves = moving_reader(binding)
    moves()
    binding.gpus = 2
    part = parse_moving(moves())
    assert [(r.address, r.lost) for r in part.gpu_readings] == [
        ("0000:01:00.0", False),
        ("0000:02:00.0", False),
        ("0000:03:00.0", True),
    ]


def test_nvml_is_started_again_after_it_stopped_counting() -> None:
    binding = fake.Binding()
    moves = moving_reader(binding)
    moves()
    count, binding.gpus = binding.gpus, "no number"  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="does not count"):
        moves()
    binding.gpus = count
    assert len(parse_moving(moves()).gpu_readings) == 2
    assert binding.starts == 2


def test_a_gpu_that_the_driver_does_not_open_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = fake.Binding()

    def handle(index: int) -> int:
        if index == 1:
            raise fake.NoPermission
        return index

    monkeypatch.setattr(binding, "nvmlDeviceGetHandleByIndex", handle)
    part = parse(asking(binding)())
    assert [gpu.index for gpu in part.gpus] == [0]
    assert [(p.kind, p.text) for p in part.problems] == [
        ("denied", "GPU 1: the driver does not open it (no permission)")
    ]


def test_the_ways_to_have_no_nvml_are_told_apart(tmp_path: Path) -> None:
    binding = fake.Binding()
    binding.start_error = fake.LibraryNotFound
    assert "no NVIDIA driver is installed" in str(absence(binding, tmp_path))
    binding.start_error = fake.DriverNotLoaded
    assert "not loaded" in str(absence(binding, tmp_path))
    driver = tmp_path / "proc/driver/nvidia"
    driver.mkdir(parents=True)
    (driver / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04\n")
    assert "no NVIDIA device nodes" in str(absence(binding, tmp_path))
    binding.start_error = fake.LibraryNotFound
    assert "container" in str(absence(binding, tmp_path))
    binding.start_error = fake.VersionMismatch
    mismatch = absence(binding, tmp_path)
    assert (mismatch.kind, "580.159.04" in str(mismatch)) == ("mismatch", True)
    binding.start_error = fake.NoPermission
    assert absence(binding, tmp_path).kind == "denied"
    binding.start_error = fake.GpuIsLost
    assert absence(binding, tmp_path).kind == "lost"
    binding.start_error = fake.NVMLError
    assert absence(binding, tmp_path).kind == "failed"
    binding.start_error = None
    binding.gpus = 0
    assert "shows no GPU" in str(absence(binding, tmp_path))


def test_without_the_binding_the_source_is_absent() -> None:
    def load() -> Any:
        raise ImportError("No module named 'pynvml'")

    with pytest.raises(SourceAbsent, match="nvidia-ml-py is not installed"):
        open_library(load)


def test_a_call_that_blocks_holds_nothing_but_its_own_thread() -> None:
    binding = fake.Binding(gpus=1)
    release, entered = threading.Event(), threading.Event()

    def block(handle: int) -> str:
        entered.set()
        release.wait(60)
        return "serial"

    binding.answers["nvmlDeviceGetSerial"] = block
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(asking(binding)()), daemon=True)
    thread.start()
    assert entered.wait(60)
    assert parse_moving(moving_reader(binding)()).gpu_readings[0].utilization_percent == 7
    assert answers == []
    release.set()
    thread.join(60)
    assert parse(answers[0]).gpus[0].serial == "serial"


def test_the_real_binding_has_every_name_that_is_asked() -> None:
    binding = pytest.importorskip("pynvml")
    for module in (nvml, nvml_readings, nvml):
        text = Path(str(module.__file__)).read_text()
        words = {word.strip("\",'()[]{}:;.") for word in text.split()}
        for name in sorted(words):
            ours = name == "nvmlDeviceGetMemoryInfo_v2"  # MemoryInfo with a version
            if name.startswith(("nvmlDeviceGet", "nvmlSystemGet", "NVML_FI_DEV_")) and not ours:
                assert hasattr(binding, name), name
