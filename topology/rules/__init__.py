"""The rules, the most harmful subjects first. A module NAME.py here holds `RULES`, Rule objects."""

NAMES: tuple[str, ...] = (
    "bar1",
    "expected",
    "sister",
)
