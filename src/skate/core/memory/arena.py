"""The allocator of the shared-memory arena: which bytes of one large range belong to which object.

It only decides; the memory itself is in `skate.node.memory.arena_file`. Unlike a textbook allocator, it tracks
*warmth*. The first touch of a page costs 5 to 40 times as much as later ones, so there are two kinds of free space:

    warm    freed memory that still has pages; every allocation looks here first
    hollow  memory never used, or returned to the system; used when nothing warm fits

Free ranges are kept in bins by size (eight bins per power of two, a bit per non-empty bin, as in TLSF:
Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", 2004), so that finding one
costs the same with ten live objects as with a million. Adjacent ranges freed in the same generation are
merged at once. Where two kinds or two generations meet, the border is recorded as a *seam*, and closed
only when a request would not fit otherwise. So a loop that puts and drops 100 MB gets the same 100 MB
each time, and does not stop the idle gigabytes next to it from being returned to the system.

Rejected alternatives: a sorted list of ranges (moving 50,000 entries costs more than everything else), a buddy
allocator (wastes half the arena on values just over a power of two), and a granule bitmap (cost grows with size).
"""

from __future__ import annotations

SMALL_UNIT = 64
PAGE = 4096
LARGE = 64 * 1024

_HOLLOW = 0
_STEPS = 3  # each power of two is cut into 2**_STEPS bins
_SCANNED = 16  # entries examined in the one bin whose ranges may or may not fit


