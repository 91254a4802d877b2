"""Writes docs/reference/schemas: JSON Schema of each command's `-o json`, each answer of `/api` and each event, the
Avro schema of weights with a record, and the page that lists them: `python docs/generate_schemas.py`.

The tables below name the types that are printed. Tests compare the files, and check answers of commands and of the page
against the schemas. A command without an entry fails them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from json_schema import Schema, extended, schema_of, schema_of_record

from bellwether_kafka.assignors.explain.explanation import Explanation
from bellwether_kafka.assignors.shared.decision import Cost, Moves
from bellwether_kafka.assignors.streams.application.task_views import Subtopology
from bellwether_kafka.assignors.streams.application.topology import Exported
from bellwether_kafka.coordinator.assessment.conversion import ConversionPlan
from bellwether_kafka.coordinator.assessment.conversion_watch import ConversionProgress
from bellwether_kafka.coordinator.assessment.model import Assessment
from bellwether_kafka.coordinator.cli.orders.restart import Restarted
from bellwether_kafka.coordinator.cli.plan_file import PlanFile
from bellwether_kafka.coordinator.control import (
    ORDERS,
    AppliedPlan,
    InstanceHeartbeat,
    Order,
    PlacementOrder,
    Stage,
    Stopped,
    Takes,
)
from bellwether_kafka.coordinator.events.avro import SchemaSet
from bellwether_kafka.coordinator.observation.findings import Finding
from bellwether_kafka.coordinator.observation.group import Group
from bellwether_kafka.coordinator.observation.lag import LagReport, LagVerdict
from bellwether_kafka.coordinator.observation.observation import ObservedMember
from bellwether_kafka.coordinator.observation.rebalances import SeenRebalance
from bellwether_kafka.coordinator.observation.removals import Removals
from bellwether_kafka.coordinator.observation.unknown import Unknown
from bellwether_kafka.coordinator.replay import Replayed
from bellwether_kafka.coordinator.topology.upgrade import Upgrade
from bellwether_kafka.coordinator.web.app import OF_PROCESS
from bellwether_kafka.coordinator.web.led_rebalances import Line
from bellwether_kafka.coordinator.web.observed import Present
from bellwether_kafka.coordinator.web.picture import Picture

FOLDER = Path(__file__).parent / "reference" / "schemas"
EXAMPLES = FOLDER / "examples"
WEIGHTS_ROW = (
    "- a writer of [weights](events.md#weights-from-elsewhere):"
    " [Avro schema](schemas/weight.avsc), [example](schemas/weight-record.json)"
)
HEAD = (
    "# Schemas",
    "",
    "JSON Schemas (draft 2020-12) of what commands print with `-o json`, of the API, of plan files, and of each",
    "[event](events.md) as `bellwether debug history --file NAME.jsonl` writes it.",
    "",
    "A reader must accept fields that a schema does not name, as",
    "[a minor version only adds fields](compatibility.md#what-stays-the-same). Unknown values are `null`.",
    "Lists in examples are cut to three entries.",
    "",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer in JSON. `name` is the name of its file, `of` the type that is printed, `title` what prints it."""

    name: str
    title: str
    of: Any
    description: str


# Answers that no single class has.
class Weighed(TypedDict):
    partition: str
    bytes_per_s: float


WEIGHTS = {
    "topic": str,
    "known": int,
    "used": int,
    "clamped": int,
    "age_ms_limit": int,
    "age_ms_min": int | None,
    "age_ms_max": int | None,
    "refused": Mapping[str, int],
    "heaviest": list[Weighed],
}
WeightsDescribed = TypedDict("WeightsDescribed", WEIGHTS)
PRICED = {"bytes_per_s": float, "cost_per_hour": NotRequired[float], "currency": NotRequired[str]}
BetweenRacks = TypedDict("BetweenRacks", {"from": str, "to": str} | PRICED)
RackTraffic = TypedDict(
    "RackTraffic", PRICED | {"total_bytes_per_s": float, "weighed": int, "owned": int, "by_racks": list[BetweenRacks]}
)


class Traffic(TypedDict):
    present: RackTraffic | None
    planned: RackTraffic | None
    follower_fetching: bool | None


PlacementCost = extended("PlacementCost", Cost, cross_rack=int | None, unknown_racks=int)


class PlacementCosts(TypedDict):
    before: PlacementCost
    after: PlacementCost


class ShadowPlan(TypedDict):
    current: PlacementCost
    planned: PlacementCost
    moves: Moves
    orders: list[str]


