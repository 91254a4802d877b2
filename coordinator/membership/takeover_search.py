"""The search for a member id that sorts first, before and while members wait: how fast ids can be tried, making the
broker's table of members grow, and joining under the id while a pending id, the blocker, holds the rebalance open."""

from collections.abc import Sequence

from bellwether_kafka.coordinator.membership.broker_order import MemberTable, on_the_way, tables, unavoidable
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, DescribedMember, GroupState, JoinAnswer
from bellwether_kafka.coordinator.membership.requests import Kind
from bellwether_kafka.coordinator.membership.role import Code
from bellwether_kafka.coordinator.membership.table_growth import SORTS_FIRST_SHARE, Forecast
from bellwether_kafka.coordinator.membership.takeover_attempt import Attempt, Failed, Outcome, first_step, refused
from bellwether_kafka.coordinator.membership.takeover_policy import blocked
from bellwether_kafka.coordinator.membership.transitions import Step

TRIES = 8  # measured tries of the pace
NO_MEMBER = "bellwether-measures-the-pace"
GROWTH_REASON = "make the table of members grow"


def begin(a: Attempt) -> None:
    if a.step is Step.PACING:
        a.limit_ms(a.config.roll_ms_max)
        _measure(a)
    elif a.step is Step.GATHERING:
        _reserve_temporary(a)
    else:
        begin_own_id(a)


# ---- the pace: a try is a JoinGroup and a DescribeGroups, sent together --------------------------------------------


def _measure(a: Attempt) -> None:
    a.asked_at, a.answers = a.now, 0
    # No broker has given this id, so the refusal leaves nothing behind, while giving an id back begins a rebalance
    # (4.3).
    a.join(member_id=NO_MEMBER, static=False)
    a.requests.describe()


def pace_described(a: Attempt, foreseen: Forecast, answer: DescribeAnswer) -> Outcome:
    """Returns Failed if the group is not what the take-over was foreseen for."""
    if answer.state != GroupState.STABLE or {m.member_id for m in answer.members} != {*foreseen.members}:
        return Failed("the group has changed before the take-over has begun, so no member was disturbed")
    return paced(a, foreseen)


def paced(a: Attempt, foreseen: Forecast) -> Outcome:
    """Handles one of the two answers to a try. Returns Failed after the last try if too few could be tried while
    members wait."""
    a.answers += 1
    if a.answers < 2:
        return None
    a.paced += 1
    a.paced_s += (a.now - a.asked_at) * bool(a.paced)
    if a.paced < TRIES and not (a.paced and a.now > a.limit):
        _measure(a)
        return None
    answer_time_ms = a.paced_s / a.paced * 1000
    measured = foreseen.paced(a.config.tries_max(answer_time_ms))
    if not measured.begins:
        return Failed(f"no member was disturbed, because {blocked(measured, a.config.size_limit, answer_time_ms)}")
    a.go(Step.GATHERING if a.plan.temporary else first_step(a.config))
    begin(a)
    return None


# ---- temporary members make the broker's table grow ----------------------------------------------------------------


def _reserve_temporary(a: Attempt) -> None:
    """Requests their ids while the group is stable, which no member notices; but the broker forgets them after a
    session."""
    for number in range(a.plan.temporary):
        a.requests.join_temporary(a.metadata, GROWTH_REASON, "", number)
    a.due = a.now + a.config.session_timeout_ms / 2 / 1000


def temporary_answered(a: Attempt, answer: JoinAnswer) -> Outcome:
    """Handles an answer to a temporary member: in GATHERING it should have an id; while the rebalance is open, any
    answer is an error. Those that leave are answered, too."""
    if a.step not in (Step.GATHERING, Step.GROWING):
        return None
    if answer.error == Code.MEMBER_ID_REQUIRED:
        a.temporary_ids.append(answer.member_id)
    else:
        a.temporary_refused = a.temporary_refused or answer.error
    if a.step is Step.GROWING:
        if a.temporary_refused:
            _shrink(a)
        return None
    if a.temporary_refused:
        return refused("JOIN of a temporary member", a.temporary_refused)
    if len(a.temporary_ids) == a.plan.temporary:
        a.due = None
        a.go(first_step(a.config))
        begin_own_id(a)
    return None


