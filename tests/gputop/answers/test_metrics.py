"""`gputop metrics`: stdout, the file of the node exporter, and what is served."""

from __future__ import annotations

import http.client
import json
import re
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gputop.__main__ import run
from gputop.answers import metrics_served
from gputop.answers.metrics import MetricsRequest, answer
from gputop.answers.metrics_served import MOST_AT_ONCE, ListenPlace, TextServer, address_of, serve
from gputop.exits import Exit
from gputop.topology.metrics import series

SICK = ("--demo", "sick-h100-8")


def test_once_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", *SICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'gputop_verdict{verdict="slow"} 1' in lines
    assert 'gputop_finding{id="nvlink-down",severity="slow",device="GPU3"} 1' in lines
    assert sum(line.startswith("DCGM_FI_DEV_GPU_UTIL{") for line in lines) == 8
    assert not [line for line in lines if line.startswith("gputop_job")]


def test_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", *SICK, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "gputop.metrics/1"
    by_name = {one["name"]: one for one in found["families"]}
    assert by_name["gputop_findings"]["kind"] == "gauge"
    assert {"labels": [["verdict", "slow"]], "value": 1.0} in by_name["gputop_verdict"]["samples"]


def test_jobs_where_somebody_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", "--demo", "slow-job-h100-8", "--jobs"]) == 0
    out = capsys.readouterr().out
    assert 'gputop_jobs{verdict="slow"} 1' in out
    assert 'gputop_job_verdict{job_name="torchrun demo",verdict="slow"} 1' in out


def test_a_textfile_is_whole_and_for_others_to_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "gputop.prom"
    assert run(["metrics", *SICK, "--textfile", str(path), "--once"]) == 0
    assert capsys.readouterr().out == ""
    assert path.read_text().endswith("\n")
    assert stat.S_IMODE(path.stat().st_mode) & 0o444 == 0o444
    assert [one.name for one in tmp_path.iterdir()] == ["gputop.prom"]


def test_a_textfile_is_written_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "gputop.prom", []

    def wait(seconds: float) -> None:
        seen.append((seconds, path.read_text()))
        path.unlink()
        if len(seen) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", wait)
    assert run(["metrics", *SICK, "--textfile", str(path), "--interval", "2"]) == 130
    assert [seconds for seconds, _ in seen] == [2, 2, 2]
    assert all("gputop_verdict" in text for _, text in seen)
    assert len({text for _, text in seen}) > 1, "the demo goes on"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--textfile", "/no/such/folder/a.prom", "--once"), "No such file"),
        (("--textfile", "a.prom", "--json"), "not JSON"),
        (("--listen", "9435", "--once"), "leave out"),
        (("--listen", "localhost:9435"), "IP address"),
        (("--listen", "70000"), "IP address"),
        (("--listen", ""), "IP address"),
        (("--interval", "0"), "0"),
    ],
)
def test_what_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert run(["metrics", *SICK, *arguments]) == 64
    printed = capsys.readouterr()
    assert said in printed.err
    assert "gputop_verdict" not in printed.out


def test_a_name_that_the_node_exporter_passes_over_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["metrics", *SICK, "--textfile", str(tmp_path / "a.txt"), "--once"]) == 0
    assert ".prom" in capsys.readouterr().err


def test_where_to_listen() -> None:
    assert address_of("9435") == ListenPlace("127.0.0.1", 9435)
    assert address_of("0.0.0.0:80") == ListenPlace("0.0.0.0", 80)
    assert address_of("[::1]:9435").url == "http://[::1]:9435/metrics"


