from __future__ import annotations

import pytest

from gputop.topology.diagnosis.mechanism.decode import named


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wrong magic 74656d2f20544547 != 7970663b906d70b9", 'spells "GET /met": an HTTP request'),
        ("Connect to 172.17.0.3<4> failed", "docker"),
        ("Bootstrap : Using eth0:169.254.12.1<0>", "link-local"),
        ("listening on 127.0.0.1", "loopback"),
    ],
)
def test_a_value_is_named(text: str, words: str) -> None:
    (said,) = named(text)
    assert words in said


@pytest.mark.parametrize(
    "text", ["10.0.0.1", "999.1.1.1", "version 2.28.3.1.2", "0x7f7935777c88ffff", ""]
)
def test_other_values_are_left_alone(text: str) -> None:
    assert named(text) == ()
