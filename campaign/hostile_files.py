"""Files that no user would write: made of good ones by small damage, or hostile as a whole."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random

_DEEP = 200_000
CONTROL = "\x1b[31mred\x1b]0;title\x07\r\nforged line"


# -- binary files -----------------------------------------------------------------------------


def damage(path: Path, random: Random) -> str:
    """Damage a file in place; what was done to it."""
    data = bytearray(path.read_bytes())
    how = random.choice(("flip", "flip", "flip", "flip", "truncate", "zero", "shift", "foreign"))
    at = random.randrange(len(data)) if data else 0
    if how == "flip" and data:
        count = random.choice((1, 1, 3))
        for _ in range(count):
            at = random.randrange(len(data))
            data[at] ^= 1 << random.randrange(8)
        how = f"{count} bits, the last at {at}"
    elif how == "truncate":
        del data[at:]
        how = f"cut at {at}"
    elif how == "zero":
        length = random.choice((1, 16, 512, 4096))
        data[at : at + length] = bytes(min(length, len(data) - at))
        how = f"{length} zeros at {at}"
    elif how == "shift":
        data[at:at] = random.randbytes(random.choice((1, 4096)))
        how = f"something put in at {at}"
    else:
        path.unlink()
        return foreign(path, random)
    path.write_bytes(data)
    return how


def foreign(path: Path, random: Random) -> str:
    """Put another program's file in its place."""
    how = random.choice(("random", "text", "another SQLite file", "zeros", "header only"))
    if how == "another SQLite file":
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE mine (x)")
        connection.commit()
        connection.close()
    else:
        header = b"SQLite format 3\x00"
        path.write_bytes(
            {
                "random": random.randbytes(20_000),
                "text": b"not a database\n" * 100,
                "zeros": bytes(8192),
                "header only": header,
            }[how]
        )
    return how


HOSTILE_VALUES: tuple[object, ...] = (
    b"[" * 1_000_000,
    b'{"a":' * 100_000,
    b'{"virtual_ms": NaN, "wall_ms": Infinity, "rate": NaN}',
    b'{"virtual_ms": 1' + b"0" * 5000 + b', "wall_ms": 0, "rate": 0}',
    b'{"id": "default\\u001b[31m", "seed": "x", "epoch_ms": -1, "rate": -1, "plan": "gold"}',
    b"\x91" * 100_000,
    b"\xdf\xff\xff\xff\xff",
    b"",
    "text instead of bytes " + CONTROL,
    10**18,
    -1.5e300,
)


def tamper(path: Path, random: Random) -> str:
    """Put a hostile value into a random column of a database, as somebody with a SQLite shell would."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        # Half of the time where a start reads first.
        table = random.choice([*[each for each in tables if each in ("meta", "checkpoint")] * 3, *tables])
        keys = [name for _, name, _, _, _, key in connection.execute(f'PRAGMA table_info("{table}")') if key]
        columns = [name for _, name, *_ in connection.execute(f'PRAGMA table_info("{table}")')]
        column = random.choice([each for each in columns if each not in keys] or columns)
        value = random.choice(HOSTILE_VALUES)
        rows = connection.execute(f'SELECT {keys[0] if keys else "rowid"} FROM "{table}"').fetchall()
        if not rows:
            return "nothing to change"
        row = random.choice(rows)[0]
        where = keys[0] if keys else "rowid"
        connection.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE "{where}" = ?', (value, row))
        connection.commit()
        return f"{table}.{column} of {row!r} is {value!r:.40}"
    except sqlite3.Error as error:
        return f"not changed: {error}"
    finally:
        connection.close()


# -- rows -------------------------------------------------------------------------------------
# What a SQLite shell can do to one column of a database that SQLite itself finds whole.

_OTHER_VALUES: tuple[object, ...] = (
    None,
    "text",
    "",
    "RUN_LOST",
    CONTROL,
    b"",
    b"\x00\xff",
    b"\x91" * 50,
    2**63 - 1,
    -(2**63),
    -1,
    2**60,
    0,
    1.5,
    1e300,
)
_WITHOUT_INTEGRITY = ("PRAGMA ignore_check_constraints = ON", "PRAGMA writable_schema = ON")


def mutate(path: Path, random: Random) -> str:
    """Change the rows of one table as no program of ours would; what was done, empty if nothing could be."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in _WITHOUT_INTEGRITY:
            connection.execute(statement)
        counted = [
            (name, connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0])
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        ]
        table = random.choice([name for name, count in counted if count])
        info = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
        columns = {name: (definition, bool(not_null)) for _, name, definition, not_null, _, _ in info}
        column = random.choice(list(columns))
        try:
            return random.choice(_MUTATIONS)(connection, table, column, columns, random)
        except sqlite3.Error:
            # A constraint that holds whatever is asked for.
            return ""


