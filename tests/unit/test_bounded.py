"""Files, records and answers from outside: every reader ends in a value or a clause, and nobody reads past them."""

import ast
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from bellwether_kafka import bounded
from bellwether_kafka.bounded import OutsideReadError, OutsideTextError
from tests.paths import ROOT
from tests.source_trees import PRODUCT, modules_of, nodes_of, text_of

# ---- nobody reads past them --------------------------------------------------------------------------------------

READERS = {
    *("open", "fdopen", "read_text", "read_bytes", "urlopen", "build_opener", "safe_load", "tomllib", "mmap"),
    *("schemaless_reader", "genfromtxt", "fromfile"),
}
JSON = {"load", "loads"}
MAY_READ = (*(f"{reader}(" for reader in READERS), "json.load")
# Module, and why what it reads is not from outside.
OWN = {
    "bellwether_kafka/bounded.py": "the reader",
    "bellwether_kafka/health.py": "its own process; it may import nothing, and its time has a limit",
    "coordinator/guard/proc.py": "/proc, which the kernel writes",
    "coordinator/control/state_files.py": "JSON that it has just written",
    "coordinator/cli/lazy.py": "the null device",
    "coordinator/web/app.py": "its own page",
    "pipeline/jobs.py": "its own schemas, and by Spark's file systems its own note",
    "coordinator/events/avro.py": "its own schemas; records have their limit in what hands them over",
    "coordinator/replay/history.py": "files that it writes",
    "coordinator/events/schema_registry.py": "its own schemas",
}


def _reads(path: Path) -> set[str]:
    names: set[str] = set()
    text = text_of(path)
    if not any(call in text for call in MAY_READ):
        return names
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            if node.func.attr in READERS or (node.func.attr in JSON and of == "json"):
                names.add(node.func.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in READERS:
            names.add(node.func.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.name for alias in node.names} & READERS
    return names


@pytest.mark.slow
def test_nobody_opens_a_file_or_a_url_past_the_bounded_reader() -> None:
    files = [*modules_of(*PRODUCT), *(ROOT / "bellwether_kafka").glob("*.py")]
    reading = {str(path.relative_to(ROOT)): _reads(path) for path in files}
    assert {name for name, how in reading.items() if how} == OWN.keys(), "use bellwether_kafka/bounded.py"


# ---- files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_a_file_is_read_up_to_its_limit(file: Path) -> None:
    file.write_bytes(b"x" * 10)
    assert bounded.read_file(file, 10) == b"x" * 10
    with pytest.raises(OutsideReadError) as error:
        bounded.read_file(file, 9)
    assert error.value.strerror == "it has more than 9 bytes"


def test_a_device_without_an_end_is_too_large() -> None:
    with pytest.raises(OutsideReadError, match=r"more than 100,000 bytes"):
        bounded.read_file(Path("/dev/zero"), 100_000)


def test_a_pipe_is_read_and_one_without_an_end_is_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    writer = threading.Thread(target=file.write_text, args=("brought",))
    writer.start()
    try:
        assert bounded.read_file(file, 100, wait_s=60) == b"brought"
    finally:
        writer.join()
    with pytest.raises(OutsideReadError, match="a pipe that brought no end in time"):
        bounded.read_file(file, 100, wait_s=0.1)
    with pytest.raises(OutsideReadError, match="no regular file"):
        bounded.read_small(file, 100)


def test_a_folder_and_a_missing_file_are_errors_with_a_reason(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(OSError) as error:  # noqa: PT011 - each has its own
            bounded.read_file(path, 10)
        assert error.value.strerror


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"\0\0\0\x03ab", "ends within"), (b"\0\0", "no sane length"), (b"\xff\xff\xff\xff", "no sane length")],
)
def test_records_that_are_damaged_end_in_a_clause(file: Path, data: bytes, message: str) -> None:
    file.write_bytes(b"\0\0\0\x01a" + data)
    records = bounded.records_of(file, 4, 1000)
    assert next(records) == b"a"
    with pytest.raises(OutsideTextError, match=message):
        list(records)


def test_a_line_without_an_end_is_not_kept(file: Path) -> None:
    file.write_bytes(b"short\n" + b"x" * 100)
    lines = bounded.lines_of(file, 10)
    assert next(lines) == b"short\n"
    with pytest.raises(OutsideTextError, match="more than 10 bytes"):
        next(lines)


# ---- text --------------------------------------------------------------------------------------------------------

