"""What a new version of an event may change."""

import json
from typing import Any

from bellwether_kafka.coordinator.events import EventSchema


def evolution_findings(old: EventSchema, new: EventSchema) -> tuple[str, ...]:
    """What makes `new` unfit to follow `old`; empty if nothing.

    Readers of either must read what the other wrote: a field may be added with a default or, if it has a default,
    removed; types stay, records inside records too; names and the namespace stay.
    """
    return tuple(_findings(json.loads(old.text), json.loads(new.text), old.event))


def _findings(old: Any, new: Any, at: str) -> list[str]:
    if isinstance(old, dict) and old.get("type") == "array":
        same = isinstance(new, dict) and new.get("type") == "array"
        return _findings(old["items"], new["items"], f"{at}[]") if same else [f"{at}: an array became something else"]
    if not (isinstance(old, dict) and old.get("type") == "record"):
        return [] if old == new else [f"{at}: the type changed from {old} to {new}"]
    if not (isinstance(new, dict) and new.get("type") == "record"):
        return [f"{at}: a record became something else"]
    findings = []
    if (old["name"], old.get("namespace")) != (new["name"], new.get("namespace")):
        findings.append(f"{at}: the name changed")
    before, after = ({field["name"]: field for field in record["fields"]} for record in (old, new))
    findings += [
        f"{at}.{name}: added without a default" for name in after if name not in before and "default" not in after[name]
    ]
    findings += [
        f"{at}.{name}: removed though it had no default"
        for name in before
        if name not in after and "default" not in before[name]
    ]
    for name in before.keys() & after.keys():
        findings += _findings(before[name]["type"], after[name]["type"], f"{at}.{name}")
    return sorted(findings)
