"""Settings: a TOML file, the environment (BELLWETHER_*), and what the command line adds. Errors are sentences.

    instance_id = "bellwether"                 # group.instance.id in every group
    control_topic = "bellwether-control"       # operators' orders, heartbeats of instances; "" for none
    standby = true                             # other instances run with this instance_id: one leads, the others wait
    http_address = "127.0.0.1:9790"            # metrics and probes; "" for none
    [kafka]                                    # librdkafka's property names; <name>.file reads the value from a file
    "bootstrap.servers" = "broker-1:9092"
    "sasl.password.file" = "/run/secrets/kafka-password"
    [[groups]]
    name = "orders"
    mode = "lead"                              # or "observe" (the default), or "assist"
    adopt = "take-over"                        # the default; or "succeed", or "when-empty"
    policy = "rack-first"
    [[groups]]
    match = "team-a-*"                         # observes every group that fits; or "/^team-[ab]-/"
    exclude = ["*-test"]

In the environment: BELLWETHER_LOG_LEVEL, BELLWETHER_GROUPS (names with commas between, or a JSON list of tables) and
BELLWETHER_KAFKA_BOOTSTRAP_SERVERS for bootstrap.servers. The environment wins over the file.
"""

import os
import socket
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from bellwether_kafka.bounded import OutsideTextError, json_of
from bellwether_kafka.coordinator.control import ControlSettings
from bellwether_kafka.coordinator.membership import CLIENT_ID, MembershipConfig
from bellwether_kafka.coordinator.properties import CONTROL_TOPIC
from bellwether_kafka.coordinator.settings.group_settings import GroupSettings
from bellwether_kafka.coordinator.settings.patterns import is_pattern, pattern
from bellwether_kafka.coordinator.settings.removed import without_removed
from bellwether_kafka.coordinator.settings.settings_errors import AmbiguousGroupError, SettingsError, sentence
from bellwether_kafka.coordinator.settings.sources import (
    GIVEN,
    PREFIX,
    PROPERTIES,
    Environment,
    TomlFile,
    read_properties,
)
from bellwether_kafka.coordinator.settings.tables import (
    CostSettings,
    EventSettings,
    RackSettings,
    TopicNameOrNone,
    WeightSettings,
)
from bellwether_kafka.protocol.primitives import whole_number

# Names under which `load` passes the file and the environment to the sources, because settings_customise_sources sees
# only the keyword arguments of the call.
FILE, ENVIRON = "file", "environ"


def _groups(value: object) -> object:
    """Accepts names separated by commas, a JSON list, or tables. A bare name is a group with all defaults; with a `*`
    or between slashes it is a pattern."""
    if isinstance(value, str):
        try:
            value = json_of(value) if value.lstrip().startswith("[") else value.split(",")
        except ValueError:
            raise ValueError("it is not valid JSON; write names with commas between, or a JSON list") from None
    if not isinstance(value, list | tuple):
        raise ValueError("it must be a list of tables; write [[groups]] and below it name = ...")  # noqa: TRY004 - pydantic turns only ValueErrors into a report
    return [named(item.strip()) if isinstance(item, str) else item for item in value]


def _is_address(value: str) -> bool:
    host, _, port = value.rpartition(":")
    number = whole_number(port)
    return bool(host) and number is not None and number < 65_536


def named(text: str, mode: str = "observe") -> dict[str, str]:
    """Returns the entry of a group or a pattern that has no other settings."""
    return {"match" if is_pattern(text) else "name": text, "mode": mode}


