"""Python's own reader of TOML; before Python 3.11, which brought it, the package it came from."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
