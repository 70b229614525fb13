"""Texts that describe programs and that no run printed: forms to fill in, changelogs, manuals."""

import re
from collections.abc import Sequence

_FORM = re.compile(r"(?:about|labels|assignees): ?")
_HEADING = re.compile(r"(?P<level>#{1,5}) +(?P<title>\S.*)")
_RELEASE = re.compile(
    r"(?i)\[?(?:version |release |v)?\d+\.\d+[\w.+-]*\]?(?:\(\S*\))?(?: *[-(\u2013].*)?"
)
_CHANGES = re.compile(r"(?i)change ?log|release notes|what.s new|history|changes")
_MANUAL = re.compile(
    r"(?i)(?:\d+\. *)?(?:install(?:ation|ing)?|(?:basic |example )?usage|licen[cs]e|contributing"
    r"|contributors|getting started|quick ?start|features|table of contents|requirements"
    r"|prerequisites|citation|how it works|configuration|options|commands|development"
    r"|troubleshooting|faq|roadmap)\b.{0,20}"
)
_REPORT = re.compile(
    r"(?i)bug|issue|problem|question|to reproduce|reproduc|expected|actual|environment|error"
    r"|what happened|\blogs?\b|output|system info|additional context|description|current behavio"
)
_RULER = re.compile(r"\|?(?: *:?-{3,}:? *\|)+(?: *:?-{3,}:? *)?")
"""Below the heading of a table in Markdown."""
_MARKED = re.compile(r"\]\((?:[\w./#-]+|https?://\S+)\)|(?<!`)`[^`]{1,80}`(?!`)")
"""A link, or words set as code within a sentence."""
LEAST, LEAST_MARKED = 2, 4
MOST_LINES, MOST_CHARACTERS = 400, 1000
"""Of a text and of a line: patterns may take the square of what is no heading and no table."""


def is_described(lines: Sequence[str]) -> bool:
    """Whether the first lines are those of a form that nobody filled in, a changelog or a manual.

    What failed, they show as an example. A report has headings too, of its own kind: with one of
    them a text is no manual.
    """
    first = [line[:MOST_CHARACTERS].strip() for line in lines[:MOST_LINES]]
    if first[:1] == ["---"] and "---" in first[1:12]:
        within = first[1 : first.index("---", 1)]
        if within[:1] and within[0].startswith("name:") and any(map(_FORM.match, within)):
            return True
    if _is_page(first):
        return True
    headings = [
        (found["level"], found["title"].rstrip("#").rstrip())
        for line in first
        if (found := _HEADING.match(line))
    ]
    # A single sign begins a remark in a shell too, and a heading of tables that tests print.
    titles = [title for level, title in headings if level != "#"]
    releases = sum(_RELEASE.fullmatch(title) is not None for title in titles)
    if releases >= LEAST or (releases and _CHANGES.fullmatch(headings[0][1])):
        return True
    manual = sum(_MANUAL.fullmatch(title) is not None for title in titles)
    return manual >= LEAST and not any(_REPORT.search(title) for _, title in headings)


def _is_page(lines: Sequence[str]) -> bool:
    """Whether a title begins it, and it has a table, or links and words as code all the way."""
    marked = sum(_MARKED.search(line) is not None for line in lines)
    if not (lines[:1] and lines[0].startswith("# ") and marked >= LEAST_MARKED):
        return False
    return any(map(_RULER.fullmatch, lines)) or marked * 4 > sum(map(bool, lines)) >= 40
