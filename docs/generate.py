"""Writes four pages from the code, metrics, configuration, commands and states, and the reasons for not leading in the
runbooks: `python docs/generate.py`.

A test compares. Names, types, defaults and texts of settings come from the settings themselves. docs/commands.yml has
the prose of the commands' page.
"""

import math
import types
import typing
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main
import yaml
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from bellwether_kafka.coordinator.cli import EXIT_CODES, app
from bellwether_kafka.coordinator.cli.output import Output
from bellwether_kafka.coordinator.control import OrderKind
from bellwether_kafka.coordinator.ghosts.proof import Proof
from bellwether_kafka.coordinator.membership import (
    INTERNAL_ERROR,
    MEMBERSHIP,
    TAKEOVER,
    NotLeading,
    State,
    Step,
    Transitions,
)
from bellwether_kafka.coordinator.observation.findings import ANOMALIES
from bellwether_kafka.coordinator.observation.lag import VERDICTS
from bellwether_kafka.coordinator.planning.causes import CauseKind
from bellwether_kafka.coordinator.runtime.events_out import events_counter, events_waiting
from bellwether_kafka.coordinator.settings import (
    CostSettings,
    EventSettings,
    GroupSettings,
    RackSettings,
    Settings,
    WeightSettings,
)
from bellwether_kafka.coordinator.telemetry.metrics import REASONS_MAX, Metrics
from bellwether_kafka.coordinator.telemetry.metrics_cost import PAIRS_MAX, CostMetrics
from bellwether_kafka.coordinator.telemetry.metrics_groups import PLANS, LagMetrics, ObservedMetrics, PauseMetrics
from bellwether_kafka.coordinator.telemetry.metrics_lag_exporter import PARTITIONS_MAX, LagExporterMetrics
from bellwether_kafka.coordinator.telemetry.metrics_process import ControlMetrics, ServedMetrics
from bellwether_kafka.coordinator.telemetry.metrics_streams import PROCESSES_MAX, TASKS_MAX, StreamsMetrics

HERE = Path(__file__).parent
REASONS = "| reason | what is true | what to do |\n|---|---|---|"
MOST = 0.75  # of all commands: their options are not listed with each
COMMON = 3  # commands with the same option, from which on it is described once
NESTED = {"kafka", "groups", "events", "weights", "cost", "racks"}
FIXED = "a fixed list"
# What a label may hold: every series count is a product of these.
BOUNDS = {
    "group": "the configured groups",
    "reason": FIXED,
    "client": f"for each group the first {REASONS_MAX} client ids, then other",
    "process": f"at most {PROCESSES_MAX} processes of a group",
    "stage": f"the first {REASONS_MAX} stages, then other",
    "subtopology": "those of the application",
    "task": f"none unless metrics_by_task, then at most {TASKS_MAX} copies of tasks of a group",
    "outcome": FIXED,
    "kind": FIXED,
    "proof": FIXED,
    "cause": FIXED,
    "plan": "current, shadow",
    "event": FIXED,
    "from_rack": f"at most {PAIRS_MAX} pairs of racks of a group, then other",
    "to_rack": f"at most {PAIRS_MAX} pairs of racks of a group, then other",
    "currency": "one",
    "version": "one",
    "verdict": ", ".join(VERDICTS),
    "cluster_name": "one, lag_exporter_cluster_name; without it there are no such series",
    "topic": "those that the groups read",
    "partition": f"those of the topics; of groups with more than {PARTITIONS_MAX} none",
    "member_host": "that of the member that has the partition; empty without one, and of groups that Bellwether leads",
    "consumer_id": "those of the member that has the partition",
    "client_id": "those of the member that has the partition",
}
# How many values that is, where it is not the same for all metrics that have the label.
COUNTS = {
    "group": "groups",
    "subtopology": "subtopologies",
    "reason": len(NotLeading),
    "client": REASONS_MAX + 1,
    "stage": REASONS_MAX + 1,
    "process": PROCESSES_MAX,
    "kind": 4,
    "proof": len(Proof),
    "cause": len(CauseKind),
    "plan": len(PLANS),
    "event": 7,
    "outcome": 5,
    "version": 1,
    "verdict": len(VERDICTS),
    "cluster_name": 1,
    "topic": "topics",
}
SERIES = {
    "bellwether_anomalies": f"groups x {len(ANOMALIES)}",
    "bellwether_rebalances": f"groups x {2 * len(CauseKind) + 2}",  # led and ordered by cause, refused by reason
    "bellwether_orders": f"groups x {len(OrderKind)}",
    "bellwether_streams_task_lag_records": f"groups x {TASKS_MAX}",
    "bellwether_cross_rack_read_partitions": f"groups x {PAIRS_MAX + 1}",
    "bellwether_cross_rack_bytes_per_second": f"groups x {PAIRS_MAX + 1}",
    "bellwether_cross_rack_cost_per_hour": f"groups x {PAIRS_MAX + 1}",
    "kafka_partition_latest_offset": "partitions",
    **{f"kafka_consumergroup_group_{name}": "groups x their partitions" for name in ("offset", "lag", "lag_seconds")},
}


