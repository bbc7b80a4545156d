"""The tables of a world's database, each declared once, and the statements that follow from a declaration.

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
IDS_TOGETHER = 16_384
DISTINCT = "substr({}, 10, 6)"

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
    indexes={"messages_by_id": f"number / {IDS_TOGETHER}, {DISTINCT.format('message_id')}"},
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
    indexes={"annotations_of_message": DISTINCT.format("message_id")},
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
