"""The checks before an order is written: whether the group could follow it now.

An order that could not be carried out is not written: the topic shows which instances read it
(`control.objection`), the group shows what can be placed (`PlannedPlacement`).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from bellwether_kafka.assignors.consumer import POLICIES
from bellwether_kafka.assignors.shared import GroupPlan, Rule
from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.leader import configured
from bellwether_kafka.coordinator.cli.output import fail
from bellwether_kafka.coordinator.cli.read_groups import (
    AT_MEMBER,
    UNANSWERED,
    connected,
    in_a_sentence,
    observer_for,
    of_a_group,
    owners_called,
    retried,
)
from bellwether_kafka.coordinator.membership import REBALANCING
from bellwether_kafka.coordinator.names import for_shell, listed
from bellwether_kafka.coordinator.observation import Observation, Shadow, unready
from bellwether_kafka.coordinator.planning import StreamsConfig, load_application
from bellwether_kafka.coordinator.settings import Leader, Settings


class PlannedPlacement:
    """A group as a placement order finds it. `rules` are already in force, `new_rules` are those of the order, () if it
    is only a rebalance. `policy` is the one that the leader reports, None if it reports none. While brokers are silent
    each refresh is retried for `retry_s`.

    Each method makes a new refresh; only `objection` keeps its result.
    """

    def __init__(
        self,
        settings: Settings,
        group: str,
        rules: tuple[Rule, ...],
        new_rules: tuple[Rule, ...],
        policy: str | None,
        *,
        configured: bool,
        retry_s: float,
    ) -> None:
        self._settings, self._group, self._rules, self._new_rules = settings, group, rules, new_rules
        self._policy, self._configured, self._retry_s = policy, configured, retry_s
        self._objection: str | None = None
        self._moved_from = 0
        self.rebalancing = False  # at the refresh for `objection`

    @property
    def _all(self) -> tuple[Rule, ...]:
        return (*self._rules, *self._new_rules)

    @property
    def objection(self) -> str:
        """Why the new rules could not be followed, as a sentence; "" if they could."""
        if self._objection is None:
            self._objection = self._find_objection()
        return self._objection

    def in_full(self, where: str) -> str:
        """Returns the full id, as leaders know it, of a member or process that was given in short; any other place
        unchanged. Ends the process with a sentence if the text is ambiguous."""
        seen = self._refresh(self._rules)
        plan = seen.shadow.decision.plan if seen.shadow is not None else None
        if plan is None or plan.named(where).any():
            return where
        named = owners_called(seen, plan, where.removeprefix(AT_MEMBER))
        if len(named) > 1:
            fail(f"{where} may be {listed(named)}; write more of the id.")
        return next((f"{AT_MEMBER}{owner.key}" for owner in plan.owners if owner.name in named), where)

    def planned(self) -> tuple[Observation, Shadow]:
        """Returns an observation with the plan under all rules, or ends the process with a sentence."""
        seen = self._refresh(self._all)
        if seen.shadow is None:
            fail(f"There is nothing to plan in {self._group}: {seen.no_plan}.")
        return seen, seen.shadow

    def seen(self) -> Observation:
        """Observes the group under the rules in force. Ends the process with a sentence if it does not exist."""
        return of_a_group(self._refresh(self._rules))

    def unready(self, where: str) -> str:
        """Returns what is missing until this member has its share again, as a sentence; "" for nothing."""
        return unready(self._refresh(self._rules), where, self._rules)

    def missing(self, elapsed_s: float) -> str:
        """Returns what still contradicts the new rules, with an estimate of the remaining time; "" for nothing."""
        seen = self._refresh(self._all)
        shadow = seen.shadow
        if shadow is None:
            return "the group is rebalancing." if seen.state in REBALANCING else f"it is not known: {seen.no_plan}."
        if not self._new_rules:
            return "the group is rebalancing."
        plan = shadow.decision.plan
        left = plan.against(self._new_rules, shadow.present)
        if not len(left):
            return ""
        self._moved_from = max(self._moved_from, len(left))
        moved = self._moved_from - len(left)
        copies = {str(copy.task) for copy in plan.state.copies}
        warming = sum(plan.state.task(item) in copies for item in left.tolist())
        pace = f", about {elapsed_s / moved * len(left):.0f} s at this pace" if moved else ""
        state = f", {warming} of them with a copy elsewhere that may be warming up" if warming else ""
        names = listed(plan.names(left))
        return f"{moved} of {self._moved_from} have moved; {names} still to move{state}{pace}."

    def _find_objection(self) -> str:
        seen = self._refresh(self._rules)
        self.rebalancing = seen.state in REBALANCING
        if seen.shadow is None:
            return f"Nothing can be placed in {self._group} now: {seen.no_plan}."
        plan = seen.shadow.decision.plan
        objections = (
            (rule, why)
            for rule in self._new_rules
            if rule.kind != "plan"  # it yields to all others
            and (why := plan.infeasible(rule, self._rules) or left_alone(plan, self._rules, rule))
        )
        rule, objection = next(objections, (None, ""))
        if rule is None:
            return ""
        named = objection.startswith(rule.item)  # names are case-sensitive
        because = control.contradicting(self._group, rule, self._rules, plan.infeasible)
        return f"{objection if named else objection[:1].upper() + objection[1:]}. {because}".rstrip()

    def _refresh(self, rules: tuple[Rule, ...]) -> Observation:
        async def once() -> Observation:
            async with connected(self._settings) as sources:
                leader = await asyncio.to_thread(self._leader, rules)
                return await observer_for(self._settings, self._group, sources, leader).observe()

        with in_a_sentence():
            return retried(
                lambda: asyncio.run(once()),
                self._retry_s,
                unanswered=UNANSWERED,
                lacking=lambda seen: seen.trouble if seen.silent else "",
            )

    def _leader(self, rules: tuple[Rule, ...]) -> Leader:
        """Returns the leader by the group's settings, or without them by the policy that the leader reports."""
        if self._configured:
            return configured(self._settings, self._group, rules=rules)
        stages = StageConfigs(rules=rules)
        streams = StreamsConfig(self._group, policy=STREAMS_HA, stages=stages, standbys_unknown=True)
        policy = self._policy if self._policy in POLICIES else None
        plain = configured(self._settings, self._group, policy, rules=rules)
        return replace(plain, application=load_application(streams) if self._policy == STREAMS_HA else None)


def left_alone(plan: GroupPlan, in_force: Sequence[Rule], rule: Rule) -> str:
    """Returns why this evacuation, together with those in force, would leave a task without a caught-up copy, as a
    phrase; "" if it would not. A single evacuation waits for warm-ups, but with several the members may stop at the
    same time."""
    others = [other for other in in_force if other.empties]
    if not others or not rule.empties:
        return ""
    left = plan.state.last_copies((*others, rule))
    places = " and ".join(dict.fromkeys(each.where for each in (*others, rule)))
    if not len(left):
        return ""
    return (
        f"outside {places} no member has a caught-up copy of {listed(plan.names(left))}; wait until one of them is back"
    )


def not_evacuated(order: control.AnyOrder, placed: PlannedPlacement) -> str:
    """Returns why a member must not be removed yet, as a sentence; "" if it may be."""
    if not isinstance(order, control.PlacementOrder) or order.until is not control.Until.REMOVED:
        return ""
    command = f"'bellwether evacuate {for_shell(order.target)} {for_shell(order.where)}'"
    return f"{order.where} still has work; empty it with {command}, and stop it." if placed.missing(0.0) else ""
