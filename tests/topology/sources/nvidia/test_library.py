"""Why NVML cannot be loaded."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gputop.topology.model.source import SourceAbsent
from gputop.topology.sources.nvidia.answers import OUR_LIMIT
from gputop.topology.sources.nvidia.failures import failed
from gputop.topology.sources.nvidia.library import MOST_LISTED, GpuLost, NvmlLibrary, open_library
from tests.support import nvml_fake as fake


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        ("/lib/libnvidia-ml.so.1: file too short", "failed", "cannot be loaded: /lib/libnvidia-ml"),
        ("libc.so.7: cannot open shared object file: No such file", "failed", "libc.so.7"),
        (
            "libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
            "absent",
            "no NVIDIA driver is installed",
        ),
    ],
)
def test_a_library_that_cannot_be_loaded_is_not_called_absent(
    tmp_path: Path, said: str, kind: str, told: str
) -> None:
    """The binding says "not found" of an empty file too, which images of containers keep."""

    def start() -> None:
        try:
            raise OSError(said)
        except OSError:
            raise fake.LibraryNotFound  # noqa: B904 - as the binding does

    binding = fake.Binding()
    binding.nvmlInit = start  # type: ignore[method-assign]
    with pytest.raises(SourceAbsent, match=re.escape(told)) as found:
        open_library(lambda: binding, tmp_path)
    assert found.value.kind == kind


@pytest.mark.parametrize("count", [3, 1_000_000])
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("nvmlDeviceGetComputeRunningProcesses_v3", ()),
        ("nvmlDeviceGetMPSComputeRunningProcesses_v2", ()),
        ("nvmlDeviceGetRetiredPages", (0,)),
    ],
)
def test_a_list_without_end_is_not_made(
    name: str, more: tuple[int, ...], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def listed(*arguments: Any) -> int:
        number, *entries = arguments[1 + len(more) :]
        calls.append(number._obj.value)
        number._obj.value = count
        return int(pynvml.NVML_SUCCESS if entries[0] else pynvml.NVML_ERROR_INSUFFICIENT_SIZE)

    monkeypatch.setattr(pynvml, "nvmlLib", SimpleNamespace(**{name: listed}))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    for _ in range(2):  # a library may be opened again
        library = open_library()
    answer = library.ask(name, None, *more)
    if count < MOST_LISTED:
        assert isinstance(answer, list)
        assert len(answer) == count
    else:
        assert calls == [0]
        said = "the driver names 1000000, and gputop reads 16384 at most"
        assert answer == {"error": f"{OUR_LIMIT}: {said}"}
        (problem,) = failed("nvml", None, [("0000:01:00.0", {"retired0": answer}, ())])
        assert problem.text == f"{said}: nvmlDeviceGetRetiredPages of 0000:01:00.0"


class Counters:
    """A driver with two counters for each of three links; one link has the second one refused."""

    NVMLError = fake.NVMLError
    COUNTED, REFUSED = 7, 8

    def __init__(self, at_once: int = 99) -> None:
        self.asked: list[list[tuple[int, int]]] = []
        self.at_once = at_once

    def nvmlDeviceGetFieldValues(self, handle: int, asked: list[Any]) -> list[Any]:  # noqa: N802
        pairs = [(item, 0) if isinstance(item, int) else item for item in asked]
        self.asked.append(pairs)
        if handle in (1, 2):
            raise (fake.GpuIsLost, fake.NotSupported)[handle - 1]
        if len(pairs) > self.at_once:
            raise fake.InvalidArgument
        values = [fake.Field(number * 100 + link) for number, link in pairs]
        for value, pair in zip(values, pairs, strict=True):
            value.nvmlReturn = 999 if pair == (self.REFUSED, 1) else 0
        return values


@pytest.mark.parametrize(("at_once", "calls"), [(99, 1), (2, 4)])
def test_the_fields_of_all_links_are_one_call_that_hides_no_refusal(
    at_once: int, calls: int
) -> None:
    driver = Counters(at_once)
    library = NvmlLibrary(driver)
    names = ("COUNTED", "LATER", "REFUSED")
    found = library.fields_of_links(0, names, range(3))
    assert len(driver.asked) == calls
    assert found == [library.fields(0, names, scope=link) for link in range(3)]
    assert [answers["COUNTED"] for answers in found] == [{"value": 700 + link} for link in range(3)]
    assert [answers["REFUSED"] for answers in found] == [
        {"value": 800}, {"ret": 999}, {"value": 802}
    ]  # fmt: skip
    assert "not in the installed" in found[2]["LATER"]["error"]


def test_the_fields_of_all_links_of_a_gpu_that_refuses_or_is_lost() -> None:
    library = NvmlLibrary(Counters())
    assert library.fields_of_links(0, ("COUNTED",), range(0)) == []
    assert library.fields_of_links(0, ("LATER",), range(2)) == [library.fields(0, ("LATER",))] * 2
    assert (
        library.fields_of_links(2, ("COUNTED",), range(2))
        == [{"COUNTED": {"error": "NVMLError_NotSupported: Not Supported"}}] * 2
    )
    with pytest.raises(GpuLost):
        library.fields_of_links(1, ("COUNTED",), range(2))


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN, 12345])
def test_words_of_the_driver_that_are_no_text_leave_its_number(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The binding decodes what nvmlErrorString gives as it is asked for words."""

    def words(_: int) -> bytes:
        return b"err\xff"

    def call(_: object) -> None:
        raise pynvml.NVMLError(code)

    binding = SimpleNamespace(NVMLError=pynvml.NVMLError, asked=call)
    monkeypatch.setattr(pynvml.NVMLError, "_errcode_to_string", {})
    monkeypatch.setattr(pynvml, "nvmlErrorString", pynvml.convertStrBytes(words))
    library = NvmlLibrary(binding)
    if code == pynvml.NVML_ERROR_GPU_IS_LOST:
        with pytest.raises(GpuLost, match=f"error {code}"):
            library.ask("asked", 0)
    else:
        assert str(code) in library.ask("asked", 0)["error"]