def most_series(name: str, labels: tuple[str, ...], collector: Any) -> str:
    """How many series a metric may have; histograms have one for each bucket, a sum and a count."""
    if name in SERIES:
        return SERIES[name]
    counts = [COUNTS[label] for label in labels]
    number = math.prod(count for count in counts if isinstance(count, int))
    number *= len(getattr(collector, "_upper_bounds", ())) + 2 if hasattr(collector, "_upper_bounds") else 1
    words = [count for count in counts if isinstance(count, str)]
    return " x ".join([*words, *([str(number)] if number > 1 or not words else [])])


def labels_of(name: str, collector: Any) -> tuple[str, ...]:
    """Of a metric that has its collector to itself, or shares it."""
    if isinstance(collector, LagExporterMetrics):
        return collector.labelnames[name]
    return getattr(collector, "_labelnames", ())


def metrics_page() -> str:
    """Every metric that a process can expose, with its labels and their bounds."""
    registry = CollectorRegistry()
    common = Metrics(registry)
    StreamsMetrics(common)
    ObservedMetrics(common)
    PauseMetrics(common)
    LagMetrics(common)
    registry.register(LagExporterMetrics("cluster"))
    ControlMetrics(registry)
    ServedMetrics(registry)
    CostMetrics(common, None, None)
    events_counter(registry)
    events_waiting(registry)
    collectors = registry._names_to_collectors  # noqa: SLF001 - label names are nowhere else before a first sample
    rows = []
    for family in sorted(registry.collect(), key=lambda f: f.name):
        labels = labels_of(family.name, collectors[family.name]) or (("version",) if family.type == "info" else ())
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        shown = ", ".join(f"`{label}`" for label in labels) or "-"
        most = most_series(family.name, labels, collectors[family.name])
        bound = f" ({most})" if most not in ("1", "groups") else ""
        rows.append(f"| `{family.name}{suffix}`, {family.type} | {shown}{bound} | {family.documentation} |")
    used = {label for name, collector in collectors.items() for label in labels_of(name, collector)}
    alike: dict[str, list[str]] = {}
    for label in sorted(used):
        alike.setdefault(BOUNDS[label], []).append(f"`{label}`")
    bounds = [f"| {', '.join(names)} | {bound} |" for bound, names in alike.items() if bound != FIXED]
    return "\n".join(
        [
            "# Metrics",
            "",
            "Served at `/metrics` of `http_address`. Made by `python docs/generate.py`. In brackets: how many series",
            "there may be, where it is not one, or one for each group.",
            "",
            "| metric | labels | meaning |",
            "|---|---|---|",
            *rows,
            "",
            "## Labels and how many values each may have",
            "",
            "Labels that are not listed have a fixed list of values.",
            "",
            "| label | values |",
            "|---|---|",
            *bounds,
            "",
        ]
    )


def configuration_page() -> str:
    """Every setting with its type, its default and what it is for."""
    parts: list[tuple[str, type[BaseModel], str]] = [
        ("Top level", Settings, "Also `BELLWETHER_<NAME>` in the environment."),
        ("Each of `[[groups]]`", GroupSettings, "Times are milliseconds."),
        ("`[events]`", EventSettings, "Off without this table."),
        ("`[weights]`", WeightSettings, "Without this table `load-aware` uses the group's offsets and log sizes."),
        ("`[cost]`", CostSettings, "Shown, never decided by."),
        (
            "`[racks]`",
            RackSettings,
            "For members that [send no rack](../guides/policies.md#clients-that-send-no-rack).",
        ),
    ]
    lines = [
        "# Configuration",
        "",
        "A TOML file (`--config` or `BELLWETHER_CONFIG`), then `BELLWETHER_*` variables, then the command line: the",
        "last wins. `[kafka]` is librdkafka's property map; `<name>.file` is a file to read the value from.",
        "In brackets: the default, or the type of what is not set. An example of every setting:",
        "[deploy/config/bellwether.toml](../../deploy/config/bellwether.toml). Made by `python docs/generate.py`.",
    ]
    for title, model, note in parts:
        lines += ["", f"## {title}", "", note, ""]
        lines += _setting_lines(model)
    return "\n".join([*lines, ""])


def _setting_lines(model: type[BaseModel]) -> list[str]:
    names = {field.alias or name: field for name, field in model.model_fields.items()}
    silent = [name for name, field in names.items() if not field.description]
    if silent:
        raise SystemExit(f"{model.__name__}: a description of {', '.join(silent)} is missing")
    return [
        f"- `{name}` ({_default(field, 'table' if name in NESTED else _type(field.annotation))}): {field.description}"
        for name, field in names.items()
    ]


def _type(annotation: Any) -> str:
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in inside)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(argument) for argument in inside if argument is not type(None))
    if origin is typing.Annotated:
        return _type(inside[0])
    if origin in (tuple, list):
        return f"list of {_type(inside[0])}"
    if origin is dict:
        return "table"
    return {"str": "text", "int": "number", "float": "number", "bool": "true or false", "Path": "file"}.get(
        annotation.__name__, "text"
    )


