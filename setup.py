"""Finds the packages, so that a new folder is in no list; everything else stands in pyproject.toml.

The folders beside gputop/ are installed inside it: site-packages gains one name.
"""

from setuptools import find_packages, setup

BESIDE = ("probes", "themes", "topology")

setup(
    packages=[
        *find_packages(include=["gputop", "gputop.*"]),
        *(f"gputop.{name}" for top in BESIDE for name in find_packages(include=[top, f"{top}.*"])),
    ]
)
