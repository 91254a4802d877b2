"""What `plan -o wide` says of the crash that would cost most, and the rate of restoring that it calculates with."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
import typer

from bellwether_kafka.coordinator.cli.cost import rate_in, restore_rate
from bellwether_kafka.coordinator.cli.plan import crash_in_words, plan_head
from bellwether_kafka.coordinator.cli.read_groups import warn_hypothetical
from bellwether_kafka.coordinator.observation import Observation, Pace, Shadow
from tests.unit.coordinator.observation.test_absence_cost import application
from tests.unit.coordinator.web.test_picture import decided, member

SEEN = Observation("g", "classic", "Stable", "range", 0)
METRICS = """# HELP bellwether_streams_restore_records_per_second Median rate.
# TYPE bellwether_streams_restore_records_per_second gauge
bellwether_streams_restore_records_per_second{group="g"} 1500.0
bellwether_streams_restore_records_per_second{group="new"} NaN
"""


def test_the_costliest_crash_is_one_line() -> None:
    decision = decided(member("a-1", None), member("b-1", None))
    (line,) = crash_in_words(SEEN, Shadow.of(decision, np.array([1, 1, 1, 0], dtype=np.int32)), Pace())
    assert line == (
        "If b-1 crashed now, no member would have its 3 partitions for up to 48 s (3.2 s with a guard);"
        " 'bellwether simulate g --crash' has more."
    )
    tasks = application(t0=1000)
    (line,) = crash_in_words(SEEN, Shadow.of(tasks, tasks.plan.owner), Pace())
    unknown = "in a time that is unknown without --restore-rate or --url"
    assert f"for up to 48 s (3.2 s with a guard), and 3,000 records would be restored {unknown};" in line
    (line,) = crash_in_words(SEEN, Shadow.of(tasks, tasks.plan.owner), Pace(restore_records_per_s=100.0))
    assert "and 3,000 records would be restored in 10.0 s;" in line, "the worst task lacks 1,000"


def test_a_group_in_which_nobody_has_anything_has_none() -> None:
    decision = decided(member("a-1", None))
    assert crash_in_words(SEEN, Shadow.of(decision, np.full(4, -1, dtype=np.int32)), Pace()) == []


def test_a_rate_that_is_not_measured_is_unknown() -> None:
    assert rate_in(METRICS, "g") == 1500.0
    assert rate_in(METRICS, "new") is None, "NaN until two reports of a copy have shown it"
    assert rate_in(METRICS, "other") is None


def test_the_rate_comes_from_the_command_line_or_a_running_bellwether(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(METRICS) as url:
        assert restore_rate(None, None, "g") is None
        assert restore_rate(7.0, url, "g") == 7.0
        assert restore_rate(None, url, "g") == 1500.0
        assert "has measured 1,500 restored records per second for g" in capsys.readouterr().err
        assert restore_rate(None, url, "new") is None
        assert "has no measured rate of restoring for new" in capsys.readouterr().err


def test_an_address_that_is_none_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("}") as page:
        for url, why in (("127.0.0.1:9790", "write http://host:port"), (page, "check --url, or give --restore-rate")):
            with pytest.raises(typer.Exit) as stopped:
                restore_rate(None, url, "g")
            assert stopped.value.exit_code == 2
            assert why in capsys.readouterr().err


@contextmanager
def serving(text: str) -> Iterator[str]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_request(self, *_: object) -> None:
            """Not on standard error, which is what the tests read."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


ASKS = "Its broker assigns, and asks Bellwether for plans.\n"


def test_a_plan_for_a_group_whose_broker_asks_bellwether_is_not_hypothetical(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for kind, assignor in (("consumer", "bellwether-rack-first"), ("streams", "bellwether")):
        seen = Observation("g", kind, "Stable", assignor, 0, obstacle="its broker assigns", assignor=assignor)
        warn_hypothetical(seen)
        assert (seen.hypothetical, capsys.readouterr().out) == (False, ASKS)
    other = Observation("g", "consumer", "Stable", "uniform", 0, obstacle="its broker assigns")
    warn_hypothetical(other)
    assert other.hypothetical
    assert capsys.readouterr().out.startswith("Hypothetical: its broker assigns. ")


def test_a_plan_for_a_group_that_its_broker_assigns_begins_with_the_brokers_assignor() -> None:
    by_broker = Observation("g", "consumer", "Stable", "uniform", 0, assignor="uniform")
    application = Observation("shop", "streams", "Stable", "stream", 0, assignor="sticky")
    assert plan_head(SEEN, "kafka", "range") == "g: policy kafka, protocol range"
    assert plan_head(by_broker, "kafka", "cooperative-sticky") == (
        "g: assigned by its broker with uniform;"
        " planned with policy kafka as a classic group of protocol cooperative-sticky"
    )
    assert plan_head(application, "streams-ha", "stream").startswith("shop: assigned by its broker with sticky; ")
