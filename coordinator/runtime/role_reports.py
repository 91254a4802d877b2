"""Logs each change of the role in a group, and repeats a warning while a group in lead mode is not led."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from bellwether_kafka.coordinator.membership import MembershipConfig, NotLeading, Role

REMIND_S = 600.0
# Reasons that are normal or end by themselves within seconds need no warning.
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
    """Logs a changed role; an observer of the runtime."""
    if role.reason is None:
        log.info("role", group=group, leading=True)
        return
    level = log.info if role.reason in QUIET else log.warning
    level("role", group=group, leading=False, **_why(role))


async def remind(
    roles: Callable[[], Mapping[str, Role]], now: Callable[[], float], interval_s: float = REMIND_S
) -> None:
    """Logs a warning at each interval for each group that is not led. Never returns. `now` is the clock of the roles,
    in seconds."""
    while True:
        await asyncio.sleep(interval_s)
        for group, role in roles().items():
            if role.reason is not None:
                log.warning("still_not_leading", group=group, **_why(role), for_s=round(now() - role.since))


def warn_of_guard(config: MembershipConfig) -> None:
    """Warns at the start, before the lead can be lost, of what would keep Bellwether from taking it back."""
    guard = config.takeover_obstacle
    if config.mode == "lead" and config.adopt == "take-over" and guard is not None:
        log.warning("cannot_take_over", group=config.group_id, reason=guard.sentence)


def _why(role: Role) -> dict[str, str]:
    """Returns why Bellwether does not lead, as fields of a log line."""
    return {"reason": str(role.reason), "detail": role.detail, "remedy": role.remedy}