_Columns = dict[str, tuple[str, bool]]


def _set_value(connection: sqlite3.Connection, table: str, column: str, columns: _Columns, random: Random) -> str:
    value = random.choice(_OTHER_VALUES)
    if value is None and columns[column][1]:
        # Nothing but the schema stands in the way of a NULL, and it can be written.
        text = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
        definition = f"{column} {columns[column][0]} NOT NULL"
        _set_definition(connection, table, text.replace(definition, f"{column} {columns[column][0]}"))
        changed = _update(connection, table, column, "NULL", (), random)
        _set_definition(connection, table, text)
        return changed
    return _update(connection, table, column, "?", (value,), random)


def _set_definition(connection: sqlite3.Connection, table: str, text: str) -> None:
    connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (text, table))
    ((version,),) = connection.execute("PRAGMA schema_version").fetchall()
    connection.execute(f"PRAGMA schema_version = {version + 1}")


def _update(
    connection: sqlite3.Connection, table: str, column: str, new: str, values: tuple[object, ...], random: Random
) -> str:
    """Give the column a value in one row, or in all."""
    keys = [name for _, name, *_, key in connection.execute(f'PRAGMA table_info("{table}")') if key]
    where = ""
    if random.random() < 0.7:
        rows = connection.execute(f'SELECT "{keys[0]}" FROM "{table}"').fetchall()
        where, values = f' WHERE "{keys[0]}" = ?', (*values, random.choice(rows)[0])
    done = connection.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = {new}{where}', values)
    return f"{table}.{column} = {new} {values!r:.60}" if done.rowcount else ""


def _no_utf8(connection: sqlite3.Connection, table: str, column: str, columns: _Columns, random: Random) -> str:
    return _update(connection, table, column, "CAST(x'61ff62' AS TEXT)", (), random)


def _cut(connection: sqlite3.Connection, table: str, column: str, columns: _Columns, random: Random) -> str:
    """Cut what is long, the encoded records above all."""
    blobs = [name for name, (definition, _) in columns.items() if definition.startswith("BLOB")]
    column = random.choice(blobs or list(columns))
    length = random.choice((1, 10, 100))
    return _update(
        connection, table, column, f'substr("{column}", 1, max(0, length("{column}") - {length}))', (), random
    )


def _swap(connection: sqlite3.Connection, table: str, column: str, columns: _Columns, random: Random) -> str:
    """Give the column the values of other rows, in turn."""
    keys = [name for _, name, *_, key in connection.execute(f'PRAGMA table_info("{table}")') if key]
    rows = connection.execute(f'SELECT "{keys[0]}", "{column}" FROM "{table}"').fetchall()
    if len(rows) < 2 or column in keys:
        return ""
    values = [value for _, value in rows]
    for (key, _), value in zip(rows, values[1:] + values[:1], strict=True):
        connection.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE "{keys[0]}" = ?', (value, key))
    return f"{table}.{column}: each row has another's"


