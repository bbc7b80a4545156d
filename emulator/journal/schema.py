"""The tables of a world's database, each declared once, and the statements that write them.

`facts` and `checkpoint` are what a restart reads. The other tables are history: views of the
facts, written in groups after them. `projected` in `meta` counts the facts that history shows.

Every row has a checksum of its own: SQLite cannot tell that a byte of a row was changed (D-284).
The statements need the SQL function `row_checksum`, which `checksums.register` adds to a connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.core.record import Record
from emulator.statistics.series import USAGE_FIELDS
from emulator.statistics.workflow_usage import WORKFLOW_FIELDS

APPLICATION_ID = 0x53564345  # "SVCE"
# `migrations.py` has a step from each older format to the next.
FORMAT = 4


class Table(Record):
    """A table: its columns with their definitions, and the columns that order its rows in a checksum.

    `indexes` maps names of indexes to columns. `key` is a primary key of several columns.
    `is_numbered` if SQLite numbers the rows.
    """

    name: str
    columns: Mapping[str, str]
    order: str
    key: tuple[str, ...] = ()
    has_rowid: bool = True
    indexes: Mapping[str, str] = {}
    is_numbered: bool = False

    @property
    def create(self) -> str:
        definitions = [f"{name} {definition}" for name, definition in self.columns.items()]
        definitions.append("checksum INTEGER NOT NULL")
        if self.key:
            definitions.append(f"PRIMARY KEY ({', '.join(self.key)})")
        table = f"CREATE TABLE {self.name} ({', '.join(definitions)}){'' if self.has_rowid else ' WITHOUT ROWID'};"
        indexes = (f"CREATE INDEX {name} ON {self.name} ({column});" for name, column in self.indexes.items())
        return "\n".join((table, *indexes))

    @property
    def insert(self) -> str:
        """Takes the values of all columns but the checksum, in order; an integer primary key may be NULL."""
        return f"INSERT INTO {self._row_of_parameters}"

    @property
    def insert_checked(self) -> str:
        """As `insert`, with the row's checksum as last value: `checksums.checked` computes many faster than SQL."""
        return f"INSERT INTO {self.name} VALUES ({', '.join('?' * (len(self.columns) + 1))})"

    def fill_from(self, older: str) -> str:
        """Copies the rows of a table that has the same columns without checksums."""
        names = {name: name for name in self.columns}
        return f"INSERT INTO {self.name} SELECT *, {self.checksum_of(names)} FROM {older}"

    @property
    def write(self) -> str:
        """As `insert`, in place of the row that has the key."""
        return f"INSERT OR REPLACE INTO {self._row_of_parameters}"

    @property
    def write_checked(self) -> str:
        """As `insert_checked`, in place of the row that has the key."""
        return f"INSERT OR REPLACE INTO {self.name} VALUES ({', '.join('?' * (len(self.columns) + 1))})"

    @property
    def _row_of_parameters(self) -> str:
        values = {name: f"?{number}" for number, name in enumerate(self.columns, start=1)}
        return (
            f"{self.name} ({', '.join(self.columns)}, checksum) "
            f"VALUES ({', '.join(values.values())}, {self.checksum_of(values)})"
        )

    def checksum_of(self, values: Mapping[str, str]) -> str:
        """The expression of a row's checksum, given those of its columns."""
        covered = list(values.values())[self.is_numbered :]
        return f"row_checksum({', '.join(covered)})"

    @property
    def is_whole(self) -> str:
        """Whether a row is what was written: 1 or 0."""
        return f"({self.name}.checksum = {self.checksum_of({name: f'{self.name}.{name}' for name in self.columns})})"

    @property
    def renew_checksums(self) -> str:
        """Gives every row the checksum of what it holds now."""
        return f"UPDATE {self.name} SET checksum = {self.checksum_of({name: name for name in self.columns})}"

    @property
    def count_damaged(self) -> str:
        """How many rows are not what was written, and how many there are."""
        return f"SELECT coalesce(sum(NOT {self.is_whole}), 0), count(*) FROM {self.name}"

    @property
    def empty(self) -> str:
        return f"DELETE FROM main.{self.name}"

    @property
    def take(self) -> str:
        """Copies all rows from the attached database."""
        return f"INSERT INTO main.{self.name} SELECT * FROM copy.{self.name}"

    @property
    def contents(self) -> str:
        """All rows, in the order of the checksum."""
        return f"SELECT * FROM {self.name} ORDER BY {self.order}"


