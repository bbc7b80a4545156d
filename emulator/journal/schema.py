"""The tables of a world's database, each declared once, and the statements that are not of readers.

What follows from a table's declaration are its methods; behind the tables are the statements of more than one, or of a
part of one. `facts` and `checkpoint` are what a restart reads. The other tables are history: views of the facts,
written in groups after them. `projected` in `meta` counts the facts that history shows.

A row is what SQLite says it is: no checksum of our own tells whether a byte of it was changed (D-284). Whether its
values are of the kind that belongs there is asked of files from elsewhere, and where a reader has failed (D-793).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from emulator.core.language.calendar import DAY_MS, LATEST_MS
from emulator.core.model.messages import EventState, HoldReason
from emulator.core.model.options import CallType
from emulator.core.model.workflows import RunState
from emulator.core.record import Record
from emulator.queries.history import AnnotationKind
from emulator.statistics.series import USAGE_FIELDS, WORKFLOW_FIELDS


class Content(Enum):
    """What the bytes of a blob are; the value names the function in SQL that looks at them (`damage.py`)."""

    TEXT = "is_text"
    MESSAGE = "is_message"
    OUTCOME = "is_outcome"
    RULE = "is_rule"
    RUN = "is_run"
    WAITER = "is_waiter"
    FACTS = "is_facts"
    CHECKPOINT = "is_checkpoint"
    META = "is_meta"


class Blob(Record):
    """A blob that holds a record, some of whose fields the `repeats` columns repeat."""

    content: Content
    repeats: tuple[str, ...] = ()


class Table(Record):
    """A table: its columns with their definitions; `indexes` maps names of indexes to columns.

    `key` is a primary key of several columns. What a value may be follows from its column's definition and name, and
    for some columns from `choices` (the texts that there are), `lists` (texts that are JSON lists of texts), `blobs`
    (what the bytes are) and `references` (the table and column that must have the value).
    """

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...] = ()
    has_rowid: bool = True
    indexes: Mapping[str, str] = {}
    choices: Mapping[str, tuple[str, ...]] = {}
    lists: tuple[str, ...] = ()
    blobs: Mapping[str, Blob] = {}
    references: Mapping[str, tuple[str, str]] = {}

    @property
    def create(self) -> tuple[str, ...]:
        """The statements that make it and its indexes."""
        definitions = [f"{name} {definition}" for name, definition in self.columns.items()]
        if self.key:
            definitions.append(f"PRIMARY KEY ({', '.join(self.key)})")
        table = f"CREATE TABLE {self.name} ({', '.join(definitions)}){'' if self.has_rowid else ' WITHOUT ROWID'}"
        return table, *(f"CREATE INDEX {name} ON {self.name} ({column})" for name, column in self.indexes.items())

    @property
    def insert(self) -> str:
        """Takes the values of all columns in order; an integer primary key may be NULL."""
        return f"INSERT INTO {self.name} VALUES ({', '.join('?' * len(self.columns))})"

    @property
    def write(self) -> str:
        """As `insert`, in place of the row that has the key."""
        return self.insert.replace("INSERT", "INSERT OR REPLACE", 1)

    @property
    def select_damage(self) -> str:
        """Finds rows with a value that is not what is declared: the key as bytes, and the first column at fault.

        SQLite takes any value in any column. The parameter is how many rows to find at most.
        """
        tests = {name: f"WHEN NOT ({self._is_right(name)}) THEN '{name}'" for name in self.columns}
        blobs = [tests.pop(name) for name in self.blobs]
        texts = [name for name, definition in self.columns.items() if definition.startswith("TEXT")]
        if texts:
            # One call for all texts of a row. Between them stands what is part of no character.
            joined = " || char(10) || ".join(f"coalesce({name}, '')" for name in texts)
            tests[""] = f"WHEN NOT is_text(CAST({joined} AS BLOB)) THEN '{NO_TEXT}'"
        key = self.key[0] if self.key else next(iter(self.columns))
        return (
            f"SELECT CAST({key} AS BLOB), CASE {' '.join([*tests.values(), *blobs])} END AS wrong FROM {self.name} "
            "WHERE wrong IS NOT NULL LIMIT ?"
        )

    def _is_right(self, column: str) -> str:
        """The condition on a column's value."""
        definition = self.columns[column]
        kind = definition.partition(" ")[0]
        conditions = [f"typeof({column}) = '{kind.lower()}'"]
        if kind == "INTEGER":
            conditions.append(f"{column} BETWEEN 0 AND {_LAST_OF.get(column, _last_of(column))}")
        if column in self.choices:
            conditions.append(f"{column} IN ({', '.join(map(repr, self.choices[column]))})")
        if column in self.lists:
            conditions.append(
                f"CASE WHEN json_valid({column}) THEN json_type({column}) = 'array' AND NOT EXISTS "
                f"(SELECT 1 FROM json_each({column}) WHERE type != 'text') ELSE FALSE END"
            )
        if column in self.blobs:
            blob = self.blobs[column]
            conditions.append(f"{blob.content.value}({', '.join((column, *blob.repeats))})")
        if column in self.references:
            table, name = self.references[column]
            conditions.append(f"{column} IN (SELECT {name} FROM {table})")
        text = " AND ".join(conditions)
        is_nullable = "NOT NULL" not in definition and "PRIMARY KEY" not in definition
        return f"{column} IS NULL OR ({text})" if is_nullable else text

    def expected(self, column: str) -> str:
        """What a value of a column is, in words."""
        kind = self.columns[column].partition(" ")[0]
        if column in self.references:
            return f"a {self.references[column][1]} of {self.references[column][0]}"
        if column in self.choices:
            return f"one of {', '.join(self.choices[column])}"
        if column in self.lists:
            return "a JSON list of texts"
        if column in self.blobs:
            return self.blobs[column].content.value.replace("is_", "the bytes of: ")
        if kind == "INTEGER":
            return "an instant from 1970 to 9999" if column.endswith("_ms") else "a whole number from 0 to 2^53"
        return {"TEXT": "a text", "BLOB": "bytes"}[kind]

    @property
    def empty(self) -> str:
        return f"DELETE FROM main.{self.name}"

    @property
    def take(self) -> str:
        """Copies all rows from the attached database."""
        return f"INSERT INTO main.{self.name} SELECT * FROM copy.{self.name}"


