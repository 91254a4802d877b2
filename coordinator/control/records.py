"""Records of the control topic, such as operators' orders and instances' heartbeats. Pure: `now_ms` is an argument.

The topic is compacted: the last value of a key is in force, and a record without a value withdraws it. A key is the
kind, a slash and the target, such as `leave/orders`; `record_codec` has the bytes, `orders` the orders in force.
Any principal with WRITE on the topic can give orders.

A new kind of order needs a row of `ORDERS` (`order_kinds`). Another kind of record needs a frozen class with `kind`,
`key`, `expires_ms` and `to_json`, and an entry in `record_codec`.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from bellwether_kafka.coordinator.control.applied_plan import AppliedPlan
from bellwether_kafka.coordinator.control.order_kinds import (
    ORDERS,
    VERSION,
    OrderKind,
    OrderTraits,
    order_key,
)

if TYPE_CHECKING:
    from bellwether_kafka.assignors.shared import Rule

EVERYBODY = "*"  # the target of a drain of any instance that leads
HEARTBEAT = "beat"
ABSENCE = "absence"
STOPPED = "stopped"
NO_END_MS = 253_402_300_799_000  # the last second of the year 9999, for an order without an end
HEARTBEAT_AGE_MS_MAX = 10_000  # an instance whose last heartbeat is older has ended or cannot reach the topic


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """`topic` is the control topic, "" for none. `instance_name` is this instance's name
    in it. `standby` is true if other instances share its instance id, which requires a topic."""

    topic: str
    instance_name: str
    standby: bool = False


class Record(Protocol):
    """Any record of the topic."""

    @property
    def key(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def expires_ms(self) -> int: ...
    def to_json(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Order:
    """An order, in force until `expires_ms`. `target` is a group, for a drain an instance's name or "*"."""

    kind: OrderKind
    target: str
    owner: str
    at_ms: int
    expires_ms: int
    reason: str = ""

    @property
    def key(self) -> str:
        return order_key(self.kind, self.target)

    @property
    def sentence(self) -> str:
        """The owner, the order and the reason, for logs."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.owner} has ordered {self.kind.value} of '{self.target}'{why}"

    def to_json(self) -> Mapping[str, Any]:
        return {"v": VERSION, **asdict(self), "kind": self.kind.value}


class Until(Enum):
    """The event that ends an order on placement before it expires, detected by `absence`."""

    EXPIRY = "expiry"  # nothing
    BACK = "back"  # the member was evacuated, went away and is back
    REMOVED = "removed"  # the member stops for good: it is removed from the group once it is empty


class Stage(Enum):
    """The stage of an absence."""

    EMPTYING = "emptying"
    EMPTY = "empty"  # in the group, without work
    AWAY = "away"  # not in the group


@dataclass(frozen=True, slots=True)
class PlacementOrder:
    """An order on placement. `item` and `where` have the syntax of `assignors.shared.rules`. An item has at most one
    pin. `until` is EXPIRY, except for evacuations of members."""

    kind: OrderKind
    target: str
    item: str
    where: str
    owner: str
    at_ms: int
    expires_ms: int
    reason: str = ""
    until: Until = Until.EXPIRY

    @property
    def key(self) -> str:
        """The record key: a later pin of an item replaces an earlier one, while it can have several bans."""
        item = f"{self.kind.value}/{self.target}/{self.item}"
        return item if self.kind is OrderKind.PIN else f"{item}/{self.where}"

    @property
    def rules(self) -> "tuple[Rule, ...]":
        return (self.rule,)

    @property
    def rule(self) -> "Rule":
        from bellwether_kafka.assignors.shared import Rule  # noqa: PLC0415 - numpy, which only planners need

        return Rule("pin" if self.kind is OrderKind.PIN else "ban", self.item, self.where, self.sentence)

    @property
    def sentence(self) -> str:
        """The owner, the order and the reason, for logs."""
        why = f" ({self.reason})" if self.reason else ""
        what = self.where if self.kind is OrderKind.EVACUATE else f"{self.item}, {self.where}"
        return f"{self.owner} has ordered {self.kind.value} of {what} in '{self.target}'{why}"

    @property
    def effect(self) -> object:
        """What plans follow: an order that replaces one with an equal effect changes nothing."""
        return self.rule

    def to_json(self) -> Mapping[str, Any]:
        return {"v": VERSION, **asdict(self), "kind": self.kind.value, "until": self.until.value}


OnPlaces = PlacementOrder | AppliedPlan
AnyOrder = Order | PlacementOrder | AppliedPlan


def traits_of(order: AnyOrder) -> OrderTraits:
    return ORDERS[order.kind]


@dataclass(frozen=True, slots=True)
class Absence:
    """The absence of `where` from the group `target`, as the leader observed it for the order given at `order_ms`. It
    has been in `stage` since `since_ms`. `members` are its ids in the group before it went away; `names` identify it
    when it is back: instance ids, process ids, and client ids that no other member has."""

    target: str
    where: str
    order_ms: int
    expires_ms: int  # that of the order
    stage: Stage
    since_ms: int
    members: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return absence_key(self.target, self.where)

    def to_json(self) -> Mapping[str, Any]:
        return {"v": VERSION, "kind": ABSENCE, **asdict(self), "stage": self.stage.value}


@dataclass(frozen=True, slots=True)
class Stopped:
    """A statement by a guard or an operator that the process of these members of the group `target` has ended. An
    instance that is to lead the group but does not joins first and then removes them. `static` members replace
    themselves, so they are removed only if the leader may be among them."""

    target: str
    members: tuple[str, ...]
    static: tuple[str, ...]
    owner: str
    at_ms: int
    expires_ms: int
    reason: str = ""

    @property
    def key(self) -> str:
        return f"{STOPPED}/{self.target}/{next(iter((*self.members, *self.static)), '')}"

    @property
    def sentence(self) -> str:
        """The reason for the removal, for the broker's log and for display."""
        why = f" ({self.reason})" if self.reason else ""
        return f"its process has ended, as {self.owner} has stated{why}"

    def to_json(self) -> Mapping[str, Any]:
        return {"v": VERSION, "kind": STOPPED, **asdict(self)}


