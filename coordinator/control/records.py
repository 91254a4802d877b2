"""Records of the control topic, operators' orders and instances' heartbeats: bytes to frozen values and back, and the
fold of the topic into what is in force. Pure: `now_ms` is an argument.

The topic is compacted: a key's last value is the truth, and a record without a value withdraws it. A key is the kind,
a slash and the target, such as `leave/orders`; a value is a JSON object with "v" (1), "kind", "target", "owner",
"at_ms" and "expires_ms" (wall clock, milliseconds since 1970) and "reason". Who may WRITE the topic may order.

A further kind of order is a frozen class with `kind`, `key`, `expires_ms` and `to_json`, and an entry in `_READERS`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from bellwether_kafka.coordinator.control.fields import RecordError, fields_of, names, number, text, texts
from bellwether_kafka.coordinator.control.handed_back import HANDED_BACK, HandedBack, handed_back_key

if TYPE_CHECKING:
    from bellwether_kafka.assignors.shared import Rule

VERSION = 1
EVERYBODY = "*"  # a drain's target: the one that leads
HEARTBEAT = "beat"
ABSENCE = "absence"
STOPPED = "stopped"
NO_END_MS = 253_402_300_799_000  # the last second of the year 9999: an order that something else than time ends
HEARD_MS = 10_000  # an instance whose last heartbeat is older has ended, or cannot be heard


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """The control topic, "" where orders come from this machine only; who Bellwether is in it; whether others share
    Bellwether's instance id, which takes a topic."""

    topic: str
    instance_name: str
    standby: bool = False


class Record(Protocol):
    """Any value of the topic."""

    @property
    def key(self) -> str: ...
    @property
    def expires_ms(self) -> int: ...
    def to_json(self) -> Mapping[str, Any]: ...


class OrderKind(Enum):
    """What operators can order of a group (of an instance: DRAIN)."""

    LEAVE = "leave"  # leave the group and stay out of it
    RELEASE = "release"  # stay out of the group while it has no member; withdrawn when members have joined
    PAUSE = "pause"  # lead, but begin no rebalance
    REBALANCE = "rebalance"  # begin one now; withdrawn by the one that has begun it
    DRAIN = "drain"  # hand every group that the target leads over to a standby; withdrawn likewise


@dataclass(frozen=True, slots=True)
class Order:
    """One order. `target` is a group; of a drain the id of an instance, or "*". It stands until `expires_ms`."""

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
        """For logs: who ordered what, and why."""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.owner} has ordered {self.kind.value} of '{self.target}'{why}"

    def to_json(self) -> Mapping[str, Any]:
        return {"v": VERSION, **asdict(self), "kind": self.kind.value}


class PlacementKind(Enum):
    """What operators can order of placement in a group (`assignors.shared.rules` says what it means)."""

    PIN = "pin"
    BAN = "ban"
    EVACUATE = "evacuate"  # a ban of everything


class Until(Enum):
    """What ends an order on placement before it expires (`absence` says how that is seen)."""

    EXPIRY = "expiry"  # nothing
    BACK = "back"  # the member was emptied, went away and is back
    REMOVED = "removed"  # the member has been stopped for good: once it is empty it is removed from the group


class Stage(Enum):
    """How far an absence has come."""

    EMPTYING = "emptying"
    EMPTY = "empty"  # in the group, without work
    AWAY = "away"  # not in the group


@dataclass(frozen=True, slots=True)
class PlacementOrder:
    """One order on placement. `item` and `where` are written as in `assignors.shared.rules`; an item has one pin.
    `until` is EXPIRY but for evacuations of members."""

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
        """A later pin of the same item takes the place of an earlier one; bans stand side by side."""
        item = f"{self.kind.value}/{self.target}/{self.item}"
        return item if self.kind is PlacementKind.PIN else f"{item}/{self.where}"

    @property
    def rule(self) -> "Rule":
        from bellwether_kafka.assignors.shared import Rule  # noqa: PLC0415 - numpy, which only planners need

        return Rule("pin" if self.kind is PlacementKind.PIN else "ban", self.item, self.where, self.sentence)

    @property
    def sentence(self) -> str:
        """For logs: who ordered what, and why."""
        why = f" ({self.reason})" if self.reason else ""
        what = self.where if self.kind is PlacementKind.EVACUATE else f"{self.item}, {self.where}"
        return f"{self.owner} has ordered {self.kind.value} of {what} in '{self.target}'{why}"

    def to_json(self) -> Mapping[str, Any]:
        return {"v": VERSION, **asdict(self), "kind": self.kind.value, "until": self.until.value}


@dataclass(frozen=True, slots=True)
class Absence:
    """How far the leader has seen the absence of `where` in the group `target` come, for the order that was given at
    `order_ms`, and since when. `members` are the ids under which it was in the group before it went away, `names` what
    tells it when it is back: instance ids, process ids, client ids that nobody else has."""

    target: str
    where: str
    order_ms: int
    expires_ms: int  # with its order
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
    """The process of these members of the group `target` has ended: a guard has seen it, or an operator states it. An
    instance that is to lead the group and does not comes into it first, then removes them. Of `static` members, which
    replace themselves, it removes those of a leader that may be among them."""

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
        """For the broker's log and for people."""
        why = f" ({self.reason})" if self.reason else ""
        return f"its process has ended, says {self.owner}{why}"

    def to_json(self) -> Mapping[str, Any]:
        return {"v": VERSION, "kind": STOPPED, **asdict(self)}


