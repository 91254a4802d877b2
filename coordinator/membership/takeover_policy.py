"""When a group that a member leads may be taken over: a policy without I/O. `takeover` carries it out.

when-empty   never: Bellwether joins only an empty group
succeed      join a rebalance that waits for a lost member; if that was the leader, Bellwether leads; if the answer
             names another leader, Bellwether leaves at once
take-over    join a stable group, remove its leader once (and one more member if that would lead next), and lead; where
             that is not allowed or cannot work, the same as succeed. This is the default, because otherwise any absence
             longer than the session loses the lead for good
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low

from bellwether_kafka.coordinator.membership.broker_order import Deaths, MemberTable, client_of, tables
from bellwether_kafka.coordinator.membership.config import NOT_READ, MembershipConfig, SizeLimit
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, DescribedMember, GroupState
from bellwether_kafka.coordinator.membership.lead_rules import holds_instance, is_bellwether, subscription
from bellwether_kafka.coordinator.membership.role import NotLeading, Obstacle
from bellwether_kafka.coordinator.membership.table_growth import Forecast, Forecasts
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import RemoteProtocolError

PROVEN_FROM = (3, 9)  # see tests/interop/lead/test_succession.py
# A rebalance that has been open this long waits for a lost member: live members notice it at their next heartbeat,
# which Java and librdkafka send every 3 s by default.
WAITING_S = 4.0
# That one is not joined if the search for a member id is more likely to fail than not: it costs the others its time.
FAILS_WAITING_MAX = 0.5
ATTEMPTS_WITHIN_S = 3_600.0
ANSWERS = 5  # the last answers whose median says how fast the broker is
# How many groups of one process may search for a member id at the same time: each search makes the brokers' answers to
# the others slower, while members wait.
SEARCHES_AT_ONCE = 3
TURN_S = 30.0  # a search that has not ended by then no longer counts
AWAITS_TURN = Obstacle(
    NotLeading.TAKING_OVER, "other groups of this process are being taken over, and few are at the same time"
)
PACE_CHANGED = 2  # a sentence that named each answer's time would be logged after each description of each group


@dataclass(frozen=True, slots=True)
class TakeoverAttempt:
    """One attempt. `evictions`: how many members may be removed; 0 to succeed a leader that is already gone. `listing`:
    the members as the broker listed them. `tables`: the tables consistent with that order. `temporary`: how many
    temporary members make the table grow first. `foreseen`: the forecast of an attempt that may remove members."""

    evictions: int
    listing: tuple[DescribedMember, ...]
    tables: tuple[MemberTable, ...]
    before_removal: bool = False  # dead members are removed once Bellwether sorts first; failing does no harm
    temporary: int = 0
    foreseen: Forecast | None = None


@dataclass(slots=True)
class SearchTurns:
    """Which groups of this process may search for a member id now. Shared by all memberships of one event loop."""

    at_once: int = SEARCHES_AT_ONCE
    _until: dict[str, float] = field(default_factory=dict)  # by group

    def take(self, group_id: str, now: float) -> bool:
        """Returns whether the group has a turn. It keeps it until `end`, at most TURN_S."""
        self._until = {group: until for group, until in self._until.items() if now < until}
        if group_id not in self._until and len(self._until) < self.at_once:
            self._until[group_id] = now + TURN_S
        return group_id in self._until

    def end(self, group_id: str) -> None:
        self._until.pop(group_id, None)


@dataclass(slots=True)
class FailedAttempts:
    """Failed attempts that disturbed the same members: `times` in a row, the last one for `reason`. The members count
    as changed when one goes or another comes, but not when one comes back that an attempt removed."""

    times: int = 0
    reason: str = ""
    _clients: Counter[tuple[str, str, str | None]] = field(default_factory=Counter)  # before the last attempt
    _left_alone: frozenset[str] = frozenset()  # ids of members that it did not remove, or that are back

    def once_more(self, members: Iterable[DescribedMember], removed: Iterable[str], reason: str) -> None:
        before = tuple(members)
        self.times += 1
        self.reason = reason
        self._clients = Counter(map(client_of, before))
        self._left_alone = frozenset(m.member_id for m in before).difference(removed)

    def seen(self, members: Iterable[DescribedMember]) -> None:
        """Resets the count if the members of the stable group, Bellwether's excepted, have changed."""
        others = tuple(members)
        present = frozenset(m.member_id for m in others)
        if self._left_alone <= present and Counter(map(client_of, others)) <= self._clients:
            self._left_alone = present
        else:
            self.times = 0


