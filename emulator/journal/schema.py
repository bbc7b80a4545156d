"""The tables of a world's database, and every statement that writes them.

`facts` and `checkpoint` are what a restart reads. The other tables are history: views of the
facts, written in groups behind them. `projected` in `meta` says how far history has come.
"""

from __future__ import annotations

APPLICATION_ID = 0x53564345  # "SVCE"
FORMAT = 1

CREATE = f"""
BEGIN EXCLUSIVE;
PRAGMA application_id = {APPLICATION_ID:d};
PRAGMA user_version = {FORMAT:d};
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE facts (last_seq INTEGER PRIMARY KEY, count INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE TABLE checkpoint (id INTEGER PRIMARY KEY CHECK (id = 1), covers INTEGER NOT NULL, image BLOB NOT NULL);
CREATE TABLE messages (
    number INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL,
    url TEXT NOT NULL,
    host TEXT NOT NULL,
    path TEXT NOT NULL,
    url_group TEXT,
    schedule_id TEXT,
    queue TEXT,
    flow_key TEXT,
    caller_ip TEXT NOT NULL,
    labels TEXT,
    definition BLOB NOT NULL
);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempt_seq INTEGER,
    next_delivery_ms INTEGER
);
CREATE INDEX events_of_message ON events (number);
CREATE TABLE attempts (
    seq INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    finished_ms INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    status INTEGER NOT NULL,
    outcome BLOB NOT NULL
);
CREATE TABLE dead_letters (
    dead_letter_id TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    failed_ms INTEGER NOT NULL,
    number INTEGER NOT NULL,
    status INTEGER NOT NULL,
    attempt_seq INTEGER NOT NULL
);
CREATE INDEX dead_letters_in_order ON dead_letters (position);
CREATE TABLE usage_minutes (
    account_id TEXT NOT NULL,
    minute INTEGER NOT NULL,
    created INTEGER NOT NULL,
    active INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    error INTEGER NOT NULL,
    retry INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    canceled INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (account_id, minute)
) WITHOUT ROWID;
CREATE TABLE usage_days (
    account_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    created INTEGER NOT NULL,
    active INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    error INTEGER NOT NULL,
    retry INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    canceled INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (account_id, day)
) WITHOUT ROWID;
"""

# Safe against `kill -9`, though not against a power cut: what is written is the system's to keep.
RUN_FILE = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
"""
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
SELECT_ANY_TABLE = "SELECT name FROM sqlite_master LIMIT 1"

EMPTY_EVERYTHING = (
    "DELETE FROM facts",
    "DELETE FROM messages",
    "DELETE FROM events",
    "DELETE FROM attempts",
    "DELETE FROM dead_letters",
    "DELETE FROM usage_minutes",
    "DELETE FROM usage_days",
    "DELETE FROM meta WHERE name IN ('projected', 'history_seq', 'deliveries_cleared', 'set_back_to')",
)

INSERT_FACTS = "INSERT INTO facts (last_seq, count, payload) VALUES (?, ?, ?)"
SELECT_FACTS = "SELECT last_seq, count, payload FROM facts WHERE last_seq > ? ORDER BY last_seq"
DELETE_FACTS = "DELETE FROM facts WHERE last_seq <= ?"
WRITE_CHECKPOINT = "INSERT OR REPLACE INTO checkpoint (id, covers, image) VALUES (1, ?, ?)"
SELECT_CHECKPOINT = "SELECT covers, image FROM checkpoint WHERE id = 1"
WRITE_META = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)"
SELECT_META = "SELECT name, value FROM meta"

INSERT_MESSAGES = """
INSERT INTO messages (number, message_id, account_id, url, host, path, url_group, schedule_id, queue,
                      flow_key, caller_ip, labels, definition)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_EVENTS = """
INSERT INTO events (seq, number, at_ms, state, attempt_seq, next_delivery_ms) VALUES (?, ?, ?, ?, ?, ?)
"""
INSERT_ATTEMPTS = """
INSERT INTO attempts (seq, number, attempt, at_ms, finished_ms, succeeded, status, outcome)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_DEAD_LETTERS = """
INSERT INTO dead_letters (dead_letter_id, position, failed_ms, number, status, attempt_seq)
VALUES (?, ?, ?, ?, ?, ?)
"""
DELETE_DEAD_LETTERS = "DELETE FROM dead_letters WHERE dead_letter_id = ?"
ADD_USAGE_MINUTES = """
INSERT INTO usage_minutes (account_id, minute, created, active, delivered, error, retry, failed, canceled, bytes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (account_id, minute) DO UPDATE SET
    created = created + excluded.created,
    active = active + excluded.active,
    delivered = delivered + excluded.delivered,
    error = error + excluded.error,
    retry = retry + excluded.retry,
    failed = failed + excluded.failed,
    canceled = canceled + excluded.canceled,
    bytes = bytes + excluded.bytes
"""
ADD_USAGE_DAYS = """
INSERT INTO usage_days (account_id, day, created, active, delivered, error, retry, failed, canceled, bytes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (account_id, day) DO UPDATE SET
    created = created + excluded.created,
    active = active + excluded.active,
    delivered = delivered + excluded.delivered,
    error = error + excluded.error,
    retry = retry + excluded.retry,
    failed = failed + excluded.failed,
    canceled = canceled + excluded.canceled,
    bytes = bytes + excluded.bytes
"""