def _default(field: Any, kind: str) -> str:
    """The default and the values beside it; the type where there is no default."""
    if field.default is PydanticUndefined and field.default_factory is None:
        return f"{kind}, required"
    if field.default_factory is not None or field.default in (None, "", ()):
        return kind
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    if isinstance(field.default, tuple):
        return ", ".join(f"`{value}`" for value in field.default)
    shown = f"`{field.default}`"
    others = [choice for choice in kind.split(", ") if choice != shown]
    return f"{shown}, or {', '.join(others)}" if shown in kind.split(", ") else shown


def commands_page() -> str:
    """Every command with its arguments and options, and the exit codes."""
    prose = yaml.safe_load((HERE / "commands.yml").read_text(encoding="utf-8"))
    lines = [
        *prose["before_exit_codes"].splitlines(),
        "",
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---|---|",
        *(f"| {int(code)} | {reported} |" for code, reported in EXIT_CODES.items()),
        "",
        *prose["after_exit_codes"].splitlines(),
    ]
    commands = list(_commands(typer.main.get_command(app)))
    shown = {
        words: [_parameter(parameter) for parameter in command.params if parameter.name != "help"]
        for words, command in commands
    }
    users = Counter(row for rows in shown.values() for row in rows)
    common = [row for row in users if users[row] >= COMMON]
    most = {row for row in common if users[row] >= MOST * len(shown)}
    lines += ["", "## Common options", ""]
    lines += [_with_exceptions(row, shown) if row in most else row for row in sorted(common)]
    for words, command in commands:
        lines += ["", f"## `bellwether {words}`", "", " ".join((command.help or "").split())]
        own = [row for row in shown[words] if row not in common]
        lines += ["", *own] if own else []
        if also := [row.split("`")[1] for row in shown[words] if row in common and row not in most]:
            lines += ["", f"[Common](#common-options): {', '.join(f'`{name}`' for name in also)}."]
    return "\n".join([*lines, ""])


def _with_exceptions(row: str, shown: Mapping[str, list[str]]) -> str:
    """The row of an option of most commands, with those that lack it or describe one of the same name themselves."""
    others = ", ".join(f"`{words}`" for words, rows in shown.items() if row not in rows)
    return f"{row} All commands have it but {others}."


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, subcommand in sorted(command.commands.items()):
        if hasattr(subcommand, "commands"):
            yield from _commands(subcommand, (*path, name))
        else:
            yield " ".join((*path, name)), subcommand.loaded


def _parameter(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    values = f" ({', '.join(map(str, type(parameter.default)))})" if isinstance(parameter.default, Output) else ""
    text = " ".join((getattr(parameter, "help", None) or "").split())
    return f"- {names}: {text}{values}"


def states_page() -> str:
    """Both machines of a membership: every state, and which follow it."""
    lines = [
        "# States of a membership",
        "",
        "Two machines lead a group: the membership itself, and a take-over, which runs while the membership is",
        "APPROACHING. Events and reasons of each edge are in `coordinator/membership/transitions.py`, from which",
        "`python docs/generate.py` makes this page. An edge that no table has would be a mistake in Bellwether: it",
        f"writes an alert that begins with `{INTERNAL_ERROR.strip()}` and leaves the group.",
        *_machine("The membership", MEMBERSHIP, State.WATCHING),
        *_machine("A take-over", TAKEOVER, Step.ROLLING, Step.PACING),
        "",
        "A take-over begins in PACING if there is an instance id. The membership then goes on from APPROACHING.",
    ]
    return "\n".join([*lines, ""])


def _machine(title: str, transitions: Transitions[Any], *starts: Enum) -> Iterator[str]:
    yield from ("", f"## {title}", "", f"It begins in {' or '.join(start.name for start in starts)}.", "")
    yield from ("| state | what it is | next |", "|---|---|---|")
    for state in type(starts[0]):
        following = {to.name for by_next in transitions.get(state, {}).values() for to in by_next}
        order = [other.name for other in type(state) if other.name in following]
        yield f"| {state.name} | {state.value} | {', '.join(order) or '-'} |"


def runbooks_page() -> str:
    """The page as it is, with a row for each reason for not leading."""
    text = (HERE / "reference/runbooks.md").read_text(encoding="utf-8")
    head, _, rest = text.partition(REASONS)
    _, _, after = rest.partition("\n\n")
    rows = (f"| `{reason.value}` | {reason.meaning} | {reason.remedy} |" for reason in NotLeading)
    return "\n".join([head + REASONS, *rows, "", after])


PAGES = {
    "reference/metrics.md": metrics_page,
    "reference/configuration.md": configuration_page,
    "reference/commands.md": commands_page,
    "internals/states.md": states_page,
    "reference/runbooks.md": runbooks_page,
}


if __name__ == "__main__":
    for page, written in PAGES.items():
        (HERE / page).write_text(written(), encoding="utf-8")