class TakeoverPolicy:
    """Decides from descriptions of a group that a member leads when to attempt a take-over. Remembers the leader."""

    def __init__(self, config: MembershipConfig) -> None:
        self._config = config
        self._tried_at: list[float] = []
        self._failures = FailedAttempts()
        self._waiting_since: float | None = None
        self._waiting_for: frozenset[str] = frozenset()
        self._fragile: DescribedMember | None = None  # as of the last description of the stable group
        self.leader = ""  # the member that the last answer named
        self._member_ids: frozenset[str] = frozenset()  # as of the last description
        self._answered_in_ms: list[float] = []  # the last ANSWERS
        self._named_ms = 0.0  # the answer time that sentences name; changes with `PACE_CHANGED` only
        self._forecasts = Forecasts()
        self.size_limit = config.size_limit
        self._room: int | None = None  # a number of members that the broker refused
        self.obstacle: Obstacle | None = None  # why there is no take-over now

    @property
    def eager(self) -> bool:
        """True if Bellwether may join a group that a member leads. It then polls more often, because a rebalance that
        waits for a dead member is short."""
        return self._config.adopt != "when-empty"

    @property
    def leader_here(self) -> str:
        """The leader; "" if no answer has named it or it has left."""
        return self.leader if self.leader in self._member_ids else ""

    def answered_in(self, answer_time_ms: float) -> None:
        """Records how long the broker took to describe the group."""
        self._answered_in_ms = [*self._answered_in_ms, answer_time_ms][-ANSWERS:]
        usual = max(usual_ms(self._answered_in_ms), 1.0)
        if not self._named_ms / PACE_CHANGED <= usual <= self._named_ms * PACE_CHANGED:
            self._named_ms = usual

    def attempt(self, answer: DescribeAnswer, now: float) -> TakeoverAttempt | None:
        """Returns the attempt to make now, None for none."""
        self._member_ids = frozenset(m.member_id for m in answer.members)
        waited_s = self._waited(answer, now)
        self.obstacle = None
        if not answer.members or holds_instance(answer, self._config) or not self.eager:
            return None
        possible = tables([m.member_id for m in answer.members])
        if answer.state == GroupState.STABLE:
            self._fragile = _fails_beside_bellwether(answer)
            own_topics = subscription(self._config.topics, streams=self._config.streams)
            self._failures.seen(m for m in answer.members if m.metadata != own_topics)
        if answer.state == GroupState.PREPARING and self._fragile is None and waited_s >= WAITING_S:
            may_find = self._forecast(answer, possible).fails_as_it_is <= FAILS_WAITING_MAX
            return TakeoverAttempt(0, answer.members, possible) if may_find else None
        if answer.state != GroupState.STABLE or self._config.adopt != "take-over":
            return None
        if self._may_only_have_connected(answer, possible):
            return None
        self.obstacle = self._obstacle(answer, possible, now)
        if self.obstacle:
            return None
        foreseen = self._forecast(answer, possible)
        temporary = foreseen.chosen.temporary
        return TakeoverAttempt(foreseen.allowed, answer.members, possible, temporary=temporary, foreseen=foreseen)

    def _forecast(
        self, answer: DescribeAnswer, possible: tuple[MemberTable, ...], answer_time_ms: float | None = None
    ) -> Forecast:
        ids = [m.member_id for m in answer.members]
        config = self._config
        tries = config.tries_max(self._answer_time_ms if answer_time_ms is None else answer_time_ms)
        return self._forecasts.forecast(ids, possible, self.leader, config.evictions_max, self._size_max, tries)

    @property
    def _answer_time_ms(self) -> float | None:
        """How long the broker takes to describe the group; None if it has not yet."""
        return usual_ms(self._answered_in_ms) if self._answered_in_ms else None

    def _may_only_have_connected(self, answer: DescribeAnswer, possible: tuple[MemberTable, ...]) -> bool:
        """Returns whether nothing but the first answer, which took the time of a new connection as well, makes an
        attempt look hopeless. The next answer shows how fast the broker is."""
        if len(self._answered_in_ms) != 1 or self._forecast(answer, possible).begins:
            return False
        return self._forecast(answer, possible, 0.0).begins

    @property
    def _size_max(self) -> int | None:
        return self._room if self._room is not None else self.size_limit.members

    def before_removal(self, deaths: Deaths) -> TakeoverAttempt | None:
        """Returns the attempt to make before these dead members are removed; None if it could not win the lead."""
        if not self.eager or holds_instance(deaths.seen, self._config) or self._fragile is not None:
            return None
        possible = tables(deaths.member_ids)
        if not possible or not deaths.may_pass_the_lead(self.leader):
            return None
        if deaths.in_the_way:
            self.leader = deaths.survivors[0] if self.leader in deaths.dead else ""
            return None
        return TakeoverAttempt(0, deaths.seen.members, possible, before_removal=True)

    def disturbed(self, attempt: TakeoverAttempt, now: float) -> None:
        """Counts an attempt that members have noticed, whatever its result: taking, losing and taking a group again
        would cost a member's work each time. What no member has noticed is no attempt."""
        if attempt.evictions:
            self._tried_at.append(now)

    def failed(self, leader: str, room: int | None = None) -> None:
        """Records a failed attempt. `leader`: the leader if known. `room`: a number of members that the broker refused,
        None if it refused none."""
        self.leader = leader or self.leader
        if room is not None:
            self._room = min(room, self._size_max or room)

    def came_to_nothing(self, attempt: TakeoverAttempt, removed: Iterable[str], reason: str) -> None:
        """Records a failed attempt that members have noticed: they are not disturbed again."""
        self._failures.once_more(attempt.listing, removed, reason)

    def succeeded(self) -> None:
        self.leader = ""
        self._failures = FailedAttempts()

    def asked_for(self) -> None:
        """Forgets earlier attempts, because an operator has ended the order that kept Bellwether out."""
        self._tried_at.clear()
        self._failures = FailedAttempts()

    def next_attempt(self, now: float) -> float | None:
        """Returns when the next attempt is allowed after too many of them; None if that does not prevent one."""
        self._tried_at = [at for at in self._tried_at if now - at < ATTEMPTS_WITHIN_S]
        most = self._config.takeover_attempts_max
        return self._tried_at[-most] + ATTEMPTS_WITHIN_S if len(self._tried_at) >= most else None

    def _obstacle(self, answer: DescribeAnswer, possible: tuple[MemberTable, ...], now: float) -> Obstacle | None:
        if self._config.takeover_obstacle is not None:
            return self._config.takeover_obstacle
        if self._failures.times >= self._config.takeovers_in_vain_max:
            sentence = (
                f"an attempt has interrupted these members without success ({self._failures.reason}), so there is no"
                " other; restart one of them, or order leave and resume"
            )
            return Obstacle(NotLeading.BLOCKED, sentence)
        if self.next_attempt(now) is not None:
            sentence = (
                f"it has been tried {len(self._tried_at)} times within an hour, so the next"
                " attempt waits until an hour after the first of these; order leave and resume to have it at once"
            )
            return Obstacle(NotLeading.SET_BACK, sentence)
        sentence = self._blocked(answer, possible)
        return Obstacle(NotLeading.BLOCKED, sentence) if sentence else None

    def _blocked(self, answer: DescribeAnswer, possible: tuple[MemberTable, ...]) -> str:
        config = self._config
        if not possible:
            return "the broker lists members in an unknown order, so the next leader cannot be predicted"
        other = _other_bellwether(answer.members, config)
        if other:
            remedy = "give both one instance_id and standby, or this group to one of them"
            return f"{other} is another instance of Bellwether; {remedy}"
        if self._fragile is not None:
            return (
                f"{self._fragile.member_id} looks like kafka-python, whose round robin raises KeyError in its leader"
                " when a member without topics joins, as Bellwether does; give the members range or sticky"
            )
        foreseen, named = self._forecast(answer, possible), self._named_ms or None
        if foreseen.begins:
            return ""
        as_named = blocked(self._forecast(answer, possible, named), self.size_limit, named)
        return as_named or blocked(foreseen, self.size_limit, self._answer_time_ms)

    def _waited(self, answer: DescribeAnswer, now: float) -> float:
        """Returns for how many seconds the same members have been in an open rebalance."""
        present = frozenset(m.member_id for m in answer.members)
        if answer.state != GroupState.PREPARING:
            self._waiting_since = None
        elif self._waiting_since is None or present != self._waiting_for:
            self._waiting_since, self._waiting_for = now, present
        return 0.0 if self._waiting_since is None else now - self._waiting_since


