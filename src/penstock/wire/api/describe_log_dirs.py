"""DescribeLogDirs (key 35): the log directories of a broker and the size of each partition in them.

Versions:
- 1: the lowest accepted
- 2: flexible
- 3: a top-level error
- 4: total and usable bytes of the volume (KIP-827)
- 5: whether the directory takes new partitions (KIP-1066)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, boolean, int16, int32, int64, message, string, struct


@struct
class DescribableLogDirTopic(Struct):
    """The partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@message("1-5", flexible="2+")
class DescribeLogDirsRequest(Struct):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@struct
class DescribeLogDirsPartition(Struct):
    """One partition in the directory."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@struct
class DescribeLogDirsTopic(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@struct
class DescribeLogDirsResult(Struct):
    """One log directory."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", ignorable=True)


@message("1-5", flexible="2+")
class DescribeLogDirsResponse(Struct):
    throttle_time_ms: int = int32()
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)


API = Api(35, DescribeLogDirsRequest, DescribeLogDirsResponse)
