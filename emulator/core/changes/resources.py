"""What is written and deleted by name: URL groups, queues, destination rules and search indexes."""

from __future__ import annotations

from emulator.core import facts
from emulator.core.contents import Contents
from emulator.core.wait_list import WaitList


def url_group_written(contents: Contents, fact: facts.UrlGroupWritten) -> None:
    contents.accounts[fact.group.account_id].groups[fact.group.name] = fact.group


def url_group_deleted(contents: Contents, fact: facts.UrlGroupDeleted) -> None:
    del contents.accounts[fact.account_id].groups[fact.name]


def queue_written(contents: Contents, fact: facts.QueueWritten) -> None:
    queue = fact.queue
    owner = contents.accounts[queue.account_id]
    owner.queues[queue.name] = queue
    owner.queue_wait_lists.setdefault(queue.name, WaitList())
    owner.queue_slots.setdefault(queue.name, {})
    owner.queue_lag.setdefault(queue.name, 0)


def queue_deleted(contents: Contents, fact: facts.QueueDeleted) -> None:
    del contents.accounts[fact.account_id].queues[fact.name]


def rule_added(contents: Contents, fact: facts.RuleAdded) -> None:
    contents.counters.rules += 1
    contents.rules[fact.rule.rule_id] = fact.rule


def rules_removed(contents: Contents, fact: facts.RulesRemoved) -> None:
    for rule_id in fact.rule_ids:
        del contents.rules[rule_id]


def rules_ordered(contents: Contents, fact: facts.RulesOrdered) -> None:
    # In place: views of the state keep the mapping.
    for rule_id in fact.rule_ids:
        contents.rules[rule_id] = contents.rules.pop(rule_id)


def search_index_created(contents: Contents, fact: facts.SearchIndexCreated) -> None:
    contents.counters.indexes += 1
    contents.search_indexes[fact.index.id] = fact.index


def search_index_changed(contents: Contents, fact: facts.SearchIndexChanged) -> None:
    index = fact.index
    if index.token != contents.search_indexes[index.id].token:
        contents.counters.index_tokens += 1
    contents.search_indexes[index.id] = index


def search_index_deleted(contents: Contents, fact: facts.SearchIndexDeleted) -> None:
    del contents.search_indexes[fact.index_id]
