"""Opens the app on many nodes, and from it the app on one of them, as often as somebody wants."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from gputop.exits import BACK, USAGE, Exit
from gputop.live.fleet_node import WholeNode
from gputop.live.fleet_watch import FleetWatch
from gputop.session import on_terminal
from gputop.terminal import hangup, signs
from gputop.terminal.outer_colours import forget_outer_colours
from gputop.terminal.output import mute_libraries
from gputop.terminal.preferences import Preferences
from gputop.topology.fleet.planning.fabric import SwitchFabric
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.recorded.feeds import FixedFeed

if TYPE_CHECKING:
    from gputop.app import GpuTop
    from gputop.fleet_app import FleetApp

BEHIND = "the fleet"


def open_fleet(folder: str, expected: Collection[str], fabric: SwitchFabric | None) -> int:
    """Show a folder until the user leaves; returns the exit code.

    `expected`: hosts that were asked for. Raises Exit without a terminal, and whatever made an app
    fail.
    """
    if not on_terminal():
        raise Exit("the app needs a terminal; --text prints the answer", USAGE)
    mute_libraries()
    hangup.guard()
    forget_outer_colours()
    signs.fit(sys.__stderr__)
    # Reading ten thousand files makes objects that stay; FleetApp switches the collector on again.
    gc.disable()
    remembered = Preferences.of_user()
    watch = FleetWatch(folder, expected, fabric)
    # Files are read while the libraries of the app are imported.
    watch.start()
    made = import_module("gputop.fleet_app").FleetApp
    tabs = None
    while True:
        app: FleetApp = made(watch, remembered)
        if tabs is not None:
            app.fleet_screen.tabs = tabs
        _run(app)
        opened = app.return_value
        if not isinstance(opened, WholeNode) or opened.snapshot is None:
            return app.return_code or 0
        tabs = app.fleet_screen.tabs
        if (code := _show(opened.snapshot, folder, remembered)) is not None:
            return code


def _show(snapshot: NodeSnapshot, folder: str, remembered: Preferences) -> int | None:
    """Show one node; its exit code, or None where the user went back."""
    host = snapshot.machine.host
    name = None if host is None else host.hostname
    # A reading of another machine at another time is not "live" here.
    source = f"{name or 'a node'} in {folder}"
    feed = FixedFeed(msgspec.structs.replace(snapshot, source=(source,)))
    app: GpuTop = import_module("gputop.app").GpuTop(feed, 1.0, remembered)
    app.parent_title = BEHIND
    _run(app)
    return None if app.return_value == BACK else app.return_code or 0


def _run(app: FleetApp | GpuTop) -> None:
    hangup.guard()  # an app that ended took its handlers of signals along
    app.run()
    if app._exception is not None:
        raise app._exception
