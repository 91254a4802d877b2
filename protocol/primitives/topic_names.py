"""Kafka's rule for topic names. A topic with another name cannot exist, so it is never requested and counts as
absent."""

import re
from collections.abc import Mapping
from typing import TypeVar

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FORBIDDEN = frozenset({".", ".."})

Value = TypeVar("Value")


def is_topic_name(name: str) -> bool:
    """Returns whether the name has 1 to 249 of the allowed characters and is neither "." nor ".."."""
    return _NAME.fullmatch(name) is not None and name not in _FORBIDDEN


def possible_topics(topics: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the entries whose topics can exist."""
    return {name: value for name, value in topics.items() if is_topic_name(name)}
