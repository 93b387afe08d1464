"""WebDataset: samples in tar files, one member per field; see https://github.com/webdataset/webdataset for
the conventions."""

from __future__ import annotations

import fnmatch
import io
import json
import os
import pickle
import re
import tarfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import from_rows
from skate.data.source.files.sink import BlockBasedFileDatasink, rows_in
from skate.data.source.files.source import FileBasedDatasource
from skate.installed import require

#: Environment variable that allows reading pickles.
_TRUST = "RAY_DATA_WEBDATASET_ALLOW_UNSAFE_DESERIALIZATION"
_REFUSED = (
    "Refusing to unpickle a member, because a pickle can run any code; for files that you trust, set "
    f"{_TRUST}=1, or pass decoder=a function of a sample"
)
_SAMPLES_AT_ONCE = 32
#: Fields of every sample: its key and its file.
_NAMED = 2
#: Files of more bytes in all are decoded by workers from the start: decoding takes far longer than reading.
_DECODED_HERE = 1 << 20
_IMAGES = frozenset({"jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm"})
_TEXTS = frozenset({"txt", "text", "transcript"})
_NUMBERS = frozenset({"cls", "cls2", "index", "inx", "id", "count"})


class WebDatasetDatasource(FileBasedDatasource):
    """Reads the samples of tar files, one row each."""

    _INFLATION = 2.0

    def __init__(self, paths: Any, **options: Any) -> None:
        names = ("decoder", "fileselect", "filerename", "suffixes", "verbose_open", "expand_json")
        given = {name: options.pop(name, None) for name in names}
        self._decoders = _listed(given["decoder"])
        self._select, self._rename, self._suffixes = (
            given["fileselect"],
            given["filerename"],
            given["suffixes"],
        )
        self._verbose = given["verbose_open"]
        self._expand = given["expand_json"]
        self._is_trusted = os.environ.get(_TRUST, "0").lower() in ("1", "true")
        super().__init__(paths, **options)
        self._APART = bool(self._decoders) and sum(each.size or 0 for each in self._files) > _DECODED_HERE

    def get_name(self) -> str:
        return "WebDataset"

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        if self._verbose:
            print(f"reading {path}")
        waiting: list[dict[str, Any]] = []
        for sample in self._samples(f, path):
            for decoder in self._decoders:
                if decoder in (True, ""):
                    sample = decode(sample, path, self._is_trusted)
                elif decoder == "PIL":
                    sample = decode(sample, path, self._is_trusted, as_image=True)
                else:
                    sample = _called(decoder, sample)
            if self._expand and isinstance(sample.get("json"), dict):
                entries = sample.pop("json")
                sample = {**sample, **entries}
            waiting.append({name: _as_value(value) for name, value in sample.items()})
            if len(waiting) >= _SAMPLES_AT_ONCE:
                yield from_rows(waiting)
                waiting = []
        if waiting:
            yield from_rows(waiting)

    def _samples(self, f: Any, path: str) -> Iterator[dict[str, Any]]:
        """Group adjacent members whose names agree up to the first dot of their last part."""
        current: dict[str, Any] | None = None
        try:
            with tarfile.open(fileobj=f, mode="r|*") as tar:
                for member in tar:
                    if not member.isfile():
                        continue
                    name = self._renamed(member.name)
                    if not _chosen(name, self._select):
                        continue
                    key, suffix = split_name(name)
                    if not key or not suffix:
                        continue
                    if current is None or current["__key__"] != key:
                        if current is not None and len(current) > _NAMED:
                            yield current
                        current = {"__key__": key, "__url__": path}
                    if suffix in current:
                        raise ValueError(f"{path} has two members {name!r}")
                    if _chosen(suffix, self._suffixes):
                        content = tar.extractfile(member)
                        current[suffix] = content.read() if content is not None else b""
        except tarfile.TarError as error:
            raise ValueError(f"{path} cannot be read as a tar file: {error}") from None
        if current is not None and len(current) > _NAMED:
            yield current

    def _renamed(self, name: str) -> str:
        if callable(self._rename):
            return str(self._rename(name))
        for pattern, replacement in self._rename or ():
            name = re.sub(pattern, replacement, name)
        return name


