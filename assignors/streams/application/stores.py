"""Interprets names in a description that Streams generates for stores and topics: which topics are internal, how a
changelog is kept, which source topic may serve as one (docs/reference/topology-file.md#what-a-description-shows). Names
that the application chose carry no such information; then the user has to provide it."""

import re
from collections.abc import Sequence
from enum import StrEnum

from bellwether_kafka.assignors.streams.application.description import Part, TopologyNode

CHANGELOG, REPARTITION = "-changelog", "-repartition"  # what the names of internal topics end with
_NUMBER = r"-\d{10}"
_INTERNAL = re.compile(
    rf".+-repartition|.+-subscription-(registration|response)-topic"
    rf"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE){_NUMBER}-topic"
)
_NUMBERED_TOPIC = re.compile(rf".*{_NUMBER}-(repartition|topic)")
_MAYBE_SIZED = re.compile(rf"(?!.*{_NUMBER}-).+-repartition|KSTREAM-REPARTITION{_NUMBER}-repartition")
_NUMBERED_STORE = re.compile(rf"(?!KSTREAM-AGGREGATE|KSTREAM-REDUCE|COGROUPKSTREAM-).+-STATE-STORE{_NUMBER}")
_PLAIN_STORE = re.compile(
    rf"KSTREAM-OUTERSHARED{_NUMBER}-store|.+-(left|outer)-shared-join-store|(KSTREAM-.*JOIN{_NUMBER}|.+)-Buffer"
)
_JOIN_STORE = re.compile(
    rf"KSTREAM-(JOIN|OUTER)(THIS|OTHER){_NUMBER}-store|.+-(this|other)-join-store|.+-(this|other)-windowed"
)
_SUBSCRIPTION = re.compile(r"(.+)-subscription-receive")
_TABLE = re.compile(rf"KTABLE-SOURCE{_NUMBER}|.+-table-source")
# Custom processors are connected with the stores that they request, which implies nothing about copartitioning.
_CUSTOM_CODE = re.compile(rf"KSTREAM-(PROCESSOR|PROCESSVALUES|TRANSFORM|TRANSFORMVALUES|FLATTRANSFORM.*){_NUMBER}")
_DSL = re.compile(
    rf"(KSTREAM|KTABLE)-.*{_NUMBER}|.+-(this|other)-(windowed|join)|.+-join-(this|other)"
    r"|.+-subscription-(receive|join-foreign|response-resolver)|.+-foreign-join-subscription|.+-table-source"
)


class StoreKind(StrEnum):
    """How the changelog of a store is kept, as far as names show. JOIN: windowed, of a join of two streams."""

    PLAIN = "plain"
    JOIN = "join"
    UNKNOWN = "unknown"


def named_internal(name: str) -> bool:
    """Returns whether an internal topic other than a changelog may have this name (without the application id)."""
    return _INTERNAL.fullmatch(name) is not None


def created_by_streams(topic: str, writers: Sequence[TopologyNode], readers: Sequence[TopologyNode]) -> bool | None:
    """Returns whether Streams created a topic with such a name that the application itself writes, None if undecided.
    For topics that Streams created, nodes carry the topic's name, or the topic has a number, except for a table that is
    regrouped. Before 2.5 the nodes of named topics had numbers too; then the store behind it may have its name."""
    if _NUMBERED_TOPIC.fullmatch(topic) or any(node.name == f"{topic.removesuffix('-topic')}-sink" for node in writers):
        return True
    if any(node.name.startswith(("KTABLE-AGGREGATE-", "KTABLE-REDUCE-")) for node in readers):
        return True
    if any(f"{store}-repartition" == topic for node in readers for store in node.stores):
        return None
    return False if readers and all(node.name.startswith("KSTREAM-") for node in readers) else None


def may_be_sized(topic: str) -> bool:
    """Returns whether this topic may come from `repartition`, which accepts a partition count that no text shows."""
    return _MAYBE_SIZED.fullmatch(topic) is not None


def kind_of(store: str, users: Sequence[TopologyNode]) -> StoreKind:
    """Returns the kind of a store. `users` are the processors connected with it."""
    names = [store, *(node.name for node in users)]
    if _PLAIN_STORE.fullmatch(store) or _NUMBERED_STORE.fullmatch(store):
        return StoreKind.PLAIN
    if any(match[1] + "-subscription-store" == store for name in names if (match := _SUBSCRIPTION.fullmatch(name))):
        return StoreKind.PLAIN
    return StoreKind.JOIN if _JOIN_STORE.fullmatch(store) else StoreKind.UNKNOWN


def substitute(part: Part, store: str) -> str | None:
    """Returns the source topic that may serve as the changelog of this store: that of a table under
    topology.optimization, or that of a read-only store, whose processor forwards nothing."""
    users = part.users(store)
    for node in users:
        topics = [t for name in node.before if name in part.sources for t in part.sources[name].topics]
        fills = len(node.before) == len(topics) == 1 and set(node.before) <= part.sources.keys()
        own_name = not node.name.startswith("KSTREAM-")
        if fills and (_TABLE.fullmatch(node.name) or (own_name and not part.feeds(node) and len(users) > 1)):
            return topics[0]
    return None


def is_table(part: Part, store: str) -> bool:
    """Returns whether this store belongs to a table that is read from a topic."""
    return any(_TABLE.fullmatch(node.name) for node in part.users(store))


def joined(part: Part) -> list[tuple[set[str], list[str]]]:
    """Returns (topics that must have equal partition counts, processors that only may take part) per group, with names
    as in the text. Topics are in one group if they meet in a store, directly or through other topics of the group.
    Custom processors may share a store too, without that rule."""
    groups: list[tuple[set[str], list[str]]] = []
    for store in part.stores:
        users = [node for node in part.users(store) if not _CUSTOM_CODE.fullmatch(node.name)]
        behind = {node.name: part.topics_behind(node) for node in users}
        of_dsl = {n for n, topics in behind.items() if _DSL.fullmatch(n) or f"{n}-repartition" in topics}
        topics = set().union(*behind.values())
        if not of_dsl or len(users) < 2 or len(topics) < 2:
            continue
        produced = set().union(*(behind[name] for name in of_dsl))
        # sure, because the join created one of the topics
        sure = topics == produced or any(f"{name}-repartition" in behind[name] for name in of_dsl)
        guessed = [] if sure else sorted(behind.keys() - of_dsl)
        for other in [group for group in groups if group[0] & topics]:
            groups.remove(other)
            topics, guessed = topics | other[0], guessed + other[1]
        groups.append((topics, guessed))
    return groups
