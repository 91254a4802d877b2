"""Coming into a running group and leading it: a small state machine without IO, one attempt long.

A group is led by the first member in the order of the broker's hash table once its leader is gone. So:

1. Get a member id that sorts first. Without an instance id: ask for ids and give the others back; a group at rest
   notices nothing. With one: reserve a pending id first, which holds the round open (the barrier), join, and join again
   under the same instance id until the id is good; each replaces the one before. Then let the barrier go.
2. The answer to that JoinGroup names the leader. If that is us: done. If it is another and we may remove nobody: leave.
3. Remove the leader by LeaveGroup, but never while its SyncGroup may be with the broker: the broker answers a parked
   JoinGroup of a removed member (UNKNOWN_MEMBER_ID), and forgets a parked SyncGroup, so that the client waits for its
   request timeout. Hence, so that as few as possible notice:
   - members that keep their partitions in a round (cooperative): a second round, which answers every SyncGroup with
     REBALANCE_IN_PROGRESS, opened before the first has been assigned. Another reserved id comes into the first round as
     a member, and its LeaveGroup waits behind its JoinGroup on one connection, so that the broker reads it as soon as
     that round has ended, before most leaders can have planned. The barrier goes when both have been sent. Remove the
     leader when members have had as long as they needed for the first round. The second one ends when we join it: when
     the leader is back under another id. Where there is no id to spare, a changed list of protocols opens it.
   - Streams: remove it at once. Its leaders are Java's, whose plans take longer than we do; the round that this opens
     ends when we join it, which we do when it is back.
   - members that stop for a round (eager): let the leader's assignment stand first, so that everybody works between
     the rounds; then remove it. The round that this opens ends when we join it, which we do when it is back. (One stop
     for both rounds was tried, and was longer than the two: librdkafka joins at most once a second.)
4. The answer is checked: if it names another, that one is removed too if so many may be, or the attempt has failed.

What is left behind is left by whoever runs this: `debts` are pending ids that must be given back.
"""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.broker_order import grown, rivals, sorts_first, tables
from bellwether_kafka.coordinator.membership.config import STREAMS_PROTOCOL, MembershipConfig
from bellwether_kafka.coordinator.membership.errors import Code, name_of
from bellwether_kafka.coordinator.membership.events import (
    Answer,
    DescribeAnswer,
    DescribedMember,
    JoinAnswer,
    LeaveAnswer,
    SyncAnswer,
)
from bellwether_kafka.coordinator.membership.requests import Kind, Requests, Timer
from bellwether_kafka.coordinator.membership.takeover_policy import TakeoverAttempt
from bellwether_kafka.coordinator.membership.transitions import TAKEOVER, OnEdge, Position, Step

POLL_S = 0.02
BATCH = 64  # ids that are given back together
LANES = (Kind.JOIN, Kind.JOIN_AGAIN)
REASON = "take the lead"
COOPERATIVE = "cooperative-sticky"  # its members work on while a round is open


@dataclass(frozen=True, slots=True)
class Led:
    """We lead: the answer says so."""

    answer: JoinAnswer


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing came of it. `code` is the broker's where it gave one."""

    reason: str
    code: int = 0


Outcome = Led | Failed | None


