"""The list of packages in pyproject.toml: `python -m tests.support.packages` writes it anew."""

from __future__ import annotations

import re

from tests.support.layers import TOPS
from tests.support.places import ROOT

PROJECT = ROOT / "pyproject.toml"
_LIST = re.compile(r"(?<=^packages = \[\n).*?(?=^\])", re.MULTILINE | re.DOTALL)


def listed(text: str) -> str:
    """The text of pyproject.toml with every folder of the checkout that holds code."""
    folders = {path.parent for top in TOPS for path in (ROOT / top).rglob("__init__.py")}
    names = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    installed = sorted(name if name.startswith("gputop") else f"gputop.{name}" for name in names)
    return _LIST.sub("".join(f'    "{name}",\n' for name in installed), text)


if __name__ == "__main__":
    PROJECT.write_text(listed(PROJECT.read_text("utf-8")), encoding="utf-8")
