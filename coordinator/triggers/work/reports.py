"""The reports of an application's threads in a rebalance: JoinGroups that are new since the last plan. Pure."""

from collections.abc import Iterator, Mapping

from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription, SubscriptionInfo
from bellwether_kafka.protocol.primitives import RemoteProtocolError

Report = tuple[str, ConsumerProtocolSubscription, SubscriptionInfo]  # member id, subscription, info


def new_reports(decision: Decision[TaskPlan], before: Mapping[str, bytes]) -> Iterator[Report]:
    """Yields the reports that can be decoded. A member that did not join again is listed with its former metadata,
    which `before` has by member id."""
    for member in decision.plan.joined:
        if before.get(member.member_id) == member.metadata:
            continue
        try:
            subscription = ConsumerProtocolSubscription.decode(member.metadata)
            info = SubscriptionInfo.decode(subscription.user_data or b"")
        except RemoteProtocolError:
            continue
        yield member.member_id, subscription, info
