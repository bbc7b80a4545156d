"""Trials of a product: a mail when one ends, and a digest of the new ones every morning in Berlin."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel
from qstash import QStash, Receiver
from qstash.errors import SignatureError


class Trial(BaseModel):
    email: str


def create_app(settings: Mapping[str, str] = os.environ, send_mail: Callable[[str, str], object] = print) -> FastAPI:
    """The application.

    `settings` holds the client's variables, and in APP_URL the address at which the service reaches
    this application. `send_mail` is called with an address and a text, and may raise OSError.
    """
    url = settings["APP_URL"]
    qstash = QStash(settings["QSTASH_TOKEN"], base_url=settings["QSTASH_URL"])
    receiver = Receiver(settings["QSTASH_CURRENT_SIGNING_KEY"], settings["QSTASH_NEXT_SIGNING_KEY"])
    new: list[str] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Under its own id, the schedule is replaced rather than made again.
        await run_in_threadpool(
            qstash.schedule.create,
            schedule_id="digest",
            destination=f"{url}/jobs/digest",
            cron="CRON_TZ=Europe/Berlin 0 9 * * *",
        )
        yield

    async def signed(request: Request) -> None:
        """Lets only those calls pass that the service has signed for this URL and body."""
        try:
            receiver.verify(
                signature=request.headers.get("Upstash-Signature", ""),
                body=(await request.body()).decode(errors="replace"),
                url=str(request.url),
            )
        except SignatureError as error:
            raise HTTPException(401, str(error)) from error

    def mail(address: str, text: str) -> None:
        try:
            send_mail(address, text)
        except OSError as error:
            # The service makes the call again, as late as it is asked to.
            raise HTTPException(503, "the mail server is down", {"Retry-After": "600"}) from error

    app = FastAPI(lifespan=lifespan)
    jobs = APIRouter(prefix="/jobs", dependencies=[Depends(signed)])

    @app.post("/trials", status_code=201)
    def begin_trial(trial: Trial) -> Trial:
        qstash.message.publish_json(url=f"{url}/jobs/trial-ends", body=trial.model_dump(), delay="14d", retries=3)
        new.append(trial.email)
        return trial

    @jobs.post("/trial-ends")
    def end_trial(trial: Trial) -> None:
        mail(trial.email, "Your trial ends today.")

    @jobs.post("/digest")
    def send_digest() -> None:
        mail("sales@example.com", f"New trials: {', '.join(new) or 'none'}")
        new.clear()

    app.include_router(jobs)
    return app
