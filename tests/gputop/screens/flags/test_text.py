"""What stands beside the list of flags before anything is worked out."""

from __future__ import annotations

import pytest

from gputop.screens.flags.list import rows_of
from gputop.screens.flags.text import flag_lines
from gputop.screens.flags.work import work_out
from gputop.topology.explain.value_rows import reached
from gputop.topology.flags.catalogue.catalogue import catalogue
from gputop.topology.flags.what_if.study import Study
from gputop.topology.model.versions import Library, LibraryName
from gputop.widgets.spans import text_of
from tests.support.app import demo_report


@pytest.mark.parametrize(
    ("library", "link", "other"),
    [
        (Library(name=LibraryName.NCCL, version="2.27.3"), "NVLink", "xGMI"),
        (Library(name=LibraryName.RCCL, version="2.27.7"), "xGMI", "NVLink"),
    ],
)
def test_a_flag_has_the_words_of_the_library_while_it_is_worked_out(
    library: Library, link: str, other: str
) -> None:
    lines = flag_lines(None, "NCCL_P2P_DISABLE", 70, library=library)
    text = " ".join(map(text_of, lines))
    assert "working out" in text
    assert link in text
    assert other not in text


@pytest.mark.parametrize("demo", ["pcie-l40s-8", "hgx-h100-8"])
@pytest.mark.parametrize("name", ["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"])
def test_what_is_not_known_has_its_reason_as_in_the_command(demo: str, name: str) -> None:
    report = demo_report(demo)
    study = Study(report.snapshot, made=report.prediction)
    details = work_out(study, report.node, name, {})
    assert details is not None
    lines = flag_lines(details, name, 110, library=study.whose())
    said = " ".join(" ".join(map(text_of, lines)).split())
    section = reached(details.rows, study)
    assert ("Not known: " in said) == bool(section.paragraphs) == (demo == "pcie-l40s-8")
    assert all(" ".join(why.split()) in said for why in section.paragraphs)


def test_rows_follow_filter_set_and_changed() -> None:
    values = {"NCCL_ALGO": "Ring", "NCCL_NOTHING": "1"}
    rows = rows_of(
        catalogue(),
        Library(name=LibraryName.NCCL, version="2.28.9"),
        values,
        {"NCCL_PROTO": "LL", "NCCL_ALGO": None},
    )
    assert [(row.mark, row.name) for row in rows[:3]] == [
        ("+", "NCCL_ALGO"),
        ("?", "NCCL_NOTHING"),
        ("+", "NCCL_PROTO"),
    ]
    assert rows[0].value == "Ring → (not set)"
    assert rows[3].name == "NCCL"
    assert len(rows) == len(catalogue().flags) + 2
    assert (
        rows_of(
            catalogue(),
            Library(name=LibraryName.NCCL, version="2.28.9"),
            values,
            {},
            "nccl_nothing",
        )[0].name
        == "NCCL_NOTHING"
    )
