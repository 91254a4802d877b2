"""Settings: a TOML file, the environment (BELLWETHER_*), and what the command line adds. Errors are sentences.

    instance_id = "bellwether"                 # group.instance.id in every group
    control_topic = "bellwether-control"       # operators' orders and beats of sidecars; "" for none
    standby = true                             # other sidecars run with this instance_id: one leads, the others wait
    http_address = "127.0.0.1:9790"            # metrics and probes; "" for none
    [kafka]                                    # librdkafka's property names; <name>.file reads the value from a file
    "bootstrap.servers" = "broker-1:9092"
    "sasl.password.file" = "/run/secrets/kafka-password"
    [[groups]]
    name = "orders"
    mode = "lead"                              # or "observe" (the default), or "assist"
    adopt = "when-empty"                       # or "succeed", or "take-over"
    policy = "rack-first"

In the environment: BELLWETHER_LOG_LEVEL, BELLWETHER_GROUPS (names with commas between, or a JSON list of tables) and
BELLWETHER_KAFKA_BOOTSTRAP_SERVERS for bootstrap.servers. The environment wins over the file.
"""

import difflib
import json
import os
import socket
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from bellwether_kafka.assignors.streams.policies import STREAMS_HA
from bellwether_kafka.coordinator.control import ControlSettings
from bellwether_kafka.coordinator.ghosts import GhostOptions
from bellwether_kafka.coordinator.membership import (
    CLIENT_ID,
    STOCK_PROTOCOLS,
    STREAMS_PROTOCOL,
    Adopt,
    MembershipConfig,
    Mode,
    check_timing,
)
from bellwether_kafka.coordinator.planning import StreamsConfig
from bellwether_kafka.coordinator.settings.pipeline import CostSettings, EventSettings, WeightSettings
from bellwether_kafka.coordinator.settings.streams import (
    STREAMS_FIELDS,
    StreamsSettings,
    trouble_for_stateful,
    trouble_for_streams,
)
from bellwether_kafka.protocol.messages import PROTOCOL as STATEFUL_PROTOCOL

PREFIX = "BELLWETHER_"
KAFKA_PREFIX = "BELLWETHER_KAFKA_"
CONFIG_VARIABLE = "BELLWETHER_CONFIG"
FROM_FILE = ".file"
SECRET_BYTES_MAX = 65_536
SHOWN = 3
NAME_LENGTH_MAX = 249

DEFAULTS = MembershipConfig("")
LEAD_FIELDS = ("adopt", "online_conversion", "evict_malformed")
GHOST_FIELDS = ("ghosts", "client_ids_unique", "evict_malformed")
Milliseconds = Annotated[int, Field(ge=0)]
PositiveMilliseconds = Annotated[int, Field(gt=0)]

KIND_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "streams": {"protocols": (STREAMS_PROTOCOL,)},
    "stateful": {"protocols": (STATEFUL_PROTOCOL,), "policy": STREAMS_HA},
}


class SettingsError(Exception):
    """What is wrong with the settings, as one sentence that names the setting and the remedy."""


