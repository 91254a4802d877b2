"""Settings of the release before this one that are gone. For one release each is ignored with a warning: it is a
constant now, and nobody has to change a file on the day of an upgrade.

One whose meaning has changed does not belong here, because it must end the start.
"""

from collections.abc import Mapping
from typing import Any

PROCESS, GROUPS = "", "groups"
# By table, and what holds instead.
REMOVED: Mapping[str, Mapping[str, str]] = {
    PROCESS: {"metadata_interval_ms": "metadata is read every 10 s"},
    GROUPS: {
        "sync_margin_ms": "1 s is kept for sending a plan",
        "coalesce_ms_max": "the longest wait is 10 s",
        "followup_ms": "the next rebalance begins after 3 s",
        "hold_ms_max": "a removed member is waited for 2 s",
        "takeover_attempts_max": "there are at most 3 attempts in an hour",
        "takeovers_in_vain_max": "there is one attempt in vain",
        "rebalance_timeout_ms": "it is 15 s",
        "topics": "Bellwether subscribes to none",
        "application_id": "it is the group's name, as in Kafka Streams",
        "task_stall_ms": "it is 10 minutes",
    },
    "events": {"queue_max": "256 events may wait"},
}


def without_removed(given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the settings without those that are gone, and a sentence for each name that was given. Groups that are no
    list of tables are left to the checks."""
    kept, names = _kept(given, PROCESS)
    for table in REMOVED.keys() - {PROCESS, GROUPS}:
        if isinstance(kept.get(table), Mapping):
            kept[table], more = _kept(kept[table], table)
            names |= more
    if isinstance(kept.get(GROUPS), list | tuple):
        entries = [_kept(entry, GROUPS) if isinstance(entry, Mapping) else (entry, {}) for entry in kept[GROUPS]]
        kept[GROUPS] = [entry for entry, _ in entries]
        for _, more in entries:
            names |= more
    return kept, tuple(
        f"The setting {name} is gone and has no effect ({now}); remove it." for name, now in names.items()
    )


def _kept(table: Mapping[str, Any], called: str) -> tuple[dict[str, Any], dict[str, str]]:
    gone = {name: now for name, now in REMOVED[called].items() if name in table}
    return {name: value for name, value in table.items() if name not in gone}, gone
