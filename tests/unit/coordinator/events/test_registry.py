"""Ids from a schema registry: what is asked of it, and each way in which it can fail as a sentence without secrets."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from bellwether_kafka.coordinator.events import (
    EventError,
    RegistryError,
    SchemaSet,
    confluent,
    register,
    registered,
    single_object,
)
from bellwether_kafka.coordinator.events.schema_registry import subject

SCHEMA = SchemaSet.load().latest("decision")


class Registry(BaseHTTPRequestHandler):
    """Answers as given and remembers what it was asked."""

    answer: tuple[int, bytes] | None = (200, b'{"id": 17}')  # None: the number of the question
    asked: list[tuple[str, Any, str | None]] = []  # noqa: RUF012 - one server per test sets it anew

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, json.loads(body), self.headers["Authorization"]))
        code, text = self.answer or (200, json.dumps({"id": len(self.asked)}).encode())
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Nothing on standard error."""


@pytest.fixture
def registry() -> Iterator[HTTPServer]:
    Registry.answer, Registry.asked = (200, b'{"id": 17}'), []
    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_schema_is_registered_under_topic_and_record(registry: HTTPServer) -> None:
    assert register(f"http://me:s%40fe@127.0.0.1:{registry.server_port}/base/", "events", SCHEMA) == 17
    ((path, body, login),) = Registry.asked
    assert path == "/base/subjects/events-bellwether.events.Decision/versions"
    assert json.loads(body["schema"])["name"] == "Decision"
    assert login == "Basic " + base64.b64encode(b"me:s@fe").decode()
    assert subject("events", SCHEMA) == "events-bellwether.events.Decision"


@pytest.mark.slow
def test_readers_know_every_schema_by_its_id(registry: HTTPServer) -> None:
    Registry.answer = None
    schemas = SchemaSet.load()
    ids = registered(f"http://127.0.0.1:{registry.server_port}", "events", schemas)
    assert set(ids.values()) == set(schemas.schemas.values())
    (number,) = (number for number, schema in ids.items() if schema == SCHEMA)
    framed = confluent(number, b"body")
    assert single_object(framed, ids) == SCHEMA.header + b"body"
    assert single_object(SCHEMA.header, ids) == SCHEMA.header
    assert single_object(b"\x00\x01", ids) == b"\x00\x01"
    with pytest.raises(EventError) as error:
        schemas.decode(single_object(confluent(len(ids) + 1, b"body"), ids))
    assert error.value.kind == "unknown schema"


@pytest.mark.parametrize("answer", [(409, b"incompatible"), (200, b"{}"), (200, b"no json"), (200, b"[]")])
def test_a_registry_that_gives_no_id_is_named_without_its_password(
    registry: HTTPServer, answer: tuple[int, bytes]
) -> None:
    Registry.answer = answer
    with pytest.raises(RegistryError, match=f"127.0.0.1:{registry.server_port}") as error:
        register(f"http://me:secret@127.0.0.1:{registry.server_port}", "events", SCHEMA)
    assert "secret" not in str(error.value)


def test_other_addresses_are_refused() -> None:
    with pytest.raises(RegistryError, match="must begin with http"):
        register("file:///etc/passwd", "events", SCHEMA)
