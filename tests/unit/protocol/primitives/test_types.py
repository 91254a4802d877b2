from bellwether_kafka.protocol.primitives import HostInfo, ProcessId, TaskId, TopicPartition


def test_process_ids_sort_like_java_uuids() -> None:
    low = ProcessId.of_bytes(bytes.fromhex("80000000000000000000000000000000"))
    zero = ProcessId.of_bytes(bytes(16))
    high = ProcessId.of_bytes(bytes.fromhex("7fffffffffffffff8000000000000000"))
    assert sorted([high, zero, low]) == [low, zero, high]


def test_process_id_reads_and_prints() -> None:
    raw = bytes.fromhex("00112233445566778899aabbccddeeff")
    assert bytes(ProcessId.of_bytes(raw)) == raw
    assert str(ProcessId.of_bytes(raw)) == "00112233-4455-6677-8899-aabbccddeeff"


def test_names() -> None:
    assert str(TaskId(0, 3)) == "0_3"
    assert str(TaskId(2, 3, "top")) == "top__2_3"
    assert TopicPartition("s", 9) < TopicPartition("t", 1) < TopicPartition("t", 2)
    assert HostInfo("h", 9).port == 9
