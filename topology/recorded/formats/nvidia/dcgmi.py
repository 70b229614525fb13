"""Tables of `dcgmi diag` and `dcgmi health -c`: what DCGM calls passed, failed or doubtful."""

from __future__ import annotations

import re

import msgspec

from ....model.format import ProvesNothingError, text_format
from ....model.part import PartialNode
from ....model.snapshot import DataVerdict, Measurement
from ....model.surroundings import Software

TOOL = "dcgmi"
PROBE = "dcgm"
_ROW = re.compile(r"\s*\|([^|\n]{1,200})\|([^|\n]{1,400})\|\s*\Z")
_RESULT = re.compile(
    r"(Pass|Fail|Warn|Healthy|Warning|Failure|Skip)\w{0,4}\b(?:\s*-\s*(\S.{0,300}))?"
)
_GPUS = re.compile(r"GPUs?:? ?(\d{1,3}(?:, ?\d{1,3})*)")
_WHOLE = "Overall Health"
_DRIVER = "Driver Version Detected"
_VERDICTS = {
    "Pass": DataVerdict.FINISHED,
    "Healthy": DataVerdict.FINISHED,
    "Fail": DataVerdict.FAILED,
    "Failure": DataVerdict.FAILED,
}
WARNED = DataVerdict("warned")
_CELL, _CUT_AT = 48, 45
"""Width of a cell of `dcgmi diag`, and the place at which it cuts what it says."""
MOST, MOST_WORDS = 256, 400


def _parse(lines: list[str]) -> PartialNode:
    figures: list[Measurement] = []
    driver = None
    test = ""
    for line in lines:
        row = _ROW.match(line)
        if row is None or len(figures) >= MOST:
            continue
        name, value = row[1].strip(" ->"), row[2].strip()
        if name == _DRIVER:
            driver = value
        elif (said := _RESULT.match(value)) and said[1] != "Skip":
            if name.isdecimal():
                continue  # the rows below say which test it is
            test = name or test
            figures.append(_figure(test, said[1], said[2] or ""))
        elif of_gpu := re.match(r"GPU ?(\d{1,3}): (Pass|Fail|Warn)", value):
            # Newer tables have a row for each GPU below the test.
            figures.append(_figure(test, of_gpu[2], f"GPU: {of_gpu[1]}"))
        elif figures and name in ("", "Warning", "Info", "Error") and value:
            figures[-1] = _more(figures[-1], row[2])
    # The word on the whole counts where no row says which test it is about.
    figures = [figure for figure in figures if figure.variant != _WHOLE] or figures
    if not figures:
        raise ProvesNothingError("no result of a test in it; paste its whole table")
    figures = [_told(figure) for figure in figures]
    software = None if driver is None else Software(nvidia_driver=driver)
    return PartialNode(measurements=tuple(figures), software=software)


def _figure(test: str, word: str, beside: str) -> Measurement:
    gpus = _GPUS.search(beside)
    return Measurement(
        probe=PROBE,
        quantity="diagnostic",
        variant=f"{test}, {gpus[0]}" if gpus else test,
        verdict=_VERDICTS.get(word, WARNED),
        why_none=None if gpus and gpus[0] == beside else f"{beside} ",
        device_kind="gpu",
        details={"pasted": TOOL, "test": test, "gpus": gpus[1] if gpus else ""},
    )


def _more(figure: Measurement, cell: str) -> Measurement:
    """Add a row; in the table of `diag` a full cell runs into the next one, within a word too."""
    text = cell[1:].rstrip()
    apart = "" if len(cell) == _CELL and len(text) >= _CUT_AT else " "
    words = f"{figure.why_none or ''}{text}{apart}"[:MOST_WORDS]
    return msgspec.structs.replace(figure, why_none=words)


def _told(figure: Measurement) -> Measurement:
    """The same once its words are whole."""
    words = " ".join((figure.why_none or "").split()) or None
    return msgspec.structs.replace(figure, why_none=words)


FORMAT = text_format(
    id=TOOL,
    parse=_parse,
    starts=re.compile(
        r"(?m)^[ \t]*(?:Successfully ran diagnostic|\|[ \t]*Diagnostic[ \t]+\|[ \t]*Result|"
        r"\|[ \t]*Health Monitor Report|\|[ \t]*Overall Health[ \t]*\||"
        r"\+-{2,9}[ \t]+(?:Deployment|Integration|Hardware|Stress)[ \t]+-{2,30}\+)"
    ),
    needs=(
        "ran diagnostic",
        "| Diagnostic",
        "Health Monitor",
        "Overall Health",
        "+-----  ",
    ),
    goes_on=re.compile(r"\s*(?:\||\+[-=+]{3})"),
    repeats=True,
)
