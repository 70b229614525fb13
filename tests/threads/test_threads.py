"""The answers to public threads name cause and cure, mislead nobody and accuse no innocent."""

from __future__ import annotations

import pytest

from tests.threads.scoring import HERE, answer, materials, score, share, threads

WANTED = 0.85
MISLED = -1


@pytest.mark.parametrize("name", threads())
def test_no_answer_misleads_and_no_text_is_refused(name: str) -> None:
    result = score(name)
    assert result.points != MISLED, result.why
    assert result.why != "refused"


def test_most_causes_and_cures_are_named() -> None:
    assert share({name: score(name) for name in threads()}) >= WANTED


@pytest.mark.parametrize(
    "name", [name for name in threads() if (HERE / name / "twin.txt").exists()]
)
def test_the_innocent_twin_is_not_accused(name: str) -> None:
    found = answer(threads()[name].command, (HERE / name / "twin.txt",))
    accused = {finding["id"] for finding in found or () if finding["severity"] != "notice"}
    assert not accused & set(threads()[name].finding)


@pytest.mark.parametrize("name", threads())
def test_a_thread_has_its_parts(name: str) -> None:
    assert materials(name), "no material"
    assert threads()[name].finding
    assert threads()[name].words


@pytest.mark.parametrize("name", [name for name, thread in threads().items() if thread.proof])
def test_the_finding_quotes_the_lines_that_prove_it(name: str) -> None:
    thread, (file, *_) = threads()[name], materials(name)
    lines = file.read_text().splitlines()
    (found,) = (
        finding for finding in answer("log", (file,)) or () if finding["id"] in thread.finding
    )
    assert {proof["line"] for proof in found["proof"]} == set(thread.proof)
    for proof in found["proof"]:
        assert proof["text"].split()[-1] in lines[proof["line"] - 1]
    assert found["sureness"] in ("certain", "likely", "possible")
