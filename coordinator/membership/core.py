"""What the parts of one membership share: the clock, requests and timers, the state, and what a member knows.

The parts, each above those that it uses:

joining_leaving  JoinGroup and SyncGroup, every way out, and the way back after errors
rebalances       rebalances that Bellwether begins; answers to heartbeats, and holding the announced rebalance open
obstacles        whether Bellwether leads and, if not, why
leading          from the JoinGroup answer that names Bellwether to the delivered plan
adoption         watching a group, and joining it
machine          which event goes to which part
"""

import math
from dataclasses import dataclass, field

from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.events import GroupState, JoinedMember, Note, NoteKind, OffsetsRead
from bellwether_kafka.coordinator.membership.permission import HandBacks, JoinTiming, Permission, backed_off_ms, spread
from bellwether_kafka.coordinator.membership.requests import NO_GENERATION, Command, Kind, Requests, Timer, Timers
from bellwether_kafka.coordinator.membership.role import Obstacle
from bellwether_kafka.coordinator.membership.takeover_policy import SearchTurns, TakeoverPolicy
from bellwether_kafka.coordinator.membership.transitions import MEMBERSHIP, OnEdge, Position, State


@dataclass(slots=True)
class Leadership:
    """What a member knows of its group, and what is left to do in it. Reset when Bellwether leaves."""

    members: tuple[JoinedMember, ...] = ()
    assignments: tuple[tuple[str, bytes], ...] = ()
    returned: bool = False  # a static return: Bellwether has not made this generation's assignment
    outdated: bool = False  # the broker has another generation than Bellwether
    must_lead: bool = False  # the broker counts Bellwether as leader, but sent it no members to assign
    removed: tuple[str, ...] = ()  # members that the take-over removed; until Bellwether's first plan is delivered
    pending: bool = False  # this generation's plan leaves partitions to the next one
    followups: int = 0  # rebalances in a row that Bellwether began to hand out pending partitions
    called_at: float = math.inf  # when members rejoin by themselves, as this plan requests
    wanted: dict[str, str] = field(default_factory=dict)  # why Bellwether wants a rebalance, by subject
    lists_app_topics: bool = False  # Bellwether subscribes to them, so that offsets do not expire while it is alone

    def leaves_to_the_next(self, *, pending: bool = False, called_at: float = math.inf) -> None:
        """Records what this generation's plan leaves to the next generation, and when that is due."""
        self.pending, self.called_at = pending, called_at


# Others may write offsets into a group without members: consumers that assign themselves partitions, or a mirror of
# another cluster (MirrorMaker: every 60 s). Beside any member they are refused, a mirror's silently
# (docs/internals/broker-behaviour.md#commits-without-a-member).
OFFSETS_REST_S = 90.0  # how long offsets have to rest before Bellwether joins
MOVED_REST_S = 300.0  # the same once they have moved: whoever wrote them may be slower than that
IN_USE_S = 300.0  # for so long after its last member went the group is taken for one of members
MOVES_MIN = 2  # a reset of offsets moves them once


@dataclass(slots=True)
class Sighting:
    """What brokers' answers have shown of the group."""

    state: str = ""  # as the broker names it; "" before the first answer
    others: bool = False  # another member is in it
    existed: bool = False  # another member is or was in it, or has committed offsets
    subscribed: bool = False  # another member has been seen in it, so its consumers subscribe
    awaited: bool = False  # Bellwether does not join it while it is empty: another member has to come first
    protocol_type: str = ""  # from the last DescribeGroups; "" while there were only commits without a member
    written: bool = False  # offsets have been committed in it again and again while no member was there
    offsets: OffsetsRead | None = None  # the last reading; None since there was a member
    peopled_at: float = -math.inf  # when a member was last seen in it, Bellwether included
    by_broker: Obstacle | None = None  # set while the broker assigns (KIP-848), until its last such member leaves

    def seen(self, state: str, protocol_type: str, *, others: bool) -> None:
        self.state = state
        self.protocol_type = protocol_type
        self.shows(others=others)
        self.existed = self.existed or state == GroupState.EMPTY

    def shows(self, *, others: bool) -> None:
        """Records whether an answer shows other members, which have subscribed."""
        self.others = others
        if others:
            self.existed = self.subscribed = True
            self.awaited = False

    def peopled(self, at: float) -> None:
        """Records that a member was in the group, so that nobody else could write offsets."""
        self.peopled_at, self.offsets = max(self.peopled_at, at), None

    def read(self, offsets: OffsetsRead) -> None:
        """Records a reading, unless others are in the group, whose offsets they are."""
        self.existed = self.existed or offsets.committed
        if self.others:
            return
        self.offsets = offsets
        if offsets.moves >= MOVES_MIN:
            self.written = self.awaited = True

    @property
    def rest_s_least(self) -> float:
        """How long the group's offsets have to rest before it is joined."""
        return MOVED_REST_S if self.offsets is not None and self.offsets.moves else OFFSETS_REST_S

    def may_be_joined(self, now: float) -> bool:
        """Returns whether nobody writes offsets into the group, which has no members, as far as has been seen."""
        if self.state == GroupState.DEAD:
            return True
        if now - self.peopled_at <= IN_USE_S and not self.written and not (self.offsets and self.offsets.moves):
            return True
        return self.offsets is not None and (not self.offsets.committed or self.offsets.rest_s >= self.rest_s_least)


@dataclass(slots=True)
class Session:
    """When the broker last heard from Bellwether, as far as its answers show. At `rested_at` the group was stable.
    `broker_wait_ms`: how long the broker waits for the first members of an empty group; None if Bellwether has not seen
    it."""

    alive_at: float = 0.0
    rested_at: float = 0.0
    heartbeat_sent_at: float = 0.0
    describe_sent_at: float = 0.0
    heartbeat_generation: int = NO_GENERATION
    broker_wait_ms: float | None = None