class Takeover:
    """One attempt. `begin`, then pass on answers and wake it when `due`, until there is an outcome."""

    def __init__(
        self, requests: Requests, config: MembershipConfig, attempt: TakeoverAttempt, metadata: bytes, on_edge: OnEdge
    ) -> None:
        self.due: float | None = None
        self.leader = ""  # named by an answer
        self.evicted: tuple[str, ...] = ()
        self.tries = 0
        self.began = 0.0
        self._requests = requests
        self._config = config
        self._metadata = metadata
        self._listing = attempt.listing
        self._tables = attempt.tables
        self._evictions = attempt.evictions
        self._barrier = ""
        self._released = ""  # a barrier whose LeaveGroup has not been answered
        self._opener = ""  # comes into the round, and opens the next one when it leaves
        self._opens_next = False  # it has been sent
        self._awaited = False  # the second round waits for us
        self._given: list[str] = []  # ids that were not good
        self._good = ""
        self._lane = 0
        self._reopened = 0
        self._parked_at = 0.0
        self._alive_at = 0.0  # the broker has last heard of us
        self._now = 0.0
        self._limit = 0.0
        start = Step.ROLLING if config.instance_id is None else Step.BARRING
        self._position = Position[Step](TAKEOVER, start, on_edge)

    @property
    def _step(self) -> Step:
        return self._position.state

    @property
    def debts(self) -> tuple[str, ...]:
        """Ids of ours that the broker may still wait for."""
        return (*self._given, *(ours for ours in (self._barrier, self._released, self._opener) if ours))

    @property
    def joined(self) -> bool:
        """The broker may have a member of ours, whose id we need not know."""
        return self._step not in (Step.ROLLING, Step.CLEARING, Step.BARRING)

    def begin(self, now: float) -> None:
        self._now = self.began = now
        self._limit = now + self._config.roll_ms_max / 1000
        if self._step is Step.ROLLING:
            self._ask()
        else:
            self._reserve()

    def answered(self, kind: Kind, event: Answer, now: float) -> Outcome:
        self._now = now
        self._position.trigger = type(event)
        match event:
            case JoinAnswer():
                return self._join_answered(kind, event)
            case LeaveAnswer() if kind is Kind.OPEN:
                self._opener = ""
            case LeaveAnswer():
                return self._given_back() if kind is Kind.GIVE_BACK else self._evicted(event)
            case SyncAnswer():
                return self._worked(event)
            case DescribeAnswer() if event.error:
                return Failed(f"DESCRIBE was answered with {name_of(event.error)}", event.error)
            case DescribeAnswer():
                return self._described(event)
        return None

    def wake(self, now: float) -> None:
        self._now = now
        self._position.trigger = Timer.TAKEOVER
        self.due = None
        match self._step:
            case Step.REOPENING if not (self._awaited or self._barrier):
                self._look_later()
            case Step.REOPENING:
                self._evict()
            case Step.WORKING:  # it plans for so long that its SyncGroup will come after this
                self._requests.abandon(Kind.SYNC)
                self._evict()
            case _:
                self._requests.describe()

    # ---- an id that sorts first --------------------------------------------------------------------------------

    def _ask(self) -> None:
        self.tries += 1
        self._requests.join(self._metadata, REASON, member_id="", static=False)

    def _given_id(self, member_id: str) -> Outcome:
        if self._is_good(member_id):
            self._good = member_id
        else:
            self._given.append(member_id)
            if self._now > self._limit:
                return Failed(f"none of {self.tries} member ids sorts first")
        if self._good and self._reopens():
            self._opener = self._given.pop() if self._given else ""
            self._barrier = self._given.pop() if self._given else ""
        if self._given and (self._good or len(self._given) >= BATCH):
            self._position.go(Step.CLEARING)
            self._requests.evict(tuple(self._given), "not needed", kind=Kind.GIVE_BACK)
        elif self._good:
            self._park_as(self._good)
        else:
            self._ask()
        return None

    def _is_good(self, member_id: str) -> bool:
        others = [m.member_id for m in self._listing if not self._is_ours(m)]
        # With us, and with us and a barrier that comes into the round.
        coming = (1, 2) if self._reopens() else (1,)
        return sorts_first(others, member_id, [t for n in coming for t in grown(self._tables, len(others) + n)])

    def _is_ours(self, member: DescribedMember) -> bool:
        instance = self._config.instance_id
        return member.member_id == self._good or (instance is not None and member.instance_id == instance)

    def _park_as(self, member_id: str) -> None:
        self._position.go(Step.PARKED)
        self._parked_at = self._now
        self._requests.member_id = member_id
        self._requests.join(self._metadata, REASON)
        self._release()

    def _park(self) -> None:
        self._position.go(Step.PARKING)
        self._parked_at = self._now
        self.tries += 1
        self._requests.join(self._metadata, REASON, member_id="")
        if self._reopens():
            self._reserve()
        self._look_later()

    def _seen(self, answer: DescribeAnswer) -> Outcome:
        """The round's members, ourselves with our present id among them if the broker has taken our JoinGroup."""
        ours = next((m for m in answer.members if m.instance_id == self._config.instance_id), None)
        if ours is None or ours.member_id == self._good:
            self._look_later()
            return None
        self._listing = answer.members
        self._good = ours.member_id
        # Every id that we have had tells more of the table; it may have grown when we came.
        now_possible = tables([m.member_id for m in answer.members])
        self._tables = tuple(table for table in self._tables if table in now_possible) or now_possible
        if self._evictions and not self._tables:
            return Failed("the broker lists members in an order that we do not know")
        if self._is_good(ours.member_id):
            self._position.go(Step.PARKED)
            self._requests.member_id = ours.member_id
            if not self._requests.waits_for(Kind.BARRIER):
                self._release()
            return None
        if self._now > self._limit:
            return Failed(f"none of {self.tries} member ids sorts first")
        self._position.go(Step.REPLACING)
        self.tries += 1
        self._lane = 1 - self._lane
        self._requests.join(self._metadata, REASON, kind=LANES[self._lane], member_id="")
        return None

    # ---- answers -----------------------------------------------------------------------------------------------

    def _join_answered(self, kind: Kind, answer: JoinAnswer) -> Outcome:
        named = answer.error == Code.MEMBER_ID_REQUIRED
        if kind is Kind.BARRIER:
            return self._reserved(answer.member_id) if named else self._not_reserved(answer.error)
        if named and self._step is Step.ROLLING:
            return self._given_id(answer.member_id)
        if kind is not LANES[self._lane] and answer.error == Code.FENCED_INSTANCE_ID:
            if self._step is Step.REPLACING:  # the id before has gone, so the next one is there
                self._position.go(Step.PARKING)
                self._requests.describe()
            return None
        if answer.error:
            return Failed(f"JOIN was answered with {name_of(answer.error)}", answer.error)
        return self._named(answer)

    def _named(self, answer: JoinAnswer) -> Outcome:
        """A round has ended, and the answer says who leads."""
        self._alive_at = self._now
        self._requests.abandon(*LANES)  # under an id that has been replaced
        self._requests.admitted(answer)
        if answer.leader == answer.member_id and not answer.skip_assignment:
            return Led(answer)
        self.leader = answer.leader
        if not answer.leader or not self._evictions:
            return Failed(f"{answer.leader or 'nobody'} leads the group")
        ahead = self._ahead(answer.member_id, answer.leader)
        if len(ahead) >= self._evictions:
            return Failed(f"{answer.leader} leads the group, and {ahead[0]} would be next")
        if answer.protocol == STREAMS_PROTOCOL:
            self._evict()
        elif answer.protocol == COOPERATIVE:
            self._reopen()
        else:
            self._work()
        return None

    def _ahead(self, own: str, leader: str) -> tuple[str, ...]:
        """Who would lead before us once the leader is gone."""
        ids = [m.member_id for m in self._listing]
        now_known = grown(self._tables, len({*ids, own}) + self._opens_next)
        if own in ids and not (self._opens_next and now_known != self._tables):
            return tuple(m for m in ids[: ids.index(own)] if m != leader)
        found = (rivals([m for m in ids if m != leader], own, table) for table in now_known)
        return max(found, key=len, default=())

    # ---- removing the leader -----------------------------------------------------------------------------------

    def _work(self) -> None:
        self._position.go(Step.WORKING)
        self._requests.sync(())
        self.due = self._now + self._config.hold_ms_max / 1000

    def _worked(self, answer: SyncAnswer) -> Outcome:
        self._alive_at = self._now
        if answer.error not in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
            return Failed(f"SYNC was answered with {name_of(answer.error)}", answer.error)
        self._evict()
        return None

    def _reopens(self) -> bool:
        """What the group uses is offered first."""
        return bool(self._evictions) and self._requests.protocols[0] == COOPERATIVE

    def _reopen(self) -> None:
        self._position.go(Step.REOPENING)
        self._awaited, self._opens_next = self._opens_next, False
        if not self._awaited:
            self._come_again()
        self.due = self._now + min(self._now - self._parked_at, self._config.roll_ms_max / 1000)

    def _come_again(self) -> None:
        """A member with a name more on its list has changed, which opens a round; no member uses the name."""
        self._reopened += 1
        self._lane = 0
        self._requests.abandon(*LANES)
        self._requests.join(self._metadata, REASON, besides=(f"{REASON} {self._reopened}",))
        if not self._barrier:
            self._reserve()

    def _evict(self) -> None:
        # Our session runs, since the broker has last heard of us. The timing's arithmetic allows for both.
        self._limit = self._alive_at + (self._config.roll_ms_max + self._config.hold_ms_max) / 1000
        self.due = None
        self._position.go(Step.HOLDING)
        self._evictions -= 1
        self.evicted = (*self.evicted, self.leader)
        self._requests.evict((self.leader,), "another member takes the lead")

    def _reserve(self) -> None:
        self._requests.join(self._metadata, REASON, kind=Kind.BARRIER, member_id="", static=False)

    def _reserved(self, member_id: str) -> Outcome:
        """A round that is open stays open as long as the broker waits for this id."""
        if self._barrier:
            self._opener = member_id
        else:
            self._barrier = member_id
        if self._step is Step.BARRING:
            self._park()
        elif self._step is Step.PARKED:
            self._release()
        return None

    def _not_reserved(self, error: int) -> Outcome:
        """No id, or the end of the round into which one of them came, which tells us nothing."""
        if error and (self._step is Step.BARRING or (self._step is Step.REOPENING and not self._awaited)):
            return Failed(f"JOIN was answered with {name_of(error)}", error)
        if error and self._step is Step.PARKED and not self._opens_next:
            self._release()
        return None

    def _release(self) -> None:
        """The round may end. The answer to our JoinGroup may come before those to these, on other connections."""
        if self._step is Step.PARKED and self._reopens() and not self._opens_next:
            self._open_next()
        if self._barrier:
            self._released, self._barrier = self._barrier, ""
            self._requests.evict((self._released,), "the round may end", kind=Kind.GIVE_BACK)

    def _open_next(self) -> None:
        """Where there is one id only, the round may end between the two requests, which gives its leader time."""
        if not self._opener:
            self._opener, self._barrier = self._barrier, ""
        if not self._opener:
            return
        self._opens_next = True
        kind, lane = Kind.BARRIER, 1 - self._lane
        self._requests.join(self._metadata, REASON, kind=kind, member_id=self._opener, static=False, lane=lane)
        self._requests.evict((self._opener,), "the next round may begin", kind=Kind.OPEN, lane=lane)

    def _given_back(self) -> Outcome:
        if self._step is not Step.CLEARING:
            self._released = ""
            return None
        self._given.clear()
        if self._good:
            self._park_as(self._good)
        else:
            self._position.go(Step.ROLLING)
            self._ask()
        return None

    def _evicted(self, answer: LeaveAnswer) -> Outcome:
        if answer.error not in (Code.NONE, Code.UNKNOWN_MEMBER_ID):
            return Failed(f"LEAVE of {self.leader} was answered with {name_of(answer.error)}", answer.error)
        self._requests.describe()
        return None

    # ---- holding the round open --------------------------------------------------------------------------------

    def _described(self, answer: DescribeAnswer) -> Outcome:
        match self._step:
            case Step.PARKING:
                return self._seen(answer)
            case Step.HOLDING if self._is_back(answer) or self._now > self._limit:
                self._listing = answer.members
                self._let_go()
            case Step.HOLDING:
                self._look_later()
        return None

    def _let_go(self) -> None:
        self._position.go(Step.RETURNING)
        if self._barrier:
            self._release()
            return
        self._lane = 0
        self._requests.abandon(*LANES)
        self._requests.join(self._metadata, REASON)

    def _is_back(self, answer: DescribeAnswer) -> bool:
        """A new member of the same client is there; any new one where the leader was never described."""
        before = {m.member_id: m for m in self._listing}
        leader = before.get(self.leader)
        new = [m for m in answer.members if m.member_id not in before and not self._is_ours(m)]
        return any(leader is None or _client(m) == _client(leader) for m in new)

    def _look_later(self) -> None:
        self.due = self._now + POLL_S


def _client(member: DescribedMember) -> tuple[str, str, str | None]:
    """What a client keeps when it comes back under another member id."""
    return (member.client_id, member.client_host, member.instance_id)
