"""The what-if of the Flags screen: values that somebody tries out, in order, to be undone."""

from __future__ import annotations

from collections.abc import Mapping


class FlagChanges:
    """Changes on top of what is set; None takes a variable away."""

    def __init__(self) -> None:
        self.set_now: Mapping[str, str] = {}
        """What is set on the node."""
        self.wanted: dict[str, str | None] = {}
        """Name -> new value, in the order in which they were changed."""

    def now(self, name: str) -> str | None:
        """The value with the changes; None when it is not set."""
        return self.wanted[name] if name in self.wanted else self.set_now.get(name)

    def change(self, name: str, value: str | None) -> None:
        """Set a variable, or take it away; what is as it was is no change."""
        self.wanted.pop(name, None)
        if value != self.set_now.get(name):
            self.wanted[name] = value

    def undo(self) -> bool:
        """Undo the last change; False when there is none."""
        if not self.wanted:
            return False
        self.wanted.popitem()
        return True

    def next_value(self, name: str, tries: tuple[str, ...]) -> None:
        """The next of these values; after the last one none, then the first."""
        order: list[str | None] = [*tries, None]
        now = self.now(name)
        place = order.index(now) + 1 if now in order else 0
        self.change(name, order[place % len(order)])

    def export(self) -> str:
        """The line that sets the changes up in a shell; "" without any."""
        from gputop.topology.flags.what_if.whatif import export_line

        return export_line(self.wanted)
