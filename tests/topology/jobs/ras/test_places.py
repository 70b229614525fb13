"""Which addresses are asked: those of this machine alone."""

import pytest

from gputop.topology.jobs.ras.places import DEFAULT, LOOPBACK, place, places


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        ("localhost:28028", LOOPBACK),
        ("127.0.0.1:9000", ("127.0.0.1",)),
        ("[::1]:9000", ("::1",)),
        ("0.0.0.0:9000", LOOPBACK),
    ],
)
def test_addresses_of_this_machine(address: str, hosts: tuple[str, ...]) -> None:
    assert place(address).hosts == hosts


@pytest.mark.parametrize("address", ["192.0.2.1:28028", "[2001:db8::1]:28028", "head-node:28028"])
def test_other_machines_and_names_are_not_asked(address: str) -> None:
    found = place(address)
    assert found.hosts == ()
    assert "not asked" in (found.why_not or "")


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:", "localhost:70000", "a:b:c", ":1"]
)
def test_what_is_no_address(address: str) -> None:
    assert "HOST:PORT" in (place(address).why_not or "")


def test_each_job_has_its_own_port_and_one_may_have_none() -> None:
    found = places(
        [
            (11, {}),
            (12, {}),
            (21, {"NCCL_RAS_ADDR": "localhost:9001"}),
            (31, {"NCCL_RAS_ENABLE": "0"}),
        ]
    )
    assert {each.address: each.pids for each in found} == {
        DEFAULT: frozenset({11, 12}),
        "localhost:9001": frozenset({21}),
    }
