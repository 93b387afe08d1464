"""Partitions in paths, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.source.files.path_partitions import Partitioning as Partitioning
from skate.data.source.files.path_partitions import PartitionStyle as PartitionStyle
from skate.data.source.files.path_partitions import PathPartitionFilter as PathPartitionFilter
from skate.data.source.files.path_partitions import PathPartitionParser as PathPartitionParser
