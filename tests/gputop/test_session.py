"""The app on what another program printed: stdin gives the node, the terminal the keys."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.grid import share
from tests.support.command import gputop_here
from tests.support.places import RECORDINGS
from tests.support.terminal import APP, Terminal

TEXT = RECORDINGS / "nvidia-public" / "h100-8-topo-mp.txt"


@pytest.mark.parametrize("kind", share(["snapshot", "text"], 2))
def test_a_pipe_gives_the_node_and_the_terminal_the_keys(kind: str, tmp_path: Path) -> None:
    source = TEXT
    if kind == "snapshot":
        source = tmp_path / "node.json"
        assert gputop_here("snapshot", "--demo", "dgx-1v", "-o", str(source)).returncode == 0
    line = f'cat "{source}" | "{sys.executable}" -m gputop --from -'
    with Terminal((), command=("sh", "-c", line)) as terminal:
        terminal.wait_for(APP)
        terminal.forget()
        terminal.send("2")
        terminal.wait_for("rings")  # a key of the Map alone
        terminal.send("q")
        terminal.wait_end()
        assert terminal.process.returncode == 0
        assert terminal.sane()
