"""A vnode as a partition: its number, padded so that names sort as numbers do."""

from collections.abc import Collection

import dagster as dg


def vnode_partitions(count: int) -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([partition_of(vnode, count) for vnode in range(count)])


def partition_of(vnode: int, count: int) -> str:
    return f"{vnode:0{len(str(count - 1))}d}"


def parse_vnodes(partitions: Collection[str]) -> list[int]:
    return [int(partition) for partition in partitions]
