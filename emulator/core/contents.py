"""What a world is at an instant: one object, which `State` changes by facts and decisions read through views."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.core.model.accounts import Account, SearchIndex, TeamMember, VectorIndex
from emulator.core.model.answers import DestinationRule
from emulator.core.model.messages import Duplicate, Progress
from emulator.core.model.names import AccountId, IndexId, MessageId, RuleId
from emulator.core.state_view import AccountState, Counters
from emulator.core.timers import Timers


class Contents:
    """One world: its clock, accounts, live messages, destination rules and timers.

    `key` seeds tokens, signing keys and statistics, `event_key` the identifiers of messages, schedules and
    signatures (D-260). A state of before there were two has one for both.
    """

    def __init__(self, *, key: bytes, event_key: bytes = b"", now_ms: int, accounts: Iterable[Account]) -> None:
        self.key = key
        self.event_key = event_key or key
        self.now_ms = now_ms
        self.counters = Counters()
        self.messages: dict[MessageId, Progress] = {}
        self.rules: dict[RuleId, DestinationRule] = {}
        # Deliveries to be made again, and those under way, by their timers' subjects.
        self.duplicates: dict[str, Duplicate] = {}
        self.accounts: dict[AccountId, AccountState] = {account.id: AccountState(account) for account in accounts}
        self.search_indexes: dict[IndexId, SearchIndex] = {}
        # No command changes these two: they are what the world was made with.
        self.vector_indexes: dict[IndexId, VectorIndex] = {}
        self.team: tuple[TeamMember, ...] = ()
        self.timers = Timers()
