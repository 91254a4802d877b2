"""The command `bellwether`: its commands in the sections and order of `--help`, each with its function and its help.

Every command ends with one of `lazy.EXIT_CODES`, which `--help` and docs/reference/commands.md list. A user's mistake
is reported as one sentence on standard error, never as a traceback.
"""

import errno
import sys
from contextlib import suppress

from typer.core import TyperGroup

from bellwether_kafka.coordinator.cli.lazy import (
    EPILOG,
    Exit,
    LazyCommand,
    discard_output,
    lazy_app,
    lazy_group,
)
from bellwether_kafka.coordinator.control import ORDERS, Takes

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

BOUND = "`simulate --without member:ID` names the bound, by the timeouts of members"
RATES = dict.fromkeys(("--restore-rate", "--url", "--session-timeout-ms", "--heartbeat-interval-ms"), BOUND)

TOPOLOGY = [
    LazyCommand(
        "topology:learn",
        "Learn the topology of a running application that a Java member leads, and write the file to standard output."
        "\n\nIt joins no group. With --describe the text of Topology.describe() says where each store belongs.",
    ),
    LazyCommand(
        "topology:parse",
        "Turn the text of Topology.describe() into a topology file, on standard output."
        "\n\nWith brokers it reads the sizes and configs of internal topics. The head of the file names what it cannot"
        " know, with the lines to write.",
    ),
    LazyCommand(
        "topology:show",
        "Check a topology file and show what is in it, with its digest (for the client tag that attests it).",
    ),
    LazyCommand(
        "topology:diff",
        "Compare the topology files of two versions: which tasks are new, gone or lose state, and what a rolling"
        " upgrade does.",
    ),
]

DEBUG = [
    LazyCommand("offline:decode", "Show a blob of a group (a subscription, an assignment, userData) as JSON."),
    LazyCommand(
        "replay:history",
        "Copy rebalances, decisions, plans and traffic from the events topic into a file, for `assess --history` and"
        " `debug replay`.",
        removed={"--topic": "write --events-topic NAME"},
    ),
    LazyCommand(
        "replay:replay",
        "Decide recorded rebalances again, from what their leader had, and show where plans differ. Exits 1 if any"
        " does.",
    ),
    LazyCommand(
        "orders.restart:ready",
        "Check whether a member has its share of a group again, and its state has caught up. Exits 1 while something"
        " is missing.",
    ),
    LazyCommand(
        "orders.restart:stopped",
        "State that the process of a member has ended, where Bellwether is to lead the group once its leader goes.",
    ),
]

ORDER_COMMANDS = [
    LazyCommand(f"orders.{'apply' if traits.takes is Takes.PLAN else 'give'}:{kind.value}", traits.help)
    for kind, traits in ORDERS.items()
]

COMMANDS: dict[str, list[LazyCommand | TyperGroup]] = {
    "Observe": [
        LazyCommand(
            "groups:groups",
            "List all groups and who assigns in them.",
            removed=dict.fromkeys(("--watch", "-w", "--interval"), "write bellwether top"),
        ),
        LazyCommand(
            "groups:describe",
            "Show a group: members, what they have, lags, the present plan's cost, and Bellwether's plan; with --watch"
            " again and again, as JSON one document per line.",
        ),
        LazyCommand(
            "top:top",
            "Show groups live: who leads, generation, members, lag, cost, last cause; as JSON, one document per line.",
        ),
        LazyCommand(
            "assess:assess",
            "Show what groups cost, now and in a recorded period, what Bellwether would avoid of it, and what to begin"
            " with; of all groups if none is named. With --for it watches them, to see rebalances, ghosts and waits.",
        ),
    ],
    "Explain and plan": [
        LazyCommand(
            "plan:plan",
            "Show what the configured policy would change in a group now. Applies nothing.",
            removed={
                **dict.fromkeys(("--watch", "-w", "--interval"), "write bellwether describe GROUP --watch"),
                **RATES,
            },
        ),
        LazyCommand(
            "plan:explain",
            "Explain why something is where the plan puts it and what alternatives would cost; every move, if none is"
            " named.",
        ),
        LazyCommand(
            "simulate:simulate",
            "Show what a change would cause: rebalances until the group is stable, moves and cost. Applies nothing.",
            removed={
                "--without-member": "write --without member:ID",
                "--without-rack": "write --without rack:NAME",
                "--history": "write bellwether assess --history FILE",
                "--topic": "write --partitions NAME=N",
                **dict.fromkeys(("--restart", "--crash", "--remove"), "write --without member:ID"),
                **RATES,
            },
        ),
    ],
    "Lead": [
        LazyCommand(
            "doctor:doctor",
            "Check what leading a group needs: rights, protocols, racks, limits, topology; propose what to do next."
            " Exits 1 if something fails.",
        ),
        LazyCommand(
            "convert:convert",
            "Show what a conversion to the protocol in which the broker assigns would change, and its steps."
            " Applies nothing. Exits 1 if something prevents it.",
            removed={"--timeout": "write --wait SECONDS"},
        ),
        LazyCommand(
            "init:init",
            "Write a configuration file for a cluster: by questions or by options."
            "\n\nEvery question has an option, so that it needs no terminal. It joins no group.",
            removed={"--force": "write --overwrite"},
        ),
        LazyCommand(
            "processes:run",
            "Observe or lead the configured groups, each by its mode, until SIGTERM or Ctrl-C."
            "\n\nSettings come from the file, then BELLWETHER_* variables, then these options; the last wins.",
            EPILOG,
        ),
        LazyCommand(
            "processes:guard",
            "Run an instance of an application, or watch one, and end its memberships at once when it is gone."
            "\n\nEverything that follows -- is the command. It gets the signals that the guard gets; on SIGTERM the"
            " instance is emptied first, where Bellwether plans. The guard exits with the command's exit code, 128 and"
            " the signal's number if one has killed it, 127 or 126 if it cannot be started.",
            EPILOG,
        ),
        lazy_group("topology", "The shape of a Streams application, which its members do not send.", TOPOLOGY),
    ],
    "Operate": [
        LazyCommand("orders.give:orders", "List the orders in force, and the instances of Bellwether seen recently."),
        *ORDER_COMMANDS,
        LazyCommand("orders.give:resume", "Withdraw what leave, release and pause have ordered of a group, or of all."),
        LazyCommand(
            "orders.give:unpin",
            'Withdraw all pins, bans and evacuations of an item ("*": those of everything), or an applied plan.',
        ),
        LazyCommand(
            "orders.restart:roll",
            "Restart all members of a group, one after another, with your command; each is empty before and has"
            " its share again before the next one. --wait is for each step.",
        ),
    ],
    "Look inside": [lazy_group("debug", "What scripts and support need: bytes, recordings, restarts.", DEBUG)],
}

# Of earlier releases, each with what to write.
REMOVED: dict[str, str] = {
    "observe": "bellwether describe GROUP --watch",
    "version": "bellwether --version",
    "weights": "bellwether describe GROUP -o json",
}
MOVED = {str(command.name): ("debug", command) for command in DEBUG}

app = lazy_app(
    "bellwether",
    "Leads classic Kafka consumer groups and decides the assignment of every member.",
    COMMANDS,
    REMOVED,
    MOVED,
)


def main() -> None:
    """The entry point of the distribution."""
    try:
        app(prog_name="bellwether")
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        discard_output()
        with suppress(OSError):  # standard error may be on the same disk
            why = f"The output or a file cannot be written ({error.strerror})"
            sys.stderr.write(f"{why}; make room. What was requested may have been done.\n")
        sys.exit(Exit.NOT_SO)
