"""What is said in the Model Context Protocol: replies to requests, as messages of JSON-RPC 2.0.

Two eras of it are spoken, as clients of both are in use: one begins with `initialize` (2024-11-05
to 2025-11-25); since 2026-07-28 each request names its version in `_meta`, and nothing begins. No
reply depends on an earlier request. A test parses all that is said with the types of the official
SDK, whose import alone takes longer than a start may (1.0 s against 0.5 s).

Source: modelcontextprotocol.io/specification, basic/lifecycle, basic/transports, server/tools.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import msgspec

from gputop import __version__
from gputop.agents.told import skill
from gputop.agents.tools import TOOLS
from gputop.topology.model.errors import GputopError

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that `initialize` agrees on, the oldest first."""
STATELESS = ("2026-07-28",)
"""Versions that a request names in its `_meta`."""
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
NO_VERSION = -32022
"""Of 2026-07-28: `data` names the versions that there are."""
_META = "io.modelcontextprotocol/"
_CAPABILITIES = {"tools": {"listChanged": False}}
_LISTS_KEEP_MS = 3_600_000
"""The list of tools is the same as long as the process lives."""


class RefusalError(GputopError):
    """A request that is refused: a code of JSON-RPC, a sentence, and data for programs."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.code, self.data = code, data


def result_message(key: Any, result: dict[str, Any]) -> bytes:
    """The line that answers a request."""
    return _line({"jsonrpc": "2.0", "id": key, "result": result})


def error_message(key: Any, error: RefusalError) -> bytes:
    """The line that refuses a request; `key` None: it could not be told which."""
    told = {"code": error.code, "message": str(error)}
    if error.data is not None:
        told["data"] = error.data
    return _line({"jsonrpc": "2.0", "id": key, "error": told})


def _line(message: dict[str, Any]) -> bytes:
    """ASCII alone, with escapes that every reader knows."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def stateless(params: dict[str, Any]) -> bool:
    """Whether a request names the version that it is written in. Raises RefusalError."""
    meta = params.get("_meta")
    version = meta.get(f"{_META}protocolVersion") if isinstance(meta, dict) else None
    if version is None:
        return False
    if not isinstance(version, str):
        raise RefusalError(INVALID_PARAMS, "the protocolVersion of _meta is no text")
    if version not in STATELESS:
        data = {"supported": list(STATELESS), "requested": version[:80]}
        raise RefusalError(NO_VERSION, "Unsupported protocol version", data)
    return True


def reply(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of every request but a call. Raises RefusalError."""
    make = _REPLIES.get(method)
    if make is None:
        raise RefusalError(NO_METHOD, f"Method not found: {method[:80]}")
    return stamped(make(params), params, cached=method != "ping")


def stamped(result: dict[str, Any], params: dict[str, Any], *, cached: bool) -> dict[str, Any]:
    """A result with what 2026-07-28 asks of it, where the request was written in that."""
    if not stateless(params):
        return result
    more: dict[str, Any] = {"resultType": "complete", "_meta": {f"{_META}serverInfo": _server()}}
    if cached:
        more |= {"ttlMs": _LISTS_KEEP_MS, "cacheScope": "public"}
    return result | more


def said(text: str, *, failed: bool = False) -> dict[str, Any]:
    """The result of a call: a text, or why there is none."""
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def call_of(params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool that a call names, and its arguments. Raises RefusalError."""
    name, given = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise RefusalError(INVALID_PARAMS, "a call names its tool: name is no text")
    if not isinstance(given, (dict, type(None))):
        raise RefusalError(INVALID_PARAMS, "arguments is no object")
    return name, given or {}


def _server() -> dict[str, str]:
    return {"name": "gputop", "version": __version__}


def _initialized(params: dict[str, Any]) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    if not isinstance(asked, str):
        raise RefusalError(INVALID_PARAMS, "initialize names its protocolVersion")
    return {
        "protocolVersion": asked if asked in HANDSHAKES else HANDSHAKES[-1],
        "capabilities": _CAPABILITIES,
        "serverInfo": _server(),
        "instructions": skill(),
    }


def _discovered(params: dict[str, Any]) -> dict[str, Any]:
    if not stateless(params):
        raise RefusalError(INVALID_PARAMS, "server/discover names its version in _meta")
    return {
        "supportedVersions": [*HANDSHAKES, *STATELESS],
        "capabilities": _CAPABILITIES,
        "instructions": skill(),
    }


def _listed(params: dict[str, Any]) -> dict[str, Any]:
    """The tools with the schemas of their arguments, on one page."""
    if params.get("cursor") is not None:
        raise RefusalError(INVALID_PARAMS, "no such cursor: all tools are on one page")
    hints = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}
    return {
        "tools": [
            {
                "name": tool.name,
                "description": inspect.getdoc(tool.request),
                "inputSchema": _flat(msgspec.json.schema(tool.request)),
                "annotations": hints,
            }
            for tool in TOOLS
        ]
    }


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of an object, as clients want it, instead of a reference to one."""
    name = schema["$ref"].rpartition("/")[2]
    found: dict[str, Any] = schema["$defs"][name]
    return {key: value for key, value in found.items() if key != "description"}


_REPLIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "initialize": _initialized,
    "server/discover": _discovered,
    "ping": lambda params: {},
    "tools/list": _listed,
}