@dataclass(frozen=True, slots=True)
class InstanceHeartbeat:
    """An instance is alive. Groups that it leads, is about to lead, would take over, and gives away right now.

    `hands_over` is part of `leads`: it leads them until another has taken them. `between`: sent because something has
    changed, between two regular ones, so it tells of no time that has passed. `policies` are those of all its groups
    (empty: a version that does not say). `orders_for` has the groups whose plans carry out pins, bans and evacuations.
    """

    instance: str
    leads: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    standby_for: tuple[str, ...] = ()
    hands_over: tuple[str, ...] = ()
    at_ms: int = 0
    expires_ms: int = 0  # a heartbeat ends by silence, not by a clock
    between: bool = False
    policies: Mapping[str, str] = field(default_factory=dict)
    orders_for: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return heartbeat_key(self.instance)

    @property
    def groups(self) -> tuple[str, ...]:
        """All that it looks after."""
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
        }


def lead_is_wanted(group: str, records: Mapping[str, Record], now_ms: int) -> bool:
    """Whether an instance that has reported lately is to lead the group, and none leads it."""
    heartbeats = [r for r in records.values() if isinstance(r, InstanceHeartbeat) and r.at_ms >= now_ms - HEARD_MS]
    claimed = any(group in heartbeat.claims for heartbeat in heartbeats)
    return claimed and not any(group in heartbeat.leads for heartbeat in heartbeats)


def order_key(kind: OrderKind, target: str) -> str:
    return f"{kind.value}/{target}"


def heartbeat_key(instance: str) -> str:
    return f"{HEARTBEAT}/{instance}"


def absence_key(group: str, where: str) -> str:
    return f"{ABSENCE}/{group}/{where}"


def encode(record: Record) -> tuple[bytes, bytes]:
    """(key, value) as they go to the topic."""
    return record.key.encode(), json.dumps(record.to_json(), separators=(",", ":")).encode()


def decode(key: bytes | None, value: bytes) -> Record | None:
    """The record, or None when it is of a kind that only a newer Bellwether knows. Raises RecordError, and nothing else
    whatever the bytes are; memory and time are bounded by VALUE_BYTES_MAX."""
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
    """Older versions do not say; what only a newer one knows ends when the order expires."""
    known = [until for until in Until if until.value == fields.get("until")]
    return known[0] if known else Until.EXPIRY


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
    """Who gave the order, when, for how long and why."""
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
    )


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Record]] = {
    **{kind.value: _order for kind in OrderKind},
    **{kind.value: _placement for kind in PlacementKind},
    ABSENCE: _absence,
    STOPPED: _stopped,
    HANDED_BACK: _handed_back,
    HEARTBEAT: _heartbeat,
}


class OrderState:
    """The fold: the last readable order or absence of every key. Beats are not kept (`active_role` follows them)."""

    def __init__(self) -> None:
        self._orders: dict[str, Record] = {}

    def apply(self, key: str, record: Record | None) -> None:
        """Takes one record in the order of the topic; None withdraws the key."""
        if record is None:
            self._orders.pop(key, None)
        else:
            self._orders[key] = record

    def in_force(self, kind: OrderKind, target: str, now_ms: int) -> Order | None:
        """This order if it has been given and has not expired."""
        order = self._orders.get(order_key(kind, target))
        return order if isinstance(order, Order) and now_ms < order.expires_ms else None

    def placements(self, group: str, now_ms: int) -> tuple[PlacementOrder, ...]:
        """Every pin, ban and evacuation of a group that has not expired, in the order of their keys."""
        in_force = self.all_in_force(now_ms)
        return tuple(o for o in in_force if isinstance(o, PlacementOrder) and o.target == group)

    def absence(self, order: PlacementOrder) -> Absence | None:
        """How far the absence has come that this order is tied to; None where no leader has said so yet."""
        found = self._orders.get(absence_key(order.target, order.where))
        return found if isinstance(found, Absence) and found.order_ms == order.at_ms else None

    def handed_back(self, group: str, now_ms: int) -> HandedBack | None:
        """The last hand-back of a group, while it limits the next."""
        found = self._orders.get(handed_back_key(group))
        return found if isinstance(found, HandedBack) and now_ms < found.expires_ms else None

    def left_over(self, now_ms: int) -> list[Absence]:
        """Absences whose order has expired or is gone."""
        absences = [record for record in self._orders.values() if isinstance(record, Absence)]
        tied = {(o.target, o.where, o.at_ms) for o in self.all_in_force(now_ms) if isinstance(o, PlacementOrder)}
        return [a for a in absences if (a.target, a.where, a.order_ms) not in tied]

    def all_in_force(self, now_ms: int) -> Iterator[Record]:
        return (self._orders[key] for key in sorted(self._orders) if now_ms < self._orders[key].expires_ms)
