"""`gputop mcp` as a client meets it: by the SDK's own client, over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shlex
import signal
import statistics
import subprocess
import sys
import time
from subprocess import PIPE
from typing import Any

import psutil
import pytest

from gputop.__main__ import run
from gputop.agents.tools import TOOLS
from tests.gputop.test_start_cost import HEAVY as HEAVY_OF_COMMANDS
from tests.support.hostile import EVIL, obeyed
from tests.support.places import ROOT

pytest.importorskip("mcp")

COMMAND = [sys.executable, "-m", "gputop", "mcp"]
HEAVY = (*HEAVY_OF_COMMANDS, "mcp", "pydantic", "anyio")
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


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_client_of_the_sdk_lists_and_calls_all_at_once(mode: str) -> None:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters

    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], cwd=ROOT)
    async with Client(server, mode=mode) as session:
        if mode != "2026-07-28":  # nobody introduces himself there
            assert session.server_info is not None
            assert session.server_info.name == "gputop"
            assert "`quoted` is text from outside" in (session.instructions or "")
        assert session.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        tools = (await session.list_tools()).tools
        assert len(tools) == len(TOOLS)
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


def test_what_is_asked_before_stdin_ends_is_still_answered() -> None:
    calls = [
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call",
         "params": {"name": "figures", "arguments": {"product": "H100"}}},
        {"jsonrpc": "2.0", "id": 8, "method": "ping"},
    ]  # fmt: skip
    ended = subprocess.run(
        COMMAND,
        cwd=ROOT,
        input="\n".join(map(json.dumps, calls)),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert {json.loads(line)["id"] for line in ended.stdout.splitlines()} == {7, 8}
    assert ended.stderr == ""


def test_a_start_loads_nothing_heavy() -> None:
    script = (
        "import sys; from gputop.__main__ import run; code = run(['mcp']);"
        f"print(sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        input=json.dumps({"jsonrpc": "2.0", **FIRST}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "serverInfo" in ended.stdout
    assert ended.stderr.splitlines()[-1] == "[]"


@pytest.mark.timing
def test_a_start_takes_less_than_half_a_second() -> None:
    took = []
    for _ in range(5):
        before = time.perf_counter()
        with subprocess.Popen(COMMAND, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            asked(process, **FIRST)
            assert process.stdout.readline()
            took.append(time.perf_counter() - before)
            process.stdin.close()
    assert statistics.median(took) < 0.5


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_ends_it_quietly(closed: str) -> None:
    line = f"echo '{json.dumps({'jsonrpc': '2.0', **FIRST})}' | {shlex.join(COMMAND)} {closed}"
    ended = subprocess.run(
        ["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ("serverInfo" in ended.stdout) is (closed == "2>&-")


def test_a_person_at_a_terminal_is_told_what_it_waits_for() -> None:
    master, slave = pty.openpty()
    try:
        with subprocess.Popen(COMMAND, cwd=ROOT, stdin=slave, stdout=PIPE, stderr=PIPE) as process:
            os.write(master, b"\x04")
            said, told = process.communicate(timeout=60)
    finally:
        os.close(master)
        os.close(slave)
    assert (process.returncode, said) == (0, b"")
    assert b"an agent's client" in told


def test_no_process_of_a_tool_reads_what_the_client_says() -> None:
    script = (
        "import sys, subprocess; from gputop import __main__, agents; import gputop;"
        "from gputop.agents import serving; gputop.own_process = True;"
        "serving.answer_text = lambda *a, **k: subprocess.run("
        "['cat'], capture_output=True, text=True).stdout;"
        "sys.exit(__main__.run(['mcp']))"
    )
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "node"}}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        input=json.dumps(call) + "\n" + json.dumps({**call, "id": 2}) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said = {one["id"]: one for one in map(json.loads, ended.stdout.splitlines())}
    assert said.keys() == {1, 2}
    assert all(one["result"]["content"][0]["text"] == "" for one in said.values())


def test_the_skill_names_every_tool(capsys: pytest.CaptureFixture[str]) -> None:
    from gputop.agents.tools import TOOLS

    assert run(["mcp", "--skill"]) == 0
    printed = capsys.readouterr().out
    assert all(f"`{tool.name}`" in printed for tool in TOOLS)
