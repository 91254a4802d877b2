"""The questions of `bellwether init` on a terminal. Without a terminal the options must answer them."""

import typer

from bellwether_kafka.coordinator.cli.init.choices import AnswerError, properties_of
from bellwether_kafka.coordinator.cli.output import echo, fail

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