ALONE_HEARTBEAT_MS_LEAST = 250  # lower bound while alone: the first member waits for Bellwether's heartbeat
CALLED_MS_MAX = 1_000  # how long heartbeats stay frequent after members were due to rejoin
UNREACHABLE_AFTER = 2  # failed attempts in a row; a single one is an ordinary change of the coordinator node


class Core:
    """The state that all parts of one membership share. `reason` is that of the JoinGroup or LeaveGroup under way.
    `unclear_since`: since when requests have failed with errors after which Bellwether backs off; None while they do
    not. `refusal`: why the broker refuses Bellwether, as of its last answer; None if it does not, or does not say."""

    def __init__(self, config: MembershipConfig, on_edge: OnEdge, turns: SearchTurns) -> None:
        self.config = config
        self.turns = turns
        self.policy = JoinTiming(config)
        self.permission = Permission(config)
        self.takeovers = TakeoverPolicy(config)
        self.hand_backs = HandBacks(config)
        self.now = 0.0
        self.requests = Requests(config)
        self.timers = Timers()
        self.position = Position[State](MEMBERSHIP, State.WATCHING, on_edge)
        self.leadership = Leadership()
        self.session = Session()
        self.sighting = Sighting(awaited=not config.subscribes)
        self.reason = ""
        self.attempts = 0  # failed in a row; determines the back-off
        self.unclear_since: float | None = None
        self.refusal: Obstacle | None = None
        self.ended: Obstacle | None = None  # why Bellwether can never lead this group
        self.spread = spread(config.group_id)

    @property
    def state(self) -> State:
        return self.position.state

    @property
    def is_member(self) -> bool:
        return bool(self.requests.member_id) and self.requests.generation != NO_GENERATION

    @property
    def alone(self) -> bool:
        """True if Bellwether was the only member of the last generation that it led."""
        return all(m.member_id == self.requests.member_id for m in self.leadership.members)

    @property
    def waits(self) -> Obstacle | None:
        """Why an attempt has to wait: a broker assigns, a hand-back lacks its proof, or a setback is not over."""
        if self.sighting.by_broker is not None:
            return self.sighting.by_broker
        if self.hand_backs.waits:
            return self.hand_backs.obstacle
        return self.policy.setback if self.policy.may_try_in(self.now) else None

    @property
    def lingers_ms(self) -> int | None:
        """How long Bellwether stays in a group without other members; None: without a limit."""
        return 0 if self.permission.orders.release or self.sighting.written else self.config.lingers_ms

    @property
    def session_expired(self) -> bool:
        """True if the broker may have expelled Bellwether, which has received nothing for a session timeout (pauses,
        sleep)."""
        return self.is_member and self.now - self.session.alive_at > self.config.session_timeout_ms / 1000

    @property
    def unreachable(self) -> bool:
        return self.requests.node is None and self.attempts >= UNREACHABLE_AFTER

    def go(self, to: State) -> None:
        self.position.go(to)

    def send(self, command: Command) -> None:
        self.requests.out.append(command)

    def note(self, kind: NoteKind, reason: str, code: str = "") -> None:
        self.send(Note(kind, reason, self.requests.generation, code))

    def alert(self, reason: str) -> None:
        self.note(NoteKind.ALERT, reason)

    def set_timer(self, timer: Timer, delay_ms: float) -> None:
        self.timers.set(timer, self.now + delay_ms / 1000)

    def back_off(self) -> None:
        config = self.config
        delay_ms = backed_off_ms(config.retry_backoff_ms, self.attempts, config.retry_backoff_ms_max)
        self.attempts += 1
        self.requests.paused = True
        self.set_timer(Timer.RETRY, delay_ms * self.spread)

    def refused(self, why: Obstacle | None) -> None:
        """Records the refusal, and alerts to each once."""
        if why is not None and why != self.refusal:
            self.alert(why.sentence)
        self.refusal = why

    def trouble_is_over(self) -> None:
        self.attempts = 0
        self.unclear_since = self.refusal = None

    def heartbeat(self) -> None:
        self.set_timer(Timer.HEARTBEAT, self._heartbeat_interval_ms())
        if self.requests.heartbeat():
            self.session.heartbeat_sent_at = self.now
            self.session.heartbeat_generation = self.requests.generation

    def describe(self) -> None:
        if self.requests.describe():
            self.session.describe_sent_at = self.now

    def _heartbeat_interval_ms(self) -> float:
        config, leadership, waits = self.config, self.leadership, self.session.broker_wait_ms
        if leadership.pending and self.state is State.STABLE and not leadership.followups:
            return config.followup_heartbeat_ms
        if self.alone and waits is not None:
            return min(config.heartbeat_interval_ms, max(waits, ALONE_HEARTBEAT_MS_LEAST))
        called_in_ms = (leadership.called_at - self.now) * 1000
        if self.state is State.STABLE and called_in_ms > -CALLED_MS_MAX:
            return min(config.heartbeat_interval_ms, max(called_in_ms, config.followup_heartbeat_ms))
        return config.heartbeat_interval_ms

    def clear(self) -> None:
        """Abandons all requests, stops all timers and ends the back-off."""
        self.requests.abandon(*Kind)
        self.requests.paused = False
        self.timers.clear(*Timer)

    def forget(self) -> None:
        """Clears everything that belongs to a member: its id, its generation and its leadership."""
        if self.is_member:
            self.sighting.peopled(self.now)
        self.clear()
        self.requests.member_id = ""
        self.requests.generation = NO_GENERATION
        self.leadership = Leadership()
        self.attempts = 0
        self.unclear_since = None
