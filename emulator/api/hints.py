"""What a refused call probably meant: by its credentials, its path, and the names it gives (D-332)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from emulator.api.callers import Known, known_token
from emulator.core.language.spelling import near
from emulator.core.record import Record
from emulator.core.state_view import StateView
from emulator.wire.credentials import basic_credentials
from emulator.wire.dialect import BUILT_IN, load
from emulator.wire.messaging.mistakes import mistake
from emulator.wire.parts import RequestParts
from emulator.worlds.credentials import accounts_of
from emulator.worlds.registry import Worlds

_QUOTES = "\"'<>"
# More worlds are not searched for an id.
_MOST_WORLDS = 1_000


class Hint(Record, gc=True):
    """Whose credentials a call has, even where they are misplaced, and what was probably meant."""

    known: Known | None
    text: str | None


class Hints:
    """Finds hints. `paths` are those of the operations, with parameters in braces."""

    def __init__(self, worlds: Worlds, paths: Sequence[str]) -> None:
        self._worlds = worlds
        self._dialect = worlds.dialect
        self._beginnings = sorted({_beginning(path) for path in paths})

    def of(self, parts: RequestParts, status: int, known: Known | None) -> Hint:
        """The hint at a call that was answered with `status`; `known` is who calls, None for credentials of nobody."""
        texts = []
        if status == 401:
            known, text = self._of_credentials(parts, known)
            texts.append(text)
        elif status == 403 and known is not None and known.is_read_only:
            texts.append("this is the read-only token; the account's token may")
        elif status in (404, 405):
            texts += self._of_path(parts)
            texts += [] if known is None else self._of_elsewhere(parts, known)
        names = dict.fromkeys(name.lower() for name, _ in (*parts.headers, *parts.query))
        texts += [text for name in names if (text := mistake(name, self._dialect)) is not None]
        found = [text for text in texts if text]
        return Hint(known=known, text="; ".join(found) or None)

    # -- credentials ------------------------------------------------------------------------

    def _of_credentials(self, parts: RequestParts, known: Known | None) -> tuple[Known | None, str | None]:
        if known is not None:
            # They are good, and the other API's.
            if basic_credentials(parts) is not None:
                return known, "these are the credentials of the management API; the messaging API takes a bearer token"
            return known, "this is a token of the messaging API; the management API takes a user name and password"
        for token, text in self._misplaced(parts):
            found = known_token(self._worlds, token)
            if found is not None:
                return found, text
        given = parts.header("authorization")
        for token, _ in self._misplaced(parts):
            for world in self._worlds.all():
                if any(
                    token in (each.signing_keys.current, each.signing_keys.next) for each in accounts_of(world.state)
                ):
                    return Known(world=world), "this is a signing key, with which receivers verify; expected the token"
        if given is None and not parts.query:
            return None, "no Authorization header was sent; `svc-emulator env` prints the credentials"
        if given is not None and " " not in given.strip():
            return None, "the scheme is missing: expected Authorization: Bearer <token>; no world has this token either"
        return None, "no world has these credentials; `svc-emulator env` prints those of the default one"

    def _misplaced(self, parts: RequestParts) -> Iterator[tuple[str, str]]:
        """Texts that may be a token that stands in a wrong place, and what is wrong with the place."""
        given = (parts.header("authorization") or "").strip()
        scheme, _, rest = given.partition(" ")
        yield given, "the scheme is missing: expected Authorization: Bearer <token>"
        yield rest.strip(), f"the scheme is {scheme[:20]}: expected Authorization: Bearer <token>"
        yield rest.strip().strip(_QUOTES), "the token stands between quotes or brackets: expected it alone"
        yield given.rpartition(" ")[2].strip(_QUOTES), "expected Authorization: Bearer <token>"
        login = basic_credentials(parts)
        if login is not None:
            for text in (login.username, login.password):
                yield text, "the token was sent as a user name or password: expected Authorization: Bearer <token>"
        own = self._dialect.token_parameter
        for name, value in parts.query:
            for other in BUILT_IN:
                if name.lower() == load(other).token_parameter.lower():
                    yield value, f"{name} is of the dialect {other}: here the parameter is called {own}"
            if near(name.lower(), (own, "token")):
                yield value, f"expected the token in the parameter {own}"

    # -- paths ------------------------------------------------------------------------------

    def _of_path(self, parts: RequestParts) -> Iterator[str]:
        beginning = _beginning(parts.path)
        if beginning in self._beginnings or parts.path.lower().startswith("/llm/"):
            return
        # The operation may stand without its version, or behind another one or behind a path of a proxy.
        words = [word for word in parts.path.split("/") if word][:3]
        known = [each for word in words for each in self._beginnings if each == f"/v2/{word.lower()}"]
        close = known or near(beginning, self._beginnings)
        if close:
            yield f"did you mean {close[0]}?"

    def _of_elsewhere(self, parts: RequestParts, known: Known) -> Iterator[str]:
        """Where else there is what the path names and this account does not have."""
        name = parts.path.rstrip("/").rpartition("/")[2]
        kind = parts.path.strip("/").split("/")[1:2]
        for world in self._worlds.all()[:_MOST_WORLDS]:
            for account in _accounts_with(world.state, kind[0].lower() if kind else "", name):
                if world is not known.world:
                    yield f"the world {world.id} has one of this name: is the token of another world meant?"
                    return
                if account != known.account_id and known.account_id is not None:
                    yield f"the account {account} has one of this name: is its token meant?"
                    return


def _accounts_with(state: StateView, kind: str, name: str) -> Iterator[str]:
    """The accounts that have something of this kind, a segment of a path, under this name."""
    if kind == "messages":
        progress = state.messages.get(name)  # type: ignore[call-overload]  # any text may be an id
        if progress is not None:
            yield progress.message.account_id
        return
    for account_id, owner in state.accounts.items():
        of_kind: dict[str, Collection[str]] = {
            "schedules": owner.schedules,
            "queues": owner.queues,
            "topics": owner.groups,
            "publish": owner.groups,
            "dlq": owner.dead_letters,
            "flowcontrol": owner.flow_keys,
        }
        if name in of_kind.get(kind, ()):
            yield account_id


def _beginning(path: str) -> str:
    return "/".join(path.split("/")[:3]).lower()
