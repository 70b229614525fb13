"""`gputop -1` prints what the first lines of Node show, and ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gputop.app import GpuTop
from gputop.topology.recorded.feeds import DemoFeed
from tests.grid import share
from tests.support.app import rounds, text
from tests.support.command import gputop_here


@pytest.mark.parametrize("name", share(["sick-h100-8", "pcie-l40s-8", "mi300x-8"], 2))
async def test_the_lines_are_those_of_node(name: str) -> None:
    done = gputop_here("-1", "--demo", name)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    parts = ["verdict", "use", "cost", "identity"]
    wanted = [line.split()[:6] for line in lines[: len(parts)]]
    if name == "sick-h100-8":  # Node tells of the job that hangs once its thread has answered
        del parts[1], wanted[1]
    async with GpuTop(DemoFeed(name), 3600).run_test(size=(120, 40)) as pilot:
        shown: list[list[str]] = []
        async for _ in rounds(pilot):
            await asyncio.sleep(0.05)  # the threads of a new process have much to import
            said = [text(pilot, f"#{part}").replace("6 details", "") for part in parts]
            shown = [line.split("p measures")[0].split()[:6] for line in said]
            if shown == wanted:
                break
    assert shown == wanted
    assert sum(line.split()[:1] == [str(number)] for line in lines for number in range(8)) >= 6
    assert "60 s" not in done.stdout
    assert len(lines) == 6 + 8


def test_without_a_gpu_it_says_so() -> None:
    done = gputop_here("--once", GPUTOP_FAKE_NVML="absent")
    assert "no GPU to examine" in done.stdout


def test_the_columns_are_those_of_the_settings(tmp_path: Path) -> None:
    folder = tmp_path / "gputop"
    folder.mkdir()
    (folder / "app.toml").write_text('columns = ["W", "PCI"]\n', encoding="utf-8")
    done = gputop_here("-1", "--demo", "hgx-h100-8", XDG_CONFIG_HOME=str(tmp_path))
    heads = [line.split() for line in done.stdout.splitlines() if line.lstrip().startswith("GPU ")]
    assert heads == [["GPU", "Power", "W", "PCI"]]
