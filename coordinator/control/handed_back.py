"""The memory of a hand-back: that a group's lead was given to a member because members could not work by Bellwether's
plan. It limits the next one, and keeps Bellwether out until members have shown that they work by the same topology.
Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

HANDED_BACK = "handed_back"
LIMIT_MS = 86_400_000
_VERSION = 1
_TEXT_LENGTH_MAX = 1_000


@dataclass(frozen=True, slots=True)
class HandedBack:
    """Of the group `target`; it limits the next one until `expires_ms`. `waits`: nothing has shown since that members
    work by `topology`, the digest of the one in use, "" where no file gives one."""

    target: str
    at_ms: int
    expires_ms: int
    reason: str
    topology: str = ""
    waits: bool = True

    @property
    def key(self) -> str:
        return handed_back_key(self.target)

    def to_json(self) -> Mapping[str, Any]:
        return {"v": _VERSION, "kind": HANDED_BACK, **asdict(self)}


def handed_back_key(group: str) -> str:
    return f"{HANDED_BACK}/{group}"


def renewed(
    found: HandedBack | None, group: str, reason: str, topology: str, now_ms: int, *, waits: bool
) -> HandedBack | None:
    """What is to be remembered now that the group has been handed back, or (`waits` False) is led again; None where
    that is remembered already, or nothing is to be."""
    if found is not None and found.waits == waits:
        return None
    if waits:
        return HandedBack(group, now_ms, now_ms + LIMIT_MS, reason[:_TEXT_LENGTH_MAX], topology)
    if found is None:
        return None
    return HandedBack(group, found.at_ms, found.expires_ms, found.reason, topology, waits=False)