def _grow_or_park(a: Attempt) -> None:
    if not a.temporary_ids:
        _park(a)
        return
    a.go(Step.GROWING)
    a.limit_ms(a.config.hold_ms_max)
    for number, member_id in enumerate(a.temporary_ids):
        a.requests.join_temporary(a.metadata, GROWTH_REASON, member_id, number)
    a.describe_later()


def growth_described(a: Attempt, members: tuple[DescribedMember, ...]) -> None:
    """Ends the growth when the broker lists all temporary members, which shows that its table has grown, or when time
    is up."""
    late, ids = a.now > a.limit, [m.member_id for m in members]
    if not (late or {*a.temporary_ids} <= {*ids}):
        a.describe_later()
        return
    a.listing.members = tuple(m for m in members if m.member_id not in a.temporary_ids)
    seen = tables(ids)
    a.listing.tables = tuple(table for table in _possible(a, certain=not late) if table in seen)
    _shrink(a)


def shrunk(a: Attempt) -> Outcome:
    """Handles the departure of the temporary members. Returns Failed if Bellwether could not sort first now."""
    listing = a.listing
    a.temporary_ids.clear()
    a.requests.abandon(Kind.TEMPORARY)
    if a.temporary_refused:
        listing.tables = _possible(a, certain=False)
    ids = [m.member_id for m in listing.members]
    ahead: Sequence[str] = max((unavoidable(ids, table) for table in listing.tables), key=len, default=())
    if not listing.tables:
        return Failed("the broker lists members in an unknown order")
    if len(ahead) >= a.evictions:
        return Failed(f"{ahead[0]} might lead next: the broker's table of members has not grown as it should")
    _park(a)
    return None


def _possible(a: Attempt, *, certain: bool) -> tuple[MemberTable, ...]:
    """Returns what the table may be; `certain`: all temporary members are known to have joined."""
    return a.listing.tables if certain else on_the_way(a.plan.tables, a.listing.tables)


def _shrink(a: Attempt) -> None:
    a.due = None
    a.go(Step.SHRINKING)
    a.requests.evict(tuple(a.temporary_ids), "the table of members has grown", kind=Kind.SHRINK)


# ---- Bellwether's id: without an instance id, ids are requested while the group is stable --------------------------


def begin_own_id(a: Attempt) -> None:
    a.limit_ms(a.config.roll_ms_max)
    if a.step is Step.ROLLING:
        a.request_id()
    else:
        a.reserve()


def id_given(a: Attempt, member_id: str) -> Outcome:
    if _is_good(a, member_id):
        a.listing.own = member_id
    else:
        a.unfit.append(member_id)
        if a.now > a.limit:
            return _not_found(a)
    if a.listing.own and a.reopens:  # the opener and the blocker need not sort first
        a.opener = a.unfit.pop() if a.unfit else ""
        a.blocker = a.unfit.pop() if a.unfit else ""
    if a.listing.own and a.unfit:
        a.go(Step.CLEARING)
        a.requests.evict(tuple(a.unfit), "not needed", kind=Kind.GIVE_BACK)
    elif a.listing.own:
        _grow_or_park(a)
    else:
        a.request_id()
    return None


def cleared(a: Attempt) -> None:
    a.unfit.clear()
    _grow_or_park(a)


def _park(a: Attempt) -> None:
    a.limit_ms(a.config.roll_ms_max)
    a.parked_at = a.now
    if a.config.instance_id is None:
        a.go(Step.PARKED)
        a.requests.member_id = a.listing.own
        a.join()
        release(a)
        return
    a.go(Step.PARKING)
    a.join_unnamed()
    if a.reopens:
        a.reserve()
    a.describe_later()


# ---- under an instance id: the broker makes an id for each JoinGroup, and describes it -----------------------------