# What is at fault where it is no single column.
NO_TEXT = "a text in no UTF-8"

# A retry may be due up to a day after the last instant of a clock.
_LAST_OF = {"next_delivery_ms": LATEST_MS + DAY_MS}


def _last_of(column: str) -> int:
    """The largest number in a column: an instant that a clock can show, or what every reader of JSON can."""
    return LATEST_MS if column.endswith("_ms") else 2**53


_INTEGER, _TEXT, _BLOB = "INTEGER NOT NULL", "TEXT NOT NULL", "BLOB NOT NULL"

# Message ids begin alike, and are random from there on: an index in their order would be changed all over by each
# group of messages, and so get dearer as it grows. This one is in parts of so many messages, and only the last part
# changes; a look-up goes through all parts (D-402).
IDS_TOGETHER = 16_384
DISTINCT = "substr({}, 10, 6)"

_CALL_TYPES = tuple(each.value for each in CallType)

META = Table(
    name="meta",
    columns={"name": "TEXT PRIMARY KEY", "value": _BLOB},
    has_rowid=False,
    blobs={"value": Blob(content=Content.META, repeats=("name",))},
)
FACTS = Table(
    name="facts",
    columns={"last_seq": "INTEGER PRIMARY KEY", "count": _INTEGER, "payload": _BLOB},
    blobs={"payload": Blob(content=Content.FACTS)},
)
CHECKPOINT = Table(
    name="checkpoint",
    columns={"id": "INTEGER PRIMARY KEY CHECK (id = 1)", "covers": _INTEGER, "state": _BLOB},
    blobs={"state": Blob(content=Content.CHECKPOINT)},
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
    indexes={"messages_by_id": f"number / {IDS_TOGETHER}, {DISTINCT.format('message_id')}"},
    lists=("labels",),
    blobs={"definition": Blob(content=Content.MESSAGE, repeats=("number", "message_id", "account_id", "url"))},
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
    indexes={"events_of_message": "number"},
    choices={"state": tuple(each.value for each in EventState)},
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
    blobs={"outcome": Blob(content=Content.OUTCOME), "answered_by": Blob(content=Content.RULE)},
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
    indexes={"annotations_of_message": DISTINCT.format("message_id")},
    choices={
        "kind": tuple(each.value for each in AnnotationKind),
        "reason": tuple(each.value for each in HoldReason),
    },
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
    indexes={"dead_letters_in_order": "position"},
    references={"number": ("messages", "number"), "attempt_seq": ("attempts", "seq")},
)
# What has passed through each account up to the end of a minute, since the world began; a minute in which nothing
# did has no row (D-401).
USAGE_MINUTES = Table(
    name="usage_minutes",
    columns={"account_id": _TEXT, "minute": _INTEGER, **dict.fromkeys(USAGE_FIELDS, _INTEGER)},
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
    indexes={"workflow_runs_by_id": "run_id", "workflow_runs_by_invoker": "invoker"},
    lists=("labels",),
    blobs={"definition": Blob(content=Content.RUN, repeats=("run_number", "run_id", "account_id", "created_ms"))},
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
    indexes={"workflow_ends_by_state": "state"},
    choices={"state": tuple(each.value for each in RunState if each is not RunState.STARTED)},
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
    indexes={"workflow_steps_of_run": "run_number"},
    choices={"call_type": _CALL_TYPES},
)
WORKFLOW_MESSAGES = Table(
    name="workflow_messages",
    columns={"number": "INTEGER PRIMARY KEY", "run_number": _INTEGER, "call_type": _TEXT},
    indexes={"workflow_messages_of_run": "run_number"},
    choices={"call_type": _CALL_TYPES},
)
WORKFLOW_WAITS = Table(
    name="workflow_waits",
    columns={"number": "INTEGER PRIMARY KEY", "run_number": _INTEGER, "at_ms": _INTEGER, "waiter": _BLOB},
    indexes={"workflow_waits_of_run": "run_number"},
    blobs={"waiter": Blob(content=Content.WAITER)},
)
# As USAGE_MINUTES, of the runs.
WORKFLOW_MINUTES = Table(
    name="workflow_minutes",
    columns={"account_id": _TEXT, "minute": _INTEGER, **dict.fromkeys(WORKFLOW_FIELDS, _INTEGER)},
    key=("account_id", "minute"),
    has_rowid=False,
)

