"""Thirty days of onboarding, as one function: the workflow client for Python in FastAPI."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from qstash import AsyncQStash, QStash, Receiver
from upstash_workflow import AsyncWorkflowContext  # type: ignore[import-untyped]  # it comes without types
from upstash_workflow.fastapi import Serve  # type: ignore[import-untyped]  # as above

CRM = "https://crm.example.com"


class User(BaseModel):
    email: str


def create_app(
    settings: Mapping[str, str] = os.environ,
    send_mail: Callable[[str, str], object] = print,
    is_active: Callable[[str], bool] = lambda email: False,
) -> FastAPI:
    """The application.

    `settings` holds the client's variables, and in APP_URL the address at which the service reaches
    this application. `send_mail` is called with an address and a text, `is_active` with an address.
    """
    url = settings["APP_URL"]
    # Each for its own kind of endpoint: the connections of an asynchronous client belong to one event loop.
    publisher = QStash(settings["QSTASH_TOKEN"], base_url=settings["QSTASH_URL"])
    qstash = AsyncQStash(settings["QSTASH_TOKEN"], base_url=settings["QSTASH_URL"])
    receiver = Receiver(settings["QSTASH_CURRENT_SIGNING_KEY"], settings["QSTASH_NEXT_SIGNING_KEY"])
    app = FastAPI()

    @app.post("/users", status_code=201)
    def sign_up(user: User) -> User:
        publisher.message.publish_json(url=f"{url}/onboarding", body=user.model_dump())
        return user

    serve = Serve(app)

    @serve.post("/onboarding", qstash_client=qstash, receiver=receiver, base_url=url)  # type: ignore[untyped-decorator]
    async def onboarding(context: AsyncWorkflowContext[dict[str, Any]]) -> None:
        def mail(text: str) -> Callable[[], object]:
            return lambda: send_mail(context.request_payload["email"], text)

        await context.run("welcome", mail("Welcome!"))
        await context.sleep("three days", "3d")
        active = await context.run("check", lambda: is_active(context.request_payload["email"]))
        if not active:
            await context.run("remind", mail("We miss you."))
        await context.sleep("until the thirtieth day", "27d")
        answer = await context.call(
            "offer", url=f"{CRM}/offers", method="POST", body=context.request_payload, retries=2
        )
        offer = answer.body["offer"] if answer.status == 200 and answer.body else "nothing"
        await context.run("farewell", mail(f"Your trial ends. We offer {offer}."))

    return app
