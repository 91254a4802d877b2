"""Settings of one group's membership, and the check of promise P2: no failure of Bellwether stalls a rebalance for
longer than its session timeout (docs/internals/reliability.md#promises)."""

from dataclasses import dataclass
from typing import Literal

from bellwether_kafka.coordinator.membership.role import Obstacle

# Every name that members may use must be on this list: a name missing here locks those members out of the group, while
# a name too many costs nothing. The order is Bellwether's vote (docs/internals/broker-behaviour.md#protocol-choice).
STREAMS_PROTOCOL = "stream"
CLIENT_ID = "bellwether"  # Bellwether's, unless "client.id" is set
STREAMS_SESSION_MS_MIN, STREAMS_SESSION_MS_MAX = 6_000, 10_000  # commits may wait for Bellwether this long
STOCK_PROTOCOLS = ("cooperative-sticky", "sticky", "range", "roundrobin", "RoundRobinAssigner", "rack-affinity")


# What a process may do to a group: only observe it, also remove its dead members, or lead it.
Mode = Literal["observe", "assist", "lead"]
Adopt = Literal["when-empty", "succeed", "take-over"]  # when Bellwether takes the lead from a member
HandBackMode = Literal["leave", "alert"]

# Time to try one member id: at least TRY_MS, and TRY_ANSWERS times what the broker needs for a DescribeGroups. A
# try is a JoinGroup and a DescribeGroups, sent together; the second answer is for a DescribeGroups that is read before
# the JoinGroup, and a reserve. On one machine a try takes about half of TRY_MS.
TRY_MS = 7
TRY_ANSWERS = 2


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The brokers' group.max.size. `members`: how many members a group may have; None if that is not known. `unknown`:
    why it is not known. `remedy`: what to do about that."""

    members: int | None = None
    unknown: str = "the brokers' group.max.size has not been read yet"
    remedy: str = "wait until it has"


NOT_READ = SizeLimit()


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """Settings of one group's membership. All times are milliseconds.

    `topics` is what Bellwether's own subscription lists while other members are in the group: nothing, or one control
    topic to which no other member subscribes (docs/internals/client-quirks.md#a-foreign-member-under-other-leaders).

    While any member is in a group, brokers refuse the commits of consumers that assign themselves partitions
    (docs/internals/broker-behaviour.md#commits-without-a-member). Hence `linger_ms` None means: stay without a limit
    where members subscribe; elsewhere leave as soon as an answer shows that Bellwether is alone.
    """

    group_id: str
    mode: Mode = "lead"  # a membership exists to lead; the default of the settings file is "observe"
    adopt: Adopt = "take-over"
    instance_id: str | None = None
    client_id: str | None = None  # distinguishes members under the same instance id
    standby: bool = False  # other instances share the instance id: join only while this one is active
    protocols: tuple[str, ...] = STOCK_PROTOCOLS
    topics: tuple[str, ...] = ()
    leave_on_stop: bool = False
    # "block" prevents a member with group.protocol=consumer from converting the group to KIP-848, which ends the lead.
    online_conversion: Literal["allow", "block"] = "allow"
    adopt_empty: bool = True  # join a group that has no members; if False, wait for a member
    subscribes: bool = False  # its consumers are known to subscribe: none assigns itself partitions

    # The broker's minimum is 6 s. Members wait for this session if Bellwether dies between JoinGroup and SyncGroup.
    # With 1 s heartbeats and a 3 s decision, 6 s would pass the P2 check with 1 s to spare, so one slow broker disk or
    # one lost packet would cost the lead until the group is empty again. 10 s leaves room for five lost heartbeats. The
    # price is four seconds more after a kill -9 in the middle of a rebalance; that is rare, and a restart ends the
    # wait.
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 1_000
    decision_deadline_ms: int = 3_000
    sync_margin_ms: int = 1_000
    # Matters only if it is the largest in the group: it then bounds how long a hung member holds up all others. Small,
    # but longer than the longest coalescing, during which Bellwether holds the rebalance open.
    rebalance_timeout_ms: int = 15_000

    watch_interval_ms: int = 5_000
    # The broker waits this long for the first members of an empty group; if Bellwether is in the group, Bellwether
    # waits instead: counted from its last heartbeat before they came, and no longer than it has seen the broker wait.
    coalesce_ms: int = 3_000
    coalesce_ms_max: int = 10_000
    # 0, because in a running group the other members take up to a heartbeat interval to rejoin anyway.
    coalesce_running_ms: int = 0
    linger_ms: int | None = None
    followup_ms: int = 3_000
    # Pending partitions have no owner until the next rebalance is complete, and members start it as soon as they have
    # revoked them. With its usual heartbeat interval Bellwether would be the last member to notice.
    followup_heartbeat_ms: int = 50
    followup_ms_max: int = 60_000
    rebalance_interval_ms_min: int = 10_000

    retry_backoff_ms: int = 100
    retry_backoff_ms_max: int = 2_000
    # How long errors without a known meaning (UNKNOWN_SERVER_ERROR) may last before Bellwether leaves.
    unclear_ms_max: int = 10_000
    # Wait this long before adopting the group again, if Bellwether left because it failed or because another member
    # leads.
    readopt_ms: int = 5_000
    readopt_ms_max: int = 300_000
    leave_ms_max: int = 2_000
    # Take-over. `takeover_obstacle`: why this group may only be succeeded; None if it may be taken over. In the first
    # rebalance of a take-over, members that have joined wait while Bellwether searches for a member id. In the second
    # they wait for the other members (again at most roll_ms_max), and for the removed leader to come back.
    takeover_obstacle: Obstacle | None = None
    takeover_attempts_max: int = 3  # within an hour
    takeovers_in_vain_max: int = 1  # failed attempts that disturbed the same members
    # The leader, and one more member if that would lead next; never half of the group (`table_growth`).
    evictions_max: int = 2
    size_limit: SizeLimit = NOT_READ  # temporary members of a take-over must not fill the group
    roll_ms_max: int = 2_000
    hold_ms_max: int = 2_000
    hand_back: HandBackMode = "leave"  # what to do if members do not work by a plan
    request_timeout_ms: int = 5_000
    # A JoinGroup may be parked for the group's largest rebalance timeout; the clients' default is five minutes.
    join_timeout_ms: int = 305_000

    @property
    def streams(self) -> bool:
        """True if the group is a Kafka Streams application, which has one protocol and requires valid userData."""
        return self.protocols == (STREAMS_PROTOCOL,)

    @property
    def waits_for_restart(self) -> bool:
        """True if Bellwether takes a running group over only after its leader is restarted or the group is empty."""
        return self.adopt != "take-over" or self.takeover_obstacle is not None

    def tries_max(self, answer_time_ms: float | None = None) -> int | None:
        """Returns how many member ids a take-over is sure to be able to try while members wait. `answer_time_ms`: how
        long the broker takes to answer DescribeGroups; None if that is not known, and the result is that of a broker
        which answers at once. None without an instance id: ids are then tried before any member is disturbed."""
        if self.instance_id is None:
            return None
        return int(self.roll_ms_max / max(TRY_MS, TRY_ANSWERS * (answer_time_ms or 0.0)))

    @property
    def lingers_ms(self) -> int | None:
        """How long Bellwether stays in a group without other members; None: without a limit."""
        return 0 if self.linger_ms is None and not self.subscribes else self.linger_ms


def check_timing(config: MembershipConfig) -> str | None:
    """Checks that the timing keeps promise P2. Returns one sentence that names the wrong settings, or None."""
    group = f"Group '{config.group_id}'"
    spent = config.decision_deadline_ms + config.sync_margin_ms + config.heartbeat_interval_ms
    if spent >= config.session_timeout_ms:
        return (
            f"{group}: decision_deadline_ms + heartbeat_interval_ms + {config.sync_margin_ms} is {spent}, but must be"
            f" less than session_timeout_ms ({config.session_timeout_ms}), or a slow plan would stall the members."
        )
    if config.coalesce_running_ms >= config.rebalance_timeout_ms:
        return (
            f"{group}: coalesce_running_ms must be less than {config.rebalance_timeout_ms}, or the broker would expel"
            " Bellwether while it waits for more members."
        )
    if config.standby and config.instance_id is None:
        return f"{group}: standby needs an instance_id, which all instances of Bellwether of one set share."
    approach = config.roll_ms_max + config.hold_ms_max
    if config.adopt != "when-empty" and approach >= config.session_timeout_ms:
        return (
            f"{group}: roll_ms_max + {config.hold_ms_max} is {approach}, but must be less than session_timeout_ms"
            f" ({config.session_timeout_ms}), or taking the group over would stall its members."
        )
    if not config.protocols:
        return f"{group}: protocols is empty, but a member must offer at least one assignor name."
    return None