GROUP: dict[str, Any] = {
    "group": str,
    "type": str,
    "state": str,
    "protocol": str,
    "seen_at_ms": int,
    "can_be_led": bool,
    "hypothetical": bool,
    "obstacle": str,
    "verdict": str,
    "trouble": str,
    "lag": int | None,
    "unknown_lags": int,
    "lag_report": LagReport | None,
    "lag_notes": list[str],
    "anomalies": list[Finding],
    "anomalies_unknown": list[str],
    "unknown": Unknown | None,
    "bellwether_members": list[str],
    "shadow": ShadowPlan | None,
}
ObservedGroup = TypedDict(
    "ObservedGroup", GROUP | {"lags": Mapping[str, list[int | None]], "members": list[ObservedMember]}
)
DescribedGroup = extended(
    "DescribedGroup",
    ObservedGroup,
    weights=NotRequired[WeightsDescribed | None],
    traffic=NotRequired[Traffic | None],
)
SHOWN_OF_A_MEMBER = ("member_id", "instance_id", "client_id", "client_host", "rack", "lag", "unknown_lags", "trouble")
ShownMember = extended(
    "ShownMember", ObservedMember, [f for f in ObservedMember.__slots__ if f not in SHOWN_OF_A_MEMBER]
)
ObservedOnPage = TypedDict("ObservedOnPage", GROUP | {"members": list[ShownMember], "rebalances": list[SeenRebalance]})
PresentOnPage = extended("PresentOnPage", Present, observed=ObservedOnPage)
GroupRow = extended(
    "GroupRow",
    Group,
    lag=int | None,
    lag_ms=int | None,
    lag_at_least=bool,
    unknown_lags=int | None,
    verdict=LagVerdict | None,
    findings=list[Finding],
)
GroupOfProcess = extended("GroupOfProcess", Group, [name for name in Group.__slots__ if name not in OF_PROCESS])
Planned = extended(
    "Planned",
    Picture,
    cost=PlacementCosts,
    traffic=Traffic | None,
    hypothetical=bool,
    take_over=Removals | None,
)
DryRun = extended("DryRun", Picture, cost=PlacementCosts)
Simulated = extended(
    "Simulated",
    Picture,
    traffic=Traffic | None,
    hypothetical=bool,
    release=NotRequired[str],
    restored=NotRequired[int],
    restored_bytes=NotRequired[int | None],
    copies=NotRequired[int],
    warmups=NotRequired[int],
    waits_for_probing=NotRequired[bool],
    unowned_s_max=NotRequired[float],
    unowned_s_max_with_a_guard=NotRequired[float],
)


Explained = extended("Explained", Explanation, hypothetical=bool, orders=list[str])
ReplayedRow = extended("ReplayedRow", Replayed, same=bool)


def kinds(*takes: Takes) -> Any:
    """Returns the type of the kinds of orders that take these."""
    return Literal[tuple(kind.value for kind, traits in ORDERS.items() if traits.takes in takes)]


GroupOrder = extended("GroupOrder", Order, sentence=str, kind=kinds(Takes.GROUP, Takes.GROUP_OR_ALL, Takes.INSTANCE))
Placement = extended("Placement", PlacementOrder, sentence=str, kind=kinds(Takes.ITEM_AND_PLACE, Takes.PLACE))
Applied = extended("Applied", AppliedPlan, sentence=str, kind=kinds(Takes.PLAN))


class Given(TypedDict):
    order: GroupOrder | Placement | Applied
    warning: NotRequired[str]
    in_effect: bool | None
    message: str


class GivenToAll(TypedDict):
    orders: list[GroupOrder]
    in_effect: bool | None
    message: str


ListedGroupOrder = extended("ListedGroupOrder", GroupOrder, absence=None)
ListedPlacement = extended("ListedPlacement", Placement, absence=Stage | None)
ListedPlan = extended("ListedPlan", Applied, absence=None)


class Orders(TypedDict):
    instances: list[InstanceHeartbeat]
    orders: list[ListedGroupOrder | ListedPlacement | ListedPlan]


ShownSubtopology = extended("ShownSubtopology", Subtopology, stateful=bool)


class Pattern(TypedDict):
    subtopology: int
    pattern: str


class ShownTopology(TypedDict):
    application: str
    digest: str
    subtopologies: list[ShownSubtopology]
    patterns: list[Pattern]
    undecided: list[str]
    obstacle: str | None
    exported: Exported | None


class TopologyFile(TypedDict):
    ApplicationId: str
    Subtopologies: list[Mapping[str, Any]]
    UndecidedChangelogTopics: list[str | Mapping[str, Any]]


