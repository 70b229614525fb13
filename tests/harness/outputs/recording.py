"""Writes down what the commands print: one file an input."""

from __future__ import annotations

import json
import multiprocessing
import re
import time
from pathlib import Path

from tests.support.places import CAPTURES, ROOT

from .commands import commands, plain_commands
from .inputs import Input, inputs
from .running import printed

NO_INPUT = Input("plain", "plain", ())
MOMENTS = re.compile(
    r'("(?:taken_at|started_at|boot_time|written_at|elapsed_seconds)": )[0-9.e+-]+'
    r"|(finished +)[0-9.]+(?= s )|(probes finished in )[0-9.]+|(Finished in )[0-9.]+"
)
"""When a demo was read, and how long that took: what differs between two runs of one program."""


def record(folder: Path, only: str, processes: int) -> int:
    """Write a file for each input whose name holds `only`; gives the exit code."""
    chosen = [input_ for input_ in (NO_INPUT, *inputs()) if only in input_.name]
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    # A process for each input: nothing that one leaves behind can change what another prints.
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=1) as pool:
        counts = pool.starmap(_write_down, [(input_, folder) for input_ in chosen], chunksize=1)
    seconds = time.monotonic() - start
    print(f"{sum(counts)} outputs of {len(chosen)} inputs in {seconds:.0f} s")
    return 0


def _write_down(given: Input, folder: Path) -> int:
    lines = plain_commands() if given is NO_INPUT or given.kind == "plain" else commands(given)
    answers = {_steady(" ".join(line)): _steady(printed(line)) for line in lines}
    file = folder / (given.name.replace("/", "__") + ".json")
    file.write_text(json.dumps(answers, indent=0, ensure_ascii=False), encoding="utf-8")
    return len(answers)


def _steady(text: str) -> str:
    places = text.replace(str(CAPTURES), "CAPTURES").replace(str(ROOT), "CHECKOUT")
    return MOMENTS.sub(lambda found: f"{found.group(found.lastindex or 0)}0", places)
