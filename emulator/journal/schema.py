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
    outcome BLOB NOT NULL,
    answered_by BLOB
);
CREATE TABLE remarks (
    id INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    after_seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    reason TEXT
);
CREATE INDEX remarks_of_message ON remarks (message_id);
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
SELECT_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
CHECK_INTEGRITY = "PRAGMA integrity_check(1)"
# How many entries history has, and the number of the last; events and attempts share one count without gaps.
COUNT_ENTRIES = """
SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM attempts),
       max((SELECT coalesce(max(seq), 0) FROM events), (SELECT coalesce(max(seq), 0) FROM attempts))
"""

EMPTY_EVERYTHING = (
    "DELETE FROM facts",
    "DELETE FROM messages",
    "DELETE FROM events",
    "DELETE FROM attempts",
    "DELETE FROM remarks",
    "DELETE FROM dead_letters",
    "DELETE FROM usage_minutes",
    "DELETE FROM usage_days",
    "DELETE FROM meta WHERE name IN ('projected', 'history_seq', 'deliveries_cleared', 'set_back_to', 'life')",
)

# A copy has the same tables, and nothing of what the file needs to be written: no log, no free pages.
COPY_INTO = "VACUUM INTO ?"
ATTACH_COPY = "ATTACH DATABASE ? AS copy"
DETACH_COPY = "DETACH DATABASE copy"
TAKE_COPY = (
    "DELETE FROM main.meta",
    "DELETE FROM main.facts",
    "DELETE FROM main.checkpoint",
    "DELETE FROM main.messages",
    "DELETE FROM main.events",
    "DELETE FROM main.attempts",
    "DELETE FROM main.remarks",
    "DELETE FROM main.dead_letters",
    "DELETE FROM main.usage_minutes",
    "DELETE FROM main.usage_days",
    "INSERT INTO main.meta SELECT * FROM copy.meta",
    "INSERT INTO main.facts SELECT * FROM copy.facts",
    "INSERT INTO main.checkpoint SELECT * FROM copy.checkpoint",
    "INSERT INTO main.messages SELECT * FROM copy.messages",
    "INSERT INTO main.events SELECT * FROM copy.events",
    "INSERT INTO main.attempts SELECT * FROM copy.attempts",
    "INSERT INTO main.remarks SELECT * FROM copy.remarks",
    "INSERT INTO main.dead_letters SELECT * FROM copy.dead_letters",
    "INSERT INTO main.usage_minutes SELECT * FROM copy.usage_minutes",
    "INSERT INTO main.usage_days SELECT * FROM copy.usage_days",
    # What follows is not what followed then, and changes what the seal is of.
    "DELETE FROM main.meta WHERE name IN ('life', 'seal')",
)
BREAK_SEAL = "DELETE FROM meta WHERE name = 'seal'"
# All that a seal is of, in an order of its own.
SELECT_EVERYTHING = (
    "SELECT * FROM meta WHERE name != 'seal' ORDER BY name",
    "SELECT * FROM facts ORDER BY last_seq",
    "SELECT * FROM checkpoint ORDER BY id",
    "SELECT * FROM messages ORDER BY number",
    "SELECT * FROM events ORDER BY seq",
    "SELECT * FROM attempts ORDER BY seq",
    "SELECT * FROM remarks ORDER BY id",
    "SELECT * FROM dead_letters ORDER BY dead_letter_id",
    "SELECT * FROM usage_minutes ORDER BY account_id, minute",
    "SELECT * FROM usage_days ORDER BY account_id, day",
)
# A copy is made anew if it cannot be finished.
OPEN_COPY = "PRAGMA synchronous = OFF"

INSERT_FACTS = "INSERT INTO facts (last_seq, count, payload) VALUES (?, ?, ?)"
SELECT_FACTS = "SELECT last_seq, count, payload FROM facts WHERE last_seq > ? ORDER BY last_seq"
DELETE_FACTS = "DELETE FROM facts WHERE last_seq <= ?"
WRITE_CHECKPOINT = "INSERT OR REPLACE INTO checkpoint (id, covers, image) VALUES (1, ?, ?)"
REPLACE_IMAGE = "UPDATE checkpoint SET image = ?"
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
INSERT INTO attempts (seq, number, attempt, at_ms, finished_ms, succeeded, status, outcome, answered_by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_REMARKS = """
INSERT INTO remarks (message_id, after_seq, at_ms, kind, name, reason) VALUES (?, ?, ?, ?, ?, ?)
"""
# On the message whose dead letter the last parameter names.
INSERT_REMARKS_ON_DEAD_LETTERS = """
INSERT INTO remarks (message_id, after_seq, at_ms, kind, name)
SELECT messages.message_id, ?, ?, ?, ? FROM dead_letters JOIN messages ON messages.number = dead_letters.number
WHERE dead_letters.dead_letter_id = ?
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
