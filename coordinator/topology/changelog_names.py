"""Finds the owner of a changelog by its name, APPLICATION-STORE-changelog. An application id may be a prefix of another
one, and Streams generates some store names. Pure."""

import re
from collections.abc import Collection

from bellwether_kafka.assignors.streams.application import CHANGELOG

# Store names that Streams derives from a source topic of the subtopology.
TABLE = re.compile(r"(.+)-STATE-STORE-\d{10}")
_BY_STREAMS = ("KSTREAM-", "KTABLE-", "COGROUPKSTREAM-")
_JOIN = re.compile(r"KSTREAM-(?:JOIN|OUTER)(THIS|OTHER|SHARED)-\d{10}-store|(.+)-(this|other|\w+-shared)-join-store")
_SHORTEST = len("-s") + len(CHANGELOG)


def owner_by_name(topic: str, application_id: str, applications: Collection[str]) -> str | None:
    """Returns the application to which a changelog of this name belongs, among those whose id begins with
    `application_id`; None if none fits."""
    begins = (a for a in applications if a.startswith(f"{application_id}-") and topic.startswith(f"{a}-"))
    return max((a for a in begins if len(topic) >= len(a) + _SHORTEST), key=len, default=None)


def is_of_another_topic(store: str, sources: Collection[str]) -> bool:
    """Returns whether Streams named this store after a topic that the application does not read."""
    table = TABLE.fullmatch(store)
    return table is not None and not table[1].startswith(_BY_STREAMS) and table[1] not in sources


def shorter_alike(store: str, stores: Collection[str]) -> str | None:
    """Returns a store whose name this one ends with, else None: the changelog may be that store's, of an application
    with a longer id."""
    parts = store.split("-")
    endings = ("-".join(parts[n:]) for n in range(1, len(parts)))
    return next((ending for ending in endings if ending in stores), None)


def of_one_join(stores: Collection[str]) -> bool:
    """Returns whether these are the stores of one join of two streams: those of its sides and the one they share."""
    matches = [_JOIN.fullmatch(store) for store in stores]
    parts = {match.groups() for match in matches if match is not None}
    return len(parts) == len(stores) and len({name for _, name, _ in parts}) == 1
