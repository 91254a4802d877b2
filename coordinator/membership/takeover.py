"""Coming into a running group and leading it: a small state machine without IO, one attempt long.

A group is led by the first member in the order of the broker's hash table once its leader is gone. So:

0. Where members come before any new id in the table as it is: make it grow (`table_growth`). Temporary members reserve
   their ids while the group is at rest. When the barrier of step 1 is there, they come into the rebalance and leave at
   once; it cannot end meanwhile.
1. Get a member id that sorts first. Without an instance id: request ids and give the others back; a group at rest
   notices nothing. With one: reserve a pending id first, which holds the rebalance open (the barrier), join, and join
   again under the same instance id until the id is good; each replaces the one before. Then let the barrier go.
2. The answer to that JoinGroup names the leader. If that is Bellwether: done. If it may remove no other: leave.
3. Remove the leader by LeaveGroup, and with it who would lead before Bellwether, but never while a SyncGroup of theirs
   may be with the broker: the broker answers a parked
   JoinGroup of a removed member (UNKNOWN_MEMBER_ID), and forgets a parked SyncGroup, so that the client waits for its
   request timeout. Hence, so that as few as possible notice:
   - members that keep their partitions in a rebalance (cooperative): a second rebalance, which answers every SyncGroup
     with REBALANCE_IN_PROGRESS, opened before the first has been assigned. Another reserved id comes into the first one
     as a member, and its LeaveGroup waits behind its JoinGroup on one connection, so that the broker reads it as soon
     as that rebalance has ended, before most leaders can have planned. The barrier goes when both have been sent.
     Remove the leader when members have had as long as they needed for the first rebalance. The second one ends when
     Bellwether joins it: when the leader is back under another id. Where there is no id to spare, a changed list of
     protocols opens it.
   - Streams: remove it at once, where it is the only one. Its leaders are Java's, whose plans take longer; the
     rebalance that this opens ends when Bellwether joins it, which it does when the leader is back.
   - members that stop for a rebalance (eager), and Streams where another is removed with the leader: let the leader's
     assignment take effect first, so that everybody works between the two; then remove it. The rebalance that this
     opens ends when Bellwether joins it, which it does when the leader is back. (One stop for both was tried, and was
     longer than the two: librdkafka joins at most once a second.)
4. The answer is checked: if it names another, that one is removed too if so many may be, or the attempt has failed.

The steps and what may follow what are in `transitions`. The caller cleans up: `debts` are the
pending ids that it must give back.
"""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership import events
from bellwether_kafka.coordinator.membership.broker_order import Listing, Table, grown, on_the_way, tables, unavoidable
from bellwether_kafka.coordinator.membership.config import STREAMS_PROTOCOL, MembershipConfig
from bellwether_kafka.coordinator.membership.errors import Code, name_of
from bellwether_kafka.coordinator.membership.own_joins import OwnJoins, PendingIds, TemporaryMembers
from bellwether_kafka.coordinator.membership.requests import Kind, Requests, Timer
from bellwether_kafka.coordinator.membership.table_growth import CHOOSY
from bellwether_kafka.coordinator.membership.takeover_policy import TakeoverAttempt
from bellwether_kafka.coordinator.membership.transitions import TAKEOVER, OnEdge, Position, Step

POLL_S = 0.02
BATCH = 64  # ids that are given back together
COOPERATIVE = "cooperative-sticky"  # its members work on while a rebalance is open
EVICTED = "another member takes the lead"
# Steps in which the broker has no member of Bellwether's but temporary ones.
NOT_IN_YET = (Step.GATHERING, Step.ROLLING, Step.CLEARING, Step.BARRING, Step.GROWING, Step.SHRINKING)
AT_REST = (Step.GATHERING, Step.ROLLING, Step.CLEARING, Step.BARRING)  # of these no member notices anything


