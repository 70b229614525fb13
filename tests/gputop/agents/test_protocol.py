"""What is said in the protocol, parsed by the types of the official SDK."""

from __future__ import annotations

import io
import json
import threading
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from gputop.agents import serving
from gputop.agents.protocol import HANDSHAKES, STATELESS
from gputop.agents.serving import AgentConversation
from gputop.agents.tools import TOOLS
from gputop.measuring.attended import Attended
from tests.support.hostile import EVIL, obeyed

methods = pytest.importorskip("mcp_types.methods")
types = pytest.importorskip("mcp_types")

LONG = 60.0
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS[0],
    "io.modelcontextprotocol/clientCapabilities": {},
}
INFO = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def conversed(*lines: Any, redact: bool = False) -> list[Any]:
    """All that is said to these lines, each parsed as a message of the SDK."""
    outgoing = io.BytesIO()
    conversation = AgentConversation(outgoing, redact=redact)
    for line in lines:
        conversation.take(line if isinstance(line, bytes) else json.dumps(line).encode())
    conversation._calls.wait(LONG)
    conversation.leave()
    said = outgoing.getvalue().decode("ascii").splitlines()
    for one in said:
        types.jsonrpc_message_adapter.validate_json(one, by_name=False)
        assert obeyed(one) == set()
    return [json.loads(one) for one in said]


def asked(method: str, params: dict[str, Any] | None = None, key: Any = 1) -> dict[str, Any]:
    given = {} if params is None else {"params": params}
    return {"jsonrpc": "2.0", "id": key, "method": method, **given}


def result(method: str, params: dict[str, Any], version: str) -> dict[str, Any]:
    """The result of one request, which the SDK's own models of that version accept."""
    (said,) = conversed(asked(method, params))
    found: dict[str, Any] = said["result"]
    methods.validate_server_result(method, version, found)
    return found


def refused(*lines: Any) -> list[tuple[Any, int]]:
    return [(said["id"], said["error"]["code"]) for said in conversed(*lines)]


@pytest.mark.parametrize("version", HANDSHAKES)
def test_every_version_of_the_handshake_is_agreed_on(version: str) -> None:
    found = result("initialize", {"protocolVersion": version, **INFO}, version)
    assert found["protocolVersion"] == version
    assert found["serverInfo"]["name"] == "gputop"
    assert result("ping", {}, version) == {}
    assert len(result("tools/list", {}, version)["tools"]) == len(TOOLS)
    call = {"name": "figures", "arguments": {"product": "H100"}}
    assert result("tools/call", call, version)["isError"] is False
    assert "resultType" not in found


@pytest.mark.parametrize("version", STATELESS)
def test_a_version_without_a_handshake_has_each_result_stamped(version: str) -> None:
    found = result("server/discover", {"_meta": META}, version)
    assert set(found["supportedVersions"]) == {*HANDSHAKES, *STATELESS}
    for method, more in (
        ("tools/list", {}),
        ("tools/call", {"name": "figures", "arguments": {"product": "H100"}}),
        ("tools/call", {"name": "nothing"}),
    ):
        found = result(method, {"_meta": META, **more}, version)
        assert found["resultType"] == "complete"


def test_the_versions_are_those_of_the_sdk() -> None:
    known = pytest.importorskip("mcp_types.version")
    assert known.HANDSHAKE_PROTOCOL_VERSIONS == HANDSHAKES
    assert known.MODERN_PROTOCOL_VERSIONS == STATELESS


def test_a_version_that_is_not_known_is_answered_with_one_that_is() -> None:
    (said,) = conversed(asked("initialize", {"protocolVersion": "2199-01-01", **INFO}))
    assert said["result"]["protocolVersion"] == HANDSHAKES[-1]
    meta = META | {"io.modelcontextprotocol/protocolVersion": "2199-01-01"}
    for method in ("server/discover", "tools/list", "tools/call"):
        (said,) = conversed(asked(method, {"_meta": meta, "name": "node"}))
        assert said["error"]["code"] == types.UNSUPPORTED_PROTOCOL_VERSION
        assert said["error"]["data"]["supported"] == list(STATELESS)


