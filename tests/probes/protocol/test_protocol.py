"""The lines between the app and a worker."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.probes.protocol.messages import (
    LINE_LIMIT_BYTES,
    DeviceRecord,
    Done,
    Failure,
    Hello,
    MeasuredValue,
    Message,
    Note,
    Progress,
    ProtocolError,
    WorkerRequest,
    decode,
    encode,
)
from gputop.probes.protocol.plaintext import one_line, plain
from gputop.probes.protocol.status import DeviceKind

MEASUREMENT = MeasuredValue(
    "write_bandwidth", "0000:06:00.0", "0000:07:00.0", "p2p/1", "gpu", "copy engine", "a into b",
    value=396.1, unit="GB/s", minimum=395.0, maximum=397.5, samples=(395.0, 396.1, 397.5),
    bytes_per_copy=1 << 29, copies_per_sample=16, attempt=2,
)  # fmt: skip
MESSAGES: list[Message] = [
    WorkerRequest(
        "p2p", ("0000:06:00.0",), {"force": True, "kinds": {"a b": "NV18"}, "list": [1, None]}
    ),
    Hello("gemm", "gemm/1", "3.9.1", DeviceKind.GPU,
          (DeviceRecord("0000:06:00.0", 1, "NVIDIA H200", uuid="GPU-1", memory_bytes=1 << 37),),
          torch="2.1.0", nccl="2.28.9"),
    Hello("p2p", "p2p/1", "3.9.1", DeviceKind.GPU, (), cuda="12.8"),
    Progress(1, 12, "a to b"),
    MEASUREMENT,
    Note("trace", "kernels", {"activities": [{"name": "k", "device": 0}]}),
    Done(),
    Failure("refused", "No GPU."),
]  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_what_goes_in_comes_out(message: WorkerRequest) -> None:
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == message


@given(st.text(), st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_any_text_and_number_survives(src: str, why: str, value: float) -> None:
    message = dataclasses.replace(MEASUREMENT, src=src, why=why, value=value)
    assert decode(encode(message)) == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(sorted({f.name for m in MESSAGES for f in dataclasses.fields(m)}))
KINDS = st.sampled_from(["hello", "progress", "measurement", "note", "done", "failure", "request"])


@given(st.binary() | st.builds(lambda j: json.dumps(j).encode(), JSON))
def test_any_bytes_are_a_message_or_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(line)


@given(KINDS, st.dictionaries(FIELDS, JSON))
def test_wrong_fields_are_a_message_or_a_protocol_error(
    kind: str, fields: dict[str, object]
) -> None:
    try:
        message = decode(json.dumps({"v": 1, "kind": kind, **fields}).encode())
    except ProtocolError:
        return
    assert decode(encode(message)) == message


def valued(value: bytes) -> bytes:
    """A figure with this value, whatever it is."""
    figure = MeasuredValue("one-way", "a", "b", "p2p/3", "gpu", "copy engine", "", value=7.25)
    line = encode(figure)
    assert line.count(b"7.25") == 1
    decode(line)
    return line.replace(b"7.25", value)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'"' + b"x" * LINE_LIMIT_BYTES + b'"', "too-long"),
        (b"[" * 100_000, "not-json"),
        (valued(b"NaN"), "not-json"),
        (valued(b"1e999"), "not-json"),
        (valued(b"1" + b"0" * 400), "shape"),
        (b'{"v":2,"kind":"done"}', "version"),
        (b'{"v":true,"kind":"done"}', "version"),
        (b'{"v":1,"kind":["done"]}', "shape"),
        (b'{"v":1,"kind":"progress","done":1,"total":1}', "shape"),
        (b'{"v":1,"kind":"done","more":1}', "shape"),
        (b'{"v":1,"kind":"progress","done":true,"total":1,"what":"x"}', "shape"),
    ],
)
def test_each_refusal_has_its_kind(line: bytes, kind: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(line)
    assert caught.value.kind == kind


@given(st.text())
def test_plain_text_has_no_control_characters(text: str) -> None:
    shown = plain(text)
    assert all(c == "\n" or c.isprintable() or c.isspace() for c in shown if ord(c) < 0xA0)
    assert "\x1b" not in shown
    assert "\n" not in one_line(text)


def test_escape_sequences_go_whole() -> None:
    assert plain("\x1b[1;31mred\x1b[0m \x1b]0;title\x07end\x00\r\nx\ty") == "red end\nx y"


def test_half_a_surrogate_pair_is_replaced_wherever_it_stands() -> None:
    text = os.fsdecode(b"eth\xff")
    note = Note("variables", text, {"NCCL_SOCKET_IFNAME": [text, "\U0001f600"], text: 1})
    assert decode(encode(note)) == Note(
        "variables", "eth?", {"NCCL_SOCKET_IFNAME": ["eth?", "\U0001f600"], "eth?": 1}
    )
