"""What fails inside the app ends it with 70 and one line, wherever it fails."""

from __future__ import annotations

import sys

import pytest

from tests.support.terminal import APP, Terminal

START = "import sys; sys.argv = ['gputop', '--demo', 'pcie-l40s-8']\nimport gputop.app as app\n"
RUN = "\nfrom gputop.__main__ import main\nmain()"
FAIL = "def fail(*given): raise ValueError('planted')\n"
PLANTED = {
    "a handler": f"{FAIL}app.GpuTop.action_help = fail",
    "a thread": f"{FAIL}app.GpuTop.action_help = lambda self: self.run_worker(fail, thread=True)",
    "a drawing": f"{FAIL}from textual.widget import Widget\n"
    "def begin(self): Widget.render_lines = fail\napp.GpuTop.action_help = begin",
}


@pytest.mark.terminal
@pytest.mark.parametrize("plant", PLANTED)
def test_a_fault_of_our_own_ends_the_app_with_70(plant: str) -> None:
    code = START + PLANTED[plant] + RUN
    with Terminal(["-c", code], command=[sys.executable]) as terminal:
        terminal.wait_for(APP)
        terminal.read(0.5)
        terminal.send("?")
        terminal.wait_end()
        assert terminal.process.returncode == 70
        assert terminal.sane()
        assert "planted" in terminal.text()
        assert "Traceback" not in terminal.text()
