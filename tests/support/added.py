"""What pictures leave out, so that a new screen or a new rule changes none of them."""

from __future__ import annotations

import re
from collections.abc import Callable

_TABS = re.compile(
    r'<text [^>]*clip-path="url\(#terminal-line-0\)">[^<]*</text>|<rect [^>]*y="1\.5"[^>]*/>'
)
"""The first row of a picture that Textual drew: the tabs of all screens."""
_COUNTS = re.compile(
    r"\d+(?=(?: |&#160;)(?:checks(?: |&#160;))?(?:done|skipped)|(?: |&#160;)variables\b)"
)


_STYLE = re.compile(r"^ *\.terminal-r(\d+) \{(.*)\}\n", re.MULTILINE)
_STYLED = re.compile(r'(?<=class="terminal-r)\d+')


def _numbered(svg: str) -> str:
    """Number the styles by what is left, as Rich numbers them by where they first stand."""
    looks = dict(_STYLE.findall(svg))
    place = {old: new for new, old in enumerate(dict.fromkeys(_STYLED.findall(svg)), start=1)}
    styles = "".join(f"    .terminal-r{new} {{{looks[old]}}}\n" for old, new in place.items())
    first = _STYLE.search(svg)
    if first is None:
        return svg
    bare = _STYLE.sub("", svg)
    bare = bare[: first.start()] + styles + bare[first.start() :]
    return _STYLED.sub(lambda found: str(place[found[0]]), bare)


def without_counts(text: str) -> str:
    """The same with N for counts of rules and of variables."""
    return _COUNTS.sub("N", text)


def without_what_is_added(normalize: Callable[[str], str]) -> Callable[[str], str]:
    """Leave the row of tabs and the counts of rules and variables out of pictures too."""

    def normalized(svg: str) -> str:
        return without_counts(_numbered(_TABS.sub("", normalize(svg))))

    return normalized