HISTORY = (
    MESSAGES,
    EVENTS,
    ATTEMPTS,
    ANNOTATIONS,
    DEAD_LETTERS,
    USAGE_MINUTES,
    WORKFLOW_RUNS,
    WORKFLOW_ENDS,
    WORKFLOW_STEPS,
    WORKFLOW_MESSAGES,
    WORKFLOW_WAITS,
    WORKFLOW_MINUTES,
)
TABLES = (META, FACTS, CHECKPOINT, *HISTORY)

APPLICATION_ID = 0x53564345  # "SVCE"
# The only one that is read (D-551).
FORMAT = 6

# In `meta`: the state that a reset returns to, as a checkpoint; how far history has come, in facts and in
# entries; the last delivery that was removed from view; the last entry that was dropped, and when that was; where
# the clock of an unused world was set back to; and what tells one history from the next.
BASE_CHECKPOINT = "base_checkpoint"
PROJECTED = "projected"
HISTORY_SEQ = "history_seq"
DELIVERIES_CLEARED = "deliveries_cleared"
DROPPED = "dropped"
SET_BACK_TO = "set_back_to"
GENERATION = "generation"

# As SQLite stores them: what a file of this format has, and nothing else.
DEFINITIONS = tuple(statement for table in TABLES for statement in table.create)
CREATE = "; ".join(
    [
        "BEGIN EXCLUSIVE",
        f"PRAGMA application_id = {APPLICATION_ID:d}",
        f"PRAGMA user_version = {FORMAT:d}",
        *DEFINITIONS,
    ]
)

