"""The racks that the configuration gives to the members of one group, by what brokers have shown of them so far. Pure.

A leader receives neither client ids nor hosts with a JoinGroup answer. Both are in DescribeGroups answers, and plans do
not wait for one. Of a member that no answer has shown, the member id has the client id: brokers form the id of a
dynamic member from its client id and a UUID, that of a static one from its instance id.
"""

from collections.abc import Iterable, Sequence

from bellwether_kafka.coordinator.membership import MEMBER_ID_UUID_LENGTH, DescribedMember, JoinedMember
from bellwether_kafka.coordinator.planning.racks.rack_rules import NO_RULES, ConfiguredRack, RackRules


class MemberRacks:
    """The members of one group. Racks that members send themselves are not considered here."""

    def __init__(self, rules: RackRules = NO_RULES) -> None:
        self.rules = rules
        self._descriptions = 0  # that have brought something new
        self._shown: dict[str, DescribedMember] = {}  # by member id, and by instance id, which outlives a restart

    def observe(self, members: Iterable[DescribedMember]) -> None:
        """Remembers these members of a DescribeGroups answer, and forgets those that are not in it."""
        shown = [*members] if self.rules else []
        if not shown:
            return
        bare = [DescribedMember(m.member_id, m.instance_id, b"", b"", m.client_id, m.client_host) for m in shown]
        by_id = {key: m for m in bare for key in (m.instance_id, m.member_id) if key}
        if by_id != self._shown:
            self._shown, self._descriptions = by_id, self._descriptions + 1

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever `of` may give another answer."""
        return self._descriptions, self.rules.version

    def of(self, member: JoinedMember) -> ConfiguredRack:
        """Returns the rack of a member that sends none."""
        if not self.rules:
            return ConfiguredRack()
        shown = self._find(member)
        if shown is not None:
            return self.rules.rack_of(shown.client_id, shown.client_host)
        return self.rules.rack_of(_client_id(member), "")

    def lacks(self, members: Sequence[JoinedMember]) -> bool:
        """Returns whether another DescribeGroups answer would show something about these members that may matter."""
        if not self.rules:
            return False
        return any((self.rules.need_hosts or not _client_id(m)) and self._find(m) is None for m in members)

    def _find(self, member: JoinedMember) -> DescribedMember | None:
        return self._shown.get(member.member_id) or self._shown.get(member.instance_id or "")


def _client_id(member: JoinedMember) -> str:
    """Returns the client id in a dynamic member's id, "" for a static member."""
    return member.member_id[: -MEMBER_ID_UUID_LENGTH - 1] if member.instance_id is None else ""
