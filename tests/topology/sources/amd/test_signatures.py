"""Only what both majors of the real amdsmi offer is called, and the stand-in is no kinder."""

from __future__ import annotations

import ast
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.sources.amd import amdsmi, amdsmi_readings, library, words
from tests.grid import share
from tests.support.amdsmi import fake, signatures, wheels
from tests.support.places import ROOT

NEW_IN_7 = {"amdsmi_get_link_metrics"}
SINCE = {
    "amdsmi_get_pcie_info": (6, 1),
    "amdsmi_get_gpu_kfd_info": (6, 3),
    "amdsmi_get_violation_status": (6, 3),
    "amdsmi_topo_get_p2p_status": (6, 3),
    "amdsmi_get_gpu_enumeration_info": (6, 4),
    "amdsmi_get_gpu_virtualization_mode": (6, 4),
    "amdsmi_get_gpu_xgmi_link_status": (6, 4),
    "amdsmi_get_rocm_version": (6, 4),
    "amdsmi_get_link_metrics": (7, 0),
}
"""The minor version in which a function that we ask for first appears."""
NEW_BLOCKS = {"IH", "JPEG", "MCA", "MPIO", "VCN"}
"""Blocks with error counters that 6.0 does not name."""


def questions() -> set[tuple[str, ...]]:
    """Everything that the two readers ask about one GPU, about a pair, and about the system."""
    asked = {*amdsmi._IDENTITY, *amdsmi._SETTINGS}
    asked |= {*amdsmi_readings._EACH_TIME, *amdsmi_readings._SLOWLY}
    asked |= {(amdsmi_readings._VIOLATIONS,)}
    asked |= {("amdsmi_get_gpu_ecc_count", f"AmdSmiGpuBlock.{b}") for b in words.ECC_BLOCKS}
    return asked


@pytest.mark.parametrize("major", signatures.MAJORS)
def test_every_question_is_one_that_the_real_binding_takes(major: str) -> None:
    offered = signatures.load(major)
    missing = set()
    for name, *members in questions():
        signature = offered["functions"].get(name)
        if signature is None:
            missing.add(name)
            continue
        assert signature["parameters"][0] == "processor_handle"
        given = 1 + len(members)
        assert signature["required"] <= given <= len(signature["parameters"]), name
        for member in members:
            kind, _, value = member.partition(".")
            assert value in offered["enums"][kind], member
    assert missing == (NEW_IN_7 if major == "6" else set())
    for name in amdsmi._PAIR:
        parameters = offered["functions"][name]["parameters"]
        assert parameters == ["processor_handle_src", "processor_handle_dst"]
    for name in (*amdsmi._SYSTEM, "amdsmi_get_processor_handles", "amdsmi_shut_down"):
        assert offered["functions"][name]["parameters"] == []
    assert set(library.NEEDED) <= set(offered["functions"])
    assert offered["functions"]["amdsmi_init"]["required"] == 0


def test_no_name_of_the_library_is_written_anywhere_that_no_version_has() -> None:
    known = {name for major in signatures.MAJORS for name in signatures.load(major)["functions"]}
    files = sorted((ROOT / "topology/sources/amd").glob("*.py"))
    written = {
        node.value.partition("(")[0]
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("amdsmi_")
        and " " not in node.value
    }
    assert len(written) > 30
    assert written - known <= {"amdsmi_", "amdsmi_readings"}


@pytest.mark.parametrize("major", signatures.MAJORS)
def test_the_recordings_have_the_keys_that_the_real_binding_writes(major: str) -> None:
    offered = signatures.load(major)["functions"]
    raw = fake.recording(major)
    compared = 0
    for device in raw["devices"]:
        for answers in (device, *device["pairs"]):
            for key, answer in answers.items():
                name = key.partition("(")[0]
                if name.startswith("amdsmi_") and isinstance(answer, dict | list):
                    compared += _check_keys(offered[name]["keys"], name, answer)
        for answer in device["ecc"].values():
            compared += _check_keys(offered["amdsmi_get_gpu_ecc_count"]["keys"], "ecc", answer)
    assert compared > 100


def _check_keys(known: list[str], name: str, answer: Any) -> int:
    """Compare the keys of a dict and of all dicts inside it; formatted pages come from a helper."""
    if name == "amdsmi_get_gpu_bad_page_info" or (isinstance(answer, dict) and "error" in answer):
        return 0
    found = 0
    for item in answer if isinstance(answer, list) else [answer]:
        if isinstance(item, dict):
            assert set(item) <= set(known), (name, set(item) - set(known))
            found += 1 + sum(
                _check_keys(known, name, inner)
                for inner in item.values()
                if isinstance(inner, dict | list)
            )
    return found


