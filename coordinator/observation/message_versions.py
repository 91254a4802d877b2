"""Describes the versions of the messages that members send, and their consequences. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from bellwether_kafka.assignors.shared import RawMember
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation.observation import Observation
from bellwether_kafka.protocol import messages
from bellwether_kafka.protocol.primitives import RemoteProtocolError

RACK_VERSION = 3  # the first version of a subscription that has the member's rack


@dataclass(frozen=True, slots=True)
class MessageVersions:
    """A sentence on the versions. `remedy` is "" if Bellwether knows all of them."""

    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class _Words:
    """Phrases for one kind of members. `highest` is the highest version that Bellwether knows."""

    what: str
    highest: int
    mixed: str
    newer: str


OF_CONSUMERS = _Words(
    what="subscriptions",
    highest=messages.CONSUMER_VERSION_MAX,
    mixed="; each gets an assignment that all versions can read",
    newer="They get their share by the fields that Bellwether knows; upgrade Bellwether.",
)
OF_STREAMS = _Words(
    what="subscription data of Streams",
    highest=messages.STREAMS_VERSION_MAX,
    mixed="; all get answers in the lowest, as in a rolling upgrade",
    newer="They keep what they have; upgrade Bellwether.",
)


def message_versions(members: Iterable[RawMember], *, streams: bool) -> MessageVersions | None:
    """Returns the sentence, or None if no member's bytes can be read."""
    version_of = {
        m.member_id: version for m in members if (version := _version(m.metadata, streams=streams)) is not None
    }
    if not version_of:
        return None
    words = OF_STREAMS if streams else OF_CONSUMERS
    newer = [member for member, version in version_of.items() if version > words.highest]
    if newer:
        return MessageVersions(f"{listed(newer)} send {words.what} newer than Bellwether knows.", words.newer)
    versions = sorted({*version_of.values()})
    shown = ", ".join(f"v{version}" for version in versions)
    return MessageVersions(f"Members send {words.what} {shown}{words.mixed * (len(versions) > 1)}.")


CONFIGURE = "For clients that never send a rack, configure [racks] (docs/guides/policies.md#clients-that-send-no-rack)."


def how_to_name_racks(seen: Observation) -> str:
    """Returns what to do for the subscribed members that name no rack. A subscription before v3 has no field for it, so
    client.rack has no effect on its member (docs/internals/client-quirks.md#what-each-client-writes)."""
    raw = seen.shadow.decision.raw.others if seen.shadow is not None else ()
    version_of = {m.member_id: _version(m.metadata, streams=False) for m in raw}
    rackless = [m for m in seen.members if m.topics and not m.rack]
    unable = [
        m.client_id or m.member_id
        for m in rackless
        if (version := version_of.get(m.member_id)) is not None and version < RACK_VERSION
    ]
    if not unable:
        return "Set client.rack on them: they are placed without regard to racks."
    others = "Set client.rack on the others. " if len(unable) < len(rackless) else ""
    return (
        f"{others}The subscriptions of {listed(unable)} have no field for client.rack: upgrade Java clients to 3.5 and"
        f" librdkafka to 2.2. {CONFIGURE}"
    )


def _version(metadata: bytes, *, streams: bool) -> int | None:
    """Returns the version in a member's metadata, None if malformed, which the check of members reports."""
    try:
        message = messages.ConsumerProtocolSubscription.decode(metadata)
        return messages.SubscriptionInfo.decode(message.user_data or b"").version if streams else message.version
    except RemoteProtocolError:
        return None
