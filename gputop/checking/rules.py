"""All rules of a check: those about the snapshot and those about measuring."""

from __future__ import annotations

from gputop.checking.runs import RUN_RULES
from gputop.topology.diagnosis.engine import load

RULES = (*load(), *RUN_RULES)
