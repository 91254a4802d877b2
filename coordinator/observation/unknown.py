"""What is not known of a group, and why. Unknown is not nothing: it is no zero, no empty list and no missing group."""

from dataclasses import dataclass
from typing import Any

from bellwether_kafka.coordinator.kafka import TransportError, grant
from bellwether_kafka.coordinator.membership import Code, name_of


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands in the place of an answer. `reason` is a part of a sentence; `error` is Kafka's name of the error, ""
    where no broker answered; `right` is the ACL to grant, "" where none is missing; `since_ms` is epoch."""

    reason: str
    since_ms: int
    error: str = ""
    right: str = ""

    def __bool__(self) -> bool:
        """Raises TypeError: `if not answer` would take what is unknown for nothing."""
        raise TypeError("what is unknown is neither true nor false; ask `is None` or `isinstance`")


TOPIC_AUTHORIZATION_FAILED = 29


def unknown_of(cause: int | TransportError, group_id: str, now_ms: int) -> Unknown:
    """From an error code of a broker, other than 0, or from its silence."""
    if isinstance(cause, TransportError):
        return Unknown(f"the group's coordinator node does not answer ({cause})", now_ms)
    rights = {
        int(Code.GROUP_AUTHORIZATION_FAILED): grant("DESCRIBE", "Group", group_id),
        TOPIC_AUTHORIZATION_FAILED: "grant Bellwether's principal the ACL DESCRIBE on every topic of the group",
    }
    name, right = names_of_errors(cause), rights.get(cause, "")
    reason = f"Bellwether may not see it; {right}" if right else f"its coordinator node answers {name}"
    return Unknown(reason, now_ms, name, right)


def unknown_values(unknown: Unknown | None) -> dict[str, Any] | None:
    """What every JSON says of what is not known, in the same form; None where all is."""
    if unknown is None:
        return None
    return {name: getattr(unknown, name) for name in unknown.__slots__}


def names_of_errors(code: int) -> str:
    """Kafka's name of the code, also of those that no membership tells apart."""
    return "TOPIC_AUTHORIZATION_FAILED" if code == TOPIC_AUTHORIZATION_FAILED else name_of(code)
