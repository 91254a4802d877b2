"""Registers Bellwether's schemas in a Confluent Schema Registry, with one REST call and without a client library.

Subjects are named `<topic>-<record name>` (the registry's TopicRecordNameStrategy), because one topic has all events.
"""

import base64
import json
import urllib.error
import urllib.parse
from http.client import HTTPException

from bellwether_kafka.bounded import fetched, json_of
from bellwether_kafka.coordinator.events.avro import EventSchema, SchemaSet

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 1_000_000
_CONTENT = "application/vnd.schemaregistry.v1+json"


class RegistryError(Exception):
    """The registry did not return an id. The message has its address and its answer."""


def subject(topic: str, schema: EventSchema) -> str:
    record = json.loads(schema.text)
    return f"{topic}-{record['namespace']}.{record['name']}"


def register(url: str, topic: str, schema: EventSchema) -> int:
    """Returns the id of a schema, which is registered if it is new. Raises RegistryError."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https"):
        host = parts.hostname or url
        raise RegistryError(f"The schema registry's address {host} must begin with http:// or https://.")
    headers = {"Content-Type": _CONTENT}
    if parts.username:
        login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    path = f"{parts.path.rstrip('/')}/subjects/{urllib.parse.quote(subject(topic, schema), safe='')}/versions"
    where = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    address = urllib.parse.urlunsplit((parts.scheme, where, path, "", ""))
    body = json.dumps({"schema": schema.text}).encode()
    try:
        return int(json_of(fetched(address, ANSWER_BYTES_MAX, TIMEOUT_S, body=body, headers=headers))["id"])
    except urllib.error.HTTPError as error:
        error.close()
        refusal = f"{error.code} {error.reason}"
        raise RegistryError(f"The schema registry at {where} refused {schema.event}: {refusal}.") from None
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        raise RegistryError(f"The schema registry at {where} gave no id for {schema.event}: {error}.") from None


def registered(url: str, topic: str, schemas: SchemaSet) -> dict[int, EventSchema]:
    """Returns all versions of all events by id, for readers. New ones are registered. Raises RegistryError."""
    return {register(url, topic, schema): schema for event in schemas.events for schema in schemas.versions(event)}
