"""Logs: one line per event, and nothing secret in it."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from bellwether_kafka.coordinator.names import keep_secret
from bellwether_kafka.coordinator.telemetry import logs
from tests.paths import ROOT


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def logged(style: str = "json", **fields: object) -> str:
    stream = io.StringIO()
    logs.configure_logs("info", style, stream)  # type: ignore[arg-type]  # the parameter is one of the three words
    structlog.get_logger("bellwether.test").info("round_done", **fields)
    return stream.getvalue()


def fields(**given: object) -> dict[str, Any]:
    document = json.loads(logged(**given))
    assert isinstance(document, dict)
    return document


def test_a_line_is_json_with_time_level_and_logger() -> None:
    logged = fields(group="orders", generation=7)
    assert (logged["event"], logged["level"], logged["logger"]) == ("round_done", "info", "bellwether.test")
    assert (logged["group"], logged["generation"]) == ("orders", 7)
    assert logged["timestamp"].endswith("Z")


def test_auto_is_json_where_there_is_no_terminal() -> None:
    assert json.loads(logged("auto", x=1))["x"] == 1


def test_console_lines_are_plain() -> None:
    line = logged("console", group="orders")
    assert "round_done" in line
    assert "group=orders" in line
    assert "\x1b" not in line


@pytest.mark.parametrize(
    "name",
    ["password", "sasl_password", "client_secret", "bearerToken", "sasl.jaas.config", "ssl.key.pem", "user_data"],
)
def test_secret_names_hide_their_value(name: str) -> None:
    assert "hunter2" not in logged(**{name: "hunter2"})


def test_only_harmless_kafka_properties_show() -> None:
    properties = {"bootstrap.servers": "b:1", "sasl.password": "hunter2", "some.new.property": "hunter2"}
    logged = fields(properties=properties)["properties"]
    assert logged == {"bootstrap.servers": "b:1", "sasl.password": logs.HIDDEN, "some.new.property": logs.HIDDEN}


def test_secrets_inside_lists_and_tables_are_hidden() -> None:
    assert "hunter2" not in logged(clients=[{"inner": {"password": "hunter2"}}])


def test_bytes_show_as_length_and_digest() -> None:
    logged = fields(metadata=b"abc", nested=[b"abc"])
    assert logged["metadata"] == "<3 bytes, sha256 ba7816bf8f01>"
    assert logged["nested"] == ["<3 bytes, sha256 ba7816bf8f01>"]


def test_names_of_clients_cannot_break_the_line_or_the_terminal() -> None:
    line = logged("console", member="evil\x1b[31m")
    assert "\x1b" not in line
    assert "evil\\x1b[31m" in line


def test_long_text_and_long_lists_are_cut() -> None:
    logged = fields(reason="x" * 10_000, items=list(range(1_000)))
    assert len(logged["reason"]) < 2_100
    assert len(logged["items"]) == logs.ITEMS_MAX


def test_a_traceback_is_part_of_the_line() -> None:
    stream = io.StringIO()
    logs.configure_logs("info", "json", stream)
    try:
        int("boom")
    except ValueError:
        structlog.get_logger("x").exception("failed")
    assert "ValueError: invalid literal" in json.loads(stream.getvalue())["exception"]


def test_the_standard_library_logs_the_same_way() -> None:
    stream = io.StringIO()
    logs.configure_logs("debug", "json", stream)
    logging.getLogger("bellwether_kafka.coordinator.kafka.wire.transport").debug("sent %s", "x")
    assert json.loads(stream.getvalue())["event"] == "sent x"


@pytest.mark.parametrize("name", ["kafka.protocol.parser", "botocore.endpoint"])
def test_debug_lines_of_libraries_that_log_in_stay_out(name: str) -> None:
    """Those of botocore had the web identity token, and a refused role its traceback beside the sentence."""
    stream = io.StringIO()
    logs.configure_logs("debug", "json", stream)
    logging.getLogger(name).debug("sasl bytes")
    logging.getLogger(name).warning("Refreshing temporary credentials failed", exc_info=ValueError("refused"))
    assert stream.getvalue() == ""


def test_a_trouble_that_each_refresh_meets_is_logged_once_a_minute() -> None:
    """The lags of a group whose topics may not be read were a line at each refresh, for each of its groups."""
    now = [0.0]
    limit = logs.OnceAMinute(lambda: now[0])

    def passed(event: str = "lags_unknown", **given: object) -> dict[str, Any] | None:
        try:
            return dict(limit(None, "info", {"event": event, **given}))
        except structlog.DropEvent:
            return None

    denied = {"group": "orders-1", "reason": "no answer after 4999 ms", "timestamp": "1"}
    assert passed(**denied) == {"event": "lags_unknown", **denied}
    assert passed(**{**denied, "reason": "no answer after 4998 ms", "timestamp": "2"}) is None
    assert passed(**{**denied, "group": "orders-2"}) is not None
    for topic in ("orders-1", "orders-2"):
        assert passed(**{**denied, "reason": f"not authorized to read {topic}"}) is not None
    now[0] = 60.0
    assert passed(**denied) == {"event": "lags_unknown", **denied, "repeated": 1}
    assert passed("rebalance_begun", group="orders-1") == passed("rebalance_begun", group="orders-1") is not None


def test_lines_that_are_limited_are_lines_of_the_product() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "coordinator").rglob("*.py") if path.name != "logs.py")
    assert [event for event in logs.REFRESHED if f'"{event}"' not in source] == []


def test_the_level_is_kept() -> None:
    stream = io.StringIO()
    logs.configure_logs("warning", "json", stream)
    structlog.get_logger("x").info("quiet")
    structlog.get_logger("x").warning("loud")
    assert json.loads(stream.getvalue())["event"] == "loud"


PLANTED = "hush-Zx81-planted"


def log_in(properties: dict[str, str]) -> None:
    raise ValueError(f"could not log in with {properties.get('shown', '')}")


def failed(style: str, properties: dict[str, str]) -> str:
    stream = io.StringIO()
    logs.configure_logs("info", style, stream)  # type: ignore[arg-type]  # the parameter is one of the three words
    try:
        log_in(properties)
    except ValueError:
        structlog.get_logger("x").exception("failed")
    return stream.getvalue()


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_traceback_shows_no_local_variables(style: str) -> None:
    assert PLANTED not in failed(style, {"sasl.password": PLANTED})


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_secret_in_the_text_of_an_error_is_hidden(style: str) -> None:
    keep_secret(PLANTED)
    assert PLANTED not in failed(style, {"shown": PLANTED})
    assert logs.HIDDEN in failed(style, {"shown": PLANTED})


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_long_traceback_keeps_its_last_line(style: str) -> None:
    def deep(n: int) -> None:
        if n:
            deeper(n)
        raise ValueError("the cause")

    def deeper(n: int) -> None:
        deep(n - 1)

    stream = io.StringIO()
    logs.configure_logs("info", style, stream)  # type: ignore[arg-type]  # the parameter is one of the three words
    try:
        deep(200)
    except ValueError:
        structlog.get_logger("x").exception("failed")
    assert "the cause" in stream.getvalue()
