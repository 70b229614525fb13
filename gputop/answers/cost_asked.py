"""What is given to `gputop cost`, understood: model, layout, an observed step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from gputop.exits import CANNOT_TELL, USAGE, Exit
from gputop.terminal.clean import clean
from gputop.terminal.nearest import did_you_mean
from gputop.topology.cost.config import MOST_BYTES, ConfigError, shape_of_config
from gputop.topology.cost.layout import Layout, why_not
from gputop.topology.cost.models import model_named, models, models_like
from gputop.topology.cost.ranked import Free
from gputop.topology.cost.shape import ModelShape

_WAY = re.compile(r"(tp|pp|dp|ep|cp)=([1-9][0-9]{0,5})")
_TIME = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,9})?)(ms|s)")


def seconds_of(text: str) -> float:
    """A time such as "1.9s" or "350ms", in seconds. Raises Exit."""
    match = _TIME.fullmatch(text.strip())
    value = 0.0 if match is None else float(match[1]) * (1e-3 if match[2] == "ms" else 1.0)
    if value <= 0:
        raise Exit(f"--observed-step {clean(text, 30)!r}: write 1.9s or 350ms", USAGE)
    return value


def free_again(free: Free) -> Free:
    """The same batch with every layout free."""
    return msgspec.structs.replace(free, tp=None, pp=None, dp=None, ep=None, cp=None)


def shape_called(name: str, config: str = "") -> ModelShape:
    """A model by what its config.json holds, else by its name, else by its file. Raises Exit."""
    if config:
        try:
            return shape_of_config(config.encode(errors="replace"), clean(name, 60))
        except ConfigError as error:
            raise Exit(clean(str(error), 300), CANNOT_TELL) from error
    known = model_named(name)
    if known is not None:
        return known
    path = Path(name)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        raise Exit(unknown_model(name, "no model and no file is called"), USAGE)
    try:
        with path.open("rb") as file:
            return shape_of_config(file.read(MOST_BYTES + 1), clean(path.name, 60))
    except OSError as error:
        raise Exit(f"{clean(name, 60)}: {error.strerror}", USAGE) from error
    except ConfigError as error:
        raise Exit(clean(str(error), 300), CANNOT_TELL) from error


def unknown_model(name: str, start: str) -> str:
    """One sentence on a name that means several models or none: `start`, the name, those near."""
    said = clean(name, 60)
    several = [one.name for one in models_like(name)]
    if several:
        return f"{said!r} may be {', '.join(several[:-1])} or {several[-1]}"
    hint = did_you_mean(name, models()) or f"; there are: {', '.join(models())}"
    return f"{start} {said!r}{hint}"


def ways_of(text: str) -> dict[str, Any]:
    """The ways that --layout names. Raises Exit."""
    found: dict[str, int] = {}
    for part in filter(None, text.replace(" ", ",").split(",")):
        match = _WAY.fullmatch(part)
        if match is None or match[1] in found:
            raise Exit(
                f"--layout {clean(part, 40)!r}: write tp=8,pp=2,dp=4,ep=1,cp=1, each once", USAGE
            )
        found[match[1]] = int(match[2])
    return found


def divided(shape: ModelShape, ways: dict[str, int], gpus: int, each: int) -> None:
    """Refuse what divides neither the GPUs nor the model, and say which. Raises Exit."""
    taken = 1
    for name in ("tp", "pp", "dp", "cp"):
        taken *= ways.get(name, 1)
    if gpus % taken or (len(ways.keys() - {"ep"}) == 4 and taken != gpus):
        raise Exit(f"a layout of {taken:,} GPUs does not divide the {gpus:,} that there are", USAGE)
    whole = Layout(**{"dp": gpus // taken * ways.get("dp", 1)} | ways if "dp" not in ways else ways)
    reason = why_not(shape, whole, each)
    if reason:
        raise Exit(f"{clean(shape.name, 60)}: {reason}", USAGE)