@pytest.fixture
def server() -> Iterator[TextServer]:
    made = TextServer(ListenPlace("127.0.0.1", 0), "a 1\n")
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def asked(server: TextServer, method: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=5)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_only_one_path_is_read_and_nothing_is_taken(server: TextServer) -> None:
    assert asked(server, "GET", "/metrics") == (200, b"a 1\n")
    assert asked(server, "GET", "/metrics?x=1") == (200, b"a 1\n")
    assert asked(server, "HEAD", "/metrics") == (200, b"")
    assert asked(server, "GET", "/")[0] == 404
    assert asked(server, "GET", "/../../etc/passwd")[0] == 404
    assert asked(server, "POST", "/metrics")[0] == 501
    server.text = "a 2\n"
    assert asked(server, "GET", "/metrics") == (200, b"a 2\n")


def test_who_holds_connections_open_does_not_stop_the_others(server: TextServer) -> None:
    held = [
        socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=5)
        for _ in range(MOST_AT_ONCE + 4)
    ]
    refused = 0
    for connection in held[MOST_AT_ONCE:]:
        refused += connection.recv(1) == b""
    assert refused == 4
    for connection in held:
        connection.close()
    for _ in range(50):
        try:
            assert asked(server, "GET", "/metrics")[0] == 200
            break
        except (ConnectionError, http.client.HTTPException):
            continue
    else:
        pytest.fail("nobody is answered any more")


def test_who_says_a_letter_now_and_then_stops_the_others_for_a_moment(
    server: TextServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_served, "PATIENCE_SECONDS", 0.5)
    place = ("127.0.0.1", server.server_address[1])
    slow = [socket.create_connection(place, timeout=5) for _ in range(MOST_AT_ONCE)]
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for connection in slow:
            with suppress(OSError):
                connection.sendall(b"G")
        time.sleep(0.1)
        with suppress(OSError, http.client.HTTPException):
            assert asked(server, "GET", "/metrics")[0] == 200
            break
    else:
        pytest.fail("nobody is answered any more")


def test_who_asks_makes_nothing_be_read() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    reads, stop, seen = [], threading.Event(), []

    def read() -> str:
        reads.append(1)
        return f"reads {len(reads)}\n"

    def ask() -> None:
        for _ in range(5):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/metrics")
            seen.append(connection.getresponse().read())
        stop.set()

    timer = threading.Timer(0.2, ask)
    timer.start()
    assert serve(ListenPlace("127.0.0.1", port), read, 60.0, stop) == 0
    timer.join()
    assert seen == [b"reads 1\n"] * 5
    assert len(reads) == 1


def test_a_port_that_is_taken(server: TextServer) -> None:
    with pytest.raises(Exit, match="in use"):
        serve(ListenPlace("127.0.0.1", server.server_address[1]), lambda: "", 1.0)


DASHBOARD = Path(__file__).parents[3] / "recipes" / "grafana" / "gputop.json"
LABEL = re.compile(r"\{\{(\w+)\}\}|(\w+)=~?\"|by \(([\w, ]+)\)")
OF_PROMETHEUS = {"instance", "job"}


def test_every_panel_of_the_dashboard_shows_series_that_there_are() -> None:
    """Names and labels of its expressions are those of two nodes, one with errors of NVLinks."""
    known: dict[str, set[str]] = {"gputop_nvlink_errors_total": {"gpu", "UUID", "link", "kind"}}
    for demo in ("sick-h100-8", "hgx-h100-8"):
        for family in answer(MetricsRequest(demo=demo, jobs=True)).families:
            labels = known.setdefault(family.name, set())
            labels.update(name for sample in family.samples for name, _ in sample.labels)
    assert any("gputop_nvlink_errors_total" in text for text in [Path(series.__file__).read_text()])
    board = json.loads(DASHBOARD.read_text())
    shown = [(panel["title"], told) for panel in board["panels"] for told in panel["targets"]]
    assert len(shown) > 15
    for title, told in shown:
        names = re.findall(r"\b(?:gputop|DCGM_FI)_\w+", told["expr"])
        assert names, title
        assert set(names) <= known.keys(), title
        asked = LABEL.findall(told["expr"] + told["legendFormat"])
        words = {word for one in asked for text in one for word in re.findall(r"\w+", text)}
        assert words <= OF_PROMETHEUS.union(*(known[name] for name in names)), title
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)
