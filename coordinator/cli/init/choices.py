"""The answers that `bellwether init` needs, from options or a terminal. Pure."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.properties import is_secret, shown_name

BOOTSTRAP = "bootstrap.servers"
RACK = "client.rack"
EVERY_GROUP = "*"
NO_GROUP = "-"


class AnswerError(Exception):
    """An answer cannot be used. The message is a sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class ChosenGroups:
    """The groups to observe, as names or patterns, and those to lead."""

    observe: tuple[str, ...] = ()
    lead: tuple[str, ...] = ()


def properties_of(given: Iterable[str]) -> dict[str, str]:
    """Parses client properties, each given as name=value. Raises AnswerError, whose message never contains a value."""
    properties: dict[str, str] = {}
    for text in given:
        name, separator, value = (part.strip() for part in text.partition("="))
        if not (name and separator and value):
            called = shown_name(name) if name else "one"
            raise AnswerError(f"A property is name=value, such as security.protocol=SASL_SSL; {called} is not.")
        if name in properties:
            raise AnswerError(f"The property {shown_name(name)} is given twice; remove one.")
        if name in (BOOTSTRAP, RACK):
            option = "--bootstrap" if name == BOOTSTRAP else "--rack"
            raise AnswerError(f"{name} has an option of its own; use {option}.")
        if is_secret(name):
            called = shown_name(name)
            raise AnswerError(f"{called} is a secret, which the file must not hold; use {called}.file=PATH.")
        properties[name] = value
    return properties


def names_of(text: str) -> tuple[str, ...]:
    """Returns names or patterns that are separated by commas; `-` means none. A regular expression must be the only
    entry, because it may contain commas."""
    if text.strip() == NO_GROUP:
        return ()
    if text.startswith("/") and text.endswith("/"):
        return (text,)
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def chosen(observe: Iterable[str], lead: Iterable[str], existing: Sequence[str]) -> ChosenGroups:
    """Returns the chosen groups. `existing` are the cluster's; those to lead must be among them. Raises AnswerError."""
    choice = ChosenGroups(tuple(dict.fromkeys(observe)), tuple(dict.fromkeys(lead)))
    if not choice.observe and not choice.lead:
        raise AnswerError("No group is to be observed or led; use --observe PATTERN or --lead GROUP.")
    both = [name for name in choice.lead if name in choice.observe]
    if both:
        raise AnswerError(f"The group {both[0]} is given to --observe and to --lead; remove one.")
    for name in choice.lead:
        if name not in existing:
            near = difflib.get_close_matches(name, existing, n=1)
            remedy = f"perhaps {near[0]} is meant" if near else "start its members, or see 'bellwether groups'"
            raise AnswerError(f"The cluster has no group {name} that --lead could be about; {remedy}.")
    return choice


def rack_of(given: str, racks: Sequence[str]) -> str:
    """Returns the given rack, "" for none. Raises AnswerError unless it is one of the brokers' racks."""
    if not given or given in racks:
        return given
    if not racks:
        raise AnswerError("The brokers have no racks; leave out --rack.")
    raise AnswerError(f"No broker is in the rack {given}; use --rack with one of {', '.join(racks)}.")