def usual_ms(answer_times_ms: Sequence[float]) -> float:
    """Returns how fast a broker is that has answered in these times, the last ANSWERS of which count."""
    return median_low(answer_times_ms[-ANSWERS:])


def blocked(foreseen: Forecast, size_limit: SizeLimit, answer_time_ms: float | None) -> str:
    """Returns why removing all members that may be removed does not make Bellwether the leader, with the remedy; "" if
    it does. `answer_time_ms` is that of the forecast."""
    if foreseen.begins:
        return ""
    leader, ahead = foreseen.leader, foreseen.with_leader
    if len(ahead) < foreseen.allowed:
        pace = "at once" if answer_time_ms is None else f"in {answer_time_ms:,.0f} ms"
        return (
            f"in {foreseen.fails:.0%} of such take-overs no member id that sorts first would be found among the"
            f" {foreseen.tries} that can be tried within roll_ms_max if the broker answers {pace}; run Bellwether"
            " beside the brokers, raise roll_ms_max, or restart the members"
        )
    remedy = f"restart {'one of them' if len(ahead) > 1 or leader else 'it'}"
    if size_limit.members is None:
        remedy = f"{size_limit.unknown}, so their table is not made to grow; {size_limit.remedy}, or {remedy}"
    return (
        f"{' and '.join(ahead)} {'would' if leader else 'might'} lead after"
        f" {leader or 'the leader, which is not known before Bellwether joins'}, whatever Bellwether's member id, and"
        f" {foreseen.allowed} of {len(foreseen.members)} members may be removed (evictions_max, and never half of the"
        f" group); {remedy}"
    )


