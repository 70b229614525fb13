"""`gputop jobs --from` of one file that cannot be used: one line, and the code of `gputop log`."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gputop.exits import CANNOT_TELL

from .test_log_of_dumps import said


class Harm:
    """What a pickle would run when it is loaded as code."""

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path(self.__dict__["path"]),)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_dump_that_would_run_code_is_refused_in_one_line_by_both(
    tmp_path: Path, protocol: int, capsys: pytest.CaptureFixture[str]
) -> None:
    harm = Harm()
    harm.__dict__["path"] = str(tmp_path / "run")
    bomb = tmp_path / "dump_0"
    bomb.write_bytes(pickle.dumps({"entries": [harm], "pg_config": {}}, protocol))
    told = {
        command[0]: said([*command, str(bomb)], capsys) for command in (["log"], ["jobs", "--from"])
    }
    for code, out, err in told.values():
        assert (code, out) == (CANNOT_TELL, "")
        assert "is not among those of plain data" in err
        assert len(err.strip().splitlines()) == 1
    assert told["log"] == told["jobs"]
    assert not (tmp_path / "run").exists()
