"""Topic names in settings. A name that no topic can have is refused before it is sent to a broker."""

from typing import Annotated

from pydantic import AfterValidator

from bellwether_kafka.protocol.primitives import is_topic_name


def _can_be(name: str) -> str:
    if not is_topic_name(name):
        raise ValueError(
            "no topic can have this name; write 1 to 249 of the letters a to z and A to Z, digits, '.', '_' and '-',"
            " and more than one or two dots"
        )
    return name


def _can_be_or_none(name: str) -> str:
    return _can_be(name) if name else name


TopicName = Annotated[str, AfterValidator(_can_be)]
TopicNameOrNone = Annotated[str, AfterValidator(_can_be_or_none)]  # "" for none
