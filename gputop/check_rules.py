"""All rules of a check: those of the snapshot, and those of the measuring."""

from __future__ import annotations

from gputop.check_runs import RUN_RULES
from gputop.topology.rules.engine import load

RULES = (*load(), *RUN_RULES)
