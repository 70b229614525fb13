"""Our calls against the real Python binding, with a C library of our own behind it.

Runs for the installed amdsmi, and for the wheels of `tests/support/amdsmi/wheels.py`.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.model.source import SourceAbsent
from gputop.topology.sources.amd import amdsmi, amdsmi_readings, parse_machine, parse_readings
from gputop.topology.sources.amd.library import open_library
from tests.grid import covering
from tests.support.amdsmi import wheels

from .test_signatures import NEW_IN_7

GPUS = 2


class Function:
    """A function of the C library: succeeds, and leaves zeros where nothing is written here."""

    restype: Any = None
    argtypes: Any = None

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *a: Any) -> int:
        if self.name == "amdsmi_get_socket_handles":
            a[0]._obj.value = 1
            if a[1]:
                a[1][0] = 1
        elif self.name == "amdsmi_get_processor_handles":
            a[1]._obj.value = GPUS
            for place in range(GPUS) if a[2] else ():
                a[2][place] = 16 + place
        elif self.name == "amdsmi_get_gpu_device_bdf":
            a[1]._obj.as_uint = a[0].value << 8
        elif self.name == "amdsmi_get_gpu_asic_info":
            info = a[1]._obj
            info.market_name, info.vendor_id, info.device_id = b"AMD Test", 0x1002, 0x74A1
            info.target_graphics_version, info.num_of_compute_units = 0x942, 304
        elif self.name == "amdsmi_get_gpu_memory_total":
            a[2]._obj.value = 2**34
        elif self.name == "amdsmi_get_gpu_cache_info":
            a[1]._obj.num_cache_types = 1
            cache = a[1]._obj.cache[0]
            cache.cache_level, cache.num_cache_instance = 2, 1
            # ROCm 6.0 calls them otherwise; the third is "data".
            for name in ("cache_size", "cache_size_kb"):
                setattr(cache, name, 4096)
            for name in ("cache_properties", "flags"):
                setattr(cache, name, 2)
        elif self.name == "amdsmi_topo_get_link_type":
            a[2]._obj.value, a[3]._obj.value = 1, 2
        elif self.name == "amdsmi_topo_get_link_weight":
            a[2]._obj.value = 15
        elif self.name == "amdsmi_get_minmax_bandwidth_between_processors":
            a[2]._obj.value = a[3]._obj.value = 50000
        elif self.name == "amdsmi_is_P2P_accessible":
            a[2]._obj.value = True
        elif self.name == "amdsmi_get_gpu_metrics_info":
            a[1]._obj.xgmi_link_speed, a[1]._obj.xgmi_link_width = 32, 16
        elif self.name == "amdsmi_get_clock_info":
            now = "cur_clk" if hasattr(a[2]._obj, "cur_clk") else "clk"
            setattr(a[2]._obj, now, 2000 + a[1])
            a[2]._obj.max_clk = 2100
        elif self.name == "amdsmi_get_temp_metric":
            a[3]._obj.value = 40 + a[1]
        elif self.name == "amdsmi_get_gpu_process_list":
            a[1]._obj.value = 1
            a[2][0].pid, a[2][0].memory_usage.vram_mem = 77, 2**20
        return 0


class CLibrary:
    def __init__(self, *_: Any, **__: Any) -> None:
        self._functions: dict[str, Function] = {}

    def __getattr__(self, name: str) -> Function:
        return self._functions.setdefault(name, Function(name))

    __getitem__ = __getattr__


def installed() -> list[str]:
    """The folder of the installed binding, if there is one; find_spec imports nothing of it."""
    spec = importlib.util.find_spec("amdsmi")
    return [str(Path(spec.origin).parent.parent)] if spec and spec.origin else []


def kinds(number: str) -> tuple[object, ...]:
    """What is another thing to call: the oldest refused ones, those with gaps, each whole one."""
    if number == "installed":
        return (number,)
    read = tuple(map(int, number.split(".")))
    return read < (6, 0), read < (6, 4), read[0]


@pytest.fixture(params=covering(["installed", *wheels.versions()], kinds))
def binding(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    amdsmi_wheel: Callable[[str], Path],
) -> Iterator[Any]:
    if request.param == "installed":
        if not installed():
            pytest.skip("amdsmi is not installed")
        monkeypatch.syspath_prepend(installed()[0])
    else:
        with zipfile.ZipFile(amdsmi_wheel(request.param)) as archive:
            archive.extractall(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(ctypes, "CDLL", CLibrary)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))  # the bindings up to 6.1 insist on it
    forget()
    yield importlib.import_module("amdsmi")
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "amdsmi"]:
        del sys.modules[name]


def errors(answer: Any, path: str = "") -> dict[str, str]:
    """Every refusal in a raw answer, by where it stands."""
    if isinstance(answer, dict):
        if "error" in answer:
            return {path: str(answer["error"])}
        return {k: v for key, item in answer.items() for k, v in errors(item, str(key)).items()}
    if isinstance(answer, list):
        return {k: v for item in answer for k, v in errors(item, path).items()}
    return {}


def version(binding: Any) -> tuple[int, int]:
    """Read the version off what is offered: the bindings do not all tell theirs."""
    if not hasattr(binding, "amdsmi_get_gpu_vram_info"):
        return 5, 7
    if not hasattr(binding, "amdsmi_get_gpu_xgmi_link_status"):
        return 6, 0
    return (7, 0) if hasattr(binding, "amdsmi_get_link_metrics") else (6, 4)


def test_every_binding_is_called_as_it_wants_or_refused(binding: Any) -> None:
    if version(binding) < (6, 0):
        with pytest.raises(SourceAbsent, match="older than ROCm 6"):
            open_library(lambda: binding)
    elif version(binding) < (6, 4):
        what_an_older_binding_lacks_is_a_gap(binding)
    else:
        every_call_has_the_arguments_that_the_binding_wants(binding)
        every_reading_has_the_arguments_that_the_binding_wants(binding)


def what_an_older_binding_lacks_is_a_gap(binding: Any) -> None:
    raw = whole(amdsmi.AmdsmiReader, binding)
    moved = whole(amdsmi_readings.AmdsmiReadingsReader, binding)
    refused = errors(raw) | errors(moved)
    refused.pop("amdsmi_get_lib_version", None)
    assert {text.partition(":")[0] for text in refused.values()} == {"AttributeError"}
    gpu = parse_machine.parse(raw).gpus[0]
    assert (gpu.name, gpu.pci_id) == ("AMD Test", "1002:74a1")
    assert [(cache.level, cache.kind, cache.size_bytes) for cache in gpu.caches] == [
        (2, "data", 2**22)
    ]
    assert gpu.xgmi[0].why("active") == "the installed amdsmi does not know this function"
    reading = parse_readings.parse(moved).gpu_readings[0]
    assert reading.clock_graphics_mhz == 2000
    # Up to 6.1 the list holds handles, of which nothing can be said.
    assert reading.processes is None or [p.pid for p in reading.processes] == [77]


def whole(reader: Callable[..., Any], binding: Any) -> Any:
    """The second of two thorough readings, as a recording would keep it."""
    one = reader(lambda: open_library(lambda: binding))
    one.thorough = True
    one()
    return json.loads(json.dumps(one()))


def every_call_has_the_arguments_that_the_binding_wants(binding: Any) -> None:
    raw = whole(amdsmi.AmdsmiReader, binding)
    # Our C library has no text to give for the build.
    assert set(errors(raw)) - {"amdsmi_get_lib_version"} <= NEW_IN_7
    part = parse_machine.parse(raw)
    assert [gpu.address for gpu in part.gpus] == ["0000:10:00.0", "0000:11:00.0"]
    gpu = part.gpus[0]
    assert (gpu.name, gpu.pci_id, gpu.compute_capability) == ("AMD Test", "1002:74a1", "gfx942")
    assert (gpu.memory_bytes, gpu.core_count, gpu.clock_graphics_max_mhz) == (2**34, 304, 2100)
    assert gpu.temperature_slowdown_c == 41
    assert [(cache.level, cache.kind, cache.size_bytes) for cache in gpu.caches] == [
        (2, "data", 2**22)
    ]
    assert [(link.remote_address, link.raw_gbs) for link in gpu.xgmi] == [("0000:11:00.0", 64.0)]
    assert [(p.link_type, p.p2p_read, p.p2p_dma) for p in part.pairs] == [
        ("xgmi", "ok", "not supported")
    ] * 2


def every_reading_has_the_arguments_that_the_binding_wants(binding: Any) -> None:
    raw = whole(amdsmi_readings.AmdsmiReadingsReader, binding)
    assert set(errors(raw)) <= NEW_IN_7
    reading = parse_readings.parse(raw).gpu_readings[0]
    assert (reading.clock_graphics_mhz, reading.clock_memory_mhz) == (2000, 2004)
    assert (reading.temperature_c, reading.temperature_memory_c) == (41, 42)
    assert reading.processes is not None
    assert [(p.pid, p.memory_bytes) for p in reading.processes] == [(77, 2**20)]
    assert reading.xgmi_tx_bytes_per_second == 0
    assert reading.throttle_reasons == ()
    assert {block.block for block in reading.ecc_blocks} >= {"UMC", "XGMI_WAFL"}