class Allocator:
    """Hands out ranges of an arena of `capacity` bytes; offsets and sizes are in bytes.

    `generation` counts the calls of `cold_ranges`; freed ranges are stamped with it.
    """

    __slots__ = (
        "_bins",
        "_bits",
        "_end_to_start",
        "_free",
        "_live",
        "_seams",
        "capacity",
        "free_warm",
        "generation",
        "high_water",
        "used",
    )

    def __init__(self, capacity: int) -> None:
        """Round `capacity` down to whole pages; raise ValueError if it is less than one page."""
        capacity -= capacity % PAGE
        if capacity <= 0:
            raise ValueError(f"an arena needs at least one page of {PAGE} bytes")
        self.capacity = capacity
        self.generation = 1
        # The sum of the sizes in _live, after rounding; high_water is the most it ever was.
        self.used = 0
        self.high_water = 0
        # start -> size of every range handed out.
        self._live: dict[int, int] = {}
        # start -> (end, generation it was freed in, or _HOLLOW); no two of one generation touch.
        self._free: dict[int, tuple[int, int]] = {}
        # end -> start of the same ranges, to find the neighbour below.
        self._end_to_start: dict[int, int] = {}
        # Every border between two adjacent free ranges: [0] where one is hollow, [1] where both are warm.
        self._seams: tuple[set[int], set[int]] = (set(), set())
        # The same ranges by kind (hollow, warm) and bin; within a bin in the order of freeing.
        self._bins: tuple[dict[int, dict[int, None]], dict[int, dict[int, None]]] = ({}, {})
        self._bits = [0, 0]
        #: Free bytes that may be backed by memory, because they were freed but not returned to the system.
        self.free_warm = 0
        self._add(0, capacity, _HOLLOW)

    def __repr__(self) -> str:
        return (
            f"Allocator({self.used} of {self.capacity} bytes used by {len(self._live)} ranges, "
            f"{self.free_warm} warm, {len(self._free)} free ranges)"
        )

    def __len__(self) -> int:
        return len(self._live)

    def taken(self, offset: int) -> bool:
        """Return True if an allocated range begins there."""
        return offset in self._live

    @property
    def largest_free(self) -> int:
        """Size in bytes of the longest free range; a page-aligned request for that many bytes succeeds."""
        longest = length = at = 0
        for start in sorted(self._free):
            end = self._free[start][0]
            length = length + end - start if start == at else end - start
            at = end
            longest = max(longest, length)
        return longest

    def size_of(self, offset: int) -> int:
        """Return the rounded size of the range that starts at `offset`; raise KeyError if there is none."""
        return self._live[offset]

    def allocate(self, size: int, alignment: int = SMALL_UNIT) -> int | None:
        """Return the offset of a fresh range of at least `size` bytes, or None when none is long enough.

        Round sizes up to 64 bytes. From 64 KiB on, round up to 4096 and start on a page boundary, so that the range
        shares no page with others and can be returned to the system. `alignment` is a power of two. Raise ValueError
        for a negative size or any other alignment.
        """
        if size < 0 or alignment <= 0 or alignment & (alignment - 1):
            raise ValueError(
                f"cannot allocate {size} bytes aligned to {alignment}: want size >= 0, a power of two"
            )
        size = rounded(size)
        unit = PAGE if size >= LARGE else SMALL_UNIT
        if alignment < unit:
            alignment = unit
        if size > self.capacity - self.used:
            return None
        start = self._find(1, size, alignment)
        if start is None and self._seams[1]:
            self._close_seams(1)
            start = self._find(1, size, alignment)
        if start is None:
            start = self._find(0, size, alignment)
        if start is None:
            # In this order: hollow ranges become warm when merged, and may then touch other warm ranges.
            self._close_seams(0)
            self._close_seams(1)
            start = self._find_thorough(size, alignment)
        if start is None:
            return None
        return self._carve(start, size, alignment)

    def free(self, offset: int) -> int:
        """Free a range that `allocate` returned and return its size; raise ValueError if it is not in use."""
        size = self._live.pop(offset, None)
        if size is None:
            raise ValueError(f"offset {offset} is not in use: freed twice, or never returned by allocate()")
        self.used -= size
        end = offset + size
        self._add(offset, end, self.generation)
        if offset in self._end_to_start:
            self._settle(offset)
        if end in self._free:
            self._settle(end)
        return size

    def cold_ranges(self, minimum: int = LARGE, limit: int | None = None) -> list[tuple[int, int]]:
        """Begin a new generation and return the warm ranges that were free throughout the last one.

        Each is (offset, size), page-aligned, at least `minimum` bytes; `limit` bounds the total bytes of one
        call. They count as hollow from now on: the caller must return their pages to the system before the
        next allocation.
        """
        minimum = max(minimum, PAGE)
        left = self.capacity if limit is None else limit - limit % PAGE
        cold: list[tuple[int, int]] = []
        lowest = _bin_of(minimum)
        stale = [
            start
            for index, starts in self._bins[1].items()
            if index >= lowest
            for start in starts
            if self._free[start][1] < self.generation
        ]
        self.generation += 1
        for start in stale:
            end, generation = self._free[start]
            first = -(-start // PAGE) * PAGE
            last = min(end - end % PAGE, first + left)
            if last - first < minimum:
                continue
            self._remove(start)
            if start < first:
                self._add(start, first, generation)
            if last < end:
                self._add(last, end, generation)
            self._add(first, last, _HOLLOW)
            left -= last - first
            cold.append((first, last - first))
            for border in (first, last, start, end):
                self._settle(border)
        return cold

    def check(self) -> None:
        """Raise AssertionError unless every invariant noted at the fields holds."""
        ranges = [(start, start + size, -1) for start, size in self._live.items()]
        ranges += [(start, end, generation) for start, (end, generation) in self._free.items()]
        ranges.sort()
        at, before = 0, -1
        seams: tuple[set[int], set[int]] = (set(), set())
        for start, end, generation in ranges:
            assert start == at < end, f"gap or overlap at {at}: next range is {start}..{end}"
            if before >= 0 and generation >= 0:
                assert before != generation, f"two free ranges of generation {generation} touch at {start}"
                seams[1 if before and generation else 0].add(start)
            if generation == _HOLLOW:
                assert start % PAGE == 0 == end % PAGE, f"hollow range {start}..{end} shares a page"
            at, before = end, generation
        assert at == self.capacity, f"ranges end at {at}, capacity is {self.capacity}"
        assert seams == self._seams, f"seams are {self._seams}, should be {seams}"
        assert self.used == sum(self._live.values()) <= self.high_water
        assert self._end_to_start == {end: start for start, (end, _) in self._free.items()}
        warm = {start: end for start, (end, generation) in self._free.items() if generation != _HOLLOW}
        assert self.free_warm == sum(end - start for start, end in warm.items())
        for kind in (0, 1):
            listed = {start: index for index, starts in self._bins[kind].items() for start in starts}
            want = {s: _bin_of(e - s) for s, (e, g) in self._free.items() if (g != _HOLLOW) == kind}
            assert listed == want, f"bins of kind {kind} do not match the free ranges"
            assert self._bits[kind] == sum(1 << index for index in set(want.values()))

    def _find(self, kind: int, size: int, alignment: int) -> int | None:
        """Return the start of a free range of this kind with room for an aligned range of this size, or None.

        In bins where every range fits, take the tightest of the newest few. In the uncertain bin, look only at
        the newest few, so a range that fits may be missed.
        """
        bits = self._bits[kind]
        if not bits:
            return None
        lowest = _bin_of(size)
        # A range that starts at a multiple of 64 bytes may lose this much to alignment.
        certain = _bin_of(size + alignment - SMALL_UNIT) + 1
        bits >>= lowest
        index = lowest
        while bits:
            step = (bits & -bits).bit_length() - 1
            index += step
            best = self._snuggest(self._bins[kind][index], size, alignment)
            if best is not None or index >= certain:
                return best
            bits >>= step + 1
            index += 1
        return None

    def _snuggest(self, starts: dict[int, None], size: int, alignment: int) -> int | None:
        best, best_length = None, 0
        # Newest first: recently freed memory is cached and already mapped by the likely writer.
        for scanned, start in enumerate(reversed(starts)):
            length = self._free[start][0] - start
            if length >= size + (-start & (alignment - 1)):
                if length == size:
                    return start
                if best is None or length < best_length:
                    best, best_length = start, length
            if scanned >= _SCANNED:
                break
        return best

    def _find_thorough(self, size: int, alignment: int) -> int | None:
        """Search like `_find`, in both kinds, but check every range of the uncertain bins, so that None is certain."""
        for kind in (1, 0):
            start = self._find(kind, size, alignment)
            if start is not None:
                return start
            for index in range(_bin_of(size), _bin_of(size + alignment - SMALL_UNIT) + 1):
                for start in self._bins[kind].get(index, ()):
                    if self._free[start][0] - start >= size + (-start & (alignment - 1)):
                        return start
        return None

    def _carve(self, start: int, size: int, alignment: int) -> int:
        """Take `size` aligned bytes out of the free range at `start` and leave the rest free."""
        end, generation = self._free[start]
        offset = start + (-start & (alignment - 1))
        last = offset + size
        self._remove(start)
        if generation == _HOLLOW:
            # The pages of a small object are no longer hollow. Warming 64 KiB at a time packs small objects together.
            first = offset - offset % PAGE
            warm_end = last if last % PAGE == 0 else min(end, first - (first - last) // LARGE * LARGE)
            pieces: tuple[tuple[int, int, int], ...] = (
                (start, first, _HOLLOW),
                (first, offset, self.generation),
                (last, warm_end, self.generation),
                (warm_end, end, _HOLLOW),
            )
        else:
            pieces = ((start, offset, generation), (last, end, generation))
        for piece_start, piece_end, piece_generation in pieces:
            if piece_start < piece_end:
                self._add(piece_start, piece_end, piece_generation)
        for border in {start, end, *(piece[1] for piece in pieces)}:
            self._settle(border)
        self._live[offset] = size
        self.used += size
        if self.used > self.high_water:
            self.high_water = self.used
        return offset

    def _settle(self, border: int) -> None:
        """Merge the free ranges that meet at `border` if they share a generation; else note a seam."""
        below = self._end_to_start.get(border)
        above = self._free.get(border)
        self._seams[0].discard(border)
        self._seams[1].discard(border)
        if below is None or above is None:
            return
        generation = self._free[below][1]
        if generation == above[1]:
            self._remove(below)
            self._remove(border)
            self._add(below, above[0], generation)
        else:
            self._seams[1 if generation and above[1] else 0].add(border)

    def _close_seams(self, kind: int) -> None:
        """Merge free ranges across all seams of this kind; the result gets the newer generation.

        Hollow merged with warm counts as warm: returning hollow pages once more costs nothing.
        """
        seams = self._seams[kind]
        while seams:
            border = seams.pop()
            below = self._end_to_start[border]
            end, above_generation = self._free[border]
            below_generation = self._free[below][1]
            self._remove(below)
            self._remove(border)
            self._add(below, end, max(above_generation, below_generation))
            self._settle(below)
            self._settle(end)

    def _add(self, start: int, end: int, generation: int) -> None:
        self._free[start] = (end, generation)
        self._end_to_start[end] = start
        kind = 1 if generation else 0
        if kind:
            self.free_warm += end - start
        index = _bin_of(end - start)
        bins = self._bins[kind]
        if index in bins:
            bins[index][start] = None
        else:
            bins[index] = {start: None}
            self._bits[kind] |= 1 << index

    def _remove(self, start: int) -> None:
        end, generation = self._free.pop(start)
        del self._end_to_start[end]
        kind = 1 if generation else 0
        if kind:
            self.free_warm -= end - start
        index = _bin_of(end - start)
        starts = self._bins[kind][index]
        del starts[start]
        if not starts:
            del self._bins[kind][index]
            self._bits[kind] &= ~(1 << index)


def rounded(size: int) -> int:
    """Return the bytes that an object of `size` bytes occupies in an arena."""
    unit = PAGE if size >= LARGE else SMALL_UNIT
    return max(-(-size // unit) * unit, SMALL_UNIT)


def _bin_of(size: int) -> int:
    """Return the bin of a range; ranges in a higher bin are longer than all in a lower one."""
    power = size.bit_length() - 1
    return (power << _STEPS) | ((size >> (power - _STEPS)) & ((1 << _STEPS) - 1))
