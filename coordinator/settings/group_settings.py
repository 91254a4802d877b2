"""The settings of one group of any kind."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.coordinator.ghosts import GhostOptions
from bellwether_kafka.coordinator.membership import (
    STOCK_PROTOCOLS,
    STREAMS_PROTOCOL,
    Adopt,
    HandBackMode,
    MembershipConfig,
    Mode,
    check_timing,
)
from bellwether_kafka.coordinator.planning import StreamsConfig
from bellwether_kafka.coordinator.settings.patterns import pattern
from bellwether_kafka.coordinator.settings.streams import STREAMS_FIELDS, StreamsSettings, trouble_for
from bellwether_kafka.protocol.messages import PROTOCOL as STATEFUL_PROTOCOL

DEFAULTS = MembershipConfig("")
# Settings that have no effect unless the group is led. Those that a kind of group has defaults for are not among them.
LEAD_FIELDS = (
    *("adopt", "subscribes", "online_conversion", "evict_malformed", "hand_back", "leave_on_stop"),
    *("session_timeout_ms", "decision_deadline_ms", "coalesce_ms", "linger_ms", "rebalance_interval_ms_min"),
    *("evictions_max", "roll_ms_max", "takeover_forced"),
)
GHOST_FIELDS = ("ghosts", "client_ids_unique", "evict_malformed")
PATTERN_FIELDS = ("match", "exclude")
# Settings that identify one group and would be wrong for another.
NAMED_FIELDS = ("instance_id", "topology", "topology_attested")
NOT_OF_MEMBERSHIP = (
    *("name", "kind", "policy", "capacity", "instance_id", "subscribes"),
    *PATTERN_FIELDS,
    *GHOST_FIELDS,
    *STREAMS_FIELDS,
)
Milliseconds = Annotated[int, Field(ge=0)]
PositiveMilliseconds = Annotated[int, Field(gt=0)]

# Under exactly-once a thread commits nothing from its own JoinGroup until that of the last member. The last member must
# not be Bellwether, whatever heartbeat.interval.ms the threads have.
STREAMS_HEARTBEAT_MS = 250

KIND_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "streams": {"protocols": (STREAMS_PROTOCOL,), "heartbeat_interval_ms": STREAMS_HEARTBEAT_MS},
    "stateful": {"protocols": (STATEFUL_PROTOCOL,), "policy": STREAMS_HA},
}


class GroupSettings(StreamsSettings):
    """One consumer group to observe, assist or lead, or a pattern that selects groups to observe. Times are
    milliseconds; `MembershipConfig` documents their meaning.

    The additional settings of a Streams application are in `streams`.
    """

    name: str = Field(default="", description="the group id; or `match`")
    match: str = Field(
        default="",
        description="a pattern of groups to observe: `team-a-*`, or a regular expression between slashes,"
        " `/^team-[ab]-/`",
    )
    exclude: tuple[str, ...] = Field(default=(), description="patterns of groups that `match` leaves out")
    mode: Mode = Field(default="observe", description="what Bellwether does with the group")
    adopt: Adopt = Field(
        default=DEFAULTS.adopt,
        description="when Bellwether takes the lead of a group that a member leads; see docs/guides/adoption.md",
    )
    subscribes: bool | None = Field(
        default=None,
        description="the group's consumers subscribe (none uses `assign()`), so Bellwether may be in it while it is"
        " empty; for applications true by default; see docs/guides/adoption.md",
    )
    ghosts: bool | None = Field(
        default=None,
        description="remove dead members of restarted processes; always on in `assist`, on in `lead` unless false,"
        " never in `observe`",
    )
    evict_malformed: bool = Field(default=False, description="remove a member that wedges the group (KAFKA-20570)")
    online_conversion: Literal["allow", "block"] = Field(
        default=DEFAULTS.online_conversion,
        description="whether a member may convert the group to KIP-848 while Bellwether leads it",
    )
    client_ids_unique: bool = Field(
        default=False,
        description="no two live members share a client id, which lets ghosts of plain consumers be proven",
    )
    policy: str = Field(default="kafka", description="how it is assigned; see docs/guides/policies.md")
    capacity: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict,
        description="`load-aware`: what each instance or client id can carry, relative to the others",
    )
    protocols: tuple[str, ...] = Field(
        default=STOCK_PROTOCOLS,
        min_length=1,
        description="the assignor names that Bellwether offers: every name that a member may use must be among them",
    )
    instance_id: str | None = Field(default=None, description="another instance id than the common one")
    leave_on_stop: bool = Field(
        default=DEFAULTS.leave_on_stop,
        description="leave at SIGTERM; if not, no member notices a restart within the session timeout",
    )
    session_timeout_ms: PositiveMilliseconds = Field(
        default=DEFAULTS.session_timeout_ms,
        description="how long the broker waits for Bellwether after its last heartbeat",
    )
    heartbeat_interval_ms: PositiveMilliseconds = Field(
        default=DEFAULTS.heartbeat_interval_ms,
        description="how often Bellwether sends a heartbeat; 250 for Kafka Streams",
    )
    decision_deadline_ms: PositiveMilliseconds = Field(
        default=DEFAULTS.decision_deadline_ms,
        description="how long a plan may take before the group is left to a member",
    )
    coalesce_ms: Milliseconds = Field(
        default=DEFAULTS.coalesce_ms,
        description="when an application starts, Bellwether waits until no member has joined for so long, so that its"
        " start is one rebalance; never longer than the broker waited for the first member, or 250 ms where that is"
        " more",
    )
    linger_ms: Milliseconds | None = Field(
        default=DEFAULTS.linger_ms,
        description="how long Bellwether stays in a group without members; not set: for ever where `subscribes` is"
        " true, else not at all",
    )
    rebalance_interval_ms_min: Milliseconds = Field(
        default=DEFAULTS.rebalance_interval_ms_min, description="between two rebalances that Bellwether begins itself"
    )
    evictions_max: int = Field(
        default=DEFAULTS.evictions_max,
        ge=1,
        le=3,
        description="members that a take-over may remove: the leader, and one that would lead next; never half of the"
        " group, except the leader of one or two",
    )
    roll_ms_max: PositiveMilliseconds = Field(
        default=DEFAULTS.roll_ms_max,
        description="how long a take-over may look for a member id that sorts first; its second rebalance may last"
        " 2 s longer",
    )
    hand_back: HandBackMode = Field(
        default=DEFAULTS.hand_back,
        description="where members cannot work by a plan, `leave` hands the lead to a member, at most once in 24"
        " hours; `alert` only raises an alert",
    )

    @model_validator(mode="before")
    @classmethod
    def _offers_stream(cls, value: Any) -> Any:
        kind = value.get("kind") if isinstance(value, dict) else None
        return {**KIND_DEFAULTS.get(str(kind), {}), **value} if isinstance(value, dict) else value

    @field_validator("match", "exclude")
    @classmethod
    def _are_patterns(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for text in (value,) if isinstance(value, str) else value:
            pattern(text)
        return value

    @model_validator(mode="after")
    def _names_or_matches(self) -> Self:
        """Refuses to lead by a pattern, because it would also select groups that are created later."""
        if not self.name and not self.match:
            raise ValueError("it has neither name nor match; set one of them")
        if self.name and self.match:
            raise ValueError(f"it has both name and match; remove match, or give {self.match} a [[groups]] of its own")
        if self.exclude and not self.match:
            raise ValueError(
                "exclude is for groups that a pattern selects; write match instead of name, or remove exclude"
            )
        if self.match and self.mode != "observe":
            raise ValueError(
                f'match with mode = "{self.mode}" is not possible, because it would also select groups that are created'
                f" later; remove mode, or give each group to {self.mode} a [[groups]] with its name"
            )
        own = [name for name in NAMED_FIELDS if self.match and name in self.model_fields_set]
        if own:
            raise ValueError(f"{own[0]} belongs to one group; name that group by name = ... instead of match")
        return self

    @model_validator(mode="after")
    def _fits_its_mode(self) -> Self:
        idle = [name for name in LEAD_FIELDS if name in self.model_fields_set]
        if self.mode != "lead" and idle:
            raise ValueError(f'{idle[0]} is for groups that are led; add mode = "lead" or remove it')
        if self.mode == "observe" and self.client_ids_unique:
            raise ValueError(
                'client_ids_unique is for the removal of ghosts; add mode = "assist" or "lead", or remove it'
            )
        if self.ghosts is not None and (self.mode == "observe" or (self.mode == "assist" and not self.ghosts)):
            raise ValueError(
                'ghosts is for groups that are led: mode = "assist" always removes them, mode = "observe" never does;'
                " remove ghosts or change mode"
            )
        if self.capacity and self.kind != "consumer":
            raise ValueError(
                f'capacity is for plain consumers, and has no effect on kind = "{self.kind}"; remove it: capacity_tag'
                " has the client tag that weighs a process"
            )
        trouble = check_timing(self.membership(None))
        trouble = trouble or trouble_for(self.kind, self.protocols, self.session_timeout_ms)
        trouble = trouble or self.stage_trouble(self.policy)
        if trouble:
            raise ValueError(trouble)
        return self

    @property
    def called(self) -> str:
        """The name of this entry for users: the group's name, or the pattern."""
        return self.name or self.match

    def selects(self, group_id: str) -> bool:
        """Returns whether the entry applies to this group."""
        if not self.match:
            return self.name == group_id
        return pattern(self.match).fits(group_id) and not any(pattern(text).fits(group_id) for text in self.exclude)

    def of_group(self, group_id: str) -> "GroupSettings":
        """Returns the same settings for one group that the pattern selects."""
        return (
            self
            if self.name == group_id and not self.match
            else self.model_copy(update={"name": group_id, "match": "", "exclude": ()})
        )

    def membership(self, instance_id: str | None) -> MembershipConfig:
        """Returns the settings of the membership machine. The group's own instance id wins over the common one."""
        return MembershipConfig(
            group_id=self.name,
            instance_id=self.instance_id or instance_id,
            takeover_obstacle=self.takeover_obstacle(),
            subscribes=self.kind in KIND_DEFAULTS if self.subscribes is None else self.subscribes,
            **self.model_dump(exclude=set(NOT_OF_MEMBERSHIP)),
        )

    @property
    def ghost_options(self) -> GhostOptions | None:
        """The options for the removal of members, None if no member may be removed."""
        if self.mode == "observe":
            return None
        return GhostOptions(
            remove=self.ghosts is not False,
            client_ids_unique=self.client_ids_unique,
            evict_malformed=self.evict_malformed,
            exactly_once=self.streams is not None and self.streams.exactly_once,
        )

    @property
    def streams(self) -> StreamsConfig | None:
        """The settings of a Streams application, None for a group of plain consumers."""
        return self.streams_config(self.name, self.policy)
