"""amdsmi that refuses, lies, is too old, or is not there: one clear line each."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.topology.model.part import PartialNode
from gputop.topology.model.source import SourceAbsent
from gputop.topology.sources.amd import amdsmi, library, parse_machine, parse_readings
from gputop.topology.sources.amd.library import open_library
from tests.support.amdsmi import fake
from tests.support.amdsmi.fake import asked, read, start
from tests.support.places import ROOT

MAJORS = ("6", "7")


@pytest.fixture(params=MAJORS)
def major(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def unavailable(major: str) -> Any:
    """A recording where every number is the word N/A."""

    def words(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: value[key] if key in ("index", "peer", "binding") else words(value[key])
                for key in value
            }
        if isinstance(value, list):
            return [words(item) for item in value]
        return "N/A" if isinstance(value, int | float) else value

    return words(fake.recording(major))


def test_words_where_numbers_were_promised_become_gaps(major: str) -> None:
    raw = unavailable(major)
    part = PartialNode(
        gpus=parse_machine.parse(raw).gpus, gpu_readings=parse_readings.parse(raw).gpu_readings
    )
    assert len(part.gpus) == len(part.gpu_readings) == 8
    for gpu in part.gpus:
        assert gpu.name == "AMD Instinct MI300X"
        for field in ("memory_bytes", "power_limit_watts", "pcie_gen_max", "ecc_enabled"):
            assert getattr(gpu, field) is None
            assert gpu.why(field) == "the driver does not say", field
    for reading in part.gpu_readings:
        for field in ("utilization_percent", "power_watts", "temperature_c", "memory_used_bytes"):
            assert getattr(reading, field) is None
            assert reading.why(field), field
        assert reading.throttle_reasons is None


def refusing(binding: fake.Binding, words: str, spare: tuple[str, ...] = ()) -> None:
    def refuse(key: str, answer: Any) -> Any:
        if key in ("amdsmi_init", "amdsmi_get_processor_handles", *spare):
            return answer
        raise fake.AmdSmiLibraryException(words)

    binding.answering = refuse


@pytest.mark.parametrize(
    ("words", "kind", "why"),
    [
        (fake.NOT_SUPPORTED, "failed", "Feature not supported"),
        (fake.NO_PERMISSION, "denied", "no permission"),
    ],
)
def test_a_library_that_refuses_everything_is_one_line(
    major: str, words: str, kind: str, why: str
) -> None:
    binding = fake.Binding(major)
    refusing(binding, words)
    part = parse_machine.parse(asked(binding))
    assert part.gpus == ()
    assert [(problem.kind, problem.text) for problem in part.problems] == [
        (kind, f"GPU 0, GPU 1 and 6 more: amdsmi does not tell the PCI address ({why})")
    ]
    assert parse_readings.parse(read(binding)).gpu_readings == ()

    refusing(binding, words, spare=("amdsmi_get_gpu_device_bdf",))
    part = parse_machine.parse(asked(binding))
    assert len(part.gpus) == 8
    assert part.gpus[0].why("name") == why
    (problem,) = part.problems
    assert problem.text.endswith(f"and 6 more: amdsmi refuses every question ({why})")
    assert parse_readings.parse(read(binding)).gpu_readings[0].why("power_watts") == why


def test_a_library_that_does_not_list_its_gpus_is_a_failed_reading() -> None:
    binding = fake.Binding("6")

    def refuse(key: str, answer: Any) -> Any:
        if key == "amdsmi_get_processor_handles":
            raise fake.AmdSmiLibraryException("AMDSMI_STATUS_BUSY - Device busy")
        return answer

    binding.answering = refuse
    with pytest.raises(RuntimeError, match=r"does not list the GPUs.*Device busy"):
        amdsmi.AmdsmiReader(start(binding))()
    assert binding.calls[-1] == "amdsmi_shut_down"  # the next reading starts it again


def test_the_library_is_not_shut_down_under_another_source() -> None:
    binding = fake.Binding("7")
    other = amdsmi.AmdsmiReader(start(binding))
    other()
    library_of_ours = start(binding)()
    library_of_ours.close()
    assert "amdsmi_shut_down" not in binding.calls
    assert parse_machine.parse(other()).gpus[0].serial == "DE300000000"


def absence(load: Callable[[], Any], root: Path = Path("/nowhere")) -> SourceAbsent:
    with pytest.raises(SourceAbsent) as caught:
        amdsmi.AmdsmiReader(partial(open_library, load, root))()
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ModuleNotFoundError("amdsmi"), "absent", "package amdsmi is not installed"),
        (KeyError("libamd_smi.so"), "absent", "libamd_smi.so is not found"),
        (KeyError("ROCM_PATH"), "failed", "needs the variable ROCM_PATH"),
        (OSError("cannot open shared object file"), "absent", "libamd_smi.so is not found"),
        (AttributeError("undefined symbol: amdsmi_x"), "mismatch", "different ROCm versions"),
        (RuntimeError("two\nlines"), "failed", "RuntimeError: two lines"),
    ],
)
def test_a_binding_that_cannot_be_loaded(error: Exception, kind: str, words: str) -> None:
    def load() -> Any:
        raise error

    absent = absence(load)
    assert absent.kind == kind
    assert words in str(absent)


def test_a_binding_of_rocm_5_is_too_old() -> None:
    class Old:
        """ROCm 5.7 called the functions amdsmi_get_asic_info and so on."""

        amdsmi_init = amdsmi_get_processor_handles = staticmethod(lambda *given: [])
        amdsmi_get_device_bdf = amdsmi_get_asic_info = staticmethod(lambda *given: {})

    absent = absence(Old)
    assert (absent.kind, str(absent)) == ("mismatch", library.TOO_OLD)


def test_why_amdsmi_does_not_start(tmp_path: Path) -> None:
    binding = fake.Binding("7")

    def why(error: Exception) -> SourceAbsent:
        binding.init_error = error
        return absence(lambda: binding, tmp_path)

    not_loaded = fake.AmdSmiLibraryException("AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded")
    assert "no module amdgpu" in str(why(not_loaded))
    # The newest bindings load without their library and complain at the first call.
    assert "libamd_smi.so is not found" in str(why(OSError("could not be loaded")))
    assert why(fake.AmdSmiLibraryException(fake.NO_PERMISSION)).kind == "denied"
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    assert "/dev/kfd does not exist" in str(why(not_loaded))
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    assert why(fake.AmdSmiLibraryException("AMDSMI_STATUS_IO - I/O Error")).kind == "failed"
    binding.init_error = None
    binding.handles = []
    assert "shows no GPU" in str(absence(lambda: binding, tmp_path))


def test_importing_the_sources_does_not_load_the_binding() -> None:
    code = (
        "from gputop.topology.sources.amd import amdsmi, amdsmi_readings; import sys; "
        "sys.exit('amdsmi' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_binding_without_its_library_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As the real one of 6.x: it prints and dies of a KeyError when its library is missing."""
    package = tmp_path / "amdsmi"
    package.mkdir()
    (package / "__init__.py").write_text("print('Unable to find libamd_smi.so')\n{}['lib']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(library, "_loads", lambda name: False)
    assert "libamd_smi.so is not found" in str(absence(library._binding))
    assert capfd.readouterr().out == ""
    monkeypatch.setattr(library, "_loads", lambda name: True)
    assert absence(library._binding).kind == "absent"  # the KeyError itself


def test_hostile_objects_become_data() -> None:
    class Nasty:
        def __str__(self) -> str:
            raise ValueError

    loop: list[Any] = []
    loop.append(loop)
    for value in (Nasty(), loop, {Nasty: 1}, b"\xff\xfe", {"a": [Nasty()]}, range(3)):
        assert json.dumps(library.plain(value))


NAMES = sorted(
    {key for device in fake.recording("7")["devices"] for key in device}
    | {key for pair in fake.recording("7")["devices"][0]["pairs"] for key in pair}
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.just("half a pair \ud800")
    | st.sampled_from(["0000:0c:00.0", "N/A", "U", "D", 2, 15, 32000, 0xFFFFFFFF, 2**64 - 1])
)
KEYS = st.sampled_from(
    [*NAMES, "links", "status", "bdf", "type", "hops", "peer", "index", "error", "seconds", "UMC",
     "max_bandwidth", "min_bandwidth", "cap", "pid", "mem", "xgmi_read_data_acc", "mode", "read",
     "accumulation_counter", "ppt_residency_acc", "ecc", "residencies", "xgmi_kb", "write"]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@given(
    st.lists(
        st.dictionaries(KEYS, VALUES, max_size=12).map(
            lambda d: {"amdsmi_get_gpu_device_bdf": "0000:0c:00.0"} | d
        ),
        max_size=3,
    ),
    VALUES,
)
def test_any_answer_gives_a_part(devices: list[Any], system: Any) -> None:
    raw = {"devices": devices, "system": system}
    # A part that cannot be written as JSON could not become a snapshot.
    assert msgspec.json.encode(parse_machine.parse(raw))
    assert msgspec.json.encode(parse_readings.parse(raw))


@given(VALUES)
def test_any_json_gives_a_part(value: Any) -> None:
    assert isinstance(parse_machine.parse(value), PartialNode)
    assert isinstance(parse_readings.parse(value), PartialNode)
