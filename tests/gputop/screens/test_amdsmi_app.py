"""The whole program on a node whose amdsmi is the stand-in: commands, screens, other sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gputop.app import GpuTop
from gputop.measuring import busy
from gputop.screens import NAMES
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report
from gputop.topology.sources.amd import amdsmi_readings
from tests.grid import shown_size, turns
from tests.support.amdsmi.fake import NO_PERMISSION, Binding, start
from tests.support.places import RECORDINGS, ROOT

from ...support.app import SIZES, app_of, give, picture, press
from ...support.command import gputop

MODULE = """
from tests.support.amdsmi import fake
_binding = fake.Binding({major!r})
{change}
def __getattr__(name):
    return getattr(_binding, name)
"""
REFUSE = f"""
def refuse(key, answer):
    if key in ('amdsmi_init', 'amdsmi_get_processor_handles'):
        return answer
    raise fake.AmdSmiLibraryException({NO_PERMISSION!r})
_binding.answering = refuse
"""
OLD = "del _binding.offered['functions']['amdsmi_get_gpu_asic_info']"
STOPS = "_binding.init_error = fake.AmdSmiLibraryException('AMDSMI_STATUS_IO - I/O Error')"


def package(folder: Path, major: str, change: str = "") -> dict[str, Any]:
    """Put the stand-in where `import amdsmi` finds it; variables that make it the one in use."""
    (folder / "amdsmi").mkdir()
    (folder / "amdsmi/__init__.py").write_text(MODULE.format(major=major, change=change))
    # Any library that loads: the stand-in needs none, the real binding is not imported without.
    return {"PYTHONPATH": f"{folder}:{ROOT}", "AMDSMI_LIB_OVERRIDE": "libc.so.6"}


def amd_problems(document: dict[str, Any]) -> list[str]:
    return [
        problem["text"]
        for problem in document["problems"]
        if problem["source"].startswith("amdsmi")
    ]


@pytest.mark.parametrize("major", ["6", "7"])
def test_commands_on_a_live_node(tmp_path: Path, major: str) -> None:
    variables = package(tmp_path, major)
    done = gputop("snapshot", **variables)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    gpus = [gpu for gpu in document["machine"]["gpus"] if gpu["vendor"] == "amd"]
    assert len(gpus) == 8
    assert all(len(gpu["xgmi"]) == 7 for gpu in gpus)
    assert amd_problems(document) == []
    readings = {row["address"]: row for row in document["readings"]["gpus"]}
    assert readings["0000:0c:00.0"]["power_watts"] == 612.0
    assert readings["0000:0c:00.0"]["throttle_reasons"] == ["sw power cap"]

    topo = gputop("topo", "--format", "matrix", **variables)
    assert topo.returncode == 0
    rows = [line for line in topo.stdout.splitlines() if line.startswith("GPU")]
    assert sum(row.count("XGMI") for row in rows) == 56

    check = gputop("check", "--quick", "--json", **variables)
    verdict = json.loads(check.stdout)
    found = {finding["id"] for finding in verdict["findings"]}
    assert found >= {"amd-bad-pages", "gpu-busy"}
    assert check.returncode in (0, 1)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (REFUSE, "amdsmi does not tell the PCI address (no permission)"),
        (OLD, "older than ROCm 6"),
        (STOPS, "the AMD kernel driver is not loaded"),
    ],
    ids=["refuses everything", "too old", "does not start"],
)
def test_trouble_is_a_line_and_the_other_sources_go_on(
    tmp_path: Path, change: str, line: str
) -> None:
    done = gputop("snapshot", **package(tmp_path, "6", change))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    lines = set(amd_problems(document))
    assert len(lines) == 1
    assert line in lines.pop()
    assert document["machine"]["host"]["kernel"]


def report(major: str) -> Report:
    found = load([str(RECORDINGS / f"mi300x-amdsmi-{major}/amdsmi.json")])
    return Report(Node(found.snapshot).decide())


@pytest.mark.parametrize(("size", "major"), turns(SIZES, ["6", "7"]), ids=shown_size)
async def test_every_screen_shows_the_node(major: str, size: tuple[int, int]) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, report(major))
        for number, name in enumerate(NAMES, start=1):
            await press(pilot, str(number))
            assert app_of(pilot).current_mode == name
            assert app_of(pilot).trouble == ""
            drawn = picture(pilot)
            if name != "flags":  # the catalogue explains NVIDIA's variables too
                assert "NVLink" not in drawn, name
            if name == "node":
                assert "MI300X" in drawn
                assert "gfx942" in drawn or size[0] < 100


def test_gpus_that_work_are_busy_and_the_others_are_free() -> None:
    readings = amdsmi_readings.SOURCE.parse(
        amdsmi_readings.AmdsmiReadingsReader(start(Binding("7")))()
    )
    seen = [readings.gpu_readings] * busy.SAMPLES
    verdict = busy.judge(seen, ("0000:0c:00.0", "0000:df:00.0"))
    assert {text.split(" ")[0] for text in verdict.busy} == {"0000:0c:00.0"}
    assert "in use by process 5000" in verdict.busy[0]
    assert verdict.blind == ()