def _double(connection: sqlite3.Connection, table: str, column: str, columns: _Columns, random: Random) -> str:
    """Put in a row again, under another key: a second checkpoint, a second creation of a message."""
    ((rowid, *row),) = connection.execute(f'SELECT rowid, * FROM "{table}" ORDER BY random() LIMIT 1').fetchall()
    row[0] = rowid + random.choice((1, 1_000, 2**40)) if isinstance(row[0], int) else f"{row[0]}-again"
    connection.execute(f'INSERT OR IGNORE INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)
    return f"{table}: a row twice, as {row[0]!r:.40}"


def _remove(connection: sqlite3.Connection, table: str, column: str, columns: _Columns, random: Random) -> str:
    done = connection.execute(
        f'DELETE FROM "{table}" WHERE "{column}" = (SELECT "{column}" FROM "{table}" ORDER BY random() LIMIT 1)'
    )
    return f"{table}: {done.rowcount} rows removed by {column}"


def _share_root(connection: sqlite3.Connection, table: str, column: str, columns: _Columns, random: Random) -> str:
    """Let two tables stand on one page."""
    others = [name for (name,) in connection.execute("SELECT name FROM sqlite_master") if name != table]
    other = random.choice(others)
    connection.execute(
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = ?) WHERE name = ?",
        (table, other),
    )
    return f"{table} and {other} have one root"


_Mutation = Callable[[sqlite3.Connection, str, str, _Columns, Random], str]
_MUTATIONS: tuple[_Mutation, ...] = (*(_set_value,) * 8, _no_utf8, _cut, _cut, _swap, _double, _remove, _share_root)


# -- texts ------------------------------------------------------------------------------------

HOSTILE_YAML: tuple[str, ...] = (
    "[" * _DEEP,
    "{a: " * 5000,
    "- " * _DEEP,
    "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{f'*{chr(97 + n)},' * 9}]\n" for n in range(9)),
    "accounts: &a\n  - *a\n",
    "queues: [{name: q, parallelism: 1" + "0" * 6000 + "}]",
    "queues: [{name: q, parallelism: .nan}]",
    "queues: [{name: q, parallelism: .inf}]",
    "queues: [{name: q, parallelism: -0x8000000000000000000}]",
    'queues: [{name: "q\\e[31m\\x07", parallelism: 1}]',
    '"\\e[31mred\\n forged: line": 1',
    "? [1, 2]\n: 3",
    "? {a: b}\n: 3",
    "!!python/object/apply:os.system ['true']",
    "!!binary aGVsbG8=",
    "2026-01-01: 2026-01-01",
    "schedules: [{id: a, cron: '* * * * *', destination: 2026-01-01}]",
    "schedules: [{id: a, cron: '" + "*/1," * 50_000 + "', destination: 'http://a.example'}]",
    "url_groups: [{name: g, endpoints: [{url: 'http://" + "a" * 100_000 + "'}]}]",
    "accounts: [null, [], {}, 1, text]",
    "accounts: {plan: paid}",
    "<<: [1, 2]",
    "\x00\x01\x02",
    "\ufeffqueues: []\n...\n---\nqueues: 1",
    "a: 1\na: 2\n" * 1000,
    "%YAML 9.9\n---\na: 1",
    "queues: 0o99999999999999999999999999",
    "destinations: [{match: {url: '"
    + "*" * 5000
    + "'}, respond: {status: 200, body: '"
    + "x" * 100
    + "'}, times: 1e400}]",
    'destinations: [{match: {url: \'*\'}, respond: {status: 99999999999999999999, headers: {"a\\nb": "c\\r\\nd"}}}]',
    "1:2:3:4:5:6:7:8:9:10:11:12: 190:20:30:59:59:59:59:59:59:59",
)

