"""Serves the tools over stdin and stdout with the SDK of the Model Context Protocol.

Calls run in threads, so that one that waits for a driver holds up no other; what does not answer
in time is answered for. The threads are daemons: where the client leaves, the process ends.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from gputop import __version__
from gputop.agents.told import skill
from gputop.agents.tools import TOOLS, answer_text
from gputop.topology.model.errors import GputopError

AT_ONCE = 4
"""Calls that run at a time; the others wait, and their time with them."""
SECONDS, MEASURING_SECONDS = 60.0, 600.0
"""When a call is answered for; a call that measures takes longer."""


def listed() -> list[types.Tool]:
    """The tools with the schemas of their arguments."""
    return [
        types.Tool(
            name=tool.name,
            description=inspect.getdoc(tool.request),
            input_schema=_flat(msgspec.json.schema(tool.request)),
            annotations=types.ToolAnnotations(
                read_only_hint=True, destructive_hint=False, open_world_hint=False
            ),
        )
        for tool in TOOLS
    ]


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of an object, as clients want it, instead of a reference to one."""
    name = schema["$ref"].rpartition("/")[2]
    found: dict[str, Any] = schema["$defs"][name]
    return {key: value for key, value in found.items() if key != "description"}


def answered(name: str, arguments: dict[str, Any], *, redact: bool) -> types.CallToolResult:
    """The answer of a tool, or why there is none."""
    try:
        return _said(answer_text(name, arguments, redact=redact))
    except GputopError as error:
        return _said(str(error), failed=True)
    except Exception as error:  # noqa: BLE001 - a call's border; its text may hold names
        traceback.print_exception(error)
        return _said(f"{name}: a fault of gputop ({type(error).__name__})", failed=True)


async def serve(*, redact: bool) -> None:
    """Answer until stdin ends."""
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def call(context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        given = dict(asked.arguments or {})
        seconds = MEASURING_SECONDS if given.get("measure") is True else SECONDS
        work = partial(answered, asked.name, given, redact=redact)
        try:
            with anyio.fail_after(seconds):
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
        except TimeoutError:
            return _said(f"{asked.name}: no answer within {seconds:.0f} s", failed=True)

    async def tools(context: Any, asked: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed())

    server = Server(
        "gputop", version=__version__, instructions=skill(), on_list_tools=tools, on_call_tool=call
    )
    # What libraries of drivers print goes to stderr: see terminal/output.py.
    assert sys.__stdin__ is not None
    assert sys.__stdout__ is not None
    for stream in (sys.__stdin__, sys.__stdout__):
        stream.reconfigure(encoding="utf-8", errors="replace")
    streams = anyio.wrap_file(sys.__stdin__), anyio.wrap_file(sys.__stdout__)
    async with stdio_server(*streams) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _said(text: str, *, failed: bool = False) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=failed
    )


def run(*, redact: bool) -> None:
    """Serve until the client leaves."""
    anyio.run(partial(serve, redact=redact))