ALIASES = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {k: v}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 10)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (bounded.json_of, b"[" * 100_000, "nested"),
        (bounded.json_of, b"[" * 150 + b"]" * 150, "nested"),
        pytest.param(
            bounded.json_of, "[" + "[]," * 3_000_000 + "[]]", "more than 5,000,000 values", marks=pytest.mark.slow
        ),
        (bounded.json_of, b"9" * 5_000, "not JSON"),
        (bounded.json_of, b"\xff\xfe\xfa", "not JSON"),
        (bounded.json_of, "{'a': 1}", "not JSON"),
        (bounded.toml_of, b"a = " + b"[" * 100_000, "nested"),
        pytest.param(bounded.toml_of, b".".join([b"a"] * 5_000) + b" = 1", "nested", marks=pytest.mark.slow),
        (bounded.toml_of, b"a = \xff", "not valid TOML"),
        (bounded.toml_of, b"a = \n", "not valid TOML: .* line 1"),
        pytest.param(bounded.yaml_of, "[" * 2_000, "nested", marks=pytest.mark.slow),
        (bounded.yaml_of, "a: &a [*a]", "nested"),
        (bounded.yaml_of, ALIASES, "aliases make more than"),
        (bounded.yaml_of, MERGES, "aliases make more than"),
        (bounded.yaml_of, "a: [", "no YAML in line 1"),
        (bounded.yaml_of, "\0", "no YAML"),
        (bounded.yaml_of, "--- a\n--- b", "no YAML"),
        (bounded.yaml_of, "a: 2001-99-99", "no YAML"),
        (bounded.yaml_of, "a: !!python/object/apply:os.system [id]", "no YAML"),
    ],
    ids=range(19),
)
def test_a_text_that_is_nonsense_or_a_bomb_ends_in_a_clause(read: object, text: object, message: str) -> None:
    assert callable(read)
    with pytest.raises(OutsideTextError, match=message):
        read(text)


@pytest.mark.slow
def test_the_key_that_is_there_twice_is_named_as_fast_in_a_large_object() -> None:
    keys = [*map(str, range(20_000)), "19999"]
    begun_s = time.thread_time()
    with pytest.raises(OutsideTextError, match="it has the key 19999 twice"):
        bounded.json_of("{" + ", ".join(f'"{key}": 1' for key in keys) + "}", unique=True)
    assert time.thread_time() - begun_s < 2, "comparing each key with each other takes 10 s"


def test_texts_as_people_write_them_are_read() -> None:
    assert bounded.json_of('{"a": [1, 2.5, null, "x"]}') == {"a": [1, 2.5, None, "x"]}
    assert bounded.json_of(b"[" * 100 + b"]" * 100)
    assert bounded.toml_of(b'[[groups]]\nname = "a"') == {"groups": [{"name": "a"}]}
    assert bounded.yaml_of("a: &x [1, b]\nc: *x\n") == {"a": [1, "b"], "c": [1, "b"]}
    assert bounded.yaml_of("") is None


# ---- HTTP --------------------------------------------------------------------------------------------------------


class Pages(HTTPServer):
    """`received` has the path and the login of each request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.received: list[tuple[str, str | None]] = []

    def handle_error(self, *_: object) -> None:
        """Readers that go are the test."""


class Page(BaseHTTPRequestHandler):
    """Answers what its path says."""

    server: Pages

    def do_GET(self) -> None:
        self.server.received.append((self.path, self.headers.get("X-Login")))
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", "/there")
        self.end_headers()
        for _ in range({"/long": 100, "/slow": 1_000}.get(self.path, 1)):
            self.wfile.write(b"x" * 10)
            if self.path == "/slow":
                time.sleep(0.05)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def pages() -> Iterator[Pages]:
    server = Pages()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_answers_have_limits_of_bytes_and_time(pages: Pages) -> None:
    base = f"http://127.0.0.1:{pages.server_port}"
    assert bounded.fetched(f"{base}/", 10, 60) == b"x" * 10
    with pytest.raises(OutsideReadError, match="more than 999 bytes"):
        bounded.fetched(f"{base}/long", 999, 60)
    with pytest.raises(OutsideReadError, match=r"took more than 0\.5 s"):
        bounded.fetched(f"{base}/slow", 100_000, 0.5)
    with pytest.raises(OutsideReadError, match="http"):
        bounded.fetched("file:///etc/hostname", 10, 1)


@pytest.mark.slow
def test_a_request_with_headers_follows_no_redirect(pages: Pages) -> None:
    base = f"http://127.0.0.1:{pages.server_port}"
    assert bounded.fetched(f"{base}/moved", 10, 60) == b"x" * 10
    with pytest.raises(OSError, match="302"):
        bounded.fetched(f"{base}/moved", 10, 60, headers={"X-Login": "secret"})
    assert pages.received == [("/moved", None), ("/there", None), ("/moved", "secret")]
