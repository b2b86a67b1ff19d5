"""DescribeLogDirs, versions 1 to 5: what lies in which data directory, and how much room is left. Null topics: all."""

from __future__ import annotations

import os
from collections import defaultdict

from penstock.broker.context import Call, Context
from penstock.broker.replicas.partition import Partition
from penstock.errors import ErrorCode
from penstock.wire.api.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(context: Context, _call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_describe(context, directory, wanted) for directory in context.replicas.logs.directories]
    )


def _describe(context: Context, directory: str, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    if directory in context.replicas.logs.offline_directories:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory)
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for partition in context.replicas:
        tp = partition.log.topic_partition
        is_here = os.path.dirname(partition.log.directory) == directory
        if is_here and (wanted is None or tp in wanted):
            topics[tp.topic].append(_partition(partition))
    try:
        found = os.statvfs(directory)
    except OSError:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory)
    return DescribeLogDirsResult(
        log_dir=directory,
        topics=[DescribeLogDirsTopic(name, partitions) for name, partitions in topics.items()],
        total_bytes=found.f_blocks * found.f_frsize,
        usable_bytes=found.f_bavail * found.f_frsize,
    )


def _partition(partition: Partition) -> DescribeLogDirsPartition:
    lag = max(0, partition.log.high_watermark - partition.log.log_end_offset)
    return DescribeLogDirsPartition(partition.log.topic_partition.partition, partition.log.size_bytes, lag, False)
