"""Which groups are observed and how: those that the settings name, and those that match their patterns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.kafka.wire import ListedGroup
from bellwether_kafka.coordinator.membership import MembershipConfig
from bellwether_kafka.coordinator.planning import Application, load_application
from bellwether_kafka.coordinator.settings import GroupSettings, Settings, policies_of

# Types of groups whose members are read: Kafka Connect and share groups have no assignment of partitions.
PROTOCOL_TYPES = frozenset({"", "consumer", "streams"})


@dataclass(frozen=True, slots=True)
class Selected:
    """How one group is observed. Groups with equal `settings` are observed in the same way. `by` is the pattern that
    selected the group, "" if it is named."""

    config: MembershipConfig
    policy: Policy
    application: Application | None = None
    settings: object = None
    by: str = ""


class Selection(Protocol):
    """The groups that `ObservedGroups` observes."""

    @property
    def named(self) -> Mapping[str, Selected]:
        """Groups that are observed whether they exist or not."""

    @property
    def patterns(self) -> Sequence[str]:
        """The patterns. Without any, groups need not be listed."""

    def select(self, group: ListedGroup) -> Selected | None:
        """Returns how to observe a listed group; None if no pattern selects it or if it is named. Raises SettingsError
        if two patterns are equally specific."""


@dataclass(frozen=True, slots=True)
class Named:
    """A selection of groups by name only."""

    named: Mapping[str, Selected]
    patterns: Sequence[str] = ()

    def select(self, _group: ListedGroup) -> None:
        return None


class ConfiguredSelection:
    """The selection in the settings. Raises ApplicationError and UnknownNameError with a sentence, as `policies_of`
    does."""

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
        settings = entry.of_group(group.group_id)
        return self._selected(settings, entry.match, settings.membership(self._settings.instance_id), by=entry.match)

    def _selected(self, group: GroupSettings, entry: str, config: MembershipConfig, by: str = "") -> Selected:
        application = load_application(group.streams, self._weights) if group.streams else None
        return Selected(config, self._policies.get(entry, Policy()), application, group, by)
