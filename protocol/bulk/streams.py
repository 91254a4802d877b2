"""The SubscriptionInfo of whole groups as columns: what a leader of Streams threads reads in every rebalance.

The dataclass reads each member, with the offset sums still packed; numpy makes columns of these. For a thread that runs
task 0_1 and has 9 records of the state of 1_2, and a second one without tasks:

    sum_first 0 2 2   sum_subtopology 0 1   sum_partition 1 2   sum_value -2 9
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bellwether_kafka.protocol.bulk.consumer import IntArray, LongArray
from bellwether_kafka.protocol.messages import STREAMS_VERSION_MAX, PackedSums, SubscriptionInfo
from bellwether_kafka.protocol.primitives import ProcessId, RemoteProtocolError

_SUM = np.dtype([("subtopology", ">i4"), ("partition", ">i4"), ("sum", ">i8"), ("", ">i2")])
_UNREADABLE = SubscriptionInfo(0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class InfoColumns:
    """The SubscriptionInfo of M members with K offset sums in total.

    The sums of member m are rows `sum_first[m]:sum_first[m + 1]`, in wire order. `future` members (version above 11)
    only have a version and a latest version, and their `process` is None. Members in `named` use named topologies;
    their rows have no name. `joins` is the unique field as a number from 0 to 255, in which a thread counts its
    JoinGroups, from 1 when it starts (0 below version 8). A member in `errors` (index -> reason) has version and latest
    0.
    """

    version: IntArray
    latest: IntArray
    process: tuple[ProcessId | None, ...]
    end_point: tuple[str | None, ...]
    joins: IntArray
    error_code: IntArray
    tags: tuple[tuple[tuple[str, str], ...], ...]
    sum_first: LongArray
    sum_subtopology: IntArray
    sum_partition: IntArray
    sum_value: LongArray
    named: frozenset[int]
    errors: Mapping[int, str]

    @property
    def future(self) -> npt.NDArray[np.bool_]:
        return self.version > STREAMS_VERSION_MAX

    def without(self, reasons: Mapping[int, str]) -> "InfoColumns":
        """Returns the columns with these members (index -> reason) as if they could not be read."""
        sizes = np.diff(self.sum_first)
        gone = np.zeros(len(sizes), dtype=np.bool_)
        gone[list(reasons)] = True
        kept = ~np.repeat(gone, sizes)
        return replace(
            self,
            version=np.where(gone, 0, self.version).astype(np.int32),
            latest=np.where(gone, 0, self.latest).astype(np.int32),
            process=tuple([None if m in reasons else process for m, process in enumerate(self.process)]),
            error_code=np.where(gone, 0, self.error_code).astype(np.int32),
            sum_first=_starts(np.where(gone, 0, sizes)),
            sum_subtopology=self.sum_subtopology[kept],
            sum_partition=self.sum_partition[kept],
            sum_value=self.sum_value[kept],
            named=self.named - reasons.keys(),
            errors={**self.errors, **reasons},
        )


def read_infos(blobs: Sequence[bytes | None]) -> InfoColumns:
    """Decodes the userData of all members. No blob can make it raise."""
    errors: dict[int, str] = {}
    infos: list[SubscriptionInfo] = []
    sums: list[PackedSums] = []
    for m, blob in enumerate(blobs):
        info, packed = _UNREADABLE, PackedSums()
        if blob is None:
            errors[m] = "userData is null"
        else:
            try:
                info, packed = SubscriptionInfo.decode_packed(blob)
            except RemoteProtocolError as error:
                errors[m] = str(error)
        infos.append(info)
        sums.append(packed)
    rows = np.frombuffer(b"".join([packed.rows for packed in sums]), _SUM)
    return InfoColumns(
        version=np.array([info.version for info in infos], dtype=np.int32),
        latest=np.array([info.latest_supported_version for info in infos], dtype=np.int32),
        process=tuple([None if m in errors or info.future else info.process_id for m, info in enumerate(infos)]),
        end_point=tuple([info.user_end_point for info in infos]),
        joins=np.array([info.unique_field & 0xFF for info in infos], dtype=np.int32),
        error_code=np.array([info.error_code for info in infos], dtype=np.int32),
        tags=tuple([info.client_tags for info in infos]),
        sum_first=_starts(len(packed.rows) // _SUM.itemsize for packed in sums),
        sum_subtopology=rows["subtopology"].astype(np.int32),
        sum_partition=rows["partition"].astype(np.int32),
        sum_value=rows["sum"].astype(np.int64),
        named=frozenset(m for m, packed in enumerate(sums) if any(name is not None for name in packed.names)),
        errors=errors,
    )


def _starts(sizes: Iterable[int]) -> LongArray:
    return np.concatenate([[0], np.cumsum(np.fromiter(sizes, dtype=np.int64))]).astype(np.int64)
