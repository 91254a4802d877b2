"""The options of a guard, and its output."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 15.0
GRACE_S_MAX = 86_400.0
Echo = Callable[[str], None]  # a sentence for the log of the process


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """The options of a guard.

    `group_id`: the application id, for Kafka Streams. `properties`: librdkafka's. `state_dir` (Kafka Streams'
    state.dir) holds the process id that identifies members; otherwise `client_ids` do, which the operator states are
    this process' own. `grace_s`: how long an evacuation may delay the stop, in seconds; 0 for no evacuation. `fence`:
    also end the transactions of a dead process.
    """

    group_id: str
    properties: Mapping[str, str]
    control_topic: str
    state_dir: Path | None = None
    client_ids: tuple[str, ...] = ()
    grace_s: float = GRACE_S
    fence: bool = True


def once(echo: Echo) -> Echo:
    """Returns an echo that drops sentences it has already echoed."""
    shown: set[str] = set()

    def echo_once(sentence: str) -> None:
        if sentence not in shown:
            shown.add(sentence)
            echo(sentence)

    return echo_once