def own_described(a: Attempt, members: tuple[DescribedMember, ...]) -> Outcome:
    """Handles a description of the rebalance, which lists Bellwether's present id if the broker has received its
    JoinGroup."""
    own = next((m for m in members if m.instance_id == a.config.instance_id), None)
    if own is None or own.member_id == a.listing.own:
        if a.step is Step.REPLACING:
            a.requests.describe()  # the broker has read it before the JoinGroup
        else:
            a.describe_later()
        return None
    a.listing.refresh(members, own.member_id)
    if a.evictions and not a.listing.tables:
        return Failed("the broker lists members in an unknown order")
    if _is_good(a, own.member_id):
        a.go(Step.PARKED)
        a.requests.member_id = own.member_id
        if not a.requests.waits_for(Kind.BLOCKER):
            release(a)
    elif a.now > a.limit:
        return _not_found(a)
    elif a.step is Step.PARKING:
        a.go(Step.REPLACING)
        _try_next(a)
    else:
        a.try_next_once_replaced = True
    return None


def _try_next(a: Attempt) -> None:
    """Joins again under the same instance id, to get another member id."""
    a.try_next_once_replaced = False
    a.lane = 1 - a.lane
    a.join_unnamed()
    a.requests.describe()


def replaced(a: Attempt) -> None:
    """Handles the answer to the JoinGroup under the previous id, which the broker has removed. Its connection is free
    now."""
    if a.step is Step.REPLACING and a.try_next_once_replaced:
        _try_next(a)
    elif a.step is Step.REPLACING:
        a.go(Step.PARKING)


def _is_good(a: Attempt, member_id: str) -> bool:
    """Returns whether the id sorts first; late in the search also whether few enough members sort before it. Under an
    instance id members wait for the search, so such an id is better than none."""
    # The id must sort first when Bellwether has joined and, in a cooperative group, when the opener has joined as well.
    coming = (1, 2) if a.reopens else (1,)
    if a.listing.puts_first(member_id, coming):
        return True
    sorts_first_until = a.limit - (1 - SORTS_FIRST_SHARE) * a.config.roll_ms_max / 1000
    late = a.config.instance_id is not None and a.now > sorts_first_until
    return late and a.listing.puts_behind(member_id, coming) < a.evictions


def _not_found(a: Attempt) -> Failed:
    return Failed(f"none of {a.tries} member ids sorts first")


# ---- the blocker and the opener ------------------------------------------------------------------------------------


def blocker_answered(a: Attempt, answer: JoinAnswer) -> Outcome:
    """Handles the answer to a JoinGroup for the blocker or the opener. With a reserved id, an open rebalance stays open
    while the broker waits for that id. Other answers mean that there is no id, or end the rebalance that the opener
    joined, which needs no action."""
    if answer.error == Code.MEMBER_ID_REQUIRED:
        if a.blocker:
            a.opener = answer.member_id
        else:
            a.blocker = answer.member_id
        if a.step is Step.BARRING:
            _grow_or_park(a)
        elif a.step is Step.PARKED:
            release(a)
    elif answer.error and (a.step is Step.BARRING or (a.step is Step.REOPENING and not a.next_is_open)):
        return refused("JOIN", answer.error)
    elif answer.error and a.step is Step.PARKED and not a.opens_next:
        release(a)
    return None


def release(a: Attempt) -> None:
    """Lets the rebalance end: sends the opener in if there is one, and gives the blocker back. The answer to
    Bellwether's JoinGroup may arrive before the answers to these, which use other connections."""
    if a.step is Step.PARKED and a.reopens and not a.opens_next:
        if not a.opener:
            # The rebalance may then end between the opener's two requests, which gives its leader time to plan.
            a.opener, a.blocker = a.blocker, ""
        if a.opener:
            a.opens_next, lane = True, 1 - a.lane
            a.join(kind=Kind.BLOCKER, member_id=a.opener, static=False, lane=lane)
            a.requests.evict((a.opener,), "the next rebalance may begin", kind=Kind.OPEN, lane=lane)
    if a.blocker:
        a.released, a.blocker = a.blocker, ""
        a.requests.evict((a.released,), "the rebalance may end", kind=Kind.GIVE_BACK)