@dataclass(frozen=True, slots=True)
class Led:
    """Bellwether leads: the answer says so."""

    answer: events.JoinAnswer


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
        self.began = 0.0
        self._requests = requests
        self._config = config
        self._evictions = attempt.evictions  # that may still be
        self._ahead: tuple[str, ...] = ()  # to be removed with the leader
        self._behind: tuple[str, ...] = ()  # of these, those whose turn comes when the leader is out
        self._known = attempt.tables  # before the table grows
        self._temporary = TemporaryMembers(requests, metadata, attempt.temporary)
        size = len(attempt.listing) + attempt.temporary
        after = grown(attempt.tables, size) if attempt.temporary else attempt.tables
        self._listing = Listing(attempt.listing, after, config.instance_id)
        self._joins = OwnJoins(requests, metadata)
        self._pending = PendingIds()
        self._removed: tuple[str, ...] = ()  # at last, and awaited under other ids
        self._opens_next = False  # the opener has been sent
        self._awaited = False  # the second rebalance waits for Bellwether
        self._parked_at = 0.0
        self._alive_at = 0.0  # the broker has last heard of Bellwether
        self._now = 0.0
        self._limit = 0.0
        self._first = Step.ROLLING if config.instance_id is None else Step.BARRING
        start = Step.GATHERING if attempt.temporary else self._first
        self._position = Position[Step](TAKEOVER, start, on_edge)

    @property
    def _step(self) -> Step:
        return self._position.state

    @property
    def tries(self) -> int:
        return self._joins.tries

    @property
    def in_front(self) -> str:
        """Bellwether's id where it is parked and sorts first, "" before."""
        return self._listing.own if self._step is Step.PARKED else ""

    @property
    def debts(self) -> tuple[str, ...]:
        """Ids of Bellwether's that the broker may still wait for."""
        return (*self._pending.all, *self._temporary.ids)

    @property
    def room(self) -> int | None:
        """So many members were too many for the broker; None where it has taken all."""
        refused = self._temporary.refused == Code.GROUP_MAX_SIZE_REACHED
        return len(self._listing.members) + self._temporary.wanted if refused else None

    @property
    def disturbs(self) -> bool:
        """Members have noticed the attempt, or are about to."""
        return self._step not in AT_REST

    @property
    def joined(self) -> bool:
        """The broker may have a member of Bellwether's, whose id Bellwether needs not know."""
        return self._step not in NOT_IN_YET

    def begin(self, now: float) -> None:
        self._now = self.began = now
        if self._step is Step.GATHERING:
            self._temporary.reserve()
            self.due = now + self._config.roll_ms_max / 1000
        else:
            self._begin_own()

    def _begin_own(self) -> None:
        self._limit = self._now + self._config.roll_ms_max / 1000
        if self._step is Step.ROLLING:
            self._joins.ask()
        else:
            self._joins.reserve()

    def answered(self, kind: Kind, event: events.Answer, now: float) -> Outcome:
        self._now = now
        self._position.trigger = type(event)
        match event:
            case events.JoinAnswer() if kind is Kind.TEMPORARY:
                return self._temporary_answered(event)
            case events.JoinAnswer() if kind is Kind.BARRIER:
                return self._barrier_answered(event)
            case events.JoinAnswer():
                return self._join_answered(kind, event)
            case events.SyncAnswer():
                return self._synced(event)
            case events.LeaveAnswer():
                return self._leave_answered(kind, event)
            case events.DescribeAnswer() if event.error:
                return _refused("DESCRIBE", event.error)
            case events.DescribeAnswer() if self._step is Step.GROWING:
                return self._look_for_temporaries(event)
            case events.DescribeAnswer() if self._step is Step.PARKING:
                return self._look_for_our_id(event)
            case events.DescribeAnswer() if self._step is Step.HOLDING:
                return self._look_for_the_leader(event)
        return None

    def wake(self, now: float) -> Outcome:
        self._now = now
        self._position.trigger = Timer.TAKEOVER
        self.due = None
        match self._step:
            case Step.GATHERING:
                return Failed("the broker did not give ids to all temporary members in time")
            case Step.REOPENING if not (self._awaited or self._pending.barrier):
                self._look_later()
            case Step.REOPENING:
                self._evict()
            case Step.WORKING:  # it plans for so long that its SyncGroup will come after this, and others' are parked
                self._requests.abandon(Kind.SYNC)
                self._behind = self._ahead
                self._evict()
            case _:
                self._requests.describe()
        return None

    # ---- a larger table --------------------------------------------------------------------------------------------

    def _temporary_answered(self, answer: events.JoinAnswer) -> Outcome:
        temporary = self._temporary
        if self._step not in (Step.GATHERING, Step.GROWING):
            return None  # the broker answers what it had parked of those that leave
        temporary.answered(answer)
        if self._step is Step.GATHERING and temporary.refused:
            return _refused("JOIN of a temporary member", temporary.refused)
        if self._step is Step.GATHERING and temporary.reserved:
            self.due = None
            self._position.go(self._first)
            self._begin_own()
        elif self._step is Step.GROWING and temporary.refused:
            self._shrink()
        return None

    def _grow_or_park(self) -> None:
        if self._temporary.ids:
            self._position.go(Step.GROWING)
            self._limit = self._now + self._config.hold_ms_max / 1000
            self._temporary.join()
            self._look_later()
        else:
            self._park_own()

    def _look_for_temporaries(self, answer: events.DescribeAnswer) -> Outcome:
        """The broker lists them among the members when its table has grown."""
        listing, temporary = self._listing, self._temporary
        late = self._now > self._limit
        if not (late or temporary.are_in(answer.members)):
            self._look_later()
            return None
        listing.members = temporary.others(answer.members)
        seen = tables([m.member_id for m in answer.members])
        listing.tables = tuple(table for table in self._possible(certain=not late) if table in seen)
        self._shrink()
        return None

    def _possible(self, *, certain: bool) -> tuple[Table, ...]:
        """Of the tables, where all temporary members have come in for certain, and where they have not."""
        return self._listing.tables if certain else on_the_way(self._known, self._listing.tables)

    def _shrink(self) -> None:
        self.due = None
        self._position.go(Step.SHRINKING)
        self._temporary.leave()

    def _shrunk(self) -> Outcome:
        listing = self._listing
        self._temporary.left()
        if self._temporary.refused:
            listing.tables = self._possible(certain=False)
        ids = [m.member_id for m in listing.members]
        ahead = max((unavoidable(ids, table) for table in listing.tables), key=len, default=())
        if not listing.tables:
            return Failed("the broker lists members in an unknown order")
        if len(ahead) >= self._evictions:
            return Failed(f"{ahead[0]} might lead next: the broker's table of members has not grown as it should")
        self._park_own()
        return None

    def _park_own(self) -> None:
        self._limit = self._now + self._config.roll_ms_max / 1000
        if self._config.instance_id is None:
            self._park()
        else:
            self._park_unnamed()

    # ---- an id that sorts first ------------------------------------------------------------------------------------

    def _given_id(self, member_id: str) -> Outcome:
        listing, pending = self._listing, self._pending
        if self._is_good(member_id):
            listing.own = member_id
        else:
            pending.unfit.append(member_id)
            if self._now > self._limit:
                return self._no_id()
        if listing.own and self._reopens():
            pending.keep_spare()
        if pending.unfit and (listing.own or len(pending.unfit) >= BATCH):
            self._position.go(Step.CLEARING)
            self._requests.evict(tuple(pending.unfit), "not needed", kind=Kind.GIVE_BACK)
        elif listing.own:
            self._grow_or_park()
        else:
            self._joins.ask()
        return None

    def _cleared(self) -> None:
        self._pending.unfit.clear()
        if self._listing.own:
            self._grow_or_park()
        else:
            self._position.go(Step.ROLLING)
            self._joins.ask()

    def _park(self) -> None:
        self._position.go(Step.PARKED)
        self._parked_at = self._now
        self._requests.member_id = self._listing.own
        self._joins.park()
        self._release()

    def _park_unnamed(self) -> None:
        self._position.go(Step.PARKING)
        self._parked_at = self._now
        self._joins.park_unnamed()
        if self._reopens():
            self._joins.reserve()
        self._look_later()

    def _look_for_our_id(self, answer: events.DescribeAnswer) -> Outcome:
        """The rebalance's members, this one with its present id among them if the broker has taken its JoinGroup."""
        ours = next((m for m in answer.members if m.instance_id == self._config.instance_id), None)
        if ours is None or ours.member_id == self._listing.own:
            self._look_later()
            return None
        self._listing.look(answer.members, ours.member_id)
        if self._evictions and not self._listing.tables:
            return Failed("the broker lists members in an unknown order")
        if self._is_good(ours.member_id):
            self._position.go(Step.PARKED)
            self._requests.member_id = ours.member_id
            if not self._requests.waits_for(Kind.BARRIER):
                self._release()
            return None
        if self._now > self._limit:
            return self._no_id()
        self._position.go(Step.REPLACING)
        self._joins.replace()
        return None

    def _is_good(self, member_id: str) -> bool:
        """While members wait for it, an id behind few enough members is better in time than none."""
        # With Bellwether, and with Bellwether and a barrier that comes into the rebalance.
        coming = (1, 2) if self._reopens() else (1,)
        if self._listing.puts_first(member_id, coming):
            return True
        choosy_until = self._limit - (1 - CHOOSY) * self._config.roll_ms_max / 1000
        late = self._config.instance_id is not None and self._now > choosy_until
        return late and self._listing.puts_behind(member_id, coming) < self._evictions

    def _no_id(self) -> Failed:
        return Failed(f"none of {self.tries} member ids sorts first")

    # ---- the end of a round ----------------------------------------------------------------------------------------

    def _join_answered(self, kind: Kind, answer: events.JoinAnswer) -> Outcome:
        if answer.error == Code.MEMBER_ID_REQUIRED and self._step is Step.ROLLING:
            return self._given_id(answer.member_id)
        if answer.error == Code.FENCED_INSTANCE_ID and not self._joins.is_current(kind):
            if self._step is Step.REPLACING:  # the id before has gone, so the next one is there
                self._position.go(Step.PARKING)
                self._requests.describe()
            return None
        if answer.error:
            return _refused("JOIN", answer.error)
        return self._named(answer)

    def _named(self, answer: events.JoinAnswer) -> Outcome:
        """A rebalance has ended, and the answer says who leads."""
        self._alive_at = self._now
        self._joins.forget()
        self._requests.admitted(answer)
        if answer.leader == answer.member_id and not answer.skip_assignment:
            return Led(answer)
        self.leader = answer.leader
        if not answer.leader or not self._evictions:
            return Failed(f"{answer.leader or 'no member'} leads the group")
        ahead = self._listing.ahead(answer.member_id, answer.leader, another_comes=self._opens_next)
        if len(ahead) >= self._evictions:
            return Failed(f"{answer.leader} leads the group, and {ahead[0]} would be next")
        self._ahead = ahead
        if answer.protocol == STREAMS_PROTOCOL and not ahead:
            self._evict()
        elif answer.protocol == COOPERATIVE:
            self._reopen()
        else:
            self._position.go(Step.WORKING)
            self._requests.sync(())
            self.due = self._now + self._config.hold_ms_max / 1000
        return None

    # ---- removing the leader ---------------------------------------------------------------------------------------

    def _synced(self, answer: events.SyncAnswer) -> Outcome:
        self._alive_at = self._now
        if answer.error not in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
            return _refused("SYNC", answer.error)
        self._evict()
        return None

    def _reopens(self) -> bool:
        """What the group uses is offered first."""
        return bool(self._evictions) and self._requests.protocols[0] == COOPERATIVE

    def _reopen(self) -> None:
        self._position.go(Step.REOPENING)
        self._awaited, self._opens_next = self._opens_next, False
        if not self._awaited:
            self._joins.come_back(changed=True)
            if not self._pending.barrier:
                self._joins.reserve()
        self.due = self._now + min(self._now - self._parked_at, self._config.roll_ms_max / 1000)

    def _evict(self) -> None:
        # The session runs since the broker's last request from it. The timing's arithmetic allows for both.
        self._limit = self._alive_at + (self._config.roll_ms_max + self._config.hold_ms_max) / 1000
        self.due = None
        self._position.go(Step.HOLDING)
        together = (self.leader, *(member_id for member_id in self._ahead if member_id not in self._behind))
        self._removed = (self.leader, *self._ahead)
        self._evictions -= len(self._removed)
        self.evicted = (*self.evicted, *self._removed)
        self._requests.evict(together, EVICTED)

    def _leave_answered(self, kind: Kind, answer: events.LeaveAnswer) -> Outcome:
        if kind is Kind.OPEN:
            self._pending.opener = ""
        elif kind is Kind.GIVE_BACK and self._step is Step.CLEARING:
            self._cleared()
        elif kind is Kind.GIVE_BACK:
            self._pending.released = ""
        elif kind is Kind.SHRINK:
            return self._shrunk()
        elif answer.error not in (Code.NONE, Code.UNKNOWN_MEMBER_ID):
            return _refused(f"LEAVE of {self.leader}", answer.error)
        elif self._behind:
            self._requests.evict(self._behind, EVICTED)
            self._behind = ()
        else:
            self._requests.describe()
        return None

    # ---- the barrier -----------------------------------------------------------------------------------------------

    def _barrier_answered(self, answer: events.JoinAnswer) -> Outcome:
        """A rebalance that is open stays open as long as the broker waits for this id. Otherwise there is none, or it
        is the end of the rebalance into which one of them came, which tells Bellwether nothing."""
        if answer.error == Code.MEMBER_ID_REQUIRED:
            self._pending.reserved(answer.member_id)
            if self._step is Step.BARRING:
                self._grow_or_park()
            elif self._step is Step.PARKED:
                self._release()
        elif answer.error and self._needs_barrier():
            return _refused("JOIN", answer.error)
        elif answer.error and self._step is Step.PARKED and not self._opens_next:
            self._release()
        return None

    def _needs_barrier(self) -> bool:
        return self._step is Step.BARRING or (self._step is Step.REOPENING and not self._awaited)

    def _release(self) -> None:
        """The rebalance may end. The answer to Bellwether's JoinGroup may come before those to these, on other
        connections."""
        pending = self._pending
        if self._step is Step.PARKED and self._reopens() and not self._opens_next and pending.choose_opener():
            self._opens_next = True
            self._joins.open_next(pending.opener)
        if pending.barrier:
            pending.released, pending.barrier = pending.barrier, ""
            self._requests.evict((pending.released,), "the rebalance may end", kind=Kind.GIVE_BACK)

    # ---- holding the round open ------------------------------------------------------------------------------------

    def _look_for_the_leader(self, answer: events.DescribeAnswer) -> Outcome:
        if not self._listing.are_back(self._removed, answer.members) and self._now <= self._limit:
            self._look_later()
            return None
        self._listing.members = answer.members
        self._position.go(Step.RETURNING)
        if self._pending.barrier:
            self._release()
        else:
            self._joins.come_back()
        return None

    def _look_later(self) -> None:
        self.due = self._now + POLL_S


def _refused(request: str, code: int) -> Failed:
    return Failed(f"{request} was answered with {name_of(code)}", code)
