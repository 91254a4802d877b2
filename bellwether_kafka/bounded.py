"""Reads everything that others wrote: files, answers of HTTP servers, JSON, YAML and TOML.

Each reader has limits (bytes, depth, number of values, time). It returns a value or raises an error whose text is a
clause on what is wrong; callers add the name of the file or setting, and the remedy. No other module of the product
opens a file or a URL of others (tests/unit/test_bounded.py). The module is small, because the guard imports it.
"""

import json
import os
import select
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

DEPTH_MAX = 100
VALUES_MAX = 5_000_000  # of one document; Python keeps about 100 bytes for each
CONFIG_BYTES_MAX = 10_000_000  # of Bellwether's own configuration file
FILE_WAIT_S = 10.0  # for a pipe to end
CHUNK_BYTES = 65_536

Stamp = tuple[int, int, int] | None  # of a file
T = TypeVar("T")

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class OutsideReadError(OSError):
    """A file or an answer cannot be read completely; `strerror` is the reason."""

    def __init__(self, why: str, name: object) -> None:
        super().__init__(0, why, str(name))


class OutsideTextError(ValueError):
    """A document is refused; the message is the reason."""


# ---- files -----------------------------------------------------------------------------------------------------------


def stamp_of(path: Path) -> Stamp:
    """Returns a value that changes when the file is written or replaced, also by way of links, as Kubernetes does with
    a ConfigMap. None if the file cannot be read at present."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


class ChangingFile:
    """A file that is read again after it has changed: its stamp is taken when this object is made, where the caller
    reads the present content. A change counts once it has rested for `rest_s`, because a program may still be writing.
    Not for several threads at a time."""

    def __init__(self, path: Path, rest_s: float = 0.0) -> None:
        self.path = path
        self._rest_s = rest_s
        self._read_stamp = stamp_of(path)
        self._changed: tuple[Stamp, float] = (self._read_stamp, 0.0)  # its stamp now, and since when at the latest

    def read_again(self, read: Callable[[], T], now: float = 0.0) -> T | None:
        """Returns what `read` returns, or None if there is nothing new. `now` is in seconds, by any clock. Blocks.

        Errors of `read` are raised, once for each change. A file that changes while it is read is read at the next
        call.
        """
        stamp = stamp_of(self.path)
        if stamp != self._changed[0]:
            self._changed = stamp, now
        if stamp == self._read_stamp or now - self._changed[1] < self._rest_s:
            return None
        try:
            content = read()
        except Exception:
            self._read_stamp = stamp
            raise
        if stamp_of(self.path) != stamp:
            return None
        self._read_stamp = stamp
        return content


def opened(path: Path) -> int:
    """Opens a regular file and returns its descriptor, which the caller closes. Raises OSError; for anything else, such
    as a pipe without a writer, at once."""
    descriptor = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OutsideReadError("it is no regular file", path)
    return descriptor


def read_small(path: Path, bytes_max: int) -> tuple[bytes, float]:
    """Returns the first bytes of a regular file, and when it was last written (seconds since 1970). Raises OSError."""
    descriptor = opened(path)
    try:
        return os.read(descriptor, bytes_max), os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)


def read_file(path: Path, bytes_max: int, wait_s: float = FILE_WAIT_S) -> bytes:
    """Returns the content of a file that an operator has named, which may be a pipe. Raises OSError; its `strerror` is
    a clause if the file is too large or a pipe does not end in time."""
    descriptor = os.open(path, _FLAGS)
    try:
        return _read_all(descriptor, path, bytes_max, time.monotonic() + wait_s)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, path: Path, bytes_max: int, until: float) -> bytes:
    chunks: list[bytes] = []
    left = bytes_max
    is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    while True:
        if is_pipe and not select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
            raise OutsideReadError("it is a pipe that brought no end in time", path)
        try:
            chunk = os.read(descriptor, min(left + 1, CHUNK_BYTES))
        except BlockingIOError:
            if time.monotonic() >= until:
                raise OutsideReadError("it brought no end in time", path) from None
            time.sleep(0.01)  # a terminal, to which `select` was not applied
            continue
        left -= len(chunk)
        if left < 0:
            raise OutsideReadError(f"it has more than {bytes_max:,} bytes", path)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def read_stream(source: BinaryIO, bytes_max: int) -> bytes:
    """Returns all of standard input, without a timeout, because a person may be typing. Raises OutsideReadError."""
    data = source.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OutsideReadError(f"it has more than {bytes_max:,} bytes", "standard input")
    return data


def records_of(path: Path, length_bytes: int, bytes_max: int) -> Iterator[bytes]:
    """Yields the records of a regular file, each preceded by its length, big endian. Raises OSError, and
    OutsideTextError at a damaged record."""
    with os.fdopen(opened(path), "rb") as source:
        while head := source.read(length_bytes):
            length = int.from_bytes(head, "big")
            if len(head) < length_bytes or length > bytes_max:
                raise OutsideTextError("a record has no sane length")
            value = source.read(length)
            if len(value) < length:
                raise OutsideTextError("it ends within a record")
            yield value


def lines_of(path: Path, bytes_max: int) -> Iterator[bytes]:
    """Yields the lines of a regular file. Raises OSError, and OutsideTextError at a line of more than `bytes_max`."""
    with os.fdopen(opened(path), "rb") as source:
        while line := source.readline(bytes_max + 1):
            if len(line) > bytes_max:
                raise OutsideTextError(f"a line has more than {bytes_max:,} bytes")
            yield line


# ---- text ------------------------------------------------------------------------------------------------------------


def json_of(text: bytes | str, values_max: int = VALUES_MAX, *, unique: bool = False) -> Any:
    """Returns the value of a JSON document. Raises OutsideTextError for any unusable text, and with `unique` for an
    object that has a key twice, as one that a person has written may have: of these only the last value counts.

    Values are counted before they are created, by their separators. Commas within strings count too.
    """
    marks = (b",", b"[", b"{") if isinstance(text, bytes) else (",", "[", "{")
    commas, *openers = (text.count(mark) for mark in marks)  # type: ignore[arg-type]  # of the type of the text
    if commas + sum(openers) > values_max:
        raise OutsideTextError(f"it has more than {values_max:,} values")
    try:
        value = json.loads(text, object_pairs_hook=_unique if unique else None)
    except RecursionError:
        raise _too_deep() from None
    except OutsideTextError:
        raise
    except ValueError:
        raise OutsideTextError("it is not JSON") from None
    if sum(openers) > DEPTH_MAX:
        _check_depth(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object of these keys and values. Raises OutsideTextError if a key is there twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        times = Counter(key for key, _ in pairs)
        raise OutsideTextError(f"it has the key {next(key for key in times if times[key] > 1)} twice")
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [
            part
            for container in level
            for part in (container.values() if isinstance(container, dict) else container)
            if isinstance(part, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> OutsideTextError:
    return OutsideTextError(f"it is nested more than {DEPTH_MAX} levels deep")


def toml_of(data: bytes) -> dict[str, Any]:
    """Returns the table of a TOML document. Raises OutsideTextError, whose message has the reason and the line."""
    import tomllib  # noqa: PLC0415 - a guard without a file does not need it

    try:
        table = tomllib.loads(data.decode())
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise OutsideTextError(f"it is not valid TOML: {error}") from None
    _check_depth(table)  # names with dots are nested tables
    return table


def yaml_of(text: str, values_max: int = VALUES_MAX) -> Any:
    """Returns the value of a YAML document (which includes JSON). Raises OutsideTextError for any unusable text.

    Aliases and merge keys can turn a few lines into a value of any size, so each node counts as often as it is
    referenced.
    """
    import yaml  # noqa: PLC0415 - most processes read no YAML, and the import takes 2 % of the start

    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        many = node is not None and _nodes(node, {}) > values_max
        value = loader.construct_document(node) if node is not None and not many else None
    except RecursionError:
        raise _too_deep() from None
    except OutsideTextError:
        raise
    except (yaml.YAMLError, ValueError, TypeError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where is not None else ""
        raise OutsideTextError(f"it is no YAML{line}") from None
    if many:
        raise OutsideTextError(f"its aliases make more than {values_max:,} values")
    return value


def _nodes(node: Any, counts: dict[int, int], depth: int = 0) -> int:
    """Returns how many values a node makes. A node that contains itself exceeds the depth. Raises OutsideTextError for
    a duplicate key, of which a reader would silently use the last."""
    if depth > DEPTH_MAX:
        raise _too_deep()
    if isinstance(node.value, str):
        return 1
    if id(node) not in counts:
        _check_keys(node)
        parts = [part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,))]
        counts[id(node)] = 1 + sum(_nodes(part, counts, depth + 1) for part in parts)
    return counts[id(node)]


def _check_keys(node: Any) -> None:
    """Raises OutsideTextError if a mapping has a key twice."""
    seen: set[str] = set()
    for key, _ in node.value if node.id == "mapping" else ():
        if isinstance(key.value, str):
            if key.value in seen:
                raise OutsideTextError(f"it has the key {key.value} twice in one mapping, again in line {_line(key)}")
            seen.add(key.value)


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


# ---- HTTP ------------------------------------------------------------------------------------------------------------


def fetched(
    url: str,
    bytes_max: int,
    timeout_s: float,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    ca: str | None = None,
) -> bytes:
    """Returns the answer to a GET, or to a POST of `body`. `timeout_s` limits each wait, and the whole body of the
    answer.

    A request with its own headers follows no redirect, because they may contain a login that is not for another server.
    Raises OSError. HTTPError (to be closed) has a `code`; `strerror` is a clause if the answer is too large or late.
    """
    # Only this function needs these 2 MB, and a guard has only 40 MB.
    import ssl  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    class Here(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Follows no redirect, which is returned as the answer."""

    if not url.startswith(("http://", "https://")):
        raise OutsideReadError("it does not begin with http:// or https://", url)
    secure = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca))
    opener = urllib.request.build_opener(secure, *([Here()] if headers else []))
    request = urllib.request.Request(url, body, dict(headers or {}))  # noqa: S310 - checked above
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return _body(answer, bytes_max, time.monotonic() + timeout_s, url)
    except TimeoutError:
        raise OutsideReadError(f"its answer took more than {timeout_s:g} s", url) from None


def _body(answer: Any, bytes_max: int, until: float, url: str) -> bytes:
    """Reads the body. Raises TimeoutError after `until` (`time.monotonic`), OutsideReadError if it is too large."""
    chunks: list[bytes] = []
    left = bytes_max
    while chunk := answer.read1(min(left + 1, CHUNK_BYTES)):
        left -= len(chunk)
        if left < 0:
            raise OutsideReadError(f"its answer has more than {bytes_max:,} bytes", url)
        if time.monotonic() > until:
            raise TimeoutError
        chunks.append(chunk)
    return b"".join(chunks)
