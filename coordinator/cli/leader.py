"""What commands plan with: the configured policy, capacities, weights and the orders in force. It is read from topics;
what cannot be read is left out of the plan, with a warning on standard error."""

import time
from collections.abc import Callable, Mapping

from bellwether_kafka.assignors.consumer import LOAD_AWARE
from bellwether_kafka.assignors.shared import Rule, Weights
from bellwether_kafka.coordinator.cli.cost import group_weights
from bellwether_kafka.coordinator.cli.options import group_settings
from bellwether_kafka.coordinator.cli.output import echo
from bellwether_kafka.coordinator.control import (
    ControlTopicError,
    NoControlTopicError,
    Orders,
    Record,
    TopicChannel,
)
from bellwether_kafka.coordinator.membership import MembershipConfig
from bellwether_kafka.coordinator.observation import GivenOrders
from bellwether_kafka.coordinator.settings import Leader, Settings, leader_of


def configured(
    settings: Settings,
    group: str,
    policy: str | None = None,
    *,
    weights: Weights | None = None,
    rules: tuple[Rule, ...] = (),
) -> Leader:
    """Returns the leader by the settings, or by another policy. Raises UnknownNameError and ApplicationError."""
    given = (lambda: weights) if weights is not None else None
    return leader_of(group_settings(settings, group), policy or "", given).with_rules(rules)


def membership_of(settings: Settings, group: str) -> MembershipConfig:
    """Returns the configuration with which Bellwether would join the group."""
    config = group_settings(settings, group).membership(settings.instance_id)
    application = configured(settings, group).application
    return application.membership(config) if application is not None else config


def under_orders(
    settings: Settings, group: str, policy: str | None = None, *, weights: Weights | None = None
) -> Leader:
    """Returns the leader as `configured` does, with the orders that are now in the topic."""
    return configured(settings, group, policy, weights=weights, rules=rules_in_force(settings, group))


def as_led(settings: Settings, group: str, policy: str | None = None) -> Leader:
    """Returns the leader as `configured` does, with the weights and orders that are now in topics. Raises
    UnknownNameError and ApplicationError."""
    group_config = group_settings(settings, group)
    by = policy or (group_config.streams.policy if group_config.streams is not None else group_config.policy)
    described = group_weights(settings, ()) if by == LOAD_AWARE else None
    return under_orders(settings, group, policy, weights=described[1] if described else None)


def rules_of(records: Mapping[str, Record], group: str, now_ms: int) -> tuple[Rule, ...]:
    """Returns the placement orders of this group that have not expired. Pure."""
    return Orders(records).of(group, now_ms).rules


def rules_in_force(
    settings: Settings, group: str, channel: Callable[..., TopicChannel] = TopicChannel
) -> tuple[Rule, ...]:
    """Returns the placement orders in force, from the control topic."""
    if not settings.control_topic:
        return ()
    try:
        records = channel(settings.properties, settings.control_topic).read()
    except ControlTopicError as error:
        if isinstance(error, NoControlTopicError) and not settings.names_control_topic:
            return ()  # no order was ever given
        echo(f"Pins, bans, evacuations and applied plans are left out: {error}", err=True)
        return ()
    return rules_of(records, group, int(time.time() * 1000))


def given_orders(settings: Settings, channel: Callable[..., TopicChannel] = TopicChannel) -> GivenOrders | None:
    """Returns what operators have ordered, or why a process with these settings could not take orders. None if there is
    no control topic and it could make one, or if it takes none and the topic may not be read."""
    if not settings.control_topic:
        return None
    records: Mapping[str, Record] = {}
    unread = ""
    to = channel(settings.properties, settings.control_topic)
    try:
        records = to.read()
    except NoControlTopicError as error:
        unread = to.unmakable() if settings.takes_orders else ""
        unread = unread or (str(error) if settings.names_control_topic else "")
        if not unread:
            return None
    except ControlTopicError as error:
        if not settings.takes_orders:
            return None
        unread = str(error)
    return GivenOrders(records=records, now_ms=int(time.time() * 1000), unread=unread)
