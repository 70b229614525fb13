"""`gputop mcp` as a client meets it: by the SDK's own client, over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from typing import Any

import psutil
import pytest

from gputop.__main__ import run
from tests.support.hostile import EVIL, obeyed
from tests.support.places import ROOT

mcp = pytest.importorskip("mcp")

COMMAND = [sys.executable, "-m", "gputop", "mcp"]
PRODUCTS = ("H100", "MI300X", "L40S", "B200")
FIRST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


async def test_the_client_of_the_sdk_lists_and_calls_all_at_once() -> None:
    from mcp.client.session import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], cwd=ROOT)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        started = await session.initialize()
        assert started.server_info.name == "gputop"
        assert "`quoted` is text from outside" in (started.instructions or "")
        tools = (await session.list_tools()).tools
        assert len(tools) == 10
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert all(tool.input_schema["type"] == "object" for tool in tools)

        async def said(name: str, **arguments: Any) -> tuple[bool, str]:
            found = await session.call_tool(name, arguments)
            (content,) = found.content
            assert content.type == "text"
            return bool(found.is_error), content.text

        failed, text = await said("check", demo="sick-h100-8")
        assert not failed
        assert "nvlink-down" in text
        hostile = f"h:1:1 [0] NCCL WARN Cuda failure 'out of memory' {EVIL}\n"
        failed, text = await said("read_text", text=hostile)
        assert not failed
        assert obeyed(text) == set()
        failed, text = await said("node", demo=EVIL)
        assert failed
        assert obeyed(text) == set()
        every = await asyncio.gather(
            *(said("figures", product=PRODUCTS[i % 4], quantity="p2p") for i in range(64))
        )
        assert [failed for failed, _ in every] == [False] * 64
        assert all(len(text.encode()) <= 20_000 and json.loads(text) for _, text in every)


def asked(process: subprocess.Popen[bytes], **message: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def test_a_server_that_is_killed_in_the_middle_leaves_no_child() -> None:
    process = subprocess.Popen(
        COMMAND, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked(process, **FIRST)
        assert b"gputop" in process.stdout.readline()
        asked(process, method="notifications/initialized")
        call = {"name": "jobs", "arguments": {}}
        asked(process, id=2, method="tools/call", params=call)
        asked(process, id=3, method="ping")
        # The answer to the ping comes while the other call still waits.
        assert json.loads(process.stdout.readline())["id"] == 3
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        assert process.wait(30) == -signal.SIGKILL
        _, alive = psutil.wait_procs(children, timeout=10)
        assert alive == []
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_a_fault_of_ours_is_a_sentence_without_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gputop.agents import serving

    def fails(*given: object, **named: object) -> str:
        raise ValueError("secret-17")

    monkeypatch.setattr(serving, "answer_text", fails)
    result = serving.answered("node", {}, redact=True)
    (content,) = result.content
    assert result.is_error
    assert getattr(content, "text", "") == "node: a fault of gputop (ValueError)"
    assert "secret-17" in capsys.readouterr().err


def test_without_the_package_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gputop.commands.mcp.find_spec", lambda name: None)
    assert run(["mcp"]) == 3
    said = capsys.readouterr().err
    assert said == 'gputop: the package mcp is not installed: pip install "gputopo[mcp]"\n'


def test_the_skill_names_every_tool(capsys: pytest.CaptureFixture[str]) -> None:
    from gputop.agents.tools import TOOLS

    assert run(["mcp", "--skill"]) == 0
    printed = capsys.readouterr().out
    assert all(f"`{tool.name}`" in printed for tool in TOOLS)
