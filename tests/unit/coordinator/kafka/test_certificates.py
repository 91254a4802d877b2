"""Certificates that are put into their files anew while a client lives."""

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from bellwether_kafka.coordinator.kafka.client import Renewed
from bellwether_kafka.coordinator.kafka.client.librdkafka import CertificateFiles, Delegate

GRACE_S = 0.1


@pytest.fixture
def named(tmp_path: Path) -> dict[str, str]:
    """Properties of a client, with files that exist."""
    names = {"ssl.certificate.location": "own.pem", "ssl.key.location": "own.key"}
    for name in names.values():
        (tmp_path / name).write_text("first")
    return {"bootstrap.servers": "127.0.0.1:9", **{key: str(tmp_path / name) for key, name in names.items()}}


def put(properties: dict[str, str], name: str, text: str) -> None:
    """As those do who write certificates: another file, put in its place."""
    path = Path(properties[name])
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


class Maker:
    """Makes strings instead of clients; fails as librdkafka does while `refuses`."""

    def __init__(self) -> None:
        self.made = 0
        self.refuses = False

    def __call__(self) -> str:
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "the key does not fit the certificate"))
        self.made += 1
        return f"client {self.made}"


def refresh_until_another(renewed: Renewed[str]) -> None:
    """A refresh does not wait long for files."""
    until = time.monotonic() + 30
    while not renewed.refresh():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_client_whose_certificate_is_renewed_on_disk_is_made_anew_once(named: dict[str, str]) -> None:
    renewed = Renewed(Maker(), named)
    assert not renewed.refresh()
    put(named, "ssl.certificate.location", "second")
    refresh_until_another(renewed)
    assert renewed.client == "client 2"
    assert not renewed.refresh()


def test_a_certificate_whose_key_is_not_there_yet_is_taken_when_it_is(named: dict[str, str]) -> None:
    make = Maker()
    renewed = Renewed(make, named)
    put(named, "ssl.certificate.location", "second")
    make.refuses = True
    assert not renewed.refresh()
    assert renewed.client == "client 1", "the old one still serves"
    put(named, "ssl.key.location", "second")
    make.refuses = False
    refresh_until_another(renewed)


def test_a_file_that_is_gone_for_a_moment_is_a_change_too(named: dict[str, str]) -> None:
    files = CertificateFiles(named)
    Path(named["ssl.key.location"]).unlink()
    assert files.stamps() != files.taken


def test_files_on_a_file_system_that_hangs_leave_the_client_that_is_there(named: dict[str, str]) -> None:
    answers = threading.Event()
    make = Maker()

    def hanging() -> str:
        assert not make.made or answers.wait(30)
        return make()

    renewed = Renewed(hanging, named)
    put(named, "ssl.certificate.location", "second")
    began = time.monotonic()
    assert [renewed.refresh() for _ in range(1_000)] == [False] * 1_000
    assert time.monotonic() - began < 1_000 * GRACE_S / 2, "only the first look waits"
    assert renewed.client == "client 1"
    answers.set()
    refresh_until_another(renewed)
    assert (renewed.client, make.made) == ("client 2", 2), "read once"


def test_without_certificates_nothing_is_ever_renewed() -> None:
    renewed = Renewed(Maker(), {"bootstrap.servers": "127.0.0.1:9"})
    assert not renewed.refresh()


def test_who_holds_a_delegate_asks_the_newest_client(named: dict[str, str]) -> None:
    renewed = Renewed(Maker(), named)
    delegate = Delegate(renewed)
    put(named, "ssl.key.location", "second")
    refresh_until_another(renewed)
    assert delegate.upper() == "CLIENT 2"
