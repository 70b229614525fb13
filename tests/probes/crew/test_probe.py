"""The logs of ranks: which files are read, and that their pieces join."""

from __future__ import annotations

import os
from pathlib import Path

from gputop.probes.crew import probe as rank_logs
from gputop.probes.protocol.messages import Log
from gputop.probes.protocol.outcome import Outcome
from gputop.probes.protocol.status import Status


def test_a_log_that_is_no_file_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not for you")
    (tmp_path / "rank0.log").symlink_to(secret)
    os.mkfifo(tmp_path / "rank1.log")
    (tmp_path / "rank2.log").mkdir()
    for rank in range(4):
        assert list(rank_logs.pieces(str(tmp_path), rank)) == [Log(rank, "")]


def test_pieces_of_a_log_join_again(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(50_000))
    (tmp_path / "rank0.log").write_text(text)
    outcome = Outcome(Status.FINISHED, "", 0.0, logs=tuple(rank_logs.pieces(str(tmp_path), 0)))
    assert outcome.ranks_logged() == (0,)
    assert outcome.log_of(0) == text
