"""The health check of the image follows http_address of the process that it checks."""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from bellwether_kafka import health
from bellwether_kafka.coordinator.settings import Settings
from tests.paths import ROOT


def command_line(*arguments: str) -> bytes:
    return "\0".join(("python3", "-m", "bellwether_kafka", *arguments, "")).encode()


def asked(tmp_path: Path, environ: dict[str, str], *arguments: str, config: str = "") -> str:
    (tmp_path / "b.toml").write_text(config)
    given = [argument.replace("FILE", str(tmp_path / "b.toml")) for argument in arguments]
    return health.address(health.main_arguments(command_line(*given)), environ)


IN_FILE = 'http_address = "10.0.0.7:80"\n[kafka]\n'


@pytest.mark.parametrize(
    ("environ", "arguments", "config", "where"),
    [
        ({}, ("run",), "", health.ADDRESS),
        ({}, ("run", "--config", "FILE"), IN_FILE, "10.0.0.7:80"),
        ({}, ("run", "--config=FILE"), IN_FILE, "10.0.0.7:80"),
        ({"BELLWETHER_HTTP_ADDRESS": "10.0.0.8:80"}, ("run", "--config", "FILE"), IN_FILE, "10.0.0.8:80"),
        ({"BELLWETHER_HTTP_ADDRESS": ""}, ("run",), "", ""),
        ({}, ("run", "--config", "FILE"), 'http_address = ""', ""),
        ({}, ("run", "--config", "FILE"), "not toml", health.ADDRESS),
        ({}, ("run", "--config", "/none"), "", health.ADDRESS),
        ({}, ("guard", "--group", "g", "--", "java"), "", ""),
        ({}, ("top",), "", ""),
    ],
)
def test_the_address_is_that_of_the_process(
    tmp_path: Path, environ: dict[str, str], arguments: tuple[str, ...], config: str, where: str
) -> None:
    """It was 127.0.0.1:9790 whatever was set: an engine replaced containers that worked."""
    assert asked(tmp_path, environ, *arguments, config=config) == where


def test_a_configuration_named_by_the_environment_is_read(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(IN_FILE)
    assert health.address(["run"], {"BELLWETHER_CONFIG": str(tmp_path / "b.toml")}) == "10.0.0.7:80"


def test_the_default_is_that_of_the_settings() -> None:
    assert Settings.model_fields["http_address"].default == health.ADDRESS


class Answering(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/livez" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@pytest.mark.slow
def test_it_ends_with_what_the_process_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    main_process = tmp_path / "cmdline"
    main_process.write_bytes(command_line("run"))
    monkeypatch.setattr(health, "MAIN_PROCESS", main_process)
    server = HTTPServer(("127.0.0.1", 0), Answering)
    monkeypatch.setenv("BELLWETHER_HTTP_ADDRESS", f"127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert health.main() == 0
    monkeypatch.setattr(Answering, "status", 503)
    assert health.main() == 1
    server.shutdown()
    server.server_close()
    assert health.main() == 1
    monkeypatch.setenv("BELLWETHER_HTTP_ADDRESS", "")
    assert health.main() == 0


def test_it_is_the_check_of_the_image_and_imports_nothing_else() -> None:
    said = re.search(r"HEALTHCHECK(?:.*\\\n)?\s*CMD (\[.*\])", (ROOT / "Dockerfile").read_text())
    assert said is not None
    assert json.loads(said[1]) == ["python3", "-m", "bellwether_kafka.health"]
    imported = re.findall(
        r"^(?:from|import) (\w+)", (ROOT / "bellwether_kafka" / "health.py").read_text(), re.MULTILINE
    )
    assert set(imported) <= sys.stdlib_module_names
