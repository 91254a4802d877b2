"""Every command of the command table, with arguments that it can be run with, and what must hold of how it ends."""

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import typer.main

from bellwether_kafka.coordinator.cli import Exit, app
from bellwether_kafka.coordinator.control import ORDERS, OrderTraits
from bellwether_kafka.coordinator.replay import write_history
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.commands import bellwether
from tests.kit.plans import recorded_leads

FORMAT = 1

NOT_PRINTING = {"run", "guard", "init"}  # they write logs, of `run` as JSON with log_format, and a file
WITH_A_DOCUMENT = {Exit.DONE, Exit.NOT_SO}
BLOB = ConsumerProtocolSubscription(version=1, topics=("orders",)).encode().hex()
TOPOLOGY = """Topologies:
   Sub-topology: 0
    Source: in (topics: [orders])
      --> out
    Sink: out (topic: done)
      <-- in
"""
STATE: dict[str, Any] = {
    "group": "stable",
    "members": [{"member_id": "m1", "instance_id": None, "client_id": "app", "topics": ["orders"]}],
    "partitions": {"orders": 3},
    "owners": {"orders-0": "m1", "orders-1": "m1", "orders-2": "m1"},
}


def plan_document(before: Mapping[str, Any] = STATE, **changes: object) -> dict[str, Any]:
    """A plan as `plan --out` writes it, for this state of the group."""
    digest = hashlib.sha256(json.dumps(before, sort_keys=True).encode()).hexdigest()
    plan = {"format": 1, "version": "0.2.0", "policy": "kafka", "decided_at_ms": 0, "digest": digest, "before": before}
    return plan | {"owners": STATE["owners"]} | changes


def order_arguments(traits: OrderTraits) -> str:
    """Returns words with which the command of a kind of order can be run."""
    words = {"group": "{group}", "item": "{item}", "where": "rack:az1"}
    named = [words[name] for name in traits.takes.value if name in words]
    options = ["--for 1s"] if traits.duration is not None else []
    return " ".join([*named, *options, *(["--wait 0.5"] if traits.wait_s else []), "{control}"])


# Words in braces are filled in; `brokers` and `control` are options.
ARGUMENTS = {
    **{kind.value: order_arguments(traits) for kind, traits in ORDERS.items()},
    "apply": "{folder}/plan {control}",
    "assess": "{group} {brokers}",
    "convert": "{group} {brokers}",
    "debug decode": f"ConsumerProtocolSubscription {BLOB}",
    "describe": "{group} {brokers}",
    "doctor": "{group} {brokers}",
    "explain": "{group} {brokers}",
    "groups": "{brokers}",
    "debug history": "--file {folder}/copied --events-topic bellwether.events {brokers}",
    "orders": "{control}",
    "plan": "{group} {brokers} --detailed-exitcode",
    "debug ready": "{group} member:a {control}",
    "debug replay": "{folder}/history",
    "resume": "{group} {control}",
    "roll": "{group} --exec 'true {{member}}' --wait 0.5 {control}",
    "debug stopped": "{group} member:a {control}",
    "simulate": "{group} --add 1 {brokers}",
    "top": "{group} --once {brokers}",
    "topology learn": "{group} {brokers}",
    "topology parse": "{folder}/described --application-id shop",
    "topology show": "{folder}/topology",
    "topology diff": "{folder}/topology {folder}/topology",
    "unpin": "{group} {item} {control}",
}
NEEDS_THE_GROUP = {"assess", "convert", "describe", "explain", "plan", "simulate", "top", "topology learn"}


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command that can be run, by its words."""
    command = command or typer.main.get_command(app)
    for name, subcommand in sorted(getattr(command, "commands", {}).items()):
        if getattr(subcommand, "commands", None):
            yield from commands(subcommand, (*path, name))
        else:
            yield " ".join((*path, name)), subcommand.loaded


ALL = dict(commands())
PRINTING = sorted(ALL.keys() - NOT_PRINTING)


def write_files(folder: Path) -> None:
    """What commands read that need no broker."""
    (folder / "described").write_text(TOPOLOGY)
    (folder / "plan").write_text(json.dumps(plan_document()))
    write_history(folder / "history", recorded_leads([3, 4], "kafka"))
    parsed = bellwether("topology", "parse", str(folder / "described"), "--application-id", "shop")
    (folder / "topology").write_text(parsed.stdout)


def printed(
    name: str, group: str, topic: str, bootstrap: str, folder: Path, output: str = "json"
) -> CompletedProcess[str]:
    """The command on this group, which reads this topic."""

    brokers = f"--bootstrap {bootstrap}"
    control = f"{brokers} --topic bellwether-control"
    filled = ARGUMENTS[name].format(group=group, item=f"{topic}-0", brokers=brokers, control=control, folder=folder)
    return bellwether(*name.split(), *shlex.split(filled), "--output", output)


def judge(name: str, ended: CompletedProcess[str], *, missing: bool) -> None:
    """A document and nothing else, or a sentence of people and nothing else."""
    assert ended.returncode in WITH_A_DOCUMENT | {Exit.INPUT}, ended
    assert "Traceback" not in ended.stderr, ended.stderr
    assert "2147483647" not in ended.stdout, "a number that stands for none is for machines inside"
    if missing and name in NEEDS_THE_GROUP:
        assert ended.returncode == Exit.INPUT, ended
    if ended.returncode in WITH_A_DOCUMENT:
        json.loads(ended.stdout)
    else:
        assert ended.stdout == "", ended
        assert ended.stderr.strip(), ended
    for line in ended.stderr.splitlines():
        with suppress(ValueError):
            assert not isinstance(json.loads(line), dict), "a log line that nobody asked for"