class WebDatasetDatasink(BlockBasedFileDatasink):
    """Writes rows as the samples of tar files."""

    def __init__(self, path: str, *, encoder: Any = True, **files: Any) -> None:
        self._encoders = _listed(encoder)
        super().__init__(path, file_format="tar", **files)

    def get_name(self) -> str:
        return "WebDataset"

    def write_tables(self, tables: Iterable[pa.Table], file: Any) -> None:
        with tarfile.open(fileobj=file, mode="w|") as tar:
            for row in rows_in(tables):
                sample = dict(row)
                for encoder in self._encoders:
                    sample = encode(sample) if encoder in (True, "") else _called(encoder, sample)
                key = sample.get("__key__") or uuid.uuid4().hex
                for name, value in sample.items():
                    if name.startswith("__") or value is None:
                        continue
                    data = _as_bytes(name, value)
                    member = tarfile.TarInfo(f"{key}.{name}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def split_name(name: str) -> tuple[str, str]:
    """Split a member's name into the key of its sample and its field, at the first dot of the last part."""
    directory, separator, last = name.rpartition("/")
    stem, _, suffix = last.partition(".")
    return f"{directory}{separator}{stem}" if stem else "", suffix


def decode(
    sample: dict[str, Any], path: str = "", is_trusted: bool = False, as_image: bool = False
) -> dict[str, Any]:
    """Decode the members of a sample by their extensions.

    Args:
        path: the file that the sample is from, for errors.
        is_trusted: unpickle members, which can run any code.
        as_image: decode images to `PIL.Image.Image`, not to arrays.
    """
    made: dict[str, Any] = {}
    for name, value in sample.items():
        if name.startswith("__") or not isinstance(value, bytes):
            made[name] = value
            continue
        try:
            made[name] = _decoded(name.rpartition(".")[2].lower(), value, is_trusted, as_image)
        except ImportError:
            raise
        except Exception as error:  # decoders raise various errors for invalid bytes
            raise ValueError(f"{path}: {sample.get('__key__')}.{name} does not decode: {error}") from error
    return made


def _decoded(kind: str, value: bytes, is_trusted: bool, as_image: bool) -> Any:
    if kind in _TEXTS:
        return value.decode()
    if kind in _NUMBERS:
        return int(value.decode())
    if kind == "json":
        return json.loads(value)
    if kind in _IMAGES:
        image = require("PIL.Image", "images in read_webdataset", "pillow")
        opened = image.open(io.BytesIO(value))
        return opened if as_image else np.array(opened)
    if kind in ("npy", "npz"):
        loaded = np.load(io.BytesIO(value), allow_pickle=False)
        return dict(loaded) if kind == "npz" else loaded
    if kind in ("pt", "pth"):
        load = require("torch", "members .pt in read_webdataset").load
        try:
            return load(io.BytesIO(value), weights_only=not is_trusted)
        except pickle.UnpicklingError as error:
            if is_trusted:
                raise
            raise ValueError(f"{_REFUSED}; without its code, the member does not load: {error}") from None
    if kind in ("mp", "msgpack", "msg"):
        return require("msgpack", "members .mp in read_webdataset").unpackb(value)
    if kind in ("pkl", "pickle", "pyd"):
        if not is_trusted:
            raise ValueError(_REFUSED)
        return pickle.loads(value)
    return value


def encode(sample: dict[str, Any]) -> dict[str, Any]:
    """Encode the values of a sample by their extensions."""
    return {
        name: value
        if name.startswith("__") or value is None
        else _encoded(name.rpartition(".")[2].lower(), value)
        for name, value in sample.items()
    }


def _encoded(kind: str, value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if kind in _NUMBERS | _TEXTS:
        return str(value).encode()
    if kind == "json":
        return json.dumps(value, default=_listed_value).encode()
    buffer = io.BytesIO()
    if kind in _IMAGES:
        image = require("PIL.Image", "images in write_webdataset", "pillow")
        form = {"jpg": "jpeg", "pgm": "ppm", "pbm": "ppm", "pnm": "ppm"}.get(kind, kind)
        image.fromarray(np.asarray(value)).save(buffer, format=form)
        return buffer.getvalue()
    if kind == "npy":
        np.save(buffer, np.asarray(value), allow_pickle=False)
        return buffer.getvalue()
    if kind in ("pt", "pth"):
        require("torch", "members .pt in write_webdataset").save(value, buffer)
        return buffer.getvalue()
    if kind in ("mp", "msgpack", "msg"):
        return require("msgpack", "members .mp in write_webdataset").packb(value, default=_listed_value)
    if kind in ("pkl", "pickle", "pyd"):
        return pickle.dumps(value)
    return value


def _listed_value(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _as_bytes(name: str, value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (int, float, np.generic)):
        return str(value).encode()
    raise ValueError(
        f"column {name!r} holds a {type(value).__name__}, and its name is not an extension that implies an "
        "encoding; rename it to "
        f"{name}.npy, {name}.json or {name}.pyd, or pass encoder=a function of a sample"
    )


def _as_value(value: Any) -> Any:
    return value.numpy() if hasattr(value, "detach") else value


def _listed(given: Any) -> list[Any]:
    if given is None or given is False:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _called(function: Callable[[Any], Any], sample: dict[str, Any]) -> dict[str, Any]:
    if not callable(function):
        raise ValueError(f"a decoder or encoder must be True or a function of a sample, got {function!r}")
    made: dict[str, Any] = function(sample)
    return made


def _chosen(name: str, wanted: Any) -> bool:
    if wanted is None:
        return True
    if callable(wanted):
        return bool(wanted(name))
    return any(_fits(name, pattern) for pattern in wanted)


def _fits(name: str, pattern: str) -> bool:
    """True if a suffix, with the dot before it, matches a pattern; one without wildcards may leave the dot out."""
    if "*" in pattern or "?" in pattern:
        return fnmatch.fnmatch(f".{name}", pattern)
    return pattern in (name, f".{name}")
