"""The policy of a site: silenced rules, and its own limits."""

from collections.abc import Mapping

import msgspec


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Silenced rules and thresholds."""

    ignored: Mapping[str, str] = {}
    """Id of a rule -> why its findings are silenced ("" without a reason)."""
    thresholds: Mapping[str, Mapping[str, float]] = {}
    """Id of a rule -> limits that replace its own."""