_INTEGER, _TEXT, _BLOB = "INTEGER NOT NULL", "TEXT NOT NULL", "BLOB NOT NULL"

# Message ids begin alike, and are random from there on: an index in their order would be changed all over by each
# group of messages, and so get dearer as it grows. This one is in parts of so many messages, and only the last part
# changes; a look-up goes through all parts (D-402).
_IDS_TOGETHER = 16_384
_DISTINCT = "substr({}, 10, 6)"

META = Table(name="meta", columns={"name": "TEXT PRIMARY KEY", "value": _BLOB}, order="name", has_rowid=False)
FACTS = Table(
    name="facts",
    columns={"last_seq": "INTEGER PRIMARY KEY", "count": _INTEGER, "payload": _BLOB},
    order="last_seq",
)
CHECKPOINT = Table(
    name="checkpoint",
    columns={"id": "INTEGER PRIMARY KEY CHECK (id = 1)", "covers": _INTEGER, "state": _BLOB},
    order="id",
)
MESSAGES = Table(
    name="messages",
    columns={
        "number": "INTEGER PRIMARY KEY",
        "message_id": _TEXT,
        "account_id": _TEXT,
        "url": _TEXT,
        "host": _TEXT,
        "path": _TEXT,
        "url_group": "TEXT",
        "schedule_id": "TEXT",
        "queue": "TEXT",
        "flow_key": "TEXT",
        "caller_ip": _TEXT,
        "labels": "TEXT",
        "definition": _BLOB,
    },
    order="number",
    indexes={"messages_by_id": f"number / {_IDS_TOGETHER}, {_DISTINCT.format('message_id')}"},
)
EVENTS = Table(
    name="events",
    columns={
        "seq": "INTEGER PRIMARY KEY",
        "number": _INTEGER,
        "at_ms": _INTEGER,
        "state": _TEXT,
        "attempt_seq": "INTEGER",
        "next_delivery_ms": "INTEGER",
    },
    order="seq",
    indexes={"events_of_message": "number"},
)
ATTEMPTS = Table(
    name="attempts",
    columns={
        "seq": "INTEGER PRIMARY KEY",
        "number": _INTEGER,
        "attempt": _INTEGER,
        "at_ms": _INTEGER,
        "finished_ms": _INTEGER,
        "succeeded": _INTEGER,
        "status": _INTEGER,
        "outcome": _BLOB,
        "answered_by": "BLOB",
    },
    order="seq",
)
ANNOTATIONS = Table(
    name="annotations",
    columns={
        "id": "INTEGER PRIMARY KEY",
        "message_id": _TEXT,
        "after_seq": _INTEGER,
        "at_ms": _INTEGER,
        "kind": _TEXT,
        "name": _TEXT,
        "reason": "TEXT",
    },
    order="id",
    indexes={"annotations_of_message": _DISTINCT.format("message_id")},
    is_numbered=True,
)
DEAD_LETTERS = Table(
    name="dead_letters",
    columns={
        "dead_letter_id": "TEXT PRIMARY KEY",
        "position": _INTEGER,
        "failed_ms": _INTEGER,
        "number": _INTEGER,
        "status": _INTEGER,
        "attempt_seq": _INTEGER,
    },
    order="dead_letter_id",
    indexes={"dead_letters_in_order": "position"},
)
# What has passed through each account up to the end of a minute, since the world began; a minute in which nothing
# did has no row (D-401).
USAGE_MINUTES = Table(
    name="usage_minutes",
    columns={"account_id": _TEXT, "minute": _INTEGER, **dict.fromkeys(USAGE_FIELDS, _INTEGER)},
    order="account_id, minute",
    key=("account_id", "minute"),
    has_rowid=False,
)

