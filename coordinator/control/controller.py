"""Between the control topic and the groups of this process: keeps operators' orders, sends our beat, and reports
whether this sidecar has the active role. It holds no rules of its own: `records` reads records, `active_role` judges
beats, memberships obey events.

What it tells a membership is a level, not an edge: it may say the same twice, and after a lost word it says it again.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.control.active_role import Succession
from bellwether_kafka.coordinator.control.records import (
    EVERYBODY,
    Beat,
    ControlSettings,
    Order,
    OrderBook,
    OrderKind,
    PlacementOrder,
    Record,
    beat_key,
)
from bellwether_kafka.coordinator.control.topic import ControlTopic
from bellwether_kafka.coordinator.kafka import librdkafka_properties
from bellwether_kafka.coordinator.membership import (
    ActiveRoleChanged,
    Event,
    Fatal,
    GroupMembership,
    Note,
    OrdersStand,
    RoundOrdered,
    State,
)

BEAT_S = 1.0
HAND_OVER_S = 2.0
STOP_POLL_S = 0.02

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ControlReport:
    """For metrics: `silence_s` is how long our own beat has not come back through the topic."""

    orders: tuple[Order | PlacementOrder, ...]
    living: int  # sidecars heard lately, ourselves not counted
    silence_s: float


OnControl = Callable[[ControlReport], None]


class Runner(Protocol):
    """What `runtime.GroupRunner` is to the desk."""

    membership: GroupMembership
    fatal: Fatal | None

    def post(self, event: Event) -> None: ...
    def rule(self, rules: tuple[Rule, ...]) -> None: ...


@dataclass(slots=True)
class _Post:
    """What we know of one group."""

    runner: Runner
    active: bool  # we lead it or try to
    told: OrdersStand = field(default_factory=lambda: OrdersStand("", ""))
    rules: tuple[Rule, ...] = ()
    leads: bool = False
    hands_over_until: float = 0.0  # monotonic; 0: not handing over


class ControlDesk:
    """One per process, for its event loop. `standby`: we share our instance id with other sidecars."""

    def __init__(
        self,
        topic: ControlTopic,
        settings: ControlSettings,
        runners: Mapping[str, Runner],
        *,
        on_control: Sequence[OnControl] = (),
        beat_s: float = BEAT_S,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.sidecar_id = settings.sidecar_id
        self._topic = topic
        self._standby = settings.standby
        self._on_control = on_control
        self._beat_s = beat_s
        self._heard_at = clock()
        self._clock = clock
        self._wall_clock = wall_clock
        self._book = OrderBook()
        self._succession = Succession(settings.sidecar_id)
        self._posts = {group: _Post(runner, active=not settings.standby) for group, runner in runners.items()}
        self._caught_up = asyncio.Event()
        self._stopping = False

    @classmethod
    def open(
        cls,
        properties: Mapping[str, str],
        settings: ControlSettings,
        runners: Mapping[str, Runner],
        on_control: Sequence[OnControl] = (),
    ) -> "ControlDesk":
        """With a topic of its own, from the property map of both Kafka clients."""
        topic = ControlTopic(librdkafka_properties(properties), settings.topic)
        return cls(topic, settings, runners, on_control=on_control)

    async def run(self) -> None:
        """Until cancelled."""
        self._topic.start(self._heard, self._all_read)
        while not self._caught_up.is_set():
            self._report()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._caught_up.wait(), self._beat_s)
        while True:
            try:
                self._report()
                self._housekeeping()
                self.review()
                self._beat(between=False)
            except Exception:
                log.exception("control_desk_stumbled")
            await asyncio.sleep(self._beat_s)

    async def hand_all_over(self) -> None:
        """Before an orderly end: returns when standbys have taken our groups, or nobody has for `HAND_OVER_S`."""
        self._stopping = True
        if not self._standby or not self._caught_up.is_set():
            return
        self._hand_over(list(self._posts), "this sidecar stops")
        while any(post.hands_over_until for post in self._posts.values()):
            await asyncio.sleep(STOP_POLL_S)
            self.review()

    async def relieve(self, group: str, reason: str) -> bool:
        """Hands over a group whose membership can do nothing any more; whether a standby has taken it."""
        post = self._posts[group]
        if not self._standby or not self._caught_up.is_set() or not leads(post.runner):
            return False
        self._hand_over([group], reason)
        while post.hands_over_until and self._clock() < post.hands_over_until:
            if self._succession.leader(group):
                return True
            await asyncio.sleep(STOP_POLL_S)
        return False

    async def close(self) -> None:
        self._topic.withdraw(beat_key(self.sidecar_id))
        await self._topic.close()

    def _report(self) -> None:
        orders = self._book.all_standing(int(self._wall_clock() * 1000))
        found = ControlReport(
            tuple(o for o in orders if isinstance(o, Order | PlacementOrder) and self._concerns_us(o)),
            len(self._succession.living()),
            self._clock() - self._heard_at,
        )
        for observer in self._on_control:
            observer(found)

    def _concerns_us(self, order: Order | PlacementOrder) -> bool:
        return order.target in self._posts or order.target in (self.sidecar_id, EVERYBODY)

    # ---- what comes from the topic -------------------------------------------------------------------------------

    def _heard(self, key: str, record: Record | None) -> None:
        kind, _, target = key.partition("/")
        if isinstance(record, Beat):
            self._succession.heard(record)
            if record.sidecar == self.sidecar_id:
                self._heard_at = self._clock()
        elif record is None and kind == "beat":
            self._succession.gone(target)
        else:
            self._book.apply(key, record)
        if self._caught_up.is_set():
            self.review()

    def _all_read(self) -> None:
        self._succession.started()
        self._caught_up.set()
        log.info("control_topic_read", topic=self._topic.topic, sidecar=self.sidecar_id, standby=self._standby)

    # ---- what follows from it ------------------------------------------------------------------------------------

    def on_note(self, _group: str, _note: Note) -> None:
        """A membership has changed: the runtime's observer of notes."""
        if self._caught_up.is_set():
            self.review()

    def review(self) -> None:
        """Tells every group what stands now. Cheap, and safe at any time."""
        now_ms = int(self._wall_clock() * 1000)
        for group, post in self._posts.items():
            self._tell_orders(group, post, now_ms)
            self._tell_rules(group, post, now_ms)
            if self._standby and not given_up(post.runner):
                self._tell_turn(group, post)
        self._obey_drains(now_ms)

    def _tell_orders(self, group: str, post: _Post, now_ms: int) -> None:
        leave, pause = (self._book.standing(kind, group, now_ms) for kind in (OrderKind.LEAVE, OrderKind.PAUSE))
        standing = OrdersStand(leave.sentence if leave else "", pause.sentence if pause else "")
        if standing != post.told:
            post.told = standing
            log.info("orders_stand", group=group, leave=standing.leave, pause=standing.pause)
            post.runner.post(standing)
        again = self._book.standing(OrderKind.REBALANCE, group, now_ms)
        if again is not None and leads(post.runner):
            self._done(again)
            post.runner.post(RoundOrdered(again.sentence))

    def _tell_rules(self, group: str, post: _Post, now_ms: int) -> None:
        """Whoever leads plans by them from now on, beginning with a round of its own."""
        standing = self._book.placements(group, now_ms)
        rules = tuple(order.rule for order in standing)
        if rules == post.rules:
            return
        why = standing[-1].sentence if len(rules) >= len(post.rules) else "an operator's order on placement has ended"
        log.info("rules_stand", group=group, rules=[order.sentence for order in standing])
        post.rules = rules
        post.runner.rule(rules)
        if leads(post.runner):
            post.runner.post(RoundOrdered(why))

    def _done(self, order: Order) -> None:
        """Orders that are carried out once are withdrawn by whoever did it, so that no successor does it again."""
        self._book.apply(order.key, None)
        self._topic.withdraw(order.key)

    def _tell_turn(self, group: str, post: _Post) -> None:
        member, leading = post.runner.membership, leads(post.runner)
        if post.hands_over_until:
            self._watch_hand_over(group, post, leading=leading)
        elif not post.active:
            reason = "" if self._stopping else self._succession.must_take(group)
            if reason:
                self._activate(group, post, reason)
        else:
            better = self._succession.must_yield(group, leading=leading, fenced=not member.has_active_role)
            if better:
                self._deactivate(group, post, f"{better} leads it")
            elif not member.has_active_role:  # fenced, and no sidecar that we know of says that it was the one
                post.runner.post(ActiveRoleChanged(ours=True, reason="no other sidecar leads it"))
        if leading != post.leads:
            post.leads = leading
            self._beat()

    def _activate(self, group: str, post: _Post, reason: str) -> None:
        log.info("standby_takes_over", group=group, reason=reason, sidecar=self.sidecar_id)
        post.active = True
        self._beat()  # before we join: whoever is fenced then knows by whom
        post.runner.post(ActiveRoleChanged(ours=True, reason=reason))

    def _deactivate(self, group: str, post: _Post, reason: str) -> None:
        log.info("standby_stands_by", group=group, reason=reason, sidecar=self.sidecar_id)
        post.active = False
        post.hands_over_until = 0.0
        post.runner.post(ActiveRoleChanged(ours=False, reason=reason))
        self._beat()

    # ---- handing over --------------------------------------------------------------------------------------------

    def _obey_drains(self, now_ms: int) -> None:
        for target in (self.sidecar_id, EVERYBODY):
            order = self._book.standing(OrderKind.DRAIN, target, now_ms)
            if order is None or not any(leads(post.runner) for post in self._posts.values()):
                continue
            self._done(order)
            self._hand_over(list(self._posts), order.sentence)

    def _hand_over(self, groups: list[str], reason: str) -> None:
        limit = self._clock() + HAND_OVER_S
        for group in groups:
            post = self._posts[group]
            if not leads(post.runner) or post.hands_over_until:
                continue
            successors = self._succession.successors(group)
            if not successors:
                log.warning("nobody_to_hand_over_to", group=group, reason=reason)
                continue
            log.info("hands_over", group=group, to=successors[0], reason=reason)
            post.hands_over_until = limit
            post.runner.post(ActiveRoleChanged(ours=False, reason=reason))
        self._beat()

    def _watch_hand_over(self, group: str, post: _Post, *, leading: bool) -> None:
        if not leading:
            self._deactivate(group, post, "handed over")
        elif self._clock() >= post.hands_over_until:
            log.warning("hand_over_failed", group=group, reason="no standby has taken the group in time")
            post.hands_over_until = 0.0
            post.runner.post(ActiveRoleChanged(ours=True, reason="no standby has taken the group"))

    # ---- beats ---------------------------------------------------------------------------------------------------

    def _beat(self, *, between: bool = True) -> None:
        if not self._caught_up.is_set():
            return
        # Of a group that we have given up nobody shall wait for us.
        posts = [(group, post) for group, post in self._posts.items() if not given_up(post.runner)]
        self._topic.write(
            Beat(
                self.sidecar_id,
                leads=tuple(group for group, post in posts if leads(post.runner)),
                claims=tuple(group for group, post in posts if post.active and not leads(post.runner)),
                stands_by=() if self._stopping else tuple(group for group, post in posts if not post.active),
                hands_over=tuple(group for group, post in posts if post.hands_over_until),
                at_ms=int(self._wall_clock() * 1000),
                between=between,
            )
        )

    def _housekeeping(self) -> None:
        for sidecar in self._succession.forgotten():
            self._succession.gone(sidecar)
            self._topic.withdraw(beat_key(sidecar))


def given_up(runner: Runner) -> bool:
    return runner.fatal is not None or runner.membership.state is State.STOPPED


def leads(runner: Runner) -> bool:
    """It is a member of its group, which it stays only while it leads."""
    member = runner.membership
    return (
        not given_up(runner) and bool(member.member_id) and member.generation >= 0 and member.state is not State.LEAVING
    )
