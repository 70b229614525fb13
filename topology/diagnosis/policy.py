"""What a site decided: rules it does not want to hear of, and limits of its own."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Silenced rules and thresholds."""

    ignored: Mapping[str, str] = {}
    """Id of a rule, and why its findings are silenced ("" where nobody said)."""
    thresholds: Mapping[str, Mapping[str, float]] = {}
    """Id of a rule, and limits that replace its own."""
