"""The rack file: its two forms, what is refused, and that it is read again."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.bounded import OutsideTextError
from bellwether_kafka.coordinator.planning import RackFile, RackFileError
from bellwether_kafka.coordinator.planning.racks import networks_of

REST_S = 1.0

# What `kubectl get nodes -o custom-columns=...` writes: a column for each value, `<none>` where a node has none.
OF_KUBECTL = b"""\
10.244.0.0/24   az1
10.244.1.0/24   az2
<none>          az3
10.244.2.0/24   <none>
"""


WITH_COMMAS = b"10.244.0.0/24,az1 # one\n\n#\n10.244.1.0/24, az2"
AS_JSON = b'{"10.244.0.0/24": "az1", "10.244.1.0/24": "az2"}'


@pytest.mark.parametrize("text", [OF_KUBECTL, WITH_COMMAS, AS_JSON, b"\xef\xbb\xbf" + WITH_COMMAS])
def test_both_forms_give_the_same_networks(text: bytes) -> None:
    networks = networks_of(text)
    assert [networks.rack_of(f"/10.244.{n}.7") for n in range(3)] == ["az1", "az2", None]


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        (b"10.0.0.0/24 az1\n10.0.1.0/24", "line 2 is no pair of an address or CIDR and a rack"),
        (b"10.0.0.0/24 az1 b", "line 1 is no pair"),
        (b"node-1 az1", "line 1: node-1 is neither an address nor a CIDR"),
        (b"10.0.0.1 az1\n10.0.0.1 az2", "line 2: 10.0.0.1 has two racks, az1 and az2"),
        (b'{"10.0.0.0/24": 3}', "the rack of 10.0.0.0/24 is no text"),
        (b'{"10.0.0.0/24"', "it is not JSON"),
        (b'{"10.0.0.0/24": "az1", "10.0.0.0/24": "az2"}', "it has the key 10.0.0.0/24 twice"),
        (b"\xff az1", "it is not UTF-8"),
        (b"", "it gives no address a rack"),
        (b"{}", "it gives no address a rack"),
        (b"# none yet\n10.244.2.0/24 <none>\n", "it gives no address a rack"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_place(text: bytes, clause: str) -> None:
    with pytest.raises(OutsideTextError) as caught:
        networks_of(text)
    assert str(caught.value).startswith(clause)


def test_a_file_that_cannot_be_read_is_an_error_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(RackFileError, match=r"^The file .*/none of racks.file cannot be read \(No such file"):
        RackFile(tmp_path / "none")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether_kafka.coordinator.planning.racks.BYTES_MAX", 10)
    (tmp_path / "racks").write_text("10.0.0.0/24 az1")
    with pytest.raises(RackFileError, match="it has more than 10 bytes"):
        RackFile(tmp_path / "racks")


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "racks"
    path.write_text("10.0.0.1 az1")
    file = RackFile(path)
    file.refresh(10.0)
    assert (file.version, file.networks.rack_of("/10.0.0.1")) == (1, "az1")
    (tmp_path / "new").write_text("10.0.0.1 az2")
    (tmp_path / "new").replace(path)
    for now in (20.0, 20.0 + REST_S, 30.0):
        file.refresh(now)
    assert (file.version, file.networks.rack_of("/10.0.0.1")) == (2, "az2")


@pytest.mark.parametrize("text", ["10.0.0.1 two words", ""], ids=["malformed", "left empty by a command that failed"])
def test_a_changed_file_that_cannot_be_used_is_reported_once_and_changes_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "racks"
    path.write_text("10.0.0.1 az1")
    file = RackFile(path)
    path.write_text(text)
    with capture_logs() as logs:
        for now in (10.0, 20.0, 30.0):
            file.refresh(now)
    assert [line["event"] for line in logs] == ["rack_file_refused"]
    assert logs[0]["reason"].endswith("correct it. What was read before stays in force.")
    assert (file.version, file.networks.rack_of("/10.0.0.1")) == (1, "az1")
    path.unlink()
    for now in (40.0, 50.0):
        file.refresh(now)
    assert file.networks.rack_of("/10.0.0.1") == "az1"


def test_a_file_that_is_being_written_is_read_once_it_rests(tmp_path: Path) -> None:
    path = tmp_path / "racks"
    path.write_text("10.0.0.1 az1\n10.0.0.2 az1\n")
    file = RackFile(path)
    for now, written in ((10.0, ""), (11.0, "10.0.0.1 az"), (12.0, "10.0.0.1 az2\n10.0.0.2 az2\n")):
        path.write_text(written)
        for since in (0.0, 0.9):  # seconds
            file.refresh(now + since)
            assert [file.networks.rack_of(f"/10.0.0.{n}") for n in (1, 2)] == ["az1", "az1"]
    file.refresh(12.0 + REST_S)
    assert [file.networks.rack_of(f"/10.0.0.{n}") for n in (1, 2)] == ["az2", "az2"]