# Workflow runs as they began (`invoker` is the id of the run that invoked one, @ and its creation), their ends,
# their steps, which messages are theirs, what they waited for, and how many there were.
WORKFLOW_RUNS = Table(
    name="workflow_runs",
    columns={
        "run_number": "INTEGER PRIMARY KEY",
        "run_id": _TEXT,
        "account_id": _TEXT,
        "url": _TEXT,
        "created_ms": _INTEGER,
        "caller_ip": _TEXT,
        "flow_key": "TEXT",
        "labels": "TEXT",
        "invoker": "TEXT",
        "definition": _BLOB,
    },
    order="run_number",
    indexes={"workflow_runs_by_id": "run_id", "workflow_runs_by_invoker": "invoker"},
)
WORKFLOW_ENDS = Table(
    name="workflow_ends",
    columns={
        "run_number": "INTEGER PRIMARY KEY",
        "at_ms": _INTEGER,
        "state": _TEXT,
        "response": "BLOB",
        "dead_letter_id": "TEXT",
    },
    order="run_number",
)
WORKFLOW_STEPS = Table(
    name="workflow_steps",
    columns={
        "id": "INTEGER PRIMARY KEY",
        "run_number": _INTEGER,
        "message_id": _TEXT,
        "at_ms": _INTEGER,
        "call_type": _TEXT,
        "body": _BLOB,
    },
    order="id",
    indexes={"workflow_steps_of_run": "run_number"},
    is_numbered=True,
)
WORKFLOW_MESSAGES = Table(
    name="workflow_messages",
    columns={"number": "INTEGER PRIMARY KEY", "run_number": _INTEGER, "call_type": _TEXT},
    order="number",
    indexes={"workflow_messages_of_run": "run_number"},
)
WORKFLOW_WAITS = Table(
    name="workflow_waits",
    columns={"number": "INTEGER PRIMARY KEY", "run_number": _INTEGER, "at_ms": _INTEGER, "waiter": _BLOB},
    order="number",
    indexes={"workflow_waits_of_run": "run_number"},
)
# As USAGE_MINUTES, of the runs.
WORKFLOW_MINUTES = Table(
    name="workflow_minutes",
    columns={"account_id": _TEXT, "minute": _INTEGER, **dict.fromkeys(WORKFLOW_FIELDS, _INTEGER)},
    order="account_id, minute",
    key=("account_id", "minute"),
    has_rowid=False,
)
WORKFLOWS = (
    WORKFLOW_RUNS,
    WORKFLOW_ENDS,
    WORKFLOW_STEPS,
    WORKFLOW_MESSAGES,
    WORKFLOW_WAITS,
    WORKFLOW_MINUTES,
)

HISTORY = (MESSAGES, EVENTS, ATTEMPTS, ANNOTATIONS, DEAD_LETTERS, USAGE_MINUTES, *WORKFLOWS)
TABLES = (META, FACTS, CHECKPOINT, *HISTORY)

# In `meta`: the state that a reset returns to, as a checkpoint; how far history has come, in facts and in
# entries; the last delivery that was removed from view; the last entry that was dropped, and when that was; where
# the clock of an unused world was set back to; what tells one history from the next; and, in snapshots only, the
# checksum of all other content.
BASE_CHECKPOINT = "base_checkpoint"
PROJECTED = "projected"
HISTORY_SEQ = "history_seq"
DELIVERIES_CLEARED = "deliveries_cleared"
DROPPED = "dropped"
SET_BACK_TO = "set_back_to"
GENERATION = "generation"
CHECKSUM = "checksum"

CREATE = "\n".join(
    [
        "BEGIN EXCLUSIVE;",
        f"PRAGMA application_id = {APPLICATION_ID:d};",
        f"PRAGMA user_version = {FORMAT:d};",
        *(table.create for table in TABLES),
    ]
)

