"""Parser of chunked bodies: finds their end and extracts their content. No I/O."""

from __future__ import annotations

import re

from skate.serve.ingress.request_head import BadRequest

#: The maximum length of a chunk size line, with extensions.
_LINE_BYTES_MAX = 4096
#: The maximum length of a size line without extensions.
_SIZE_BYTES_USUAL = 15
_size = re.compile(
    rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t !-~\x80-\xff]*)?",
).fullmatch
_field = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*").fullmatch

_SIZE, _DATA, _DATA_END, _TRAILER = range(4)


class ChunkedBody:
    """One body. Extensions and trailers are checked and dropped, so that a later parser cannot interpret them differently."""

    __slots__ = ("_extensions", "_left", "_limit", "_line", "_state", "_trailers", "done")

    def __init__(self, trailer_bytes_max: int) -> None:
        self._state = _SIZE
        self._left = 0
        self._line = b""
        self._limit = trailer_bytes_max
        self._trailers = 0
        self._extensions = 0
        #: True once the last chunk and the trailers have arrived.
        self.done = False

    def feed(self, data: bytes) -> tuple[bytes, int]:
        """Return the content of the data, re-encoded as at most one chunk and the end; and how much of the data
        belongs to this body.

        Raises BadRequest for an invalid chunked body.
        """
        parts: list[bytes] = []
        position, end = 0, len(data)
        while position < end and not self.done:
            if self._state == _DATA:
                part = data[position : position + self._left]
                parts.append(part)
                position += len(part)
                self._left -= len(part)
                if not self._left:
                    self._state = _DATA_END
                continue
            line, position = self._take_line(data, position)
            if line is not None:
                self._read(line)
        carried = b"".join(parts)
        if carried:
            carried = b"%x\r\n%b\r\n" % (len(carried), carried)
        return (carried + b"0\r\n\r\n" if self.done else carried), position

    def _take_line(self, data: bytes, position: int) -> tuple[bytes | None, int]:
        """Return the next line without its end, or None if it is incomplete, and the position after it."""
        newline = data.find(b"\n", position)
        stop = newline + 1 if newline >= 0 else len(data)
        line = self._line + data[position:stop]
        if len(line) > (_LINE_BYTES_MAX if self._state != _TRAILER else self._limit):
            raise BadRequest(400, "a line of the chunked body is too long")
        if newline < 0:
            self._line = line
            return None, stop
        self._line = b""
        if line[-2:] != b"\r\n":
            raise BadRequest(400, "a line of the chunked body ends in LF without CR")
        return line[:-2], stop

    def _read(self, line: bytes) -> None:
        if self._state == _SIZE:
            found = _size(line)
            if found is None:
                raise BadRequest(400, "the size of a chunk is not a hexadecimal number")
            self._left = int(found[1], 16)
            if len(line) > _SIZE_BYTES_USUAL:
                self._extensions += len(line)
                if self._extensions > self._limit:
                    raise BadRequest(400, "the extensions of the chunks are too long")
            self._state = _DATA if self._left else _TRAILER
        elif self._state == _DATA_END:
            if line:
                raise BadRequest(400, "a chunk is longer than its size")
            self._state = _SIZE
        elif line:
            self._trailers += len(line)
            if self._trailers > self._limit:
                raise BadRequest(431, "the trailers of the request are too long")
            if _field(line) is None:
                raise BadRequest(400, "a trailer line must be name, colon, value")
        else:
            self.done = True
