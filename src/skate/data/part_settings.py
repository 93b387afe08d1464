"""Settings with several fields: retries of external tables, and settings accepted for compatibility only."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class ShuffleStrategy(str, enum.Enum):
    """Shuffle strategies; accepted for compatibility, because there is only one here."""

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    SHUFFLE_V2 = "shuffle_v2"
    GPU_SHUFFLE = "gpu_shuffle"


@dataclass
class AutoscalingConfig:
    """When actor pools grow and shrink; accepted for compatibility: a pool here grows when all of its actors
    are busy."""

    actor_pool_util_upscaling_threshold: float = 1.75
    actor_pool_util_downscaling_threshold: float = 0.5
    actor_pool_max_upscaling_delta: int | None = None


@dataclass
class LanceConfig:
    """Retries of reading and writing Lance tables."""

    read_fragments_errors_to_retry: list[str] = field(default_factory=lambda: ["LanceError(IO)"])
    read_fragments_max_attempts: int = 10
    read_fragments_retry_max_backoff_s: int = 32
    write_fragments_errors_to_retry: list[str] = field(default_factory=lambda: ["LanceError(IO)"])
    write_fragments_max_attempts: int = 10
    write_fragments_retry_max_backoff_s: int = 32


@dataclass
class IcebergConfig:
    """Retries of writing Iceberg tables and querying their catalog."""

    write_file_max_attempts: int = 10
    write_file_retry_max_backoff_s: int = 32
    catalog_max_attempts: int = 5
    catalog_retry_max_backoff_s: int = 16
    catalog_retried_errors: list[str] = field(default_factory=lambda: ["429", "500", "502", "503"])
    read_file_tasks_sequentially: bool = True


@dataclass
class DeltaConfig:
    """Retries of committing to a Delta table."""

    commit_max_attempts: int = 5
    commit_retry_max_backoff_s: int = 16
    commit_retried_errors: list[str] = field(default_factory=lambda: ["429", "500", "502", "503"])
    credential_refresh_enabled: bool = True


@dataclass
class HangingExecutionIssueDetectorConfig:
    """When a task counts as hanging; accepted for compatibility."""

    op_task_stats_min_count: int = 10
    op_task_stats_std_factor: float = 10
    detection_time_interval_s: float = 30.0


@dataclass
class IssueDetectorsConfiguration:
    """Settings of run monitoring; accepted for compatibility."""

    hanging_detector_config: Any = field(default_factory=HangingExecutionIssueDetectorConfig)
    detectors: list[Any] = field(default_factory=list)