def _fails_beside_bellwether(answer: DescribeAnswer) -> DescribedMember | None:
    """Returns a member that may lead the rebalance in which Bellwether joins, and would die of it
    (client-quirks.md#kafka-python); None if there is none.

    aiokafka sends the same bytes but works; only its default client id distinguishes it.
    """
    if answer.protocol != "roundrobin":
        return None
    return next((m for m in answer.members if _is_kafka_python(m) and not m.client_id.startswith("aiokafka")), None)


def _is_kafka_python(member: DescribedMember) -> bool:
    try:
        subscribed = ConsumerProtocolSubscription.decode(member.metadata)
    except RemoteProtocolError:
        return False
    return subscribed.version == 0 and subscribed.user_data == b""


def _other_bellwether(members: tuple[DescribedMember, ...], config: MembershipConfig) -> str:
    """Returns the id of a member that is another instance, or whose subscription equals Bellwether's byte by byte; ""
    for none. Two instances that take over would take the group from each other forever."""
    own_topics = subscription(config.topics, streams=config.streams)
    others = (m.member_id for m in members if m.metadata == own_topics or is_bellwether(m, config))
    return next(others, "")


def proven(
    config: MembershipConfig, broker_version: tuple[int, ...], size_limit: SizeLimit = NOT_READ
) -> MembershipConfig:
    """Returns the configuration with the brokers' limit, and without take-over if the leader order of this broker
    version has not been tested."""
    config = replace(config, size_limit=size_limit)
    if config.adopt != "take-over" or config.takeover_obstacle is not None or broker_version >= PROVEN_FROM:
        return config
    version = ".".join(map(str, broker_version)) or "an unknown version"
    tried = ".".join(map(str, PROVEN_FROM))
    sentence = (
        f"who leads next has not been tried on brokers like the oldest of these (Kafka {version}); restart"
        f" Bellwether when all have {tried} or newer"
    )
    return replace(config, takeover_obstacle=Obstacle(NotLeading.BLOCKED, sentence))


def offered(protocols: tuple[str, ...], observed: str) -> tuple[str, ...]:
    """Returns Bellwether's protocol list for a group that uses `observed`: that name comes first, so that Bellwether's
    vote changes nothing."""
    return (observed, *(name for name in protocols if name != observed)) if observed else protocols
