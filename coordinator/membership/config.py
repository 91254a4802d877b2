"""Settings of one group's membership and the arithmetic that keeps promise P2: no failure of Bellwether stalls a
rebalance longer than its session timeout (docs/reference/reliability.md#promises)."""

from dataclasses import dataclass
from typing import Literal

from bellwether_kafka.coordinator.membership.role import Obstacle

# Every name that members may use must be on this list: a name missing here locks those members out of the group, while
# a name too many costs nothing. The order is Bellwether's vote (docs/reference/broker-behaviour.md#protocol-choice).
STREAMS_PROTOCOL = "stream"
CLIENT_ID = "bellwether"  # Bellwether's, unless "client.id" says otherwise
STREAMS_SESSION_MS_MIN, STREAMS_SESSION_MS_MAX = 6_000, 10_000  # its commits may have to wait for Bellwether so long
STOCK_PROTOCOLS = ("cooperative-sticky", "sticky", "range", "roundrobin", "RoundRobinAssigner", "rack-affinity")


Mode = Literal["observe", "assist", "lead"]  # what a process may do to a group: look, remove its dead, lead it
Adopt = Literal["when-empty", "succeed", "take-over"]  # when a group that others lead becomes Bellwether's
HandBackMode = Literal["leave", "alert"]

# A JoinGroup and a DescribeGroups, one after the other, take about half of it on one machine.
TRY_MS = 7


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """How many `members` brokers let into a group, their group.max.size. None where that is not known: `unknown` then
    says why, and `remedy` what helps."""

    members: int | None = None
    unknown: str = "the brokers' group.max.size has not been read yet"
    remedy: str = "wait until it has"


