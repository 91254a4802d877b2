"""Which groups are observed and how: those that the settings name, and those that their patterns select."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bellwether_kafka.assignors.consumer import OF_ANY_PROTOCOL, POLICIES, Policy, policy
from bellwether_kafka.assignors.shared import UnknownNameError, Weights, load_plugins
from bellwether_kafka.coordinator.kafka import ListedGroup
from bellwether_kafka.coordinator.membership import MembershipConfig
from bellwether_kafka.coordinator.names import for_toml
from bellwether_kafka.coordinator.planning import Application, load_application
from bellwether_kafka.coordinator.settings import GroupSettings, Settings

# Of groups whose brokers are asked for members: Kafka Connect and share groups have no assignment of partitions.
PROTOCOL_TYPES = frozenset({"", "consumer", "streams"})


@dataclass(frozen=True, slots=True)
class Selected:
    """How one group is looked at. Two that have equal `settings` are looked at in the same way; `by` is the pattern
    that selected the group, "" where it is named."""

    config: MembershipConfig
    policy: Policy
    application: Application | None = None
    settings: object = None
    by: str = ""


class Selection(Protocol):
    """What `ObservedGroups` follows."""

    @property
    def named(self) -> Mapping[str, Selected]:
        """Groups that are looked at whether they exist or not."""

    @property
    def patterns(self) -> Sequence[str]:
        """Where there are none, nobody need list groups."""

    def select(self, group: ListedGroup) -> Selected | None:
        """None for a group that no pattern selects or that is named. Raises SettingsError where two patterns are
        equally specific."""


@dataclass(frozen=True, slots=True)
class Named:
    """Groups by name, and no others."""

    named: Mapping[str, Selected]
    patterns: Sequence[str] = ()

    def select(self, _group: ListedGroup) -> None:
        return None


class ConfiguredSelection:
    """What the settings say. Raises ApplicationError and UnknownNameError with a sentence, as `policies_of`."""

    def __init__(self, settings: Settings, weights: Callable[[], Weights] | None) -> None:
        self._settings = settings
        self._weights = weights
        self.patterns = tuple(group.match for group in settings.patterns)
        entries = [group for group in settings.groups if group.mode != "lead" and group.streams is None]
        self._policies = policies_of(entries)
        observed = [group for group in settings.named if group.mode != "lead"]
        configs = {config.group_id: config for config in settings.memberships}
        self.named = {group.name: self._selected(group, group.called, configs[group.name]) for group in observed}

    def select(self, group: ListedGroup) -> Selected | None:
        if group.protocol_type not in PROTOCOL_TYPES:
            return None
        entry = self._settings.entry(group.group_id)
        if entry is None or not entry.match:
            return None
        found = entry.of_group(group.group_id)
        return self._selected(found, entry.match, found.membership(self._settings.instance_id), by=entry.match)

    def _selected(self, group: GroupSettings, entry: str, config: MembershipConfig, by: str = "") -> Selected:
        application = load_application(group.streams, self._weights) if group.streams else None
        return Selected(config, self._policies.get(entry, Policy()), application, group, by)


def policies_of(groups: Sequence[GroupSettings]) -> Mapping[str, Policy]:
    """By the name of the group or its pattern. Raises UnknownNameError with a sentence for people."""
    try:
        plugins = load_plugins(sorted({group.policy for group in groups} - set(POLICIES)))
        policies = {
            group.called: replace(policy(group.policy, plugins).with_capacity(group.capacity), clock=time.perf_counter)
            for group in groups
        }
    except UnknownNameError as error:
        text = f"The setting policy cannot be used: {error}; stock ones are {', '.join(POLICIES)}."
        raise UnknownNameError(text) from None
    for group in groups:
        try:
            # A name that nobody here can plan for would lock every other member out of the group.
            for protocol in group.protocols:
                policies[group.called].chain(protocol)
        except UnknownNameError as error:
            text = (
                f"The setting protocols of group {group.called} cannot be used: {error}. Set policy ="
                f" {' or '.join(map(for_toml, OF_ANY_PROTOCOL))} for the group, which lead under any protocol."
            )
            raise UnknownNameError(text) from None
    return policies