class GroupSettings(StreamsSettings):
    """One consumer group to observe or to lead. Times are milliseconds; what they mean is told in `MembershipConfig`.

    What a Streams application adds is in `settings_streams`.
    """

    name: str = Field(min_length=1)
    mode: Mode = "observe"
    adopt: Adopt = DEFAULTS.adopt
    ghosts: bool | None = None  # remove dead members; unless said otherwise in the modes assist and lead
    evict_malformed: bool = False  # remove members whose subscription wedges brokers up to 4.3 (KAFKA-20570)
    online_conversion: Literal["allow", "block"] = DEFAULTS.online_conversion  # to KIP-848, by a member that joins
    client_ids_unique: bool = False  # the operator's word that no two live members on one host share a client id
    policy: str = "kafka"
    capacity: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)  # by instance id or client id
    protocols: tuple[str, ...] = Field(default=STOCK_PROTOCOLS, min_length=1)
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    leave_on_stop: bool = DEFAULTS.leave_on_stop
    session_timeout_ms: PositiveMilliseconds = DEFAULTS.session_timeout_ms
    heartbeat_interval_ms: PositiveMilliseconds = DEFAULTS.heartbeat_interval_ms
    decision_deadline_ms: PositiveMilliseconds = DEFAULTS.decision_deadline_ms
    sync_margin_ms: Milliseconds = DEFAULTS.sync_margin_ms
    rebalance_timeout_ms: PositiveMilliseconds = DEFAULTS.rebalance_timeout_ms
    coalesce_ms: Milliseconds = DEFAULTS.coalesce_ms
    coalesce_ms_max: Milliseconds = DEFAULTS.coalesce_ms_max
    linger_ms: Milliseconds | None = DEFAULTS.linger_ms
    followup_ms: PositiveMilliseconds = DEFAULTS.followup_ms
    rebalance_interval_ms_min: Milliseconds = DEFAULTS.rebalance_interval_ms_min
    takeover_attempts_max: int = Field(default=DEFAULTS.takeover_attempts_max, ge=1)
    evictions_max: int = Field(default=DEFAULTS.evictions_max, ge=1, le=3)
    roll_ms_max: PositiveMilliseconds = DEFAULTS.roll_ms_max
    hold_ms_max: PositiveMilliseconds = DEFAULTS.hold_ms_max

    @model_validator(mode="before")
    @classmethod
    def _offers_stream(cls, value: Any) -> Any:
        kind = value.get("kind") if isinstance(value, dict) else None
        return {**KIND_DEFAULTS.get(str(kind), {}), **value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _keeps_promise_p2(self) -> Self:
        idle = [name for name in LEAD_FIELDS if name in self.model_fields_set]
        if self.mode != "lead" and idle:
            raise ValueError(f'{idle[0]} is for groups that are led; add mode = "lead" or remove it')
        if self.mode == "observe" and self.client_ids_unique:
            raise ValueError('client_ids_unique is about removing ghosts; add mode = "assist" or "lead", or remove it')
        if self.ghosts is not None and (self.mode == "observe" or (self.mode == "assist" and not self.ghosts)):
            raise ValueError(
                'ghosts is for groups that are led: mode = "assist" always removes them, mode = "observe" never does;'
                " remove ghosts or change mode"
            )
        trouble = check_timing(self.membership(None))
        if trouble is None and self.kind == "streams":
            trouble = trouble_for_streams(self.protocols, self.session_timeout_ms)
        elif trouble is None and self.kind == "stateful":
            trouble = trouble_for_stateful(self.protocols)
        trouble = trouble or self.stage_trouble(self.policy)
        if trouble:
            raise ValueError(trouble)
        return self

    def membership(self, instance_id: str | None) -> MembershipConfig:
        """The machine's settings; a group's own instance id wins over the common one."""
        return MembershipConfig(
            group_id=self.name,
            instance_id=self.instance_id or instance_id,
            takeover_guard=self.takeover_guard(),
            **self.model_dump(
                exclude={"name", "kind", "policy", "capacity", "instance_id", *GHOST_FIELDS, *STREAMS_FIELDS}
            ),
        )

    @property
    def ghost_options(self) -> GhostOptions | None:
        """None where nobody may be removed."""
        if self.mode == "observe":
            return None
        return GhostOptions(
            remove=self.ghosts is not False,
            client_ids_unique=self.client_ids_unique,
            evict_malformed=self.evict_malformed,
        )

    @property
    def streams(self) -> StreamsConfig | None:
        """What a Streams application adds, None for a group of plain consumers."""
        return self.streams_config(self.name, self.policy)


class Settings(BaseSettings):
    """All of it, checked. Read it with `load`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, hide_input_in_errors=True)

    kafka: Annotated[dict[str, SecretStr], NoDecode] = Field(default_factory=dict)
    groups: Annotated[tuple[GroupSettings, ...], NoDecode] = ()
    instance_id: str | None = Field(default="bellwether", pattern=r"^[a-zA-Z0-9._-]{1,249}$")
    control_topic: str = Field(default="", pattern=r"^[a-zA-Z0-9._-]{0,249}$")
    standby: bool = False
    sidecar_id: str = Field(default="", pattern=r"^[a-zA-Z0-9._-]{0,249}$")
    http_address: str = "127.0.0.1:9790"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "console"] = "auto"
    metadata_interval_ms: PositiveMilliseconds = 10_000
    message_bytes_max: Annotated[int, Field(gt=0)] = 1_048_588  # a broker's default, as `guard.MESSAGE_BYTES_MAX`
    metrics_by_task: bool = False  # a series for each standby and warm-up
    events: EventSettings | None = None
    weights: WeightSettings | None = None
    cost: CostSettings | None = None

    @field_validator("kafka", mode="before")
    @classmethod
    def _read_properties(cls, value: object) -> object:
        return _properties(value)

    @field_validator("groups", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        return _groups(value)

    @field_validator("http_address")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if value and not (host and port.isdigit() and int(port) < 65_536):
            raise ValueError('write it as host:port, such as 127.0.0.1:9790, or "" for no HTTP server')
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.kafka.get("bootstrap.servers", SecretStr("")).get_secret_value().strip():
            raise ValueError(
                'bootstrap.servers is not set; put "bootstrap.servers" = "host:port" under [kafka],'
                " or use --bootstrap or BELLWETHER_KAFKA_BOOTSTRAP_SERVERS"
            )
        if not self.groups:
            raise ValueError(
                "groups is empty; name a group with [[groups]] and name = ..., with --group or with BELLWETHER_GROUPS"
            )
        if self.standby and not self.control_topic:
            raise ValueError("standby needs control_topic, in which sidecars hear one another; name a topic")
        if self.standby and self.instance_id is None:
            raise ValueError("standby needs instance_id, the same one in all sidecars of a set")
        if self.cost is not None and self.cost.price_per_gb is not None and self.weights is None:
            raise ValueError("cost.price_per_gb needs weights, by which bytes are known; name a topic under [weights]")
        names = [group.name for group in self.groups]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"groups names {twice[0]} twice; a group can be led once")
        return self

    @property
    def properties(self) -> dict[str, str]:
        """The Kafka property map in clear text, for the clients only; never log it."""
        return {name: value.get_secret_value() for name, value in self.kafka.items()}

    @property
    def memberships(self) -> tuple[MembershipConfig, ...]:
        client_id = self.properties.get("client.id", CLIENT_ID)
        made = (group.membership(self.instance_id) for group in self.groups)
        return tuple(replace(config, standby=self.standby, client_id=client_id) for config in made)

    @property
    def control(self) -> ControlSettings | None:
        """Who we are in the control topic, None without one. An id that nobody has set lasts as long as the process."""
        if not self.control_topic:
            return None
        own = self.sidecar_id or f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        return ControlSettings(self.control_topic, own, self.standby)


def load(
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Settings from the file, the environment and the command line (the last wins). Raises SettingsError."""
    environ = os.environ if environ is None else environ
    layers = [_from_file(file), _from_environment(environ), dict(overrides or {})]
    _refuse_unknown(environ)
    merged: dict[str, Any] = {}
    for layer in layers:
        kafka = {**_table(merged.get("kafka", {})), **_table(layer.pop("kafka", {}))}
        merged |= layer | ({"kafka": kafka} if kafka else {})

    class Given(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: PydanticBaseSettingsSource, **__: PydanticBaseSettingsSource
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (InitSettingsSource(settings_cls, merged),)

    try:
        return Given()
    except ValidationError as error:
        raise SettingsError(sentence(error)) from None


def sentence(error: ValidationError) -> str:
    """A validation error as one sentence: which setting, what is wrong, what to do. Never the value."""
    problems = list(dict.fromkeys(_problem(dict(detail)) for detail in error.errors(include_input=False)))
    more = f" (and {len(problems) - SHOWN} more problems)" if len(problems) > SHOWN else ""
    text = "; ".join(problems[:SHOWN]).rstrip(".")
    return f"{text}{more}."


def _problem(detail: dict[str, Any]) -> str:
    path = _path(detail["loc"])
    if detail["type"] == "extra_forbidden":
        known = Settings.model_fields if detail["loc"][0] != "groups" else GroupSettings.model_fields
        names = [field.alias or name for name, field in known.items()]
        return f"The setting {path} does not exist; {_suggestion(str(detail['loc'][-1]), names)}"
    if detail["type"] == "missing":
        return f"The setting {path} is missing; set it"
    text = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "value_error" and (not path or text.startswith("Group ")):
        return str(text)
    return f"The setting {path} cannot be used: {text[0].lower()}{text[1:]}"


def _path(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _suggestion(name: str, known: Iterable[str]) -> str:
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"perhaps {close[0]} is meant" if close else f"known are {', '.join(known)}"


def _from_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        with file.open("rb") as source:
            return tomllib.load(source)
    except OSError as error:
        raise SettingsError(
            f"The configuration file {file} cannot be read ({error.strerror}); check --config."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The configuration file {file} is not valid TOML: {error}; correct it.") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """BELLWETHER_X is the setting x; BELLWETHER_KAFKA_A_B is the property a.b."""
    found: dict[str, Any] = {
        name: environ[PREFIX + name.upper()] for name in Settings.model_fields if PREFIX + name.upper() in environ
    }
    properties = {
        name.removeprefix(KAFKA_PREFIX).lower().replace("_", "."): value
        for name, value in environ.items()
        if name.startswith(KAFKA_PREFIX)
    }
    if properties:
        found["kafka"] = {**_table(found.get("kafka", {})), **properties}
    return found


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = {PREFIX + name.upper(): name for name in Settings.model_fields} | {CONFIG_VARIABLE: ""}
    for name in sorted(environ):
        if name.startswith(PREFIX) and not name.startswith(KAFKA_PREFIX) and name not in known:
            raise SettingsError(f"The variable {name} is no setting; {_suggestion(name, known)}.")


def _table(value: object) -> dict[str, Any]:
    """A property map as given: a table, or JSON in a variable. What is neither is left to the validator."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {"": value}
    return dict(value) if isinstance(value, Mapping) else {"": value}


def _properties(value: object) -> dict[str, SecretStr]:
    if not isinstance(value, Mapping) or "" in value:
        raise ValueError('it must be a table of librdkafka properties, such as "bootstrap.servers" = "host:port"')
    found: dict[str, SecretStr] = {}
    for name, given in _flat(value).items():
        if isinstance(given, list) or given is None:
            raise ValueError(f"the property {name} is no plain value; write it as text")
        text = str(given).lower() if isinstance(given, bool) else str(given)
        target = str(name).removesuffix(FROM_FILE)
        if target in found:
            raise ValueError(f"the property {target} is given twice, as a value and as a file; remove one")
        found[target] = SecretStr(_secret(name, text) if str(name).endswith(FROM_FILE) else text)
    return found


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """TOML reads a name with dots and without quotes as tables inside tables."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def _secret(name: str, path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as source:
            return source.read(SECRET_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(f"the file {path} named by {name} cannot be read ({reason}); correct the path") from None


def _groups(value: object) -> object:
    """Names with commas between, a JSON list, or tables; a bare name is a group with every default."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.lstrip().startswith("[") else value.split(",")
        except ValueError:
            raise ValueError("it is not valid JSON; write names with commas between, or a JSON list") from None
    if not isinstance(value, list | tuple):
        raise ValueError("it must be a list of tables; write [[groups]] and below it name = ...")  # noqa: TRY004 - pydantic turns only ValueErrors into a report
    return [{"name": item.strip()} if isinstance(item, str) else item for item in value]
