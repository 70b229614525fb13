"""nccl.conf and its kin: found in NCCL's order, read with NCCL's grammar, never trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputop.topology.model.variable_names import listed
from gputop.topology.model.versions import Library, LibraryName
from gputop.topology.sources.linux import configuration_files as files
from gputop.topology.sources.linux import environment
from gputop.topology.sources.linux.configuration_files import (
    ConfFile,
    merged,
    parse,
    paths,
    read_file,
)

NCCL = Library(name=LibraryName.NCCL, version="2.28.9")
OLD = Library(name=LibraryName.NCCL, version="2.22.3")
NEW = Library(name=LibraryName.NCCL, version="2.30.7")
RCCL = Library(name=LibraryName.RCCL, version="2.21.5")


def test_each_library_looks_where_its_source_says() -> None:
    named = {"NCCL_CONF_FILE": "/tmp/mine.conf"}
    assert paths({}, "/home/a", NCCL) == ("/home/a/.nccl.conf", "/etc/nccl.conf")
    assert paths(named, "/home/a", NCCL) == ("/tmp/mine.conf", "/etc/nccl.conf")
    assert paths(named, "/home/a", OLD) == ("/home/a/.nccl.conf", "/etc/nccl.conf")
    assert paths(named, "/home/a", RCCL) == ("/home/a/.rccl.conf", "/etc/rccl.conf")
    assert paths({"NCCL_CONF_FILE": ""}, None, NCCL) == ("/etc/nccl.conf",)


def test_lines_are_read_as_param_cc_reads_them() -> None:
    text = (
        "# NCCL_DEBUG=TRACE\n"
        "NCCL_DEBUG=WARN\n"
        "NCCL_DEBUG=INFO\n"
        "NCCL_SOCKET_IFNAME==ens1f0\n"
        "no sign here\n"
        "=empty name\n"
        "SECRET_TOKEN=abc\n"
        "NCCL_IB_HCA=mlx5_0"
    )
    found = parse("/etc/nccl.conf", text)
    assert dict(found.values) == {
        "NCCL_DEBUG": "WARN",
        "NCCL_SOCKET_IFNAME": "=ens1f0",
        "NCCL_IB_HCA": "mlx5_0",
    }
    assert found.notes == ()


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("export NCCL_DEBUG=INFO", "export"),
        (" NCCL_DEBUG=INFO", "blanks"),
        ("NCCL_DEBUG =INFO", "blanks"),
        ('NCCL_NET="IB"', "quotes"),
        ("NCCL_DEBUG=INFO ", "blanks around"),
        ("NCCL_DEBUG=INFO\r", "Windows"),
    ],
)
def test_what_a_shell_would_take_is_pointed_out(line: str, word: str) -> None:
    (note,) = parse("/etc/nccl.conf", f"#\n{line}\n").notes
    assert word in note
    assert note.startswith("/etc/nccl.conf:2")


def test_a_windows_line_end_is_part_of_the_value_until_2_30() -> None:
    assert dict(parse("f", "NCCL_P2P_LEVEL=NVL\r\n").values) == {"NCCL_P2P_LEVEL": "NVL\r"}
    assert dict(parse("f", "NCCL_P2P_LEVEL=NVL\r\n", NEW).values) == {"NCCL_P2P_LEVEL": "NVL"}


def test_names_and_values_are_cut_where_the_library_cuts_them() -> None:
    found = parse("f", "NCCL_TOPO_FILE=" + "x" * 5000)
    assert len(dict(found.values)["NCCL_TOPO_FILE"]) == 1023


def test_the_environment_beats_files_and_the_first_file_the_second() -> None:
    user = ConfFile("/home/a/.nccl.conf", (("NCCL_DEBUG", "INFO"), ("NCCL_ALGO", "Ring")))
    system = ConfFile("/etc/nccl.conf", (("NCCL_ALGO", "Tree"), ("NCCL_PROTO", "LL")))
    found, notes = merged({"NCCL_DEBUG": "WARN"}, (user, system))
    assert found == {
        "NCCL_DEBUG": ("WARN", "environment"),
        "NCCL_ALGO": ("Ring", "/home/a/.nccl.conf"),
        "NCCL_PROTO": ("LL", "/etc/nccl.conf"),
    }
    assert len(notes) == 2
    assert "the environment sets it already" in notes[0]


def test_only_plain_files_of_a_sane_size_are_read(tmp_path: Path) -> None:
    assert read_file(str(tmp_path / "none")) is None
    folder = read_file(str(tmp_path))
    assert folder is not None
    assert folder.error
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    waiting = read_file(str(pipe))
    assert waiting is not None
    assert waiting.error == "not a regular file"
    large = tmp_path / "large"
    large.write_text("#" * (files.LIMIT_BYTES + 1))
    big = read_file(str(large))
    assert big is not None
    assert "larger than" in str(big.error)


def test_bytes_that_are_no_text_do_no_harm() -> None:
    found = parse("f", b"NCCL_DEBUG=\xff\x00INFO\n\x00=1\n".decode("utf-8", "replace"))
    assert [name for name, _ in found.values] == ["NCCL_DEBUG"]


def machine(tmp_path: Path, *nodes: str) -> str:
    """A root directory with device nodes and a configuration of each library."""
    for folder in ("etc", "dev"):
        (tmp_path / folder).mkdir()
    (tmp_path / "etc" / "nccl.conf").write_text("NCCL_PROTO=Simple\nSECRET=1\n")
    (tmp_path / "etc" / "rccl.conf").write_text("NCCL_ALGO=Tree\n")
    for node in nodes:
        (tmp_path / "dev" / node).touch()
    return str(tmp_path)


def test_the_live_source_includes_the_files_with_their_origin(tmp_path: Path) -> None:
    root = machine(tmp_path)
    raw = environment.read({"NCCL_DEBUG": "INFO", "SECRET": "x", "PATH": "/bin"}, root=root)
    assert "SECRET" not in str(raw)
    part = environment.parse(raw)
    assert {variable.name: (variable.value, variable.origin) for variable in part.environment} == {
        "NCCL_DEBUG": ("INFO", "environment"),
        "NCCL_PROTO": ("Simple", "/etc/nccl.conf"),
    }


def test_amd_machines_have_rccls_files(tmp_path: Path) -> None:
    part = environment.parse(environment.read({}, root=machine(tmp_path, "kfd")))
    assert {variable.origin for variable in part.environment} == {"/etc/rccl.conf"}


def test_an_unreadable_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "etc" / "nccl.conf").mkdir(parents=True)
    part = environment.parse(environment.read({}, root=str(tmp_path)))
    (problem,) = part.problems
    assert "/etc/nccl.conf" in problem.text


@pytest.mark.parametrize(
    "raw", [None, [], {}, {"files": [1]}, {"files": [{"values": [[1]]}]}, {"NCCL_DEBUG": "INFO"}]
)
def test_any_raw_answer_is_understood(raw: object) -> None:
    part = environment.parse(raw)
    assert all(listed(variable.name) for variable in part.environment)