# Survives `kill -9`, but not a power cut: the operating system writes at its own time.
# The store moves the log into the file itself, in the connection's thread: that waits for the disk.
RUN_FILE = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 0;
"""
# The frames of the log are SQLite's own affair (D-285).
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
SELECT_DEFINITIONS = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
SELECT_SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
CHECK_INTEGRITY = "PRAGMA integrity_check(10)"
# The parameter is how many to find at most. History is dropped by whole messages, so that each has all of its events.
SELECT_ODD_EVENTS = """
SELECT number FROM events GROUP BY number
HAVING sum(state = 'CREATED') != 1 OR sum(state IN ('DELIVERED', 'FAILED', 'CANCELED')) > 1 LIMIT ?
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
    # The world continues from the copy: its history is another one.
    f"DELETE FROM main.meta WHERE name = '{GENERATION}'",
)
FORGET_GENERATION = f"DELETE FROM meta WHERE name = '{GENERATION}'"
SELECT_FACTS = "SELECT last_seq, count, payload FROM facts WHERE last_seq > ? ORDER BY last_seq"
# The numbers of messages with certain ids (the JSON list that is the parameter): a statement within others.
NUMBERS_OF = f"""
WITH RECURSIVE parts (part, last) AS (
    SELECT (SELECT min(number) FROM messages) / {IDS_TOGETHER}, (SELECT max(number) FROM messages) / {IDS_TOGETHER}
    UNION ALL SELECT part + 1, last FROM parts WHERE part < last
)
SELECT found.number FROM json_each(?) AS wanted CROSS JOIN parts CROSS JOIN messages AS found
ON found.number / {IDS_TOGETHER} = part AND {DISTINCT.format("found.message_id")} = {DISTINCT.format("wanted.value")}
AND found.message_id = wanted.value
"""
# On the annotations of a message, whose id both parameters are. Without the +, SQLite would put the parameter for the
# column in the first condition too, and not see that it has an index for that.
ANNOTATIONS_OF = f"{DISTINCT.format('message_id')} = {DISTINCT.format('?')} AND +message_id = ?"
# The last rows of counts of some accounts (a JSON list).
SELECT_USAGE_SO_FAR, SELECT_WORKFLOWS_SO_FAR = (
    f"""
SELECT {table.name}.* FROM json_each(?) AS wanted CROSS JOIN {table.name}
ON account_id = wanted.value AND minute = (SELECT max(minute) FROM {table.name} WHERE account_id = wanted.value)
"""
    for table in (USAGE_MINUTES, WORKFLOW_MINUTES)
)
DELETE_FACTS = "DELETE FROM facts WHERE last_seq <= ?"
# The id of the only row.
THE_CHECKPOINT = 1
WRITE_CHECKPOINT = CHECKPOINT.write
SELECT_CHECKPOINT = "SELECT covers, state FROM checkpoint WHERE id = 1"
# Of the checkpoint that is there.
REPLACE_STATE = "UPDATE checkpoint SET state = ?"
WRITE_META = META.write
SELECT_META = "SELECT name, value FROM meta"
# On the message whose dead letter the last parameter names.
INSERT_ANNOTATIONS_ON_DEAD_LETTERS = """
INSERT INTO annotations (message_id, after_seq, at_ms, kind, name)
SELECT messages.message_id, ?, ?, ?, ?
FROM dead_letters JOIN messages ON messages.number = dead_letters.number WHERE dead_letters.dead_letter_id = ?
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
# their numbers) stay whole, and so do those of dead letters. The parameters: that end twice, and the numbers.
FIND_DROPPED = """
CREATE TEMP TABLE dropped AS SELECT number, message_id FROM messages WHERE number IN (
    SELECT number FROM events WHERE seq <= ?
) AND NOT EXISTS (
    SELECT 1 FROM events WHERE events.number = messages.number AND events.seq > ?
) AND number NOT IN (SELECT value FROM json_each(?)) AND number NOT IN (SELECT number FROM dead_letters)
"""
_FORGOTTEN_RUNS = (
    "SELECT run_number FROM workflow_ends WHERE run_number NOT IN (SELECT run_number FROM workflow_messages)"
)
# Each with the number of its parameters, which all are the end of what is dropped.
DROP = {
    f"""DELETE FROM annotations
        WHERE {DISTINCT.format("message_id")} IN (SELECT {DISTINCT.format("message_id")} FROM temp.dropped)
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
