"""`--from`: files of other kinds are named as what they are, with what reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputop.topology.recorded.load import LoadError, load
from tests.topology.jobs.flight.test_compare import dumped, entry

RAS = Path(__file__).parents[2] / "recordings" / "ras"
JSON_DUMP = json.dumps({"entries": [entry(1)], "pg_config": {}, "version": "2.10"}).encode()
ANSWER, TEXT = ((RAS / name).read_bytes() for name in ("healthy.json", "killed.txt"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (dumped(entry(1)), "flight recorder dumps it, .* see `gputop log FILE`"),
        (JSON_DUMP, "flight recorder dumps it, .* see `gputop log FILE`"),
        (ANSWER, "NCCL's RAS service, .* `gputop jobs --from FILE`"),
        (TEXT, "NCCL's RAS service, .* `gputop log FILE`"),
        (b"SERVER PROTOCOL 2\nOK\n" + ANSWER, "NCCL's RAS service"),
        (b'{\n  "schema": "gputop.jobs/1"}', "JSON that a command of gputop printed"),
        (b'{"version": 3, "entries": []}', "not a format"),
        (b"NCCL version 2.28.9+cuda13.0\n", "NCCL debug log"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=said) as error:
        load([str(path)])
    assert "\n" not in str(error.value)
