"""The file that `bellwether init` writes. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.cli.init.answers import BOOTSTRAP, RACK
from bellwether_kafka.coordinator.names import for_terminal, for_toml
from bellwether_kafka.coordinator.settings import named


@dataclass(frozen=True, slots=True)
class DraftedGroup:
    """A group to lead: a headline on its present state, and its lines in the file."""

    headline: str
    configuration: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The content of the file. `properties`: those of the clients, including bootstrap.servers. `racks`: the brokers'.
    `environment`: names of properties set by variables, which are not written."""

    properties: Mapping[str, str]
    observe: Sequence[str]
    led: Sequence[DraftedGroup]
    racks: Sequence[str] = ()
    rack: str = ""
    environment: Sequence[str] = ()


def text_of(draft: Draft) -> str:
    """Returns the whole file."""
    return "\n".join([_head(), _kafka(draft), *_observed(draft.observe), *map(_led, draft.led)])


def _head() -> str:
    return _block(
        (
            "# Made by `bellwether init`. `bellwether doctor GROUP` and `bellwether run` take it with --config.",
            "# docs/reference/configuration.md has every setting.",
        )
    )


def _kafka(draft: Draft) -> str:
    lines = ["[kafka]", _line(BOOTSTRAP, draft.properties[BOOTSTRAP])]
    lines += [_line(name, value) for name, value in draft.properties.items() if name != BOOTSTRAP]
    if draft.environment:
        variables = ", ".join(draft.environment)
        lines.append(f"# Not written, because BELLWETHER_KAFKA_* variables set it: {variables}.")
    if draft.rack:
        lines.append(
            "# Where Bellwether runs: it reads its own topics from replicas in this rack, if brokers allow it."
        )
        lines.append(_line(RACK, draft.rack))
    elif draft.racks:
        lines.append(
            f"# The brokers' racks are {', '.join(draft.racks)}. If Bellwether runs in one of them, write it here."
        )
        lines.append(f"#{_line(RACK, draft.racks[0])}")
    return _block(lines)


def _observed(names: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        entry = named(name)
        first = (
            ["# Observing joins no group. `bellwether assess` shows what leading one would gain."]
            if number == 0
            else []
        )
        yield _block([*first, "[[groups]]", *(f"{setting} = {for_toml(value)}" for setting, value in entry.items())])


def _led(group: DraftedGroup) -> str:
    return _block([f"# {for_terminal(group.headline)}", *group.configuration.splitlines()])


def _line(name: str, value: str) -> str:
    return f"{for_toml(name)} = {for_toml(value)}"


def _block(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
