"""Errors in settings, as sentences."""

import difflib
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from bellwether_kafka.coordinator.settings.group_settings import GroupSettings

SHOWN = 3
GROUP_DEPTH = 2  # ("groups", number)
RENAMED = {"sidecar_id": "instance_name"}  # settings of earlier versions, and what they are called now
# Settings of members for which a name that looks like theirs is none.
OF_MEMBERS = {
    "partition.assignment.strategy": "members keep it; the names that they may use are in protocols",
    "group.instance.id": "members keep it; instance_id is that of Bellwether, which must be another one",
}
# Values of earlier versions of Kafka, and what they are called now: the other values of the setting are no remedy.
OLDER_VALUES = {
    ("processing.guarantee", "exactly_once"): "exactly_once_v2",
    ("processing.guarantee", "exactly_once_beta"): "exactly_once_v2",
}


class SettingsError(Exception):
    """The settings are wrong. The message is a sentence that names the setting and the remedy."""


class AmbiguousGroupError(SettingsError):
    """Two patterns that are equally specific select the same group."""

    def __init__(self, group_id: str, pattern: str, other: str) -> None:
        super().__init__(
            f"Group {group_id}: the patterns {pattern} and {other} are equally specific, so it is not observed;"
            " name the group by name = ..., make one pattern longer, or exclude the group from one of them."
        )


def sentence(error: ValidationError, settings: type[BaseModel]) -> str:
    """Returns a validation error as one sentence: the setting, its group, the problem and the remedy. Never shows the
    value."""
    problems = list(dict.fromkeys(_problem(dict(detail), settings) for detail in error.errors()))
    more = f" (and {len(problems) - SHOWN} more problems)" if len(problems) > SHOWN else ""
    text = "; ".join(problems[:SHOWN]).rstrip(".")
    return f"{text}{more}."


def _problem(detail: dict[str, Any], settings: type[BaseModel]) -> str:
    path = _path(detail["loc"])
    if detail["type"] == "extra_forbidden":
        if detail["loc"][-1] in RENAMED:
            return f"The setting {path} is called {RENAMED[str(detail['loc'][-1])]} now; rename it"
        if detail["loc"][-1] in OF_MEMBERS:
            return f"The setting {path} does not exist: {OF_MEMBERS[str(detail['loc'][-1])]}"
        model = settings if detail["loc"][0] != "groups" else GroupSettings
        names = [field.alias or name for name, field in model.model_fields.items()]
        return f"The setting {path} does not exist; {suggestion(str(detail['loc'][-1]), names)}"
    written = detail.get("input")
    if isinstance(written, str) and detail["loc"]:
        meant = _without_constant(written).replace("-", "_")
        now = OLDER_VALUES.get((str(detail["loc"][-1]), meant))
        if now is not None or (detail["type"] == "literal_error" and f"'{meant}'" in detail["msg"]):
            means = f", which is what {meant} means" if now else ""
            return f'The setting {path} cannot be used: write "{now or meant}"{means}'
    if detail["type"] == "missing":
        return f"The setting {path} is missing; set it"
    text = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "value_error" and (not path or text.startswith("Group ")):
        return str(text)
    return f"The setting {path}{_group_of(detail)} cannot be used: {text[0].lower()}{text[1:]}"


def _group_of(detail: dict[str, Any]) -> str:
    """Returns the name or pattern of the group that an error is about as a whole, in brackets; "" for none."""
    group = detail.get("input")
    if detail["loc"][:1] != ("groups",) or len(detail["loc"]) != GROUP_DEPTH or not isinstance(group, dict):
        return ""
    called = group.get("name") or group.get("match")
    return f" ({called})" if isinstance(called, str) else ""


def _path(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _without_constant(text: str) -> str:
    """Returns a name or value as Kafka writes it, of one that was copied as Java code has it:
    `StreamsConfig.EXACTLY_ONCE_V2`."""
    return text.rpartition(".")[2].lower() if any(map(str.isupper, text)) else text


def suggestion(name: str, names: Iterable[str]) -> str:
    names = list(names)
    kafkas = _without_constant(name).removesuffix("_config").replace("_", ".")
    close = [kafkas] * (kafkas in names) or difflib.get_close_matches(name, names, n=1)
    return f"perhaps {close[0]} is meant" if close else f"known are {', '.join(names)}"