# Survives `kill -9`, but not a power cut: the operating system writes at its own time.
# The store moves the log into the file itself, in the connection's thread: that waits for the disk.
RUN_FILE = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 0;
"""
MOVE_LOG = "PRAGMA wal_checkpoint(PASSIVE)"
# The first write takes the lock that keeps every other process out.
OPEN_FILE = """
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA synchronous = OFF;
BEGIN EXCLUSIVE;
COMMIT;
"""
OPEN_MEMORY = """
PRAGMA synchronous = OFF;
PRAGMA temp_store = MEMORY;
"""
# Of a copy that is made again if it cannot be finished.
OPEN_COPY = "PRAGMA synchronous = OFF"
SELECT_ANY_TABLE = "SELECT name FROM sqlite_master LIMIT 1"
SELECT_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
SELECT_FORMAT = "PRAGMA user_version"
CHECK_INTEGRITY = "PRAGMA integrity_check(10)"
# Events and attempts share one count without gaps, from the last entry that was dropped on.
COUNT_ENTRIES = """
SELECT (SELECT count(*) FROM events WHERE seq > ?1) + (SELECT count(*) FROM attempts WHERE seq > ?1)
"""
COUNT_HISTORY = """
SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM events) + (SELECT count(*) FROM attempts)
"""
SELECT_LAST_SEQ = """
SELECT max((SELECT coalesce(max(seq), 0) FROM events), (SELECT coalesce(max(seq), 0) FROM attempts))
"""

# A reset keeps what `meta` says of the world itself; its checkpoint is overwritten.
RESET = (
    *(table.empty for table in (FACTS, *HISTORY)),
    f"""DELETE FROM meta WHERE name IN
        ('{PROJECTED}', '{HISTORY_SEQ}', '{DELIVERIES_CLEARED}', '{DROPPED}', '{SET_BACK_TO}', '{GENERATION}')""",
)

# A copy has the same tables, without the log and the free pages of a file that is written.
COPY_INTO = "VACUUM INTO ?"
ATTACH_COPY = "ATTACH DATABASE ? AS copy"
DETACH_COPY = "DETACH DATABASE copy"
TAKE_COPY = (
    *(table.empty for table in TABLES),
    *(table.take for table in TABLES),
    # The world goes on from the copy: its history is another one, and its content changes.
    f"DELETE FROM main.meta WHERE name IN ('{GENERATION}', '{CHECKSUM}')",
)
FORGET_GENERATION = f"DELETE FROM meta WHERE name = '{GENERATION}'"
DELETE_CHECKSUM = f"DELETE FROM meta WHERE name = '{CHECKSUM}'"
# All that the checksum covers.
SELECT_EVERYTHING = (
    f"SELECT * FROM meta WHERE name != '{CHECKSUM}' ORDER BY name",
    *(table.contents for table in TABLES[1:]),
)

_REPLACED = CHECKPOINT.checksum_of({"id": "id", "covers": "covers", "state": "?1"})
SELECT_FACTS = f"SELECT last_seq, count, payload, {FACTS.is_whole} FROM facts WHERE last_seq > ? ORDER BY last_seq"
# The numbers of messages with certain ids (the JSON list that is the parameter): a statement within others.
NUMBERS_OF = f"""
WITH RECURSIVE parts (part, last) AS (
    SELECT (SELECT min(number) FROM messages) / {_IDS_TOGETHER}, (SELECT max(number) FROM messages) / {_IDS_TOGETHER}
    UNION ALL SELECT part + 1, last FROM parts WHERE part < last
)
SELECT found.number FROM json_each(?) AS wanted CROSS JOIN parts CROSS JOIN messages AS found
ON found.number / {_IDS_TOGETHER} = part AND {_DISTINCT.format("found.message_id")} = {_DISTINCT.format("wanted.value")}
AND found.message_id = wanted.value
"""
# On the annotations of a message, whose id the parameter is. Without the +, SQLite would put the parameter for the
# column in the first condition too, and not see that it has an index for that.
ANNOTATIONS_OF = f"{_DISTINCT.format('message_id')} = {_DISTINCT.format('?1')} AND +message_id = ?1"
# What the rows of counts of some accounts (a JSON list) have come to.
SELECT_USAGE_SO_FAR, SELECT_WORKFLOWS_SO_FAR = (
    f"""
