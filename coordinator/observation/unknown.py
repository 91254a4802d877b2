"""Values that could not be read, and why. They are distinct from zero, an empty list and a missing group."""

from dataclasses import dataclass
from typing import Any

from bellwether_kafka.coordinator.kafka.wire import TransportError, grant
from bellwether_kafka.coordinator.membership import Code, Failure, name_of

NO_BROKER = "what answers, such as a KRaft controller or a proxy, does not support a request about groups"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Takes the place of a missing answer. `reason` is part of a sentence. `since_ms` is in epoch milliseconds. `error`
    is Kafka's name of the error, "" if no broker answered. `right` is the ACL to grant, "" if none is missing."""

    reason: str
    since_ms: int
    error: str = ""
    right: str = ""

    @classmethod
    def of(cls, cause: int | TransportError, group_id: str, now_ms: int) -> "Unknown":
        """Of a broker's error code, which is not 0, or of the error raised when none answered."""
        if isinstance(cause, TransportError):
            if cause.failure is Failure.UNSUPPORTED:
                return cls(f"{NO_BROKER} ({cause})", now_ms)
            return cls(f"the group's coordinator node does not answer ({cause})", now_ms)
        rights: dict[int, str] = {
            Code.GROUP_AUTHORIZATION_FAILED: grant("DESCRIBE", "Group", group_id),
            Code.TOPIC_AUTHORIZATION_FAILED: "grant Bellwether's principal the ACL DESCRIBE on every topic of the"
            " group",
        }
        name, right = name_of(cause), rights.get(cause, "")
        reason = f"Bellwether may not see it; {right}" if right else f"its coordinator node answers {name}"
        return cls(reason, now_ms, name, right)

    def __bool__(self) -> bool:
        """Raises TypeError, because `if not answer` would treat an unknown value as an empty one."""
        raise TypeError("what is unknown is neither true nor false; ask `is None` or `isinstance`")


def unknown_values(unknown: Unknown | None) -> dict[str, Any] | None:
    """Returns the fields for JSON, the same in all documents; None if nothing is unknown."""
    if unknown is None:
        return None
    return {name: getattr(unknown, name) for name in unknown.__slots__}
