"""Plans for one group: metadata, deadline, plan, guard, fallback, and what is remembered once the broker has the plan.
`GroupKind` covers what differs between kinds of group.

A group that cannot be planned for is left to a member: a refusal makes the membership leave.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

import structlog

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.shared import AssignedMember, Decision, GroupPlan, RawGroup, RefusalCause, RefusalError
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.membership import (
    Decide,
    DescribeAnswer,
    GroupState,
    JoinedMember,
    RebuildMemory,
    ShownGroup,
    shown,
)
from bellwether_kafka.coordinator.planning.causes import Cause, Settling, cause, cause_after_return, follows_from_orders
from bellwether_kafka.coordinator.planning.inspection import (
    MESSAGE_BYTES_MAX,
    PLAN_SHARE,
    Attempt,
    first_valid,
    inspect,
    misdirected,
    previous_answer,
    valid,
)
from bellwether_kafka.coordinator.planning.planned import Dialect, GroupKind, Inputs, Planned, Source, Timings
from bellwether_kafka.coordinator.planning.racks import NO_RULES, MemberRacks, RackRules
from bellwether_kafka.coordinator.planning.solver import Solver
from bellwether_kafka.coordinator.planning.threads import PlanThreads, Turns, Urgency

RESERVE_S = 0.1  # reserved for sending the answer to the broker
SUPERSEDED = "another generation has begun meanwhile"

P = TypeVar("P", bound=GroupPlan)

log = structlog.get_logger(__name__)


async def no_rules() -> tuple[shared.Rule, ...]:
    """The rules of a planner to which nobody gives orders."""
    return ()


class Planner(Generic[P]):
    """The planner of one group, used by `runtime.GroupRunner`. For one event loop. `turns`: see `threads`."""

    def __init__(
        self,
        group_id: str,
        kind: GroupKind[P],
        *,
        dialect: Dialect[P] | None = None,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        solver: Solver | None = None,
        racks: RackRules = NO_RULES,
        turns: Turns | None = None,
    ) -> None:
        self.group_id = group_id
        self.kind = kind
        self.racks = MemberRacks(racks)
        self._dialect = dialect or Dialect()
        self._message_bytes_max = message_bytes_max
        self._solver = solver
        self._threads = PlanThreads(turns if solver is None or not solver.always else None)
        self.rules_in_force: Callable[[], Awaitable[tuple[shared.Rule, ...]]] = no_rules  # once they have been read
        self._planned: Planned[P] | None = None  # the last answer, before the dialect translates it
        self._sent: Decision[P] | None = None  # its decision, as members receive it
        self._previous: Decision[P] | None = None  # the last decision that the broker accepted
        self._returned: Planned[P] | None = None  # set after a return to a stable group that another process planned
        self._observed: int | None = None  # digest of the last stable generation that a member led
        self._ordered: tuple[str, ...] = ()  # orders that no delivered plan includes yet
        self._evacuated: set[str] = set()  # places that the last plan had to evacuate
        self._by_order = False  # orders caused that plan
        self._settling = Settling()
        self._turn = 0  # reads of a group that a member leads are discarded if this has changed
        self._plans = 0  # plans begun: one that ends late must not replace a later one
        self._memories = 0  # replacements of the memory: reads begun before the last one are outdated

    async def _rules(self) -> tuple[shared.Rule, ...]:
        """Returns the operator's rules of placement in force, none for a policy that refuses them."""
        rules = await self.rules_in_force()
        return () if self.kind.rules_refused else rules

    def order(self, sentence: str) -> None:
        """Records an operator's order, with its reason, as the cause of the next plan."""
        self._ordered = (*(order for order in self._ordered if order != sentence), sentence)

    def dismiss(self, sentence: str) -> None:
        """Removes an order that no plan needs to carry out."""
        self._ordered = tuple(order for order in self._ordered if order != sentence)

    async def plan(self, command: Decide) -> Planned[P]:
        """Returns the answer for this generation before its deadline. Raises RefusalError, which lists the attempts."""
        began = clocks.monotonic()
        self._turn += 1
        self._plans += 1
        given: tuple[shared.Rule, ...] = ()
        with suppress(TimeoutError):  # the next rebalance would undo a plan that ignores orders
            async with asyncio.timeout(self._left(command) / 3):
                given = await self._rules()
        number, ordered = self._plans, self._ordered
        command = await self._dialect.joined(command, self._left(command))
        raw = self._raw(command)
        inputs, trouble = await self._read(raw, command)
        read_s = clocks.monotonic() - began
        rules = shared.applicable(given, raw.others)
        planned = await first_valid(raw, self._attempts(raw, inputs, command, rules), trouble)
        plan_s = clocks.monotonic() - began - read_s
        answered = await self._dialect.answered(planned.decision)
        if findings := misdirected(raw, answered):
            raise RefusalError(RefusalCause.PLAN, "; ".join(findings))
        if number != self._plans:  # a later plan has begun meanwhile
            raise RefusalError(RefusalCause.PLAN, SUPERSEDED)
        self._sent = answered
        self._planned = replace(
            planned,
            topics=self.kind.topics(planned.decision),
            timings=Timings(began, read_s, plan_s),
            rules=rules,
            ordered=ordered,
            wanted=command.wanted,
        )
        return replace(self._planned, decision=answered)

    async def compare(self, command: Decide) -> Planned[P]:
        """Compares a dry plan with what the members own. Raises RefusalError."""
        rules = await self._rules()
        planned = await self._dry(await self._dry_inputs(command), command, rules)
        decision, kind = planned.decision, self.kind
        return replace(
            planned,
            topics=kind.topics(decision),
            worth_moving=kind.worth_moving(decision),
            present=kind.present_owner(decision),
            assigned_sizes=kind.assigned_sizes(),
        )

    def returned(self, compared: Planned[P]) -> None:
        """Records the comparison after Bellwether returned to a stable group without a plan of this process. Later
        causes are relative to it."""
        self._returned = compared

    async def would_change(self, command: Decide, former: tuple[shared.Rule, ...]) -> bool:
        """Returns whether a rebalance under the present rules would change anything compared with the `former` rules.
        Raises RefusalError."""
        inputs, rules = await self._dry_inputs(command), await self._rules()
        now, before = await self._dry(inputs, command, rules), await self._dry(inputs, command, former)
        return self.kind.differs(now.decision, before.decision, rules)

    def racks_changed(self, members: Sequence[JoinedMember]) -> bool | None:
        """Returns whether the configuration gives one of these members another rack than in the last plan, None while
        it is not known what members have. After a return without a plan of this process any rack is another one: the
        configuration may be newer than the plan."""
        if self._previous is None and self._returned is None:
            return None
        planned = self._previous.raw.others if self._previous is not None else ()
        before = {m.member_id: (m.rack, m.leader_only) for m in planned}
        now = {m.member_id: self.racks.of(m) for m in members}
        return any(
            before.get(member, (None, False)) != (given.rack, given.leader_only) for member, given in now.items()
        )

    async def gain_of_racks(self, command: Decide) -> str:
        """Returns why a rebalance by the racks that are known now is worth it, "" if it is not. Raises RefusalError."""
        compared = await self.compare(command)
        plan, planned = compared.decision.plan, compared.decision.cost
        now = plan.cost(compared.present)
        if planned.cross_rack >= now.cross_rack or planned.unowned > now.unowned:
            return ""
        return (
            f"by the racks of members that are known now, {planned.cross_rack} partitions instead of {now.cross_rack}"
            " are read from another rack"
        )

    async def _dry_inputs(self, command: Decide) -> Inputs[P]:
        command = await self._dialect.joined(command, self._left(command))
        inputs, trouble = await self._read(self._raw(command), command)
        if inputs is None:
            raise RefusalError(RefusalCause.PLAN, "; ".join(trouble))
        return inputs

    async def _dry(self, inputs: Inputs[P], command: Decide, rules: tuple[shared.Rule, ...]) -> Planned[P]:
        given = inputs.under(shared.applicable(rules, inputs.raw.others), self._message_bytes_max, dry=True)
        limit_s = self._left(command)
        return await valid(inputs.raw, partial(self._configured, given, limit_s, Urgency.COMPARISON))

    def delivered(self, generation: int) -> Planned[P] | None:
        """Remembers the plan of this generation, which the broker has accepted. Returns None if it was not one of
        Bellwether's plans."""
        planned, self._planned, sent, previous = self._planned, None, self._sent, self._previous
        if planned is None or sent is None or planned.decision.raw.generation != generation:
            return None
        decision = self._previous = planned.decision
        self._memories += 1
        self.kind.delivered(planned)
        self._ordered = tuple(order for order in self._ordered if order not in planned.ordered)
        in_force = tuple(dict.fromkeys(rule.order for rule in planned.rules if rule.order))
        explained, returned = partial(cause, previous), self._returned
        if previous is None and returned is not None:
            explained = partial(cause_after_return, returned.decision, returned.worth_moving)
        why = explained(decision, ordered=planned.ordered, in_force=in_force, wanted=planned.wanted)
        self._settling = self._settling.after(previous, decision, why)
        why, self._returned = self._with_orders(why, planned, previous), None
        if previous is not None and previous.followup:
            sent = sent.counted_after(previous)
        return replace(planned, decision=sent, previous=previous, cause=why)

    def _with_orders(self, why: Cause, planned: Planned[P], previous: Decision[P] | None) -> Cause:
        evacuated, self._evacuated = self._evacuated, {rule.where for rule in planned.rules if rule.empties}
        decision, places = planned.decision, evacuated | self._evacuated
        self._by_order = follows_from_orders(why, previous, decision, places, before=self._by_order)
        return replace(why, by_order=self._by_order)

    def forget(self) -> None:
        """Forgets everything, because Bellwether no longer leads and the memory would be wrong next time."""
        self._previous = self._planned = self._sent = self._returned = self._observed = None
        self._ordered = ()
        self._evacuated, self._by_order = set(), False
        self._settling = Settling()
        self._memories += 1
        self.kind.forget()

    def distrust(self) -> None:
        """Distrusts the input of the last plan, because the group has been handed back."""
        self._observed = None
        self.kind.distrust()

    async def rebuild(self, command: RebuildMemory, group: ShownGroup, own_member_id: str) -> None:
        """Remembers what the members of a returned leader own. If this raises an exception, the memory is unchanged."""
        self._turn += 1
        self.racks.observe(group.members)
        memories, group = self._memories, await self._dialect.described(group)
        others = tuple(m for m in _members(group) if m.member_id != own_member_id)
        await self.kind.recall(command.generation, command.protocol, others, lambda: memories == self._memories)

    async def observed(self, described: DescribeAnswer, own_instance_id: str | None) -> None:
        """Keeps the memory up to date while a member leads. An instance that takes the lead during a rebalance finds no
        stable group to read, and members of most assignors do not report what they own."""
        self.racks.observe(described.members)
        if described.error or described.state != GroupState.STABLE:
            return
        turn, group = self._turn, await self._dialect.described(shown(described))
        others = tuple(m for m in _members(group) if own_instance_id is None or m.instance_id != own_instance_id)
        if not await self.kind.learn(others):
            return
        seen = hash(frozenset(others))
        if seen == self._observed:
            return
        # Discarded if Bellwether has begun to lead meanwhile.
        await self.kind.recall(shared.NO_GENERATION, group.protocol, others, lambda: turn == self._turn)
        if turn == self._turn:
            self._observed = seen

    async def shadow(self, command: Decide, group: ShownGroup) -> Planned[P]:
        """Compares a dry plan for an observed group with what the broker shows. Raises RefusalError."""
        if group.state == GroupState.STABLE:
            await self.kind.learn(_members(await self._dialect.described(group)))
        await self.rebuild(RebuildMemory(command.generation, command.protocol, command.members), group, "")
        return await self.compare(command)

    def _raw(self, command: Decide) -> RawGroup:
        return raw_group(self.group_id, command, self.racks)

    def _left(self, command: Decide) -> float:
        """Returns the seconds left until the deadline, less the reserve."""
        return max(0.0, command.deadline - RESERVE_S - clocks.monotonic())

    async def _read(self, raw: RawGroup, command: Decide) -> tuple[Inputs[P] | None, tuple[str, ...]]:
        """Returns the input of a plan, or None and the reasons. Raises RefusalError if no plan would be valid."""
        try:
            return await self.kind.read(raw, command, lambda: self._left(command)), ()
        except RefusalError:
            raise
        except Exception as error:  # noqa: BLE001 - readers are another library's world; the previous plan may do
            return None, (f"no metadata: {str(error) or type(error).__name__}",)

    def _attempts(
        self, raw: RawGroup, inputs: Inputs[P] | None, command: Decide, rules: tuple[shared.Rule, ...]
    ) -> list[tuple[Source, Attempt[P]]]:
        attempts: list[tuple[Source, Attempt[P]]] = []
        if inputs is not None:
            plan = inputs.under(rules, self._message_bytes_max)
            cheap = inputs.under(rules, self._message_bytes_max, cheap=True)
            attempts += [
                (Source.PLAN, lambda: self._settled(self._configured(plan, self._left(command) * PLAN_SHARE), command)),
                (Source.CHEAP, lambda: self._in_thread(cheap, self._left(command), Urgency.LAST_CHANCE)),
            ]
        again = previous_answer(self._previous, raw)
        if again is not None:
            attempts.append((Source.PREVIOUS, partial(self._inspected, raw, again)))
        return attempts

    async def _configured(
        self, inputs: Inputs[P], limit_s: float, urgency: Urgency = Urgency.MEMBERS_WAIT
    ) -> Planned[P]:
        """Makes a plan by the configured policy, which may be foreign code."""
        solver, size = self._solver, (len(inputs.raw.members), inputs.cluster.partition_total)
        if solver is not None and solver.wants(*size):
            return replace(await solver.solve(inputs.planned, limit_s), inputs=inputs.record)
        self._threads.refuse_too_many()
        return await self._in_thread(inputs, limit_s, urgency)

    async def _settled(self, made: Awaitable[Planned[P]], command: Decide) -> Planned[P]:
        """Returns the plan. Raises RefusalError if by such plans the group does not settle."""
        planned = await made
        decision, previous = planned.decision, self._previous
        why = cause(previous, decision, ordered=self._ordered, wanted=command.wanted)
        objection = self._settling.objection(previous, decision, why)
        if objection:
            raise RefusalError(RefusalCause.PLAN, objection)
        return planned

    async def _in_thread(self, inputs: Inputs[P], limit_s: float, urgency: Urgency) -> Planned[P]:
        work = partial(inputs.planned, self.kind.maker)
        return replace(await self._threads.run(work, limit_s, urgency), inputs=inputs.record)

    async def _inspected(self, raw: RawGroup, decision: Decision[P]) -> Planned[P]:
        return Planned(decision, findings=inspect(raw, decision, message_bytes_max=self._message_bytes_max))


def raw_group(group_id: str, command: Decide, racks: MemberRacks) -> RawGroup:
    members = tuple(
        shared.RawMember(m.member_id, m.instance_id, m.metadata, given.rack, given.leader_only, m.client_id)
        for m, given in zip(command.members, map(racks.of, command.members), strict=True)
    )
    own = frozenset({command.own_member_id})
    return RawGroup(group_id, command.generation, command.protocol, members, own, resting=command.dry)


def _members(group: ShownGroup) -> tuple[AssignedMember, ...]:
    return tuple(AssignedMember(m.member_id, m.instance_id, m.metadata, m.assignment) for m in group.members)
