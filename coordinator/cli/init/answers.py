"""The answers that `bellwether init` needs: what options and typed words mean, and the questions on a terminal."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import typer

from bellwether_kafka.coordinator.cli.output import echo, fail
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


NO_LOGIN = "none"
LOGINS = (NO_LOGIN, "tls", "sasl")
BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Questions:
    """Asks questions. `defaults`: --yes was given. Ends the process if an answer is missing without a terminal."""

    def __init__(self, *, terminal: bool, defaults: bool) -> None:
        self._terminal, self._defaults = terminal, defaults
        self.asks = terminal and not defaults

    def answer(self, what: str, hint: str, option: str, default: str | None = None) -> str:
        """Asks a question. If `default` is None there is none, so --yes does not answer it."""
        if self._defaults and default is not None:
            return default
        if not self._terminal:
            accepted = "" if default is None else f", or --yes for {default or 'none'}"
            fail(f"There is no terminal to ask for {what}; use {option}{accepted}.")
        return _typed(f"{what[0].upper()}{what[1:]} ({hint})", default)

    def login(self, option: str) -> dict[str, str]:
        """Returns the client properties of a login; empty if the brokers need none."""
        kind = self.answer("the login", ", ".join(LOGINS), option, NO_LOGIN).lower()
        if kind not in LOGINS:
            fail(f"{kind} is no kind of login; answer with {', '.join(LOGINS)}.")
        if kind == NO_LOGIN:
            return {}
        return _given(_tls() if kind == "tls" else _sasl())


def _tls() -> dict[str, str]:
    properties = {"security.protocol": "SSL"} | _authority()
    properties["ssl.certificate.location"] = _typed("Your certificate, a PEM file (empty for none)", "")
    if properties["ssl.certificate.location"]:
        properties["ssl.key.location"] = _typed("Its private key, a PEM file")
    return properties


def _sasl() -> dict[str, str]:
    encrypted = _typed("Over TLS (yes, no)", "yes").lower().startswith("y")
    properties = {"security.protocol": "SASL_SSL" if encrypted else "SASL_PLAINTEXT"}
    properties["sasl.mechanism"] = _typed("SASL mechanism", "SCRAM-SHA-512").upper()
    if properties["sasl.mechanism"] in BY_PASSWORD:
        properties["sasl.username"] = _typed("User name")
        properties["sasl.password.file"] = _typed("A file that holds the password")
    while more := _typed("Another property as name=value (empty for none)", ""):
        try:
            properties |= properties_of([more])
        except AnswerError as error:
            echo(str(error), err=True)
    return properties | (_authority() if encrypted else {})


def _authority() -> dict[str, str]:
    return {"ssl.ca.location": _typed("The brokers' certificate authority, a PEM file (empty for the system's)", "")}


def _given(properties: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if value}


def _typed(question: str, default: str | None = None) -> str:
    """Prompts on standard error, because standard output is for results. Ctrl-C ends the command like any other."""
    try:
        answer: str = typer.prompt(question, default=default, show_default=bool(default), err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    return answer.strip()
