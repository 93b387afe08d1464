"""Partitions in paths, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.source.files.partitioning import Partitioning as Partitioning
from skate.data.source.files.partitioning import PartitionStyle as PartitionStyle
from skate.data.source.files.partitioning import PathPartitionFilter as PathPartitionFilter
from skate.data.source.files.partitioning import PathPartitionParser as PathPartitionParser
