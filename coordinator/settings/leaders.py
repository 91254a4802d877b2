"""Turns the settings of groups into what plans for them: the policy of a group of consumers, or an application."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.assignors.consumer import OF_ANY_PROTOCOL, Policy, load_policies
from bellwether_kafka.assignors.shared import Rule, UnknownNameError, Weights
from bellwether_kafka.assignors.streams.policies import STREAMS_POLICIES
from bellwether_kafka.coordinator.names import for_toml
from bellwether_kafka.coordinator.planning import Application, load_application
from bellwether_kafka.coordinator.settings.group_settings import GroupSettings


@dataclass(frozen=True, slots=True)
class Leader:
    """The configured leader. `application`: None for plain consumers, else it has the policy that counts."""

    policy: Policy
    application: Application | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The orders on placement that its plans follow."""
        return self.policy.rules if self.application is None else self.application.config.stages.rules

    def with_rules(self, rules: tuple[Rule, ...]) -> "Leader":
        """Returns the leader under these orders on placement."""
        if self.application is not None:
            return replace(self, application=self.application.with_rules(rules))
        return replace(self, policy=self.policy.with_rules(rules))


def leader_of(group: GroupSettings, policy: str = "", weights: Callable[[], Weights] | None = None) -> Leader:
    """Returns the leader of one group, by another policy if one is named. The stages of consumers' plans are not timed,
    so that equal inputs give equal results. Raises UnknownNameError and ApplicationError."""
    if group.streams is not None:
        config = replace(group.streams, policy=policy) if policy else group.streams
        return Leader(Policy(), load_application(config, weights))
    named = _untimed([group], policy)[group.called]
    return Leader(named.with_weights(weights()) if weights is not None else named)


def policies_of(groups: Sequence[GroupSettings]) -> Mapping[str, Policy]:
    """Returns the policies of groups of consumers by the name or pattern of the group, for a process: their stages are
    timed. Plug-ins are loaded once. Raises UnknownNameError with a sentence for the operator."""
    policies = {called: replace(policy, clock=time.perf_counter) for called, policy in _untimed(groups).items()}
    for group in groups:
        _refuse_unplannable(group, policies[group.called])
    return policies


def _untimed(groups: Sequence[GroupSettings], policy: str = "") -> Mapping[str, Policy]:
    """Returns the policies of groups of consumers, or this one for each of them, with the capacities of their members.
    Raises UnknownNameError."""
    if troubles := [trouble for group in groups if (trouble := _trouble(group, policy))]:
        raise UnknownNameError(" ".join(troubles))
    loaded = load_policies(policy or group.policy for group in groups)
    return {group.called: loaded[policy or group.policy].with_capacity(group.capacity) for group in groups}


def _trouble(group: GroupSettings, policy: str) -> str:
    """Returns a sentence if there is no policy of this name, else that of the group's settings; "" if there is."""
    try:
        load_policies([policy or group.policy])
    except UnknownNameError as error:
        what = "The policy" if policy else f"The setting policy of group {group.called}"
        of_tasks = (policy or group.policy) in STREAMS_POLICIES
        hint = f'; {policy or group.policy} is for applications, whose settings have kind = "streams"' * of_tasks
        return f"{what} cannot be used: {error}{hint}."
    return ""


def applications_of(
    groups: Sequence[GroupSettings], weights_of: Callable[[str], Callable[[], Weights]]
) -> Mapping[str, Application]:
    """Returns the applications by group. `weights_of` returns the function for the weights of a group. Raises
    ApplicationError."""
    return {group.name: load_application(group.streams, weights_of(group.name)) for group in groups if group.streams}


def _refuse_unplannable(group: GroupSettings, policy: Policy) -> None:
    """Raises UnknownNameError for a protocol that Bellwether cannot plan for: it would lock every other member out of
    the group."""
    try:
        for protocol in group.protocols:
            policy.chain(protocol)
    except UnknownNameError as error:
        text = (
            f"The setting protocols of group {group.called} cannot be used: {error}. Set policy ="
            f" {' or '.join(map(for_toml, OF_ANY_PROTOCOL))} for the group, which lead under any protocol."
        )
        raise UnknownNameError(text) from None