UpgradeShown = extended("UpgradeShown", Upgrade, rolling=str)
Message = {"message": str}


# What each command prints with `-o json`, by its words.
COMMANDS: Mapping[str, Any] = {
    "order": Given | GivenToAll | DryRun,  # of each kind of `ORDERS`
    "assess": list[Assessment],
    "convert": ConversionPlan | ConversionProgress,
    "debug decode": Mapping[str, Any],
    "describe": DescribedGroup,
    "doctor": list[Finding],
    "explain": list[Explained],
    "groups": list[GroupRow],
    "debug history": TypedDict("Copied", {"records": int, "file": str} | Message),
    "orders": Orders,
    "plan": Planned,
    "debug ready": TypedDict("Ready", {"ready": bool} | Message),
    "debug replay": list[ReplayedRow],
    "resume": TypedDict("Resumed", {"group": str | None, "groups": list[str]} | Message),
    "roll": TypedDict("Rolled", {"group": str, "members": list[Restarted]}),
    "simulate": list[Simulated],
    "debug stopped": TypedDict("Stated", {"stopped": Stopped} | Message),
    "top": list[GroupRow],
    "topology diff": UpgradeShown,
    "topology learn": TopologyFile,
    "topology parse": TopologyFile,
    "topology show": ShownTopology,
    "unpin": TypedDict("Withdrawn", {"withdrawn": list[GroupOrder | Placement | Applied]} | Message),
}
LINES = {
    "order": f"A single document, of {', '.join(kind.value for kind in ORDERS)}; a DryRun with --dry-run.",
    "convert": "A single document; with --watch one on each line, a ConversionProgress.",
    "top": "One document on each line; with --once a single document.",
    "describe": "A single document; with --watch one on each line.",
}
API: Mapping[str, Any] = {
    "/api/groups": list[GroupOfProcess],
    "/api/groups/NAME": Picture | PresentOnPage,
    "/api/overview": list[GroupRow],
    "/api/overview/NAME": list[GroupRow],
    "/decisions": list[Line],
}


def answers() -> Iterator[Answer]:
    """Yields the answers of commands, the plan file, then the answers of the page."""
    for words, kind in sorted(COMMANDS.items()):
        title = f"bellwether {words} -o json"
        note = LINES.get(words, "A single document.")
        yield Answer(name=f"command-{words.replace(' ', '-')}", title=title, of=kind, description=note)
    yield Answer(name="plan-file", title="bellwether plan --out", of=PlanFile, description="The file that it writes.")
    for path, kind in API.items():
        name = path.strip("/").replace("/", "-").lower()
        yield Answer(
            name=name if name.startswith("api") else f"api-{name}",
            title=f"GET {path}",
            of=kind,
            description="The body of the answer.",
        )


def schemas() -> dict[str, Schema]:
    """Returns all schemas by the names of their files without the suffix."""
    made = {each.name: schema_of(each.of, each.title, each.description) for each in answers()}
    events = SchemaSet.load()
    for event in events.events:
        made[f"event-{event}"] = schema_of_record(json.loads(events.latest(event).text), f"event {event}")
    return made


def weight_files() -> dict[str, str]:
    """Returns what programs need that write weights: the Avro schema, and a record in bytes, by the names of their
    files."""
    schema = SchemaSet.load().latest("weight")
    value = json.loads((EXAMPLES / "event-weight.json").read_text(encoding="utf-8"))
    del value["event"]
    body = schema.body(value)
    record = {
        "key": f"{value['topic']}-{value['partition']}",
        "value": value,
        "header": schema.header.hex(),
        "bytes": (schema.header + body).hex(),
    }
    return {"weight.avsc": schema.text, "weight-record.json": text_of(record)}


def text_of(document: Any) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _row(name: str, printed_by: str) -> str:
    printer = printed_by.removesuffix(" -o json")
    return f"- [`{printer}`](schemas/{name}.schema.json), [example](schemas/examples/{name}.json)"


def page() -> str:
    """Returns the page that lists the schemas."""
    rows = [_row(name, schema["title"].removeprefix("bellwether ")) for name, schema in schemas().items()]
    return "\n".join([*HEAD, *rows, WEIGHTS_ROW, ""])


if __name__ == "__main__":
    for name, schema in schemas().items():
        (FOLDER / f"{name}.schema.json").write_text(text_of(schema), encoding="utf-8")
    for name, text in weight_files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    (FOLDER.parent / "schemas.md").write_text(page(), encoding="utf-8")
