"""Sensors of a GPU under load: clocks, power, temperature, throttling, PCIe.

NVML through ctypes; sysfs for AMD, and for the PCIe link if NVML does not report it. It only reads.
An idle GPU lowers its clocks and its PCIe link, so `watching` samples in a thread while work runs.
"""

import contextlib
import ctypes
import functools
import math
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

Sample = dict[str, Any]
"""One reading: numbers by the names in `Watch.summary`, and "reasons", a set of words."""

_NVML = "libnvidia-ml.so.1"
_SYSFS = Path("/sys/bus/pci/devices")
_SM, _MEMORY, _DIE = 1, 2, 0  # NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU
_POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT
_REASONS = (
    (0x1, "idle"),
    (0x2, "application-clocks"),
    (0x4, "sw-power-cap"),
    (0x8, "hw-slowdown"),
    (0x10, "sync-boost"),
    (0x20, "sw-thermal"),
    (0x40, "hw-thermal"),
    (0x80, "hw-power-brake"),
    (0x100, "display-clock"),
)
_HARDWARE = frozenset({"hw-slowdown", "hw-thermal", "hw-power-brake"})
_RARE, _HALF = 0.1, 0.5
_GENERATIONS = {"2.5": 1, "5": 2, "5.0": 2, "8": 3, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
_AMD, _BRIDGE = "0x1002", "0x0604"


class Sensors:
    """The sensors of some GPUs; without sensors all answers are empty."""

    def __init__(
        self,
        pci_addresses: Sequence[Optional[str]],
        *,
        nvml: Any = None,
        sysfs: Path = _SYSFS,
    ) -> None:
        """`pci_addresses`: as Linux writes them; None for a device without one."""
        library = _nvml() if nvml is None else nvml
        self._readers: dict[str, _Reader] = {}
        for address in pci_addresses:
            if address is not None:
                gpu = _Nvml(library, address)
                self._readers[address] = _Reader(gpu if gpu.found else None, _Sysfs(sysfs, address))

    def read(self, pci_address: Optional[str]) -> Sample:
        """One reading now, without values that cannot be read."""
        reader = self._readers.get(pci_address or "")
        return {} if reader is None else reader.read()

    @contextlib.contextmanager
    def watching(self, pci_address: Optional[str], seconds: float = 0.02) -> "Iterator[Watch]":
        """Read regularly in a thread until the block ends."""
        watch, done = Watch(), threading.Event()

        def look() -> None:
            while True:
                began = time.monotonic()
                watch.add(self.read(pci_address), began, time.monotonic())
                if done.wait(seconds):
                    return

        if pci_address not in self._readers:
            yield watch
            return
        thread = threading.Thread(target=look, name="sensors", daemon=True)
        thread.start()
        try:
            yield watch
        finally:
            done.set()
            thread.join()


class Watch:
    """The readings during some work; one thread may add while another asks."""

    def __init__(self) -> None:
        self._readings: list[tuple[float, float, Sample]] = []

    def add(self, sample: Sample, began: float, ended: float) -> None:
        """Keep one reading with its start and end on the monotonic clock."""
        if sample:
            self._readings.append((began, ended, sample))

    def summary(self, since: float = -math.inf, until: float = math.inf) -> dict[str, Any]:
        """Summarise the readings from `since` to `until`, seconds of the monotonic clock.

        Medians of sm_clock_mhz (with _min and _max), memory_clock_mhz, power_w, temperature_c.

        `throttle`: the reasons for low clocks; a hardware reason if it occurs at all, another one
        if it occurs in a tenth of the readings, "idle" in half. An empty list: there was none.
        `pcie_generation` and `pcie_width`: the state of the link in most readings. A key is missing
        where nothing could be read.
        """
        samples = [
            s for began, ended, s in list(self._readings) if since <= began <= ended <= until
        ]
        # The first reading is often older than the work.
        samples = samples[1:] if len(samples) > 2 else samples
        found: dict[str, Any] = {}
        clocks = [s["sm_clock_mhz"] for s in samples if "sm_clock_mhz" in s]
        for name in ("sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c"):
            values = [s[name] for s in samples if name in s]
            if values:
                found[name] = round(statistics.median(values), 1)
        if clocks:
            found["sm_clock_mhz_min"], found["sm_clock_mhz_max"] = min(clocks), max(clocks)
        reasons = [s["reasons"] for s in samples if "reasons" in s]
        if reasons:
            found["throttle"] = [word for _, word in _REASONS if _counts(word, reasons)]
        for name in ("pcie_generation", "pcie_width"):
            values = [s[name] for s in samples if name in s]
            if values:
                found[name] = statistics.median_high(values)
        return found


def _counts(word: str, reasons: "list[set[str]]") -> bool:
    seen = sum(word in each for each in reasons)
    if word in _HARDWARE:
        return seen > 0
    return seen > 0 and seen >= len(reasons) * (_HALF if word == "idle" else _RARE)


class _Reader:
    """NVML if it answers; sysfs for the rest."""

    def __init__(self, nvml: "Optional[_Nvml]", sysfs: "_Sysfs") -> None:
        self._nvml = nvml
        self._sysfs = sysfs

    def read(self) -> Sample:
        sample = self._sysfs.hwmon() if self._nvml is None else self._nvml.read()
        if "pcie_width" not in sample or "pcie_generation" not in sample:
            sample.update(self._sysfs.link())
        return sample


class _FieldValue(ctypes.Structure):
    """nvmlFieldValue_t of nvml.h."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("value_type", ctypes.c_int),
        ("code", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )


class _Nvml:
    """One GPU through NVML."""

    def __init__(self, library: Any, address: str) -> None:
        self._library = library
        self._handle = ctypes.c_void_p()
        name = "nvmlDeviceGetHandleByPciBusId_v2"
        self.found = self._call(name, address.encode("ascii"), ctypes.byref(self._handle))

    def read(self) -> Sample:
        """All values that NVML answers."""
        power = self._power_mw()
        asked: tuple[tuple[str, Optional[float]], ...] = (
            ("sm_clock_mhz", self._number("ClockInfo", _SM)),
            ("memory_clock_mhz", self._number("ClockInfo", _MEMORY)),
            ("power_w", None if power is None else power / 1000),
            ("temperature_c", self._number("Temperature", _DIE)),
            ("pcie_generation", self._number("CurrPcieLinkGeneration") or None),
            ("pcie_width", self._number("CurrPcieLinkWidth") or None),
        )
        sample: Sample = {name: value for name, value in asked if value is not None}
        for name in ("CurrentClocksEventReasons", "CurrentClocksThrottleReasons"):
            mask = ctypes.c_ulonglong()
            if self._call("nvmlDeviceGet" + name, self._handle, ctypes.byref(mask)):
                sample["reasons"] = {word for bit, word in _REASONS if mask.value & bit}
                break
        return sample

    def _power_mw(self) -> Optional[int]:
        """Power now; nvmlDeviceGetPowerUsage is a mean over a second on newer GPUs."""
        # The library can go on behind the entries that it is asked for.
        room = (_FieldValue * 8)(_FieldValue(field=_POWER_INSTANT))
        field = room[0]
        asked = self._call("nvmlDeviceGetFieldValues", self._handle, 1, ctypes.byref(room))
        milliwatts = field.value & 0xFFFFFFFF  # an unsigned int of the union
        if asked and field.code == 0 and milliwatts:
            return int(milliwatts)
        return self._number("PowerUsage")

    def _number(self, what: str, *arguments: int) -> Optional[int]:
        value = ctypes.c_uint()
        asked = self._call("nvmlDeviceGet" + what, self._handle, *arguments, ctypes.byref(value))
        return int(value.value) if asked else None

    def _call(self, name: str, *arguments: Any) -> bool:
        try:
            return bool(getattr(self._library, name)(*arguments) == 0)
        except (AttributeError, TypeError):
            return False


@functools.lru_cache(maxsize=1)
def _nvml() -> Any:
    """The driver's library, initialised; None without one."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(_NVML)
        if library.nvmlInit_v2() == 0:
            return library
    return None


class _Sysfs:
    """One device in /sys/bus/pci/devices: the PCIe link, and the hwmon values of amdgpu."""

    def __init__(self, root: Path, address: str) -> None:
        self._folder = root / address
        self._hwmon = next(iter(sorted(self._folder.glob("hwmon/hwmon*"))), None)
        self._port = self._outer_port()

    def _outer_port(self) -> Path:
        """The device at the slot; AMD cards have their own PCIe switch behind it."""
        port = self._folder
        with contextlib.suppress(OSError):
            port = port.resolve()
        while (
            _text(port.parent / "vendor") == _AMD == _text(port / "vendor")
            and _text(port.parent / "class")[:6] == _BRIDGE
        ):
            port = port.parent
        return port

    def link(self) -> Sample:
        """Generation and width of the link now."""
        sample: Sample = {}
        generation = _GENERATIONS.get(_text(self._port / "current_link_speed").partition(" ")[0])
        width = _text(self._port / "current_link_width")
        if generation is not None:
            sample["pcie_generation"] = generation
        if width.isdigit() and 0 < int(width) <= 32:  # 63 and 255 stand for "unknown"
            sample["pcie_width"] = int(width)
        return sample if len(sample) == 2 else {}

    def hwmon(self) -> Sample:
        """Clocks, power, temperature; files and units as in the kernel's amdgpu documentation."""
        asked = (
            ("sm_clock_mhz", 1e6, ("freq1_input",)),
            ("memory_clock_mhz", 1e6, ("freq2_input",)),
            ("power_w", 1e6, ("power1_input", "power1_average")),
            ("temperature_c", 1e3, ("temp2_input", "temp1_input")),  # junction, else edge
        )
        sample: Sample = {}
        if self._hwmon is None:
            return sample
        for name, unit, files in asked:
            for file in files:
                text = _text(self._hwmon / file)
                if text.isdigit() and int(text) > 0:
                    sample[name] = int(text) / unit
                    break
        return sample


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
