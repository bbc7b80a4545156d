"""What a database of a world is made of, and the statements that are of more than one table, or of a part of one.

The tables are in `tables.py`. They need the SQL function `row_checksum`, as what follows from a table does.
"""

from __future__ import annotations

from emulator.journal.tables import (
    ANNOTATIONS,
    CHECKPOINT,
    DISTINCT,
    FACTS,
    HISTORY,
    IDS_TOGETHER,
    META,
    TABLES,
    USAGE_MINUTES,
    WORKFLOW_MINUTES,
)

APPLICATION_ID = 0x53564345  # "SVCE"
# `migrations.py` has a step from each older format to the next.
FORMAT = 4

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
    SELECT (SELECT min(number) FROM messages) / {IDS_TOGETHER}, (SELECT max(number) FROM messages) / {IDS_TOGETHER}
    UNION ALL SELECT part + 1, last FROM parts WHERE part < last
)
SELECT found.number FROM json_each(?) AS wanted CROSS JOIN parts CROSS JOIN messages AS found
ON found.number / {IDS_TOGETHER} = part AND {DISTINCT.format("found.message_id")} = {DISTINCT.format("wanted.value")}
AND found.message_id = wanted.value
"""
# On the annotations of a message, whose id the parameter is. Without the +, SQLite would put the parameter for the
# column in the first condition too, and not see that it has an index for that.
ANNOTATIONS_OF = f"{DISTINCT.format('message_id')} = {DISTINCT.format('?1')} AND +message_id = ?1"
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
