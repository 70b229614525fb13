"""A symptom of a log is one entry of the table."""

from __future__ import annotations

import json

from tests.support.copied_checkout import CopiedCheckout

ENTRY = """
[[symptom]]
id = "fan-stopped"
severity = "warning"
title = "A fan has stopped"
any = ["fan [0-9]+ has stopped"]
cause = "The GPUs next to it become hot and slow down."
look = ["nvidia-smi -q -d TEMPERATURE"]
fix = ["have the fan replaced"]
sources = ["the maker's manual"]
"""
LOG = """node1:11:11 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
node1:11:11 [0] misc/fans.cc:12 NCCL WARN fan 3 has stopped
"""


def test_a_symptom_of_a_log_is_one_entry(checkout: CopiedCheckout) -> None:
    table = checkout.root / "topology/diagnosis/symptoms/table.toml"
    table.write_text(table.read_text() + ENTRY)
    (checkout.root / "job.log").write_text(LOG)
    printed = checkout.gputop("log", "job.log")
    assert printed.returncode == 0, printed.stderr
    assert "A fan has stopped" in printed.stdout
    assert "line 2: misc/fans.cc:12 fan 3 has stopped" in printed.stdout
    assert "Fix: have the fan replaced" in printed.stdout
    (found,) = json.loads(checkout.gputop("log", "job.log", "--json").stdout)["findings"]
    assert (found["id"], found["severity"]) == ("fan-stopped", "warning")
    assert [proof["line"] for proof in found["proof"]] == [2]
