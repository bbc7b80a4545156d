"""Chat completions: the service's own language model, asked and answered in one call (D-312)."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from emulator.api.endpoint import PASSED_ON, Answer
from emulator.api.messaging.call import WRITE, MessagingCall, MessagingRoute
from emulator.core.commands import Publish, PublishItem
from emulator.core.model.messages import CreatedBy
from emulator.core.model.options import MessageOptions
from emulator.core.rules.responses import as_read
from emulator.wire.messaging import chat
from emulator.wire.messaging.destinations import LLM, read_batch_destination
from emulator.worlds.asking import ask


async def complete(call: MessagingCall) -> Response:
    parts = call.parts
    wants_stream = chat.read_wants_stream(parts.body)
    item = PublishItem(
        destination=read_batch_destination(LLM, call.dialect),
        body=parts.body,
        options=MessageOptions(max_retries=0, content_type="application/json"),
        caller_ip=parts.client_ip,
    )
    outcome = await ask(call.world, Publish(account_id=call.account_id, item=item, created_by=CreatedBy.CHAT))
    if outcome.response is None:
        return Answer({"error": f"the model could not be asked: {outcome.error}"}, 502)
    answer = as_read(outcome.response, ())
    if wants_stream:
        answer = chat.as_stream(answer)
    return PassedOn(answer.body, answer.status, dict(chat.passed_on(answer.headers)))


class PassedOn(Response):
    """What somebody else has answered, so that a status of 4xx is no refusal of ours."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PASSED_ON] = True
        await super().__call__(scope, receive, send)


ROUTES: tuple[MessagingRoute, ...] = (MessagingRoute("POST", "/llm/v1/chat/completions", complete, WRITE),)
