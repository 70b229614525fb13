"""The device or the pair that is selected, carried along from screen to screen."""

from __future__ import annotations

from collections.abc import Iterable


class PickedDevices:
    """What a person picked last, by PCI address or node id; a screen takes what it can show."""

    def __init__(self) -> None:
        self.device: str | None = None
        """The picked device; of a pair the one that sends. None before anything was picked."""
        self.peer: str | None = None
        """The other device of the picked pair."""
        self.name = ""
        """A variable or the rule of a finding that a search chose; its screen takes it."""

    @property
    def pair(self) -> tuple[str, str] | None:
        """The picked pair; None where a device alone was picked, or nothing."""
        if self.device is None or self.peer is None:
            return None
        return self.device, self.peer

    def among(self, devices: Iterable[str]) -> str | None:
        """The picked device, or the other one of the pair, if it is one of these."""
        known = set(devices)
        return next((found for found in (self.device, self.peer) if found in known), None)

    def take_name(self) -> str:
        """What a search chose, once; "" for nothing."""
        found, self.name = self.name, ""
        return found

    def pick(self, device: str, peer: str | None = None) -> None:
        """Select a device or a pair; a device of the selected pair leaves the pair as it is."""
        if peer is None and device == self.device:
            return
        self.device, self.peer = device, None if peer == device else peer