@pytest.mark.parametrize(
    ("line", "key", "code"),
    [
        (b"{", None, types.PARSE_ERROR),
        (b"\xff\xfe\x00", None, types.PARSE_ERROR),
        (b"[" * 100_000, None, types.PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b"}", None, types.PARSE_ERROR),
        (b"[]", None, types.INVALID_REQUEST),
        (b"17", None, types.INVALID_REQUEST),
        (b"null", None, types.INVALID_REQUEST),
        ({"id": 1, "method": "ping"}, 1, types.INVALID_REQUEST),
        ({"jsonrpc": "1.0", "id": "a", "method": "ping"}, "a", types.INVALID_REQUEST),
        (asked("ping", key=None), None, types.INVALID_REQUEST),
        (asked("ping", key=True), None, types.INVALID_REQUEST),
        (asked("ping", key=[1]), None, types.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}', None, types.INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 2, "method": 7}, 2, types.INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 2}, 2, types.INVALID_REQUEST),
        ({**asked("ping"), "params": [1]}, 1, types.INVALID_PARAMS),
        (asked("resources/list"), 1, types.METHOD_NOT_FOUND),
        (asked(EVIL), 1, types.METHOD_NOT_FOUND),
        (asked("initialize", {}), 1, types.INVALID_PARAMS),
        (asked("server/discover"), 1, types.INVALID_PARAMS),
        (asked("tools/list", {"cursor": "x"}), 1, types.INVALID_PARAMS),
        (asked("tools/list", {"_meta": {next(iter(META)): 7}}), 1, types.INVALID_PARAMS),
        (asked("tools/call"), 1, types.INVALID_PARAMS),
        (asked("tools/call", {"name": 1}), 1, types.INVALID_PARAMS),
        (asked("tools/call", {"name": "node", "arguments": [1]}), 1, types.INVALID_PARAMS),
    ],
)
def test_what_cannot_be_taken_is_refused_and_the_next_is_answered(
    line: Any, key: Any, code: int
) -> None:
    first, second = conversed(line, asked("ping", key="next"))
    assert (first["id"], first["error"]["code"]) == (key, code)
    assert second == {"jsonrpc": "2.0", "id": "next", "result": {}}


def test_nothing_is_said_to_notifications_and_answers() -> None:
    unasked: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "node"}},
        {"jsonrpc": "2.0", "method": EVIL},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ]
    assert conversed(*unasked) == []


def test_each_request_of_a_batch_is_answered() -> None:
    said = conversed([asked("ping", key=1), 17, asked("nothing", key="b")])
    assert [one["id"] for one in said] == [1, None, "b"]


def test_the_number_1_and_the_text_1_are_two_ids() -> None:
    call = {"name": "figures", "arguments": {"product": "H100"}}
    keys = [one["id"] for one in conversed(*(asked("tools/call", call, key) for key in (1, "1")))]
    assert sorted(keys, key=str) in ([1, "1"], ["1", 1])


def test_an_id_or_a_text_without_an_encoding_does_no_harm() -> None:
    call = rb'{"jsonrpc":"2.0","id":"\ud800","method":"tools/call","params":{"name":"read_text",'
    said = conversed(
        call + rb'"arguments":{"text":"h:1:1 [0] NCCL WARN Cuda failure \udfff \ud800 2\n"}}}',
        asked("tools/call", {"name": "\ud800"}),
        asked("tools/call", {"name": "node", "arguments": {"demo": "\ud800" + EVIL}}, 2),
    )
    by_id = {one["id"]: one["result"] for one in said}
    assert by_id["\ufffd"]["isError"] is False
    assert by_id[1]["isError"]
    assert by_id[2]["isError"]
    assert all(obeyed(one["content"][0]["text"]) == set() for one in by_id.values())


