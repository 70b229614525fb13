"""The examples that the tables of symptoms hold."""

from __future__ import annotations

from gputop.topology.diagnosis.symptoms.explain import table

SHOWN = {row.id: list(row.shown) for row in table()}
"""Symptom -> lines that show it."""