HOSTILE_TOML: tuple[str, ...] = (
    "header_prefix = 1" + "0" * 6000,
    "header_prefix = " + "[" * 5000,
    "header_prefix = {a=" * 2000,
    "a" + ".a" * 20_000 + " = 1",
    'header_prefix = "\\u001b[31m"',
    'header_prefix = "X\\r\\nInjected: yes-"',
    'header_prefix = ""',
    'header_prefix = "' + "X" * 100_000 + '-"',
    'token_parameter = "a&b=c"',
    'queue_segment = "../../etc"',
    'issuer = "\\u0000"',
    '"\\u001b[31mred\\nforged" = 1',
    "header_prefix = nan",
    "header_prefix = 2026-01-01",
    '[fields]\nstate = "state"\nid = "state"',
    "[environment]\nurl = 1",
    'environment = {url = "A=B\\nC", token = "$(true)"}',
    "[[fields]]\n" * 1000,
    "\x00",
    "=",
    "\ufeffa = 1",
)

HOSTILE_SETTINGS: tuple[str, ...] = (
    "port = 1" + "0" * 6000,
    "port = -1",
    "port = 8080.5",
    "seed = " + "9" * 5000,
    "seed = nan",
    'clock = "nan"',
    'clock = "inf"',
    'clock = "-1"',
    'clock = "1e999"',
    'epoch = "99999-01-01"',
    'epoch = "2026-01-01T00:00:00\\u001b[31m"',
    'epoch = "' + "9" * 6000 + '"',
    'host = "' + "a" * 100_000 + '"',
    'db = "' + "d" * 300 + '"',
    'dialect = "' + "d" * 300 + '"',
    "epoch = 2026-01-01T00:00:00Z",
    'host = "\\u0000"',
    'host = "' + "a" * 10_000 + '"',
    'db = "\\u0000"',
    'db = "/dev/full"',
    'db = "/proc/version"',
    'fixtures = "/dev/zero-is-not-there"',
    'dialect = "../../x\\u001b[31m"',
    'allow_host = ["http://x", 1, []]',
    'allow-host = "*"',
    '"\\u001b[31mforged\\nline" = 1',
    "a" + ".a" * 20_000 + " = 1",
    "port = " + "[" * 5000,
    "concurrency = -1",
    "max-attempts-per-instant = 0",
    'server = "../x"',
    'log_level = "\\u001b[31m"',
    "\x00",
    "\ufeffport = 0",
)


def mixed(text: str, random: Random) -> str:
    """A text with small damage: characters removed, doubled, replaced, lines moved."""
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(text)) if text else 0
        length = random.choice((1, 1, 5, 40))
        text = random.choice(_DAMAGES)(text, at, length, random)
    return text


_Damage = Callable[[str, int, int, Random], str]
_DAMAGES: tuple[_Damage, ...] = (
    lambda text, at, length, _random: text[:at] + text[at + length :],
    lambda text, at, length, _random: text[:at] + text[at : at + length] * 3 + text[at + length :],
    lambda text, at, length, random: text[:at] + chr(random.randrange(1, 0x250)) + text[at + length :],
    lambda text, at, _length, random: text[:at] + random.choice("{}[]:,-\"'&*!|>%@`\t\n#") + text[at:],
    lambda text, at, _length, random: text[:at] + str(random.choice((-1, 2**63, 10**40, "null", "~"))) + text[at:],
)


def hostile_json(random: Random) -> bytes:
    """The body of a request, hostile."""
    return random.choice(
        (
            b"[" * 500_000,
            b'{"id":' * 100_000,
            b'{"fixtures": {"queues": [{"name": "q", "parallelism": 1' + b"0" * 5000 + b"}]}}",
            b'{"fixtures": {"queues": [{"name": "q", "parallelism": NaN}]}}',
            b'{"rate": 1e999}',
            b'{"rate": NaN}',
            b'{"seed": 1' + b"0" * 5000 + b"}",
            b'{"epoch": 1' + b"0" * 30 + b"}",
            b'{"epoch": "99999-12-31"}',
            json.dumps({"id": CONTROL}).encode(),
            json.dumps({"fixtures": {CONTROL: 1}}).encode(),
            json.dumps({"fixtures": {"accounts": [{"plan": CONTROL}]}}).encode(),
            b'{"id": "\xff\xfe"}',
            b'{"id": "\\ud800"}',
        )
    )
