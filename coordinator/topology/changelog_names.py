"""What the name of a changelog shows of whose it is: APPLICATION-STORE-changelog, where an application id may begin
another one and Streams names stores itself. Pure.
"""

import re
from collections.abc import Collection

from bellwether_kafka.assignors.streams.application import CHANGELOG

# Names that Streams gives, in which a changelog and a source topic of its subtopology are alike.
TABLE = re.compile(r"(.+)-STATE-STORE-\d{10}")
_BY_STREAMS = ("KSTREAM-", "KTABLE-", "COGROUPKSTREAM-")
_JOIN = re.compile(r"KSTREAM-(?:JOIN|OUTER)(THIS|OTHER|SHARED)-\d{10}-store|(.+)-(this|other|\w+-shared)-join-store")
_SHORTEST = len("-s") + len(CHANGELOG)


def owner_by_name(topic: str, application_id: str, applications: Collection[str]) -> str | None:
    """The application whose id begins with this one and that has a changelog of this name, None for no such."""
    begins = (a for a in applications if a.startswith(f"{application_id}-") and topic.startswith(f"{a}-"))
    return max((a for a in begins if len(topic) >= len(a) + _SHORTEST), key=len, default=None)


def is_of_another_topic(store: str, sources: Collection[str]) -> bool:
    """Whether Streams named this store after a topic that the application does not read."""
    table = TABLE.fullmatch(store)
    return table is not None and not table[1].startswith(_BY_STREAMS) and table[1] not in sources


def shorter_alike(store: str, stores: Collection[str]) -> str | None:
    """The store whose name this one ends with: an application whose id begins with this one may have the same store."""
    parts = store.split("-")
    endings = ("-".join(parts[n:]) for n in range(1, len(parts)))
    return next((ending for ending in endings if ending in stores), None)


def of_one_join(stores: Collection[str]) -> bool:
    """Whether these are the stores of one join of two streams: of both sides, and what both share."""
    found = [_JOIN.fullmatch(store) for store in stores]
    parts = {match.groups() for match in found if match is not None}
    return len(parts) == len(stores) and len({name for _, name, _ in parts}) == 1