NOT_READ = SizeLimit()


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """One group. All times are milliseconds.

    `topics` is what Bellwether's own subscription lists while others are in the group: nothing, or one control topic
    that nobody else subscribes to (docs/reference/client-quirks.md#a-foreign-member-under-other-leaders).

    While any member is in a group, brokers refuse the commits of consumers that assign themselves partitions
    (docs/reference/broker-behaviour.md#commits-without-a-member). So `linger_ms` None means: where members subscribe,
    stay however long Bellwether is alone; elsewhere leave as soon as an answer shows that it is.
    """

    group_id: str
    mode: Mode = "lead"  # a membership is for leading; the settings that people write begin with "observe"
    adopt: Adopt = "take-over"
    instance_id: str | None = None
    client_id: str | None = None  # by it members under the instance id are distinguished
    standby: bool = False  # other instances share Bellwether's instance id: join only with the active role
    protocols: tuple[str, ...] = STOCK_PROTOCOLS
    topics: tuple[str, ...] = ()
    leave_on_stop: bool = False
    # Whether a member with group.protocol=consumer may make the broker convert the group to KIP-848, and end the lead.
    online_conversion: Literal["allow", "block"] = "allow"
    adopt_empty: bool = True  # join a group that has no members; otherwise a member has to begin
    subscribes: bool = False  # its consumers do, by the settings or their kind: none assigns itself partitions

    # Session: the broker's floor is 6 s, and it is what members wait for if Bellwether dies between Join and Sync. With
    # 1 s heartbeats and a 3 s decision, 6 s would pass the P2 check with 1 s to spare, so one slow broker disk or one
    # lost packet would cost the lead of the group until it is empty again. 10 s leaves room for five lost heartbeats;
    # the price, four seconds more after a kill -9 in the middle of a rebalance, is paid rarely and ends at a restart.
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 1_000
    decision_deadline_ms: int = 3_000
    sync_margin_ms: int = 1_000
    # Bellwether's counts only where it is the group's largest: then it bounds how long a hung member holds everybody.
    # Small, but longer than the longest coalescing, because Bellwether holds the rebalance open then.
    rebalance_timeout_ms: int = 15_000

    watch_interval_ms: int = 5_000
    # The broker waits this long for the first members of an empty group; with Bellwether in it, Bellwether does.
    # Counted from Bellwether's last heartbeat before they came, and no longer than Bellwether has seen the broker wait.
    coalesce_ms: int = 3_000
    coalesce_ms_max: int = 10_000
    # In a running group the other members take up to a heartbeat interval to come back anyway: nothing to gain.
    coalesce_running_ms: int = 0
    linger_ms: int | None = None
    followup_ms: int = 3_000
    # While partitions are withheld nobody has them until the next round is complete, and members start it as soon as
    # they have let go. At Bellwether's usual heartbeat Bellwether would be the last to hear of it.
    followup_heartbeat_ms: int = 50
    followup_ms_max: int = 60_000
    rebalance_interval_ms_min: int = 10_000

    retry_backoff_ms: int = 100
    retry_backoff_ms_max: int = 2_000
    # How long errors that nobody can explain (UNKNOWN_SERVER_ERROR) may go on before Bellwether leaves.
    unclear_ms_max: int = 10_000
    # After a leave that was Bellwether's fault or a member's luck, wait this long before adopting the group again.
    readopt_ms: int = 5_000
    readopt_ms_max: int = 300_000
    leave_ms_max: int = 2_000
    # Taking over: `takeover_obstacle` says why this group may only be succeeded, None for nothing. In the first
    # rebalance members that are ready wait during the search for a member id; in the second while the others come
    # (again at most roll_ms_max), and while the removed leader comes back.
    takeover_obstacle: Obstacle | None = None
    takeover_attempts_max: int = 3  # within an hour
    takeovers_in_vain_max: int = 1  # that disturb the same members and come to nothing
    # The leader, and another where it would lead next; never half of the group (`table_growth`).
    evictions_max: int = 2
    size_limit: SizeLimit = NOT_READ  # temporary members of a take-over must leave room
    roll_ms_max: int = 2_000
    hold_ms_max: int = 2_000
    hand_back: HandBackMode = "leave"  # what follows where members cannot work by a plan
    request_timeout_ms: int = 5_000
    # A JoinGroup may be parked for the largest rebalance timeout of the group; clients' default is five minutes.
    join_timeout_ms: int = 305_000

    @property
    def streams(self) -> bool:
        """The group is a Kafka Streams application: one protocol, and userData in whatever Bellwether sends."""
        return self.protocols == (STREAMS_PROTOCOL,)

    @property
    def tries_max(self) -> int | None:
        """How many member ids a take-over can try for certain while members wait. None where it tries them before it
        disturbs any: without an instance id."""
        return None if self.instance_id is None else self.roll_ms_max // TRY_MS

    @property
    def lingers_ms(self) -> int | None:
        """How long Bellwether stays in a group without other members, None: for ever."""
        return 0 if self.linger_ms is None and not self.subscribes else self.linger_ms


def check_timing(config: MembershipConfig) -> str | None:
    """The P2 arithmetic: one sentence that names the settings, or None when it holds."""
    group = f"Group '{config.group_id}'"
    spent = config.decision_deadline_ms + config.sync_margin_ms + config.heartbeat_interval_ms
    if spent >= config.session_timeout_ms:
        return (
            f"{group}: decision_deadline_ms + sync_margin_ms + heartbeat_interval_ms is {spent}, but must be less than"
            f" session_timeout_ms ({config.session_timeout_ms}), or a slow plan would stall the members."
        )
    held = max(config.coalesce_ms_max, config.coalesce_running_ms)
    if held >= config.rebalance_timeout_ms:
        return (
            f"{group}: coalesce_ms_max and coalesce_running_ms must be less than rebalance_timeout_ms"
            f" ({config.rebalance_timeout_ms}), or the broker would expel Bellwether while it waits for more members."
        )
    if config.standby and config.instance_id is None:
        return f"{group}: standby needs an instance_id, which all instances of Bellwether of one set share."
    approach = config.roll_ms_max + config.hold_ms_max
    if config.adopt != "when-empty" and approach >= config.session_timeout_ms:
        return (
            f"{group}: roll_ms_max + hold_ms_max is {approach}, but must be less than session_timeout_ms"
            f" ({config.session_timeout_ms}), or taking the group over would stall its members."
        )
    if not config.protocols:
        return f"{group}: protocols is empty, but a member must offer at least one assignor name."
    return None
