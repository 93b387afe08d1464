"""Recordings: audio through soundfile, video through PyAV, robot logs through mcap."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import from_batch, from_rows
from skate.data.source.files.source import FileBasedDatasource
from skate.installed import require

_FRAMES_AT_ONCE = 16
_MESSAGES_AT_ONCE = 4096


class AudioDatasource(FileBasedDatasource):
    """Reads one row per file: "amplitude", an array of (channels, samples) of float32, and "sample_rate"."""

    _FILE_EXTENSIONS = [
        "mp3", "wav", "aac", "flac", "ogg", "m4a", "wma", "alac", "aiff", "pcm", "amr", "opus", "ra", "rm", "au", "mid",
        "midi", "caf",
    ]  # fmt: skip
    _INFLATION = 4.0

    def __init__(self, paths: Any, **files: Any) -> None:
        require("soundfile", "read_audio")
        super().__init__(paths, **files)

    def get_name(self) -> str:
        return "Audio"

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        samples, rate = require("soundfile", "read_audio").read(
            io.BytesIO(f.read()), always_2d=True, dtype="float32"
        )
        yield from_batch({"amplitude": np.ascontiguousarray(samples.T)[np.newaxis], "sample_rate": [rate]})


class VideoDatasource(FileBasedDatasource):
    """Reads one row per frame: "frame", an array of (height, width, 3), and "frame_index"; optionally also
    "frame_timestamp".

    Args:
        include_timestamps: add [start, end] of each frame in seconds.
        fps: frames a second to keep, at most as many as there are.
        resize: (height, width) to scale all frames to.
    """

    _FILE_EXTENSIONS = [
        "mp4", "mkv", "mov", "avi", "wmv", "flv", "webm", "m4v", "3gp", "mpeg", "mpg", "ts", "ogv", "rm", "rmvb", "vob",
        "asf", "f4v", "m2ts", "mts", "divx", "xvid", "mxf",
    ]  # fmt: skip
    _INFLATION = 100.0

    def __init__(
        self,
        paths: Any,
        *,
        include_timestamps: bool = False,
        fps: float | None = None,
        resize: Any = None,
        **files: Any,
    ) -> None:
        require("av", "read_videos")
        self._times, self._fps, self._resize = include_timestamps, fps, resize
        super().__init__(paths, **files)

    def get_name(self) -> str:
        return "Video"

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        waiting: list[dict[str, Any]] = []
        with require("av", "read_videos").open(io.BytesIO(f.read())) as container:
            following = 0.0
            for index, frame in enumerate(container.decode(video=0)):
                start = float(frame.time or 0.0)
                if self._fps is not None:
                    if start + 1e-6 < following:
                        continue
                    following += 1 / self._fps
                size = {} if self._resize is None else {"height": self._resize[0], "width": self._resize[1]}
                row: dict[str, Any] = {
                    "frame": frame.to_ndarray(format="rgb24", **size),
                    "frame_index": index,
                }
                if self._times:
                    rate = float(container.streams.video[0].average_rate or 1)
                    row["frame_timestamp"] = np.array([start, start + 1 / rate])
                waiting.append(row)
                if len(waiting) >= _FRAMES_AT_ONCE:
                    yield from_rows(waiting)
                    waiting = []
        if waiting:
            yield from_rows(waiting)


@dataclass(frozen=True)
class TimeRange:
    """A time range from `start_time` (inclusive) to `end_time` (exclusive), in nanoseconds."""

    start_time: int
    end_time: int

    def __post_init__(self) -> None:
        if self.start_time < 0 or self.end_time <= self.start_time:
            raise ValueError(
                f"a TimeRange must begin at 0 or later and end after its begin, got {self.start_time} to {self.end_time}"
            )


class MCAPDatasource(FileBasedDatasource):
    """Reads one row per message of an MCAP file: its bytes, topic, times and encoding."""

    _SEEKS = True

    def __init__(
        self,
        paths: Any,
        topics: Sequence[str] | None = None,
        time_range: TimeRange | None = None,
        message_types: Sequence[str] | None = None,
        include_metadata: bool = True,
        **files: Any,
    ) -> None:
        require("mcap.reader", "read_mcap", "mcap")
        self._topics = None if topics is None else list(topics)
        self._range = time_range
        self._types = None if message_types is None else set(message_types)
        self._metadata = include_metadata
        super().__init__(paths, **files)

    def get_name(self) -> str:
        return "MCAP"

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        reader = require("mcap.reader", "read_mcap", "mcap").make_reader(f)
        start, end = (None, None) if self._range is None else (self._range.start_time, self._range.end_time)
        waiting: list[dict[str, Any]] = []
        for schema, channel, message in reader.iter_messages(
            topics=self._topics, start_time=start, end_time=end
        ):
            if self._types is not None and (schema is None or schema.name not in self._types):
                continue
            row = {
                "data": message.data,
                "topic": channel.topic,
                "log_time": message.log_time,
                "publish_time": message.publish_time,
                "sequence": message.sequence,
            }
            if self._metadata:
                row["channel_id"] = message.channel_id
                row["message_encoding"] = channel.message_encoding
                row["schema_name"] = None if schema is None else schema.name
                row["schema_encoding"] = None if schema is None else schema.encoding
                row["schema_data"] = None if schema is None else schema.data
            waiting.append(row)
            if len(waiting) >= _MESSAGES_AT_ONCE:
                yield from_rows(waiting)
                waiting = []
        if waiting:
            yield from_rows(waiting)
