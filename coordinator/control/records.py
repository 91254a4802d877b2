"""Records of the control topic, such as operators' orders and instances' heartbeats: decoding, encoding, and the fold
of the topic into the orders in force. Pure: `now_ms` is an argument.

The topic is compacted: the last value of a key is in force, and a record without a value withdraws it. A key is the
kind, a slash and the target, such as `leave/orders`; a value is a JSON object with "v" (1), "kind", "target", "owner",
"at_ms" and "expires_ms" (wall clock, milliseconds since 1970) and "reason". Any principal with WRITE on the topic can
give orders.

A new kind of order on a group needs a member of `OrderKind` and a row of `ORDER_TRAITS` (`order_kinds`). Another kind
of record needs a frozen class with `kind`, `key`, `expires_ms` and `to_json`, and an entry in `_READERS`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from bellwether_kafka.coordinator.control.applied_plan import AppliedPlan
from bellwether_kafka.coordinator.control.fields import RecordError, fields_of, lists, names, number, text, texts
from bellwether_kafka.coordinator.control.handed_back import HANDED_BACK, HandedBack, handed_back_key
from bellwether_kafka.coordinator.control.order_kinds import (
    ORDER_TRAITS,
    PLACEMENT_TRAITS,
    VERSION,
    OrderKind,
    OrderTraits,
    PlacementKind,
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
    """`topic` is the control topic, "" if orders come from this machine only. `instance_name` is this instance's name
    in it. `standby` is true if other instances share its instance id, which requires a topic."""

    topic: str
    instance_name: str
    standby: bool = False


class Record(Protocol):
    """Any record of the topic."""

    @property
    def key(self) -> str: ...
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

    kind: PlacementKind
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
        return item if self.kind is PlacementKind.PIN else f"{item}/{self.where}"

    @property
    def rules(self) -> "tuple[Rule, ...]":
        return (self.rule,)

    @property
    def rule(self) -> "Rule":
        from bellwether_kafka.assignors.shared import Rule  # noqa: PLC0415 - numpy, which only planners need

        return Rule("pin" if self.kind is PlacementKind.PIN else "ban", self.item, self.where, self.sentence)

    @property
    def sentence(self) -> str:
        """The owner, the order and the reason, for logs."""
        why = f" ({self.reason})" if self.reason else ""
        what = self.where if self.kind is PlacementKind.EVACUATE else f"{self.item}, {self.where}"
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
    """Returns the traits of an order's kind. Those on placement all have the same."""
    return PLACEMENT_TRAITS if isinstance(order, PlacementOrder) else ORDER_TRAITS[order.kind]


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


def lead_is_wanted(group: str, records: Mapping[str, Record], now_ms: int) -> bool:
    """Returns whether a live instance claims the group and none leads it."""
    heartbeats = recent_heartbeats(records, now_ms)
    claimed = any(group in heartbeat.claims for heartbeat in heartbeats)
    return claimed and not any(group in heartbeat.leads for heartbeat in heartbeats)


def heartbeat_key(instance: str) -> str:
    return f"{HEARTBEAT}/{instance}"


def absence_key(group: str, where: str) -> str:
    return f"{ABSENCE}/{group}/{where}"


def encode(record: Record) -> tuple[bytes, bytes]:
    """Returns (key, value) for the topic."""
    return record.key.encode(), json.dumps(record.to_json(), separators=(",", ":")).encode()


def decode(key: bytes | None, value: bytes) -> Record | None:
    """Returns the record, or None if only a newer version knows its kind. Raises RecordError, and no other error for
    any bytes; memory and time are bounded by VALUE_BYTES_MAX."""
    fields = fields_of(value)
    version, kind = fields.get("v"), fields.get("kind")
    if not isinstance(version, int) or isinstance(version, bool) or not isinstance(kind, str):
        raise RecordError('it has no "v" or no "kind"')
    reader = _READERS.get(kind)
    if version > VERSION or reader is None:
        return None
    record = reader(fields)
    if (key or b"") != record.key.encode():
        raise RecordError(f"its key is not {record.key!r}")
    return record


def _order(fields: Mapping[str, Any]) -> Order:
    return Order(OrderKind(fields["kind"]), text(fields, "target"), **_given(fields))


def _placement(fields: Mapping[str, Any]) -> PlacementOrder:
    where = text(fields, "where")
    if not where.startswith(("rack:", "member:")):
        raise RecordError('"where" is neither rack:NAME nor member:NAME')
    target, item = text(fields, "target"), text(fields, "item")
    return PlacementOrder(PlacementKind(fields["kind"]), target, item, where, **_given(fields), until=_until(fields))


def _until(fields: Mapping[str, Any]) -> Until:
    """Returns the event that ends the order, EXPIRY if it is missing (older versions) or unknown (newer ones)."""
    matching = [until for until in Until if until.value == fields.get("until")]
    return matching[0] if matching else Until.EXPIRY


def _applied_plan(fields: Mapping[str, Any]) -> AppliedPlan:
    return AppliedPlan(
        target=text(fields, "target"),
        digest=text(fields, "digest"),
        members=names(fields, "members"),
        items=lists(fields, "items"),
        **_given(fields),
    )