class Settings(BaseSettings):
    """All settings, checked. Use `load` to read them."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, hide_input_in_errors=True)

    kafka: Annotated[dict[str, SecretStr], BeforeValidator(read_properties)] = Field(
        default_factory=dict, description="librdkafka's properties, such as `bootstrap.servers`"
    )
    groups: Annotated[tuple[GroupSettings, ...], NoDecode, BeforeValidator(_groups)] = Field(
        default=(), description="the groups to observe, assist or lead"
    )
    instance_id: str | None = Field(
        default="bellwether",
        pattern=r"^[a-zA-Z0-9._-]{1,249}$",
        description="Bellwether's `group.instance.id` in every group",
    )
    control_topic: TopicNameOrNone = Field(
        default=CONTROL_TOPIC,
        description="the compacted topic of operators' orders and instances' heartbeats, which processes that lead or"
        " serve create; empty for none",
    )
    standby: bool = Field(
        default=False, description="other instances share the instance id: one of them joins, the others stand by"
    )
    instance_name: str = Field(
        default="",
        pattern=r"^[a-zA-Z0-9._-]{0,249}$",
        description="the name of this process in the control topic; a random one where it is not set",
    )
    http_address: str = Field(
        default="127.0.0.1:9790", description="`host:port` of metrics, probes and the status page; empty for none"
    )
    assignor_address: str = Field(
        default="",
        description="where brokers' assignors ask for plans: `unix:/path`, or `host:port` of the loopback interface;"
        " see docs/guides/beyond-classic.md",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="how much is logged")
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto", description="`auto` is console on a terminal and json elsewhere"
    )
    message_bytes_max: Annotated[int, Field(gt=0)] = Field(
        default=1_048_588,
        description="the brokers' `message.max.bytes` for `__consumer_offsets`: 80 % of it is what a group's record"
        " may have",
    )
    metrics_by_task: bool = Field(default=False, description="a metric for the lag of each standby and warm-up")
    lag_exporter_cluster_name: str = Field(
        default="",
        description="lags under the names of kafka-lag-exporter, too, with this `cluster_name`: a series for each"
        " partition; see docs/guides/lag.md",
    )
    events: EventSettings | None = Field(default=None, description="where decision events go")
    weights: WeightSettings | None = Field(default=None, description="where measured weights come from")
    cost: CostSettings | None = Field(default=None, description="what traffic between racks costs")
    racks: RackSettings = Field(default_factory=RackSettings, description="the racks of members that send none")
    _ignored: tuple[str, ...] = PrivateAttr(())

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: Any,
        *_: PydanticBaseSettingsSource,
        **__: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        given = init_settings.init_kwargs
        file, environ = given.pop(FILE), given.pop(ENVIRON)
        return init_settings, Environment(settings_cls, environ), TomlFile(settings_cls, file)

    @model_validator(mode="wrap")
    @classmethod
    def _ignores_removed(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        groups = value.get("groups")
        with suppress(ValueError):  # which the validator of the groups reports
            value = {**value, **({"groups": _groups(groups)} if groups is not None else {})}
        kept, sentences = without_removed(value)
        made = handler(kept)
        made._ignored = sentences  # noqa: SLF001 - its own
        return made

    @property
    def ignored(self) -> tuple[str, ...]:
        """A sentence for each setting of the release before that was given and has no effect any more."""
        return self._ignored

    @field_validator("http_address")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        if value and not _is_address(value):
            raise ValueError('write it as host:port, such as 127.0.0.1:9790, or "" for no HTTP server')
        return value

    @field_validator("assignor_address")
    @classmethod
    def _socket_or_port(cls, value: str) -> str:
        if value and not (value.startswith("unix:/") or _is_address(value)):
            raise ValueError("write it as unix:/path, or as host:port with an address of the loopback interface")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.kafka.get("bootstrap.servers", SecretStr("")).get_secret_value().strip():
            raise ValueError(
                'bootstrap.servers is not set; put "bootstrap.servers" = "host:port" under [kafka],'
                " name a file that has it by --config or BELLWETHER_CONFIG,"
                " or use --bootstrap or BELLWETHER_KAFKA_BOOTSTRAP_SERVERS"
            )
        if not self.groups:
            raise ValueError(
                "groups is empty; name a group with [[groups]] and name = ..., with --group or with BELLWETHER_GROUPS"
            )
        if self.standby and not self.control_topic:
            raise ValueError(
                "standby needs control_topic, where instances of Bellwether read each other's heartbeats; name a topic"
            )
        if self.standby and self.instance_id is None:
            raise ValueError("standby needs instance_id, the same one in all instances of Bellwether of a set")
        if self.cost is not None and self.cost.price_per_gb is not None and self.weights is None:
            raise ValueError("cost.price_per_gb needs weights, by which bytes are known; name a topic under [weights]")
        names = [group.name for group in self.groups if group.name]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"groups names {twice[0]} twice; a group can be led once")
        patterns = [group.match for group in self.groups if group.match]
        twice = sorted({text for text in patterns if patterns.count(text) > 1})
        if twice:
            raise ValueError(f"groups has the pattern {twice[0]} twice; remove one of the two")
        return self

    @property
    def named(self) -> tuple[GroupSettings, ...]:
        """The groups that are known without a request to a broker."""
        return tuple(group for group in self.groups if group.name)

    @property
    def patterns(self) -> tuple[GroupSettings, ...]:
        """The entries with a pattern."""
        return tuple(group for group in self.groups if group.match)

    def group(self, group_id: str) -> GroupSettings | None:
        """Returns the settings of a group, None if no entry applies to it. Raises AmbiguousGroupError, as `entry`
        does."""
        entry = self.entry(group_id)
        return entry.of_group(group_id) if entry is not None else None

    def entry(self, group_id: str) -> GroupSettings | None:
        """Returns the entry that names the group, else the one with the most specific pattern that fits, else None.
        Raises AmbiguousGroupError if two patterns are equally specific."""
        named = next((group for group in self.named if group.name == group_id), None)
        if named is not None:
            return named
        fitting = [group for group in self.patterns if group.selects(group_id)]
        if not fitting:
            return None
        fitting.sort(key=lambda group: pattern(group.match).precision, reverse=True)
        best = fitting[0]
        if len(fitting) > 1 and pattern(best.match).precision == pattern(fitting[1].match).precision:
            raise AmbiguousGroupError(group_id, best.match, fitting[1].match)
        return best

    @property
    def properties(self) -> dict[str, str]:
        """Kafka's properties in clear text, for clients only. Do not log them."""
        return {name: value.get_secret_value() for name, value in self.kafka.items()}

    @property
    def memberships(self) -> tuple[MembershipConfig, ...]:
        client_id = self.properties.get("client.id", CLIENT_ID)
        made = (group.membership(self.instance_id) for group in self.named)
        return tuple(replace(config, standby=self.standby, client_id=client_id) for config in made)

    @property
    def control(self) -> ControlSettings:
        """How orders reach this process. An instance id that is not configured lasts as long as the process."""
        own = self.instance_name or f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        return ControlSettings(self.control_topic if self.takes_orders else "", own, self.standby)

    @property
    def names_control_topic(self) -> bool:
        """Whether somebody has named a control topic, rather than left it at its default."""
        return bool(self.control_topic) and "control_topic" in self.model_fields_set

    @property
    def takes_orders(self) -> bool:
        """Whether a process uses the control topic: one that only observes makes no topic that nobody has named."""
        acts = bool(self.assignor_address) or any(group.mode == "lead" for group in self.groups)
        return self.names_control_topic or (acts and bool(self.control_topic))


def load(
    file: Path | None = None, overrides: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """Loads the settings from the file, the environment and the command line; the last wins. Raises SettingsError."""
    given: dict[str, Any] = {**(overrides or {}), FILE: file, ENVIRON: os.environ if environ is None else environ}
    given[PROPERTIES] = {GIVEN: given.get(PROPERTIES, {})}
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SettingsError(sentence(error, Settings)) from None
    except OSError as error:
        text = f"The configuration file {file} cannot be read ({error.strerror}); check --config."
        raise SettingsError(text) from None
    except OutsideTextError as error:
        raise SettingsError(f"The configuration file {file} cannot be used: {error}; correct it.") from None