def test_an_open_id_is_refused_and_its_call_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = threading.Event()
    monkeypatch.setattr(serving, "answer_text", lambda *_, **__: f"{taken.wait(LONG)}")
    outgoing = io.BytesIO()
    conversation = AgentConversation(outgoing, redact=False)
    call = asked("tools/call", {"name": "explain", "arguments": {"demo": "hgx-h100-8"}})
    for _ in range(2):
        conversation.take(json.dumps(call).encode())
    taken.set()
    conversation._calls.wait(LONG)
    conversation.leave()
    said = [json.loads(one) for one in outgoing.getvalue().splitlines()]
    assert sorted("error" in one for one in said) == [False, True]


def test_a_line_beyond_all_bounds_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "LONGEST_LINE", 100)
    lines = [b"1\n", b"x" * 1234 + b"\n", b"\n", b"y" * 99 + b"\n", b"z" * 100 + b"\n", b"end"]
    found = list(serving._lines(io.BytesIO(b"".join(lines))))
    assert found == [b"1\n", None, b"y" * 99 + b"\n", None, b"end"]
    assert list(serving._lines(io.BytesIO(b"x" * 100))) == [None]
    outgoing = io.BytesIO()
    conversation = AgentConversation(outgoing, redact=False)
    conversation.too_long()
    conversation.leave()
    assert json.loads(outgoing.getvalue())["error"]["code"] == types.PARSE_ERROR


def test_the_longest_text_of_a_tool_fits_a_line() -> None:
    limits = [
        limit
        for tool in TOOLS
        for field in msgspec.json.schema(tool.request)["$defs"][tool.request.__name__][
            "properties"
        ].values()
        if (limit := field.get("maxLength"))
    ]
    a_character = len(json.dumps("\N{GRINNING FACE}")) - 2
    assert 2 * a_character * max(limits) > serving.LONGEST_LINE > a_character * max(limits)


def test_who_does_not_read_stops_nothing() -> None:
    tried = []

    class Gone(io.BytesIO):
        def flush(self) -> None:
            tried.append(self.tell())
            raise BrokenPipeError

    conversation = AgentConversation(Gone(), redact=False)
    for number in range(3):
        conversation.take(json.dumps(asked("ping", key=number)).encode())
    conversation.leave()
    assert tried


def test_a_fault_of_ours_is_a_sentence_without_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*given: object, **named: object) -> str:
        raise ValueError("secret-17")

    monkeypatch.setattr(serving, "answer_text", fails)
    (said,) = conversed(asked("tools/call", {"name": "node"}), redact=True)
    assert said["result"]["isError"]
    assert said["result"]["content"][0]["text"] == "node: a fault of gputop (ValueError)"
    assert "secret-17" in capsys.readouterr().err


def test_only_a_call_that_measures_may_take_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SECONDS", "MEASURING_SECONDS"):
        monkeypatch.setattr(serving, name, 0.0 if name == "SECONDS" else LONG)
    for measure in (False, True):
        call = {"name": "check", "arguments": {"demo": "hgx-h100-8", "measure": measure}}
        (said,) = conversed(asked("tools/call", call))
        late = said["result"]["content"][0]["text"] == "check: no answer within 0 s"
        assert late is said["result"]["isError"] is not measure


def test_a_measurement_ends_where_its_call_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    class Endless:
        def __init__(self, planned: Any, put: Any, cancel: threading.Event) -> None:
            self.cancel = cancel

        def run(self) -> None:
            begun.set()
            assert self.cancel.wait(LONG)
            ended.set()

    def measures(*given: object, **named: object) -> str:
        plan = SimpleNamespace(simulated=True)
        return f"{list(Attended(plan, Endless).ends())}"  # type: ignore[arg-type]

    monkeypatch.setattr(serving, "answer_text", measures)
    outgoing = io.BytesIO()
    conversation = AgentConversation(outgoing, redact=False)
    call = asked("tools/call", {"name": "check", "arguments": {"measure": True}})
    conversation.take(json.dumps(call).encode())
    assert begun.wait(LONG)
    stop = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    conversation.take(json.dumps(stop).encode())
    assert ended.wait(LONG)
    conversation.leave()
    assert outgoing.getvalue() == b""