def _absence(fields: Mapping[str, Any]) -> Absence:
    stages = [stage for stage in Stage if stage.value == fields.get("stage")]
    if not stages:
        raise RecordError('"stage" is none that is known')
    order_ms, expires_ms, since_ms = (number(fields, name) for name in ("order_ms", "expires_ms", "since_ms"))
    return Absence(
        text(fields, "target"),
        text(fields, "where"),
        order_ms,
        expires_ms,
        stages[0],
        since_ms,
        names(fields, "members"),
        names(fields, "names"),
    )


def _stopped(fields: Mapping[str, Any]) -> Stopped:
    return Stopped(text(fields, "target"), names(fields, "members"), names(fields, "static"), **_given(fields))


def _handed_back(fields: Mapping[str, Any]) -> HandedBack:
    at_ms, expires_ms = number(fields, "at_ms"), number(fields, "expires_ms")
    reason, topology = text(fields, "reason"), text(fields, "topology", "")
    waits = fields.get("waits") is not False
    return HandedBack(text(fields, "target"), at_ms, expires_ms, reason, topology, waits)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that all orders have."""
    owner = text(fields, "owner")
    at_ms, expires_ms = number(fields, "at_ms"), number(fields, "expires_ms")
    return {"owner": owner, "at_ms": at_ms, "expires_ms": expires_ms, "reason": text(fields, "reason", "")}


def _heartbeat(fields: Mapping[str, Any]) -> InstanceHeartbeat:
    return InstanceHeartbeat(
        instance=text(fields, "target"),
        leads=names(fields, "leads"),
        claims=names(fields, "claims"),
        standby_for=names(fields, "stands_by"),
        hands_over=names(fields, "hands_over"),
        at_ms=number(fields, "at_ms"),
        between=fields.get("between") is True,
        policies=texts(fields, "policies"),
        orders_for=names(fields, "orders_for"),
        serves=names(fields, "serves"),
    )


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Record]] = {
    **{kind.value: _order for kind in OrderKind},
    OrderKind.APPLY.value: _applied_plan,
    **{kind.value: _placement for kind in PlacementKind},
    ABSENCE: _absence,
    STOPPED: _stopped,
    HANDED_BACK: _handed_back,
    HEARTBEAT: _heartbeat,
}


class OrderState:
    """The last readable record of each key, except heartbeats, which `active_role` keeps."""

    def __init__(self) -> None:
        self._orders: dict[str, Record] = {}

    def apply(self, key: str, record: Record | None) -> None:
        """Takes one record, in the order of the topic. None withdraws the key."""
        if record is None:
            self._orders.pop(key, None)
        else:
            self._orders[key] = record

    def in_force(self, kind: OrderKind, target: str, now_ms: int) -> Order | None:
        """Returns the order if it was given and has not expired."""
        order = self._orders.get(order_key(kind, target))
        return order if isinstance(order, Order) and now_ms < order.expires_ms else None

    def placements(self, group: str, now_ms: int) -> tuple[PlacementOrder, ...]:
        """Returns the pins, bans and evacuations of a group that have not expired, sorted by key."""
        in_force = self.all_in_force(now_ms)
        return tuple(o for o in in_force if isinstance(o, PlacementOrder) and o.target == group)

    def applied_plan(self, group: str, now_ms: int) -> AppliedPlan | None:
        """Returns the plan that is applied to a group."""
        record = self._orders.get(order_key(OrderKind.APPLY, group))
        return record if isinstance(record, AppliedPlan) and now_ms < record.expires_ms else None

    def on_places(self, group: str, now_ms: int) -> tuple[OnPlaces, ...]:
        """Returns all orders on the places of a group's items: an applied plan and those of `placements`."""
        plan = self.applied_plan(group, now_ms)
        return (*([plan] if plan is not None else []), *self.placements(group, now_ms))

    def any_placements(self, now_ms: int) -> bool:
        """Returns whether any group has a pin, ban or evacuation that has not expired."""
        return any(isinstance(order, PlacementOrder) for order in self.all_in_force(now_ms))

    def absence(self, order: PlacementOrder) -> Absence | None:
        """Returns the absence with which this order ends, None if no leader has reported it yet."""
        record = self._orders.get(absence_key(order.target, order.where))
        return record if isinstance(record, Absence) and record.order_ms == order.at_ms else None

    def handed_back(self, group: str, now_ms: int) -> HandedBack | None:
        """Returns the last hand-back of a group, while it limits the next one."""
        record = self._orders.get(handed_back_key(group))
        return record if isinstance(record, HandedBack) and now_ms < record.expires_ms else None

    def left_over(self, now_ms: int) -> list[Absence]:
        """Returns the absences whose order has expired or was withdrawn."""
        absences = [record for record in self._orders.values() if isinstance(record, Absence)]
        tied = {(o.target, o.where, o.at_ms) for o in self.all_in_force(now_ms) if isinstance(o, PlacementOrder)}
        return [a for a in absences if (a.target, a.where, a.order_ms) not in tied]

    def all_in_force(self, now_ms: int) -> Iterator[Record]:
        return (record for _, record in sorted(self._orders.items()) if now_ms < record.expires_ms)