def test_the_stand_in_refuses_what_the_real_binding_refuses() -> None:
    binding = fake.Binding("6")
    with pytest.raises(AttributeError):
        _ = binding.amdsmi_get_link_metrics
    with pytest.raises(AttributeError):
        _ = binding.amdsmi_get_gpu_everything
    with pytest.raises(TypeError):
        binding.amdsmi_get_clock_info(binding.handles[0])
    with pytest.raises(fake.AmdSmiParameterException):
        binding.amdsmi_get_gpu_asic_info(0)
    assert fake.Binding("7").amdsmi_get_link_metrics(fake.Handle(0))["num_links"] == 8


@pytest.mark.parametrize("major", signatures.MAJORS)
def test_the_kept_signatures_are_those_of_the_wheel(
    major: str, amdsmi_wheel: Callable[[str], Path]
) -> None:
    version = signatures.MAJORS[major]
    kept = (signatures.FOLDER / f"{version}.json").read_text()
    assert signatures.dump(signatures.of_wheel(amdsmi_wheel(version))) == kept


@pytest.mark.parametrize("version", share(wheels.versions(), 2))
def test_each_minor_version_takes_every_question_that_it_knows(
    version: str, amdsmi_wheel: Callable[[str], Path]
) -> None:
    """What a version lacks is written down here: it must never be more without our knowing."""
    offered = signatures.of_wheel(amdsmi_wheel(version))
    functions = offered["functions"]
    if not set(library.NEEDED) <= set(functions):
        assert version.startswith("5."), "the source would refuse it as too old"
        return
    minor = tuple(int(part) for part in version.split(".")[:2])
    lacking = {name for name, since in SINCE.items() if minor < since}
    asked = {name for name, *_ in questions()} | {*amdsmi._PAIR, *amdsmi._SYSTEM}
    assert asked - set(functions) == lacking
    for name, *members in questions():
        if name in lacking:
            continue
        signature = functions[name]
        assert signature["parameters"][0] == "processor_handle" or minor < (6, 4), name
        assert signature["required"] <= 1 + len(members) <= len(signature["parameters"]), name
        kinds = [member.partition(".") for member in members]
        unknown = {value for kind, _, value in kinds if value not in offered["enums"][kind]}
        assert unknown <= (NEW_BLOCKS if minor < (6, 1) else set()), (name, unknown)
    for name in set(amdsmi._PAIR) - lacking:
        assert functions[name]["required"] == len(functions[name]["parameters"]) == 2, name


@pytest.mark.parametrize("major", signatures.MAJORS)
def test_a_whole_reading_calls_the_stand_in_only_as_the_wheel_allows(
    major: str, amdsmi_wheel: Callable[[str], Path]
) -> None:
    """The stand-in takes its names and arguments from the wheel itself here, and calls are kept."""
    binding = fake.Binding(major)
    binding.offered = signatures.of_wheel(amdsmi_wheel(signatures.MAJORS[major]))
    refused: list[str] = []
    call = binding._call

    def watched(name: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return call(name, arguments)
        except (TypeError, fake.AmdSmiParameterException) as error:
            refused.append(f"{name}: {error}")
            raise

    binding._call = watched  # type: ignore[method-assign]
    fake.asked(binding)
    fake.read(binding, 2, thorough=True)
    called = {key.partition("(")[0] for key in binding.calls}
    assert not refused
    assert called <= set(binding.offered["functions"])
    assert {name for name, *_ in questions()} - called == (NEW_IN_7 if major == "6" else set())


def test_the_installed_binding_offers_what_is_asked_for() -> None:
    # find_spec looks for the package and imports nothing of it.
    spec = importlib.util.find_spec("amdsmi")
    if spec is None or spec.origin is None:
        pytest.skip("amdsmi is not installed")
    found = signatures.of_folder(Path(spec.origin).parent)
    for name, *members in questions():
        if name in NEW_IN_7 and name not in found["functions"]:
            continue
        assert len(found["functions"][name]["parameters"]) >= 1 + len(members)


def test_signatures_survive_being_written() -> None:
    for version in signatures.MAJORS.values():
        text = (signatures.FOLDER / f"{version}.json").read_text()
        assert signatures.dump(json.loads(text)) == text


def test_a_wheel_is_kept_and_its_absence_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(wheels.FOLDER, raising=False)
    shelf = wheels.Shelf(tmp_path, "/nowhere/python")
    with pytest.raises(wheels.NoWheel, match="no package index answers: FileNotFound"):
        shelf.wheel("6.4.3")
    kept = tmp_path / "amdsmi-6.4.3-py3-none-any.whl"
    kept.touch()
    assert shelf.wheel("6.4.3") == kept
    assert list(tmp_path.iterdir()) == [kept]
