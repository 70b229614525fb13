"""A symptom of a log is one entry of the table."""

from __future__ import annotations

import json

from tests.house.promises.worked_examples import example
from tests.support.copied_checkout import CopiedCheckout

TABLE = "topology/diagnosis/symptoms/table.toml"
LOG = """node1:11:11 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
node1:11:11 [0] misc/fans.cc:12 NCCL WARN fan 3 has stopped
"""


def test_a_symptom_of_a_log_is_one_entry(checkout: CopiedCheckout) -> None:
    table = checkout.root / TABLE
    table.write_text(f"{table.read_text()}\n{example(TABLE)}")
    (checkout.root / "job.log").write_text(LOG)
    printed, asked = checkout.gputop("log job.log", "log job.log --json")
    assert printed.returncode == 0, printed.stderr
    assert "A fan has stopped" in printed.stdout
    assert "line 2: misc/fans.cc:12 fan 3 has stopped" in printed.stdout
    assert "Fix: have the fan replaced" in printed.stdout
    (found,) = json.loads(asked.stdout)["findings"]
    assert (found["id"], found["severity"]) == ("fan-stopped", "warning")
    assert [proof["line"] for proof in found["proof"]] == [2]