@dataclass(frozen=True, slots=True)
class InstanceHeartbeat:
    """The heartbeat of an instance, with the groups that it leads, claims (it is about to lead), is a standby for, and
    hands over.

    `hands_over` is a part of `leads`: it leads these until another instance has taken them. `between` is true if the
    heartbeat was sent because of a change, between two regular ones, so that it does not count as elapsed time.
    `policies` are those of all its groups, empty from older versions. `orders_for` are the groups whose plans carry out
    pins, bans and evacuations. `serves` are the groups whose broker it has given a plan since it started.
    """

    instance: str
    leads: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    standby_for: tuple[str, ...] = ()
    hands_over: tuple[str, ...] = ()
    at_ms: int = 0
    expires_ms: int = 0  # only for `Record`: silence ends a heartbeat, not a clock
    between: bool = False
    policies: Mapping[str, str] = field(default_factory=dict)
    orders_for: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return heartbeat_key(self.instance)

    @property
    def target(self) -> str:
        return self.instance

    @property
    def groups(self) -> tuple[str, ...]:
        """All groups of the instance."""
        return (*self.leads, *self.claims, *self.standby_for)

    def to_json(self) -> Mapping[str, Any]:
        return {
            "v": VERSION,
            "kind": HEARTBEAT,
            "target": self.instance,
            "at_ms": self.at_ms,
            "leads": self.leads,
            "claims": self.claims,
            "stands_by": self.standby_for,
            "hands_over": self.hands_over,
            "between": self.between,
            "policies": self.policies,
            "orders_for": self.orders_for,
            "serves": self.serves,
        }


def recent_heartbeats(records: Mapping[str, Record], now_ms: int) -> list[InstanceHeartbeat]:
    """Returns the heartbeats of live processes."""
    return [
        heartbeat
        for heartbeat in records.values()
        if isinstance(heartbeat, InstanceHeartbeat) and heartbeat.at_ms >= now_ms - HEARTBEAT_AGE_MS_MAX
    ]


def orders_in_force(records: Mapping[str, Record], now_ms: int) -> list[AnyOrder]:
    """Returns the orders that have not expired, sorted by key."""
    orders = (record for _, record in sorted(records.items()) if isinstance(record, AnyOrder))
    return [order for order in orders if now_ms < order.expires_ms]


def end_in_words(order: AnyOrder) -> str:
    """Returns when the order ends, as a part of a sentence."""
    if order.expires_ms >= NO_END_MS:
        return traits_of(order).end
    return f"until {datetime.fromtimestamp(order.expires_ms / 1000, UTC).isoformat(timespec='seconds')}"


def lead_is_wanted(group: str, records: Mapping[str, Record], now_ms: int) -> bool:
    """Returns whether a live instance claims the group and none leads it."""
    heartbeats = recent_heartbeats(records, now_ms)
    claimed = any(group in heartbeat.claims for heartbeat in heartbeats)
    return claimed and not any(group in heartbeat.leads for heartbeat in heartbeats)


def clocks_may_differ(records: Mapping[str, Record], group: str, now_ms: int) -> str:
    """Returns a sentence, after a space, on when the last process with the group has reported and what time it is here,
    "" if none has or it is about the same time: heartbeats and orders are judged by two clocks."""
    return silent_by_clock(records, now_ms, lambda heartbeat: group in (*heartbeat.groups, *heartbeat.serves))


def silent_by_clock(records: Mapping[str, Record], now_ms: int, has: Callable[[InstanceHeartbeat], bool]) -> str:
    """Returns the same of the heartbeats that `has` chooses."""
    reports = [each for each in records.values() if isinstance(each, InstanceHeartbeat) and has(each)]
    last = max(reports, key=lambda heartbeat: heartbeat.at_ms, default=None)
    if last is None or abs(last.at_ms - now_ms) <= HEARTBEAT_AGE_MS_MAX:
        return ""
    return (
        f" {last.instance} has last reported at {utc_time(last.at_ms)} by its clock, and by this one it is"
        f" {utc_time(now_ms)}: if it runs, synchronise the clocks."
    )


def utc_time(ms: int) -> str:
    """Returns a time for people, in seconds."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms / 1000))


def heartbeat_key(instance: str) -> str:
    return f"{HEARTBEAT}/{instance}"


def absence_key(group: str, where: str) -> str:
    return f"{ABSENCE}/{group}/{where}"
