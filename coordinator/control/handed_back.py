"""The record of a hand-back: Bellwether gave a group's lead to a member because members could not use its plan. It
limits further hand-backs, and keeps Bellwether from leading until the members are seen to use the same topology.
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
    """A hand-back of the group `target`. It limits the next one until `expires_ms`. `waits` is true until members are
    seen to use `topology`, which is the digest of Bellwether's topology, "" if it is not from a file."""

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
    last: HandedBack | None, group: str, reason: str, topology: str, now_ms: int, *, waits: bool
) -> HandedBack | None:
    """Returns the record to write now that the group has been handed back (`waits`) or is led again (not `waits`). None
    if that is recorded already, or there is no hand-back to update."""
    if last is not None and last.waits == waits:
        return None
    if waits:
        return HandedBack(group, now_ms, now_ms + LIMIT_MS, reason[:_TEXT_LENGTH_MAX], topology)
    if last is None:
        return None
    return HandedBack(group, last.at_ms, last.expires_ms, last.reason, topology, waits=False)
