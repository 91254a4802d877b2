"""Kafka's rule for names of topics. What breaks it exists on no cluster: it is never asked for and counts as absent."""

import re
from collections.abc import Mapping
from typing import TypeVar

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FORBIDDEN = frozenset({".", ".."})

Value = TypeVar("Value")


def is_topic_name(name: str) -> bool:
    """1 to 249 of these characters, and not one of the two names of directories."""
    return _NAME.fullmatch(name) is not None and name not in _FORBIDDEN


def possible_topics(topics: Mapping[str, Value]) -> dict[str, Value]:
    """The entries that may be asked for."""
    return {name: value for name, value in topics.items() if is_topic_name(name)}
