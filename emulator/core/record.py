"""The base of every record: frozen, keyword-only, compared by value, cheap to make.

A record is a `msgspec.Struct` that the garbage collector does not walk: records hold texts,
numbers, tuples and other records, and so are never part of a cycle. Change one with
`msgspec.structs.replace`, which carries over every field that is not named.
"""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from hashlib import blake2b, sha256
from typing import Generic, NewType, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import Struct


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Record(Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that is known: `class Endpoint(Record): url: str` says it all.

    It is made with keywords, which mypy checks. msgspec does not inherit `kw_only`: a record with a field without a
    default behind one with a default says `kw_only=True`. A metaclass that said so for all would make a call of any
    record take three times as long before Python 3.12. What has its default value is not written, which makes what
    is stored half as long.
    """


def moment(instant_ms: int) -> datetime:
    """An instant in UTC. Raises: OverflowError outside the years 1 to 9999."""
    return datetime.fromtimestamp(instant_ms / 1000, UTC)


# A datetime, or one or None, as the field is.
D = TypeVar("D")


class AsDatetime(Generic[D]):
    """A field in epoch ms as a datetime in UTC, under its name without `_ms`: for readers, it is no field itself."""

    # D-485.

    def __init__(self, name: str) -> None:
        self._name = name
        self.__doc__ = f"`{name}` as a datetime in UTC."

    def __get__(self, record: object, owner: type | None = None) -> D:
        if record is None:
            return cast(D, self)
        instant_ms = getattr(record, self._name)
        return cast(D, None if instant_ms is None else moment(instant_ms))


# -- names --------------------------------------------------------------------------------------

AccountId = NewType("AccountId", str)
MessageId = NewType("MessageId", str)
ScheduleId = NewType("ScheduleId", str)
GroupName = NewType("GroupName", str)
QueueName = NewType("QueueName", str)
FlowKey = NewType("FlowKey", str)
DeadLetterId = NewType("DeadLetterId", str)
RuleId = NewType("RuleId", str)
IndexId = NewType("IndexId", str)
RunId = NewType("RunId", str)
Headers = tuple[tuple[str, str], ...]


# -- identifiers --------------------------------------------------------------------------------
# Identifiers that look like the service's and come out the same for the same seed and epoch.
#
# Each is a function of a key of its world, the kind of thing and a number that its caller counts up, so
# the same commands give the same identifiers, and no two things of a world share one. Tokens, keys and
# samples have a key that follows from the seed; what happens has one that follows from the epoch as well.
#
# Source: the interface document shows identifiers in examples only; their forms are those of the
# public service (D-060). All of them stand in a URL path as they are.

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

# Four characters for each division of the long number, which are two entries of a table of pairs.
_PAIR = 58**2
_QUAD = 58**4
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)

_SHORT_LENGTH = 28
_MESSAGE_LENGTH = 53
_RUN_LENGTH = 21

# Every byte as one base58 character: for identifiers that are made in the thousands a second.
_CHARACTER_OF_BYTE = bytes(ord(_ALPHABET[byte % 58]) for byte in range(256))
# All message ids of the service begin alike.
_MESSAGE_HEAD = "7YoJx"

_VERSION = b"\x01"


def world_key(seed: int, scope: str = "") -> bytes:
    """The key of a world's tokens, signing keys and samples: 32 bytes. Raises: nothing."""
    return blake2b(f"{seed}/{scope}".encode("utf-8", "surrogatepass"), digest_size=32, person=b"world").digest()


def token_key(token: str) -> bytes:
    """The key of what follows from a token that a caller chose (D-432): 32 bytes. Raises: nothing."""
    return blake2b(token.encode("utf-8", "surrogatepass"), digest_size=32, person=b"chosen token").digest()


def event_key(seed: int, epoch_ms: int) -> bytes:
    """The key of messages, schedules and signatures (D-260): 32 bytes. Raises: nothing."""
    return blake2b(f"{seed}/{epoch_ms}".encode(), digest_size=32, person=b"events").digest()


def short_id(key: bytes, kind: str, number: int) -> str:
    """28 base58 characters: a version byte 1 and 16 bytes, with the checksum of Base58Check (D-060).

    A leading byte of 1 always gives 28 characters, never fewer. Raises: nothing.
    """
    body = _VERSION + _digest(key, b"id", kind, number)
    checksum = sha256(sha256(body).digest()).digest()[:4]
    return _base58(int.from_bytes(body + checksum, "big"), _SHORT_LENGTH)


def message_id(key: bytes, number: int) -> str:
    """`msg_` and 53 base58 characters (D-060). Raises: nothing."""
    return f"msg_{_MESSAGE_HEAD}{_characters(key, b'message', number, _MESSAGE_LENGTH - len(_MESSAGE_HEAD))}"


def schedule_id(key: bytes, number: int) -> str:
    """`scd_` and a short id, for a schedule whose creator chose no id (D-060)."""
    return "scd_" + short_id(key, "schedule", number)


def run_id(key: bytes, number: int) -> str:
    """`wfr_` and 21 base58 characters, for a run that was triggered without an id (D-360)."""
    return "wfr_" + _characters(key, b"run", number, _RUN_LENGTH)


def signing_key(key: bytes, number: int) -> str:
    """`sig_` and a short id. The whole text, 32 characters, is the secret that signs (D-060)."""
    return "sig_" + short_id(key, "signing key", number)


def jwt_id(key: bytes, number: int) -> str:
    """`jwt_` and 28 base58 characters: the `jti` of one signature (D-060). Raises: nothing."""
    return "jwt_" + _characters(key, b"jwt", number, _SHORT_LENGTH)


def draw(key: bytes, purpose: str, number: int) -> float:
    """A number from 0 up to 1 that is the same for the same key, purpose and number (D-420). Raises: nothing."""
    return int.from_bytes(_digest(key, b"chance", purpose, number)[:7], "big") / 2.0**56


def dead_letter_id(at_ms: int, number: int) -> str:
    """The moment in epoch ms and a number that tells entries of one moment apart (D-060)."""
    return f"{at_ms}-{number}"


def uuid(key: bytes, kind: str, number: int) -> str:
    """A UUID with the version and variant bits of a random one, RFC 4122 version 4."""
    digest = bytearray(_digest(key, b"uuid", kind, number))
    digest[6] = digest[6] & 0x0F | 0x40
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def token_text(key: bytes, kind: str, number: int, length: int) -> str:
    """`length` base58 characters for a password, a token or a name. Raises: nothing."""
    # Eight bytes more than the characters can hold, so that no character is likelier than another.
    needed = length * 6 // 8 + 8
    blocks = (needed + 15) // 16
    digest = b"".join(_digest(key, b"token", f"{kind}/{number}", block) for block in range(blocks))
    return _base58(int.from_bytes(digest, "big"), length)


def queue_token(user_id: str, password: str) -> str:
    """A messaging token: base64 of the JSON that names its user (D-051)."""
    return b64encode(json.dumps({"UserID": user_id, "Password": password}, separators=(",", ":")).encode()).decode()


def _characters(key: bytes, purpose: bytes, number: int, length: int) -> str:
    """`length` base58 characters, at most 64, that differ for every purpose and number."""
    digest = blake2b(b"%d" % number, key=key, digest_size=length, person=purpose).digest()
    return digest.translate(_CHARACTER_OF_BYTE).decode("ascii")


def _digest(key: bytes, purpose: bytes, kind: str, number: int) -> bytes:
    """16 bytes that differ for every purpose, kind and number."""
    return blake2b(f"{kind}/{number}".encode(), key=key, digest_size=16, person=purpose).digest()


def _base58(value: int, length: int) -> str:
    """The last `length` base58 digits of a value, zeros in front included; 0 is written `1`."""
    pairs: list[str] = []
    for _ in range((length + 3) // 4):
        value, quad = divmod(value, _QUAD)
        pairs.append(_PAIRS[quad % _PAIR])
        pairs.append(_PAIRS[quad // _PAIR])
    pairs.reverse()
    text = "".join(pairs)
    return text[len(text) - length :]
