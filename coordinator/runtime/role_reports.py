"""Logs each change of the role in a group, and reminds while a group in lead mode is not led."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from bellwether_kafka.coordinator.membership import MembershipConfig, NotLeading, Role

REMIND_S = 600.0
# What is as it should be, or passes by itself within seconds, is not worth a warning.
QUIET = frozenset(
    {
        NotLeading.STARTING,
        NotLeading.JOINING,
        NotLeading.TAKING_OVER,
        NotLeading.REBALANCING,
        NotLeading.EMPTY,
        NotLeading.UNKNOWN_GROUP,
        NotLeading.LEAVING,
        NotLeading.ORDERED_OUT,
        NotLeading.STANDBY,
        NotLeading.STOPPED,
    }
)

log = structlog.get_logger(__name__)


def log_role(group: str, role: Role) -> None:
    """The runtime's observer of roles."""
    if role.reason is None:
        log.info("role", group=group, leading=True)
        return
    level = log.info if role.reason in QUIET else log.warning
    level("role", group=group, leading=False, **_why(role))


async def remind(
    roles: Callable[[], Mapping[str, Role]], now: Callable[[], float], interval_s: float = REMIND_S
) -> None:
    """Never returns. `now` is the clock of the roles, in seconds."""
    while True:
        await asyncio.sleep(interval_s)
        for group, role in roles().items():
            if role.reason is not None:
                log.warning("still_not_leading", group=group, **_why(role), for_s=round(now() - role.since))


def warn_of_guard(config: MembershipConfig) -> None:
    """At the start, and not when the lead has been lost: what will keep Bellwether from taking it back."""
    guard = config.takeover_obstacle
    if config.mode == "lead" and config.adopt == "take-over" and guard is not None:
        log.warning("cannot_take_over", group=config.group_id, reason=guard.sentence)


def _why(role: Role) -> dict[str, str]:
    """Why Bellwether does not lead, as fields of a log line."""
    return {"reason": str(role.reason), "detail": role.detail, "remedy": role.remedy}
