"""What the tool `cost` tells of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gputop.agents.requests import CostTool
from gputop.agents.told import AgentFact, FactKind
from gputop.answers.cost_asked import unknown_model
from gputop.answers.cost_records import CostAnswer
from gputop.exits import USAGE, Exit
from gputop.topology.cost.models import model_named

LAYOUTS = 3
"""Of which all figures are told; the explanation has more."""


def known(asked: CostTool) -> str:
    """The name of the model. A path is none: a file is given as `config`. Raises Exit."""
    if not asked.config and model_named(asked.model) is None:
        raise Exit(unknown_model(asked.model, "no model"), USAGE)
    return asked.model


def facts(answer: CostAnswer, explanation: str) -> Iterator[AgentFact]:
    """The page, then the first layouts or every width of serving, with all figures."""
    source, kind = "; ".join(answer.sources) or "no figure of this GPU", FactKind(answer.basis)
    yield AgentFact("explanation", explanation, kind, source)
    rows: list[Any] = [*answer.serving, *answer.layouts[:LAYOUTS]]
    for place, one in enumerate(rows):
        yield AgentFact(
            f"{'serving' if answer.serving else 'layout'} {place + 1}",
            one,
            kind if one.tokens_per_s else FactKind.CONCLUDED,
            source,
            disproof="a step that was observed: gputop cost --layout ... --observed-step TIME",
        )
