"""The first names of many, in a sentence."""

from collections.abc import Sequence

from bellwether_kafka.coordinator.names.languages import for_sentence

NAMES_SHOWN = 4


def listed(names: Sequence[str], shown: int = NAMES_SHOWN) -> str:
    """Returns the first names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(map(for_sentence, names[:shown])) + more
