"""Converts the complete input of an application's plan, memory included, to bytes and back. Pure.

The format is compressed JSON of a fixed list of types: reading creates values of these types only. Arrays are base64.
Fields that a newer version has added get their defaults; anything else that does not fit raises an error with a
sentence.
"""

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.streams import application, members
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.bounded import OutsideTextError, json_of
from bellwether_kafka.coordinator.planning.streams_inputs import Arrivals, StreamsConfig, TaskRequest, World
from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition

_VIEWS = shared.ClusterView, shared.MemberView, shared.Memory, shared.RawGroup, shared.RawMember, shared.Rule
_TOPOLOGY = application.Exported, application.InternalTopic, application.Subtopology, application.Topology
_REPORTED = application.EndOffsets, application.ProcessView, members.ProcessRecord, members.ThreadRecord
_REMEMBERED = members.Destinations, members.Home, members.StreamsMemory, members.Target
_PLANS = application.StreamsPlan, application.ThreadPlan, shared.StageReport
_CONFIGS = application.AssignmentConfigs, StageConfigs, StreamsConfig
_IDS = HostInfo, ProcessId, TaskId, TopicPartition
_RECORDS: dict[str, Callable[..., object]] = {
    kind.__name__: kind
    for kind in (*_VIEWS, *_TOPOLOGY, *_REPORTED, *_REMEMBERED, *_PLANS, *_CONFIGS, *_IDS, Arrivals, TaskRequest, World)
}
# A clock measures stages. The rules in a request are those that have an effect on its members.
# A cheap plan is not recorded.
_LEFT_OUT = {"clock", "among", "cheap"}
_ARRAYS = {"<i4", "<i8", "|b1", "<f8"}
BYTES_MAX = 256 << 20  # limit of a rebalance that is read; a million partitions need about a tenth


class _Named(Protocol):
    """A named tuple."""

    _fields: tuple[str, ...]


class UnreadableRebalanceError(ValueError):
    """Raised for bytes that are not a rebalance or are of another version; the message says which."""


def pack(request: TaskRequest) -> bytes:
    """Returns the rebalance as bytes. Raises TypeError for a value of a type that is not in the list."""
    stages = replace(request.config.stages, clock=shared.no_clock)
    asked = replace(request, config=replace(request.config, stages=stages))
    return zlib.compress(json.dumps(_packed(asked), separators=(",", ":")).encode())


def unpack(data: bytes) -> TaskRequest:
    """Returns the rebalance in these bytes. Raises UnreadableRebalanceError."""
    try:
        inflating = zlib.decompressobj()
        text = inflating.decompress(data, BYTES_MAX)
        whole = inflating.eof and not inflating.unused_data
        request = _unpacked(json_of(text)) if whole else None
    except OutsideTextError as error:
        raise UnreadableRebalanceError(f"is damaged: {error}") from error
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, zlib.error) as error:
        raise UnreadableRebalanceError(
            f"was recorded by another version, or damaged ({type(error).__name__})"
        ) from error
    if not isinstance(request, TaskRequest):
        raise UnreadableRebalanceError("is no rebalance of an application")
    return request


def _packed(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        return {"array": [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Path):
        return {"path": str(value)}
    if isinstance(value, shared.Members):
        return {"members": [_packed(item) for item in value]}
    if isinstance(value, Mapping):
        return {"map": [[_packed(k), _packed(v)] for k, v in value.items()]}
    if isinstance(value, frozenset):
        return {"set": [_packed(item) for item in sorted(value)]}
    if type(value).__name__ in _RECORDS:
        return {"record": type(value).__name__, "of": {name: _packed(getattr(value, name)) for name in _names(value)}}
    if isinstance(value, (tuple, list)):
        return [_packed(item) for item in value]
    raise TypeError(f"{type(value).__name__} cannot be recorded")


def _names(value: object) -> list[str]:
    if is_dataclass(value):
        return [f.name for f in fields(value) if f.init and f.name not in _LEFT_OUT]
    return list(cast("_Named", value)._fields)


def _unpacked(value: object) -> object:
    if isinstance(value, list):
        return tuple(_unpacked(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "record" in value:
        return _RECORDS[value["record"]](**{name: _unpacked(given) for name, given in value["of"].items()})
    ((kind, given),) = value.items()
    return _SHAPES[kind](given)


def _array(given: tuple[str, list[int], str]) -> object:
    kind, shape, data = given
    if kind not in _ARRAYS:
        raise ValueError(f"arrays of {kind} are not recorded")
    array = np.frombuffer(base64.b64decode(data), dtype=kind).reshape(shape)
    array.flags.writeable = False
    return array


_SHAPES: dict[str, Callable[..., object]] = {
    "array": _array,
    "bytes": base64.b64decode,
    "path": Path,
    "members": lambda given: shared.Members.of([cast("shared.MemberView", _unpacked(item)) for item in given]),
    "map": lambda given: {_unpacked(k): _unpacked(v) for k, v in given},
    "set": lambda given: frozenset(_unpacked(item) for item in given),
}
