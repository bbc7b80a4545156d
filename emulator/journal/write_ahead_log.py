"""Finding damage in SQLite's write-ahead log, before SQLite could drop it.

A restart after a crash applies the log up to the first frame that is not in order, and takes the
rest for leftovers. So a damaged log would silently bring back an earlier state. What a crash leaves
can be told from damage: frames are written one after the other, so at most the last one is
unfinished; and leftovers of an earlier log have other salts than its header. A last frame that is not
in order, or not there to its end, could be either: that is logged, and is no reason not to start (D-285).

Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import logging
import operator
import struct
from pathlib import Path

logger = logging.getLogger(__name__)

_HEADER_SIZE = 32
_FRAME_HEADER_SIZE = 24
_MAGIC = 0x377F0682
_UNFINISHED = "%s: the last page was not finished by a crash, or is damaged; it is ignored, with what was done in it"

Sum = tuple[int, int]


def damage_in(path: Path) -> str | None:
    """What is wrong with the log of a database, in a few words; None if nothing is, or there is no log.

    Takes time in proportion to the log, which a stop in order removes.
    """
    log = path.with_name(path.name + "-wal")
    try:
        content = memoryview(log.read_bytes())
    except FileNotFoundError:
        return None
    if not content:
        return None
    if len(content) < _HEADER_SIZE:
        # It is written at once.
        return f"the head of its write-ahead log {log.name} is damaged"
    header = struct.unpack(">8I", content[:_HEADER_SIZE])
    magic, _, page_size, _, *salts, first, second = header
    # The lowest bit tells the byte order of the words that are summed up.
    if magic & ~1 != _MAGIC:
        return f"the head of its write-ahead log {log.name} is damaged"
    order = ">" if magic & 1 else "<"
    total = _add((0, 0), content[:24], order)
    if total != (first, second):
        return f"the head of its write-ahead log {log.name} is damaged"
    size = _FRAME_HEADER_SIZE + page_size
    count = (len(content) - _HEADER_SIZE) // size
    for number in range(count):
        frame = content[_HEADER_SIZE + number * size :][:size]
        *found_salts, first, second = struct.unpack(">4I", frame[8:_FRAME_HEADER_SIZE])
        total = _add(_add(total, frame[:8], order), frame[_FRAME_HEADER_SIZE:], order)
        if found_salts == salts and total == (first, second):
            continue
        # The head of a frame is written at once: no crash leaves half of it.
        is_half_changed = found_salts != salts and any(map(operator.eq, found_salts, salts))
        if is_half_changed or _goes_on(content, number + 1, count, size, salts):
            return (
                f"its write-ahead log {log.name} is damaged in page {number + 1} of {count}: what was done last would "
                f"be lost (to do without it, cut the log to {_HEADER_SIZE + number * size} bytes)"
            )
        if found_salts == salts:
            logger.warning(_UNFINISHED, log)
        return None
    if len(content) > _HEADER_SIZE + count * size:
        logger.warning(_UNFINISHED, log)
    return None


def _goes_on(content: memoryview, start: int, count: int, size: int, salts: list[int]) -> bool:
    """Whether a frame of the same log follows."""
    places = (_HEADER_SIZE + number * size + 8 for number in range(start, count))
    return any(list(struct.unpack(">2I", content[place : place + 8])) == salts for place in places)


def _add(total: Sum, content: memoryview, order: str) -> Sum:
    """The sum that the format defines, continued over further bytes."""
    first, second = total
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
