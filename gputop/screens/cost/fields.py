"""What is asked about on Cost, field by field: options of `gputop cost`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from gputop.answers.cost import CostRequest
from gputop.answers.question import Option, option_of
from gputop.exits import USAGE, Exit
from gputop.terminal.clean import clean
from gputop.topology.cost.memory import STATES
from gputop.topology.cost.models import models
from gputop.topology.flags.what_if.changes import of_variables, version_of
from gputop.topology.model.copied import may_stand
from gputop.topology.model.english import plural
from gputop.widgets.spans import Line, cell_len, cut, left, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gputop.topology.model.snapshot import NodeSnapshot

FIRST = ("Llama 3 8B", "Llama 3 70B", "Llama 3 405B", "Mixtral 8x7B", "DeepSeek V3")
"""The models that the next value goes through."""
LONGEST, SHORT = 24, 10
"""Cells of a model's name."""


class Field(NamedTuple):
    """One field of the request."""

    name: str
    label: str
    tries: tuple[Any, ...]
    """What the next value goes through; None is left to the command."""
    about: str


FIELDS = (
    Field("names", "", FIRST, "the model"),
    Field("serve", "", (False, True), "training or serving"),
    Field("nodes", "", (1, 2, 4, 8, 16, 32, 64, 128), "nodes like this one"),
    Field("sequence", "seq", (None, 2048, 8192, 32768, 131072), "tokens of a sequence"),
    Field("micro", "micro", (None, 1, 2, 4, 8), "sequences of a micro-batch"),
    Field("accumulation", "accum", (None, 1, 2, 4, 8, 16, 32), "micro-batches of a step"),
    Field("dtype", "", tuple(STATES), "type of the weights"),
)
OF_TRAINING = ("micro", "accumulation")
"""What serving does not ask."""


def flagged(name: str) -> Option:
    """How the command takes a field."""
    option = option_of(CostRequest, name)
    assert option is not None, name
    return option


class CostFields:
    """The request as it stands, and the field under the cursor."""

    def __init__(self) -> None:
        self.request = CostRequest(names=(FIRST[0],))
        self.selected = FIELDS[0].name

    @property
    def shown(self) -> tuple[Field, ...]:
        """The fields that matter now."""
        left_out = OF_TRAINING if self.request.serve else ()
        return tuple(field for field in FIELDS if field.name not in left_out)

    @property
    def field(self) -> Field:
        """The field under the cursor."""
        return next(field for field in FIELDS if field.name == self.selected)

    def move(self, step: int) -> None:
        """Select another field."""
        names = [field.name for field in self.shown]
        self.selected = names[(names.index(self.selected) + step) % len(names)]

    def value(self, field: Field) -> Any:
        """What stands in a field."""
        found = getattr(self.request, field.name)
        return " ".join(found) if field.name == "names" else found

    def set(self, value: Any) -> None:
        """Put a value into the selected field."""
        given = (value,) if self.selected == "names" else value
        changed: dict[str, Any] = {self.selected: given}
        if changed.get("serve"):
            changed |= dict.fromkeys(OF_TRAINING)
        self.request = msgspec.structs.replace(self.request, **changed)

    def next_value(self) -> None:
        """The next of the values worth trying; what was typed comes before the first."""
        tries, now = self.field.tries, self.value(self.field)
        self.set(tries[(tries.index(now) + 1) % len(tries)] if now in tries else tries[0])

    def typed(self, text: str) -> None:
        """Take what was typed into the selected field; nothing leaves it to the command.

        Raises Exit with a sentence.
        """
        field, text = self.field, text.strip()
        if field.name == "names":
            self.set(text or FIRST[0])
            return
        option = flagged(field.name)
        least, most = int(option.least or 1), int(option.most or 1)
        digits = text.replace(",", "").replace("_", "")
        if not text:
            self.set(field.tries[0])
        elif digits.isascii() and digits.isdecimal() and least <= int(digits[:12]) <= most:
            self.set(int(digits))
        else:
            raise Exit(
                f"{clean(text, 20)!r}: {field.about} are a number from {least} to {most:,}", USAGE
            )

    def choices(self) -> tuple[tuple[str, str], ...]:
        """What can be chosen for the selected field; () where a number is typed."""
        if self.selected == "names":
            known = models()
            return tuple(
                (name, f"{name:20} {known[name].parameters / 1e9:6.1f} billion") for name in known
            )
        if self.selected == "dtype":
            return tuple((name, f"{name:16} {states.name}") for name, states in STATES.items())
        return ()

    def line(self, width: int) -> Line:
        """All fields; the selected one in brackets. A click takes its next value."""
        for gap, longest in ((3, LONGEST), (2, LONGEST), (1, LONGEST), (1, SHORT)):
            line = tuple(self._spans(self.shown, gap, longest))
            if width_of(line) <= width:
                return line
        # The first ones go until the selected one is in sight.
        fields = self.shown
        here = fields.index(self.field)
        for start in range(here):
            if width_of(self._spans(fields[start : here + 1], 1, SHORT)) < width:
                break
        else:
            start = here
        return cut((("…" * bool(start), "muted"), *self._spans(fields[start:], 1, SHORT)), width)

    def _spans(self, fields: Sequence[Field], gap: int, longest: int) -> list[tuple[str, str]]:
        spans = [(" ", "")]
        for field in fields:
            here, action = field.name == self.selected, f"@screen.take('{field.name}')"
            first, last = "[]" if here else "  "
            label = f"{field.label} " if field.label else ""
            spans += [
                (f"{first}{label}", f"{'key bold' if here else 'muted'} {action}"),
                (self.worded(field, longest), f"{'strong' if here else ''} {action}".strip()),
                (f"{last}{' ' * (gap - 1)}", "key bold" if here else ""),
            ]
        return spans

    def worded(self, field: Field, longest: int = LONGEST) -> str:
        """The value of a field, for people; the name of a model in so many cells."""
        value = self.value(field)
        if field.name == "names":
            name = clean(str(value).rpartition("/")[2] or str(value), 200)
            return name if cell_len(name) <= longest else left(name, longest)
        if field.name == "serve":
            return "serving" if value else "training"
        if field.name == "nodes":
            return plural(value, "node")
        if value is None:
            return "any" if field.name in OF_TRAINING else "usual"
        return f"{value:,}" if isinstance(value, int) else str(value)

    def command(self, snapshot: NodeSnapshot, changes: Mapping[str, str | None]) -> str:
        """The line that gives the same; "" where a word can stand in no line for copying.

        `changes`: what is tried out.
        """
        words = ["gputop", "cost"]
        model = str(self.value(FIELDS[0]))
        words += [model] if model not in models() else []
        for field in FIELDS[1:]:
            value = self.value(field)
            if value in (None, False) or (field.name, value) in (("nodes", 1), ("dtype", "bf16")):
                continue
            words += [flagged(field.name).flag, *([] if value is True else [str(value)])]
        for name, value in of_variables(changes).items():
            words += ["--set", f"{name}={value or ''}"]
        if version := version_of(changes):
            words += ["--nccl", version]
        for source in snapshot.source if not snapshot.is_live else ():
            kind, name = ("--demo", source[5:]) if snapshot.is_demo else ("--from", source)
            words += [kind, name]
        if not all(may_stand(word, "folder") or word.startswith("--") for word in words):
            return ""
        line = shlex.join(words)
        return line.replace("gputop cost", f"gputop cost {model}", 1) if model in models() else line
