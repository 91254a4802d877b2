"""Brokers that answer as for a group of which only Bellwether is a member."""

from dataclasses import replace

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.runtime.membership_driver import MembershipDriver

NODE = membership.Node(1, "broker", 9092)


class BrokersOfOne:
    """`instance_id` is Bellwether's. Subclasses answer heartbeats, and note what they need."""

    instance_id: str | None = None

    async def request(self, command: membership.Request) -> membership.Answer:
        return replace(self._answer(command), request_id=command.request_id)

    def _answer(self, command: membership.Request) -> membership.Answer:
        match command:
            case membership.FindCoordinator():
                return membership.CoordinatorAnswer(0, 0, NODE)
            case membership.Describe():
                return membership.DescribeAnswer(0, 0, "Empty", "consumer")
            case membership.Join():
                members = (membership.JoinedMember("me", self.instance_id, b""),)
                return membership.JoinAnswer(0, 0, 1, "range", "me", "me", False, members)
            case membership.Sync():
                return membership.SyncAnswer(0, 0)
            case _:
                return membership.LeaveAnswer(0, 0)


def remembering(driver: MembershipDriver) -> MembershipDriver:
    """With an earlier process that was a member of the group a moment ago, so that it is joined at once."""
    driver.post(membership.LeadRemembered(0.0))
    return driver