SELECT {table.name}.*, {table.is_whole} FROM json_each(?1) AS wanted CROSS JOIN {table.name}
ON account_id = wanted.value AND minute = (SELECT max(minute) FROM {table.name} WHERE account_id = wanted.value)
"""
    for table in (USAGE_MINUTES, WORKFLOW_MINUTES)
)
DELETE_FACTS = "DELETE FROM facts WHERE last_seq <= ?"
# The id of the only row.
THE_CHECKPOINT = 1
WRITE_CHECKPOINT = CHECKPOINT.write
SELECT_CHECKPOINT = f"SELECT covers, state, {CHECKPOINT.is_whole} FROM checkpoint WHERE id = 1"
# Of the checkpoint that is there.
REPLACE_STATE = f"UPDATE checkpoint SET state = ?1, checksum = {_REPLACED}"
WRITE_META = META.write
SELECT_META = f"SELECT name, value, {META.is_whole} FROM meta"
# Of a file of any format.
SELECT_UNCHECKED_META = "SELECT name, value FROM meta"
# On the message whose dead letter the last parameter names.
_ANNOTATION = {"id": "NULL", "message_id": "messages.message_id", "after_seq": "?1", "at_ms": "?2", "kind": "?3"}
_ANNOTATION |= {"name": "?4", "reason": "NULL"}
INSERT_ANNOTATIONS_ON_DEAD_LETTERS = f"""
INSERT INTO annotations ({", ".join(_ANNOTATION)}, checksum)
SELECT {", ".join(_ANNOTATION.values())}, {ANNOTATIONS.checksum_of(_ANNOTATION)}
FROM dead_letters JOIN messages ON messages.number = dead_letters.number WHERE dead_letters.dead_letter_id = ?5
"""
# Of a run whose endpoint has published the init message itself.
DELETE_STEPS_BEFORE = """
DELETE FROM workflow_steps WHERE run_number = ? AND id < (
    SELECT max(id) FROM workflow_steps WHERE run_number = ? AND message_id = ?
)
"""
DELETE_DEAD_LETTERS = "DELETE FROM dead_letters WHERE dead_letter_id = ?"

# -- dropping the oldest history ----------------------------------------------------------------

SELECT_TIME_OF_ENTRY = "SELECT at_ms FROM events WHERE seq <= ? ORDER BY seq DESC LIMIT 1"
# Whose history goes: messages without an entry behind the end of what is dropped. Those that are live (given by
# their numbers) stay whole, and so do those of dead letters.
FIND_DROPPED = """
CREATE TEMP TABLE dropped AS SELECT number, message_id FROM messages WHERE number IN (
    SELECT number FROM events WHERE seq <= ?1
) AND NOT EXISTS (
    SELECT 1 FROM events WHERE events.number = messages.number AND events.seq > ?1
) AND number NOT IN (SELECT value FROM json_each(?2)) AND number NOT IN (SELECT number FROM dead_letters)
"""
_FORGOTTEN_RUNS = (
    "SELECT run_number FROM workflow_ends WHERE run_number NOT IN (SELECT run_number FROM workflow_messages)"
)
# Each with the number of its parameters, which all are the end of what is dropped.
DROP = {
    f"""DELETE FROM annotations
        WHERE {_DISTINCT.format("message_id")} IN (SELECT {_DISTINCT.format("message_id")} FROM temp.dropped)
        AND message_id IN (SELECT message_id FROM temp.dropped)""": 0,
    "DELETE FROM events WHERE seq <= ? AND number IN (SELECT number FROM temp.dropped)": 1,
    "DELETE FROM attempts WHERE seq <= ? AND number IN (SELECT number FROM temp.dropped)": 1,
    "DELETE FROM messages WHERE number IN (SELECT number FROM temp.dropped)": 0,
    "DELETE FROM workflow_messages WHERE number IN (SELECT number FROM temp.dropped)": 0,
    "DROP TABLE temp.dropped": 0,
    # Runs that have ended, and all of whose messages are gone.
    f"DELETE FROM workflow_steps WHERE run_number IN ({_FORGOTTEN_RUNS})": 0,
    f"DELETE FROM workflow_waits WHERE run_number IN ({_FORGOTTEN_RUNS})": 0,
    f"DELETE FROM workflow_runs WHERE run_number IN ({_FORGOTTEN_RUNS})": 0,
    f"DELETE FROM workflow_ends WHERE run_number IN ({_FORGOTTEN_RUNS})": 0,
}
