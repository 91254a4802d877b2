"""The options of a guard, and how it speaks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 15.0
Echo = Callable[[str], None]  # a sentence for the log of the process


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """`group_id` is an application's application id. `properties` are librdkafka's. Members are known by the process id
    in `state_dir` (Kafka Streams' state.dir) or by `client_ids`, the operator's word that they are this process' own.
    `grace_s`: how long the process may be emptied before it is stopped; 0 for not at all. `fence`: the transactions
    of a dead process are ended, too.
    """

    group_id: str
    properties: Mapping[str, str]
    control_topic: str
    state_dir: Path | None = None
    client_ids: tuple[str, ...] = ()
    grace_s: float = GRACE_S
    fence: bool = True


def once(echo: Echo) -> Echo:
    """The same, but each sentence only the first time."""
    shown: set[str] = set()

    def echo_once(sentence: str) -> None:
        if sentence not in shown:
            shown.add(sentence)
            echo(sentence)

    return echo_once
