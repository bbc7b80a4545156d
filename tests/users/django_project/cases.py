"""What `TestCase` promises holds for deliveries: they see the test's transaction, and are rolled back with it."""

import asyncio
import threading
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Group, User
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.db import IntegrityError, connection, transaction
from django.test import TestCase, TransactionTestCase

from emulator import Emulator, Request, Verdict
from emulator.django import with_connections

PROMOTE = "https://app.test/promote"


class Deliveries:
    """The tests, for both kinds of cases."""

    def setUp(self: Any) -> None:
        self.emulator = Emulator(epoch="2026-01-01T00:00:00Z")
        self.emulator.start()
        self.addCleanup(self.emulator.close)
        self.emulator.mount("https://app.test", with_connections(get_wsgi_application()))
        # Nothing of another test is there.
        assert (User.objects.count(), Group.objects.count()) == (0, 0)

    def test_a_handler_sees_the_rows_of_the_test_and_the_test_those_of_the_handler(self: Any) -> None:
        user = User.objects.create(username="ada")
        self.emulator.publish(PROMOTE, "ada", delay="1d")
        self.emulator.clock.advance("1d")
        self.emulator.verify(PROMOTE, status=204)
        user.refresh_from_db()
        assert user.is_staff
        assert Group.objects.get().name == "of ada"

    def test_a_publish_over_http_is_delivered_as_well(self: Any) -> None:
        """As the code under test publishes: in the test's thread, which waits for the answer."""
        User.objects.create(username="ada")
        with transaction.atomic():
            httpx.post(
                f"{self.emulator.url}/v2/publish/{PROMOTE}",
                content="ada",
                headers={"Authorization": f"Bearer {self.emulator.token}"},
                trust_env=False,
            ).raise_for_status()
        self.emulator.verify(PROMOTE, status=204)
        assert User.objects.get(username="ada").is_staff

    def test_a_handler_that_fails_leaves_the_transaction_as_it_was(self: Any) -> None:
        User.objects.create(username="ada")
        User.objects.create(username="bob")
        with transaction.atomic():
            Group.objects.create(name="of ada")
        for name in ("ada", "nobody", "bob"):
            self.emulator.publish(PROMOTE, name, retries=0)
        assert [each.status for each in self.emulator.deliveries()] == [500, 500, 204]
        assert [user.username for user in User.objects.filter(is_staff=True)] == ["bob"]
        kinds = [type(each.error) for each in self.emulator.handler_errors]
        assert kinds == [IntegrityError, User.DoesNotExist]

    def test_an_assertion_of_a_view_fails_the_test(self: Any) -> None:
        """D-591. Django answers 500 by itself."""
        self.emulator.mount("https://async.test", get_asgi_application())
        for url in ("https://app.test/checked", "https://async.test/checked"):
            with self.settings(ALLOWED_HOSTS=["*"]), pytest.raises(AssertionError, match="wrong"):
                self.emulator.publish(url, "wrong", retries=0)
        assert [each.status for each in self.emulator.deliveries()] == [500, 500]
        assert len(self.emulator.handler_errors) == 2
        with self.settings(DEBUG_PROPAGATE_EXCEPTIONS=True), pytest.raises(AssertionError):
            self.emulator.publish("https://app.test/checked", "wrong", retries=0)
        assert len(self.emulator.handler_errors) == 3

    def test_a_handler_may_publish_to_its_own_application(self: Any) -> None:
        """The deliveries take turns, so the second begins when the first is over."""
        User.objects.create(username="ada")
        for rate in (0, 1):
            with self.emulator.new_world(rate=rate) as world:
                world.mount("https://app.test", with_connections(get_wsgi_application()))
                to = {"emulator": world.url, "token": world.token, "username": "ada"}
                world.publish("https://app.test/delegate", json=to)
                world.wait_for(PROMOTE, status=204)
                world.verify("https://app.test/delegate", status=200)
            Group.objects.all().delete()

    def test_many_deliveries_take_turns(self: Any) -> None:
        for number in range(20):
            User.objects.create(username=f"user {number}")
        with self.emulator.new_world(rate=1) as world:
            world.mount("https://app.test", with_connections(get_wsgi_application()))
            world.call("POST", "/v2/batch", json=[{"destination": PROMOTE, "body": f"user {n}"} for n in range(20)])
            world.wait_for(PROMOTE, status=204, count=20)
        assert User.objects.filter(is_staff=True).count() == 20

    def test_a_response_may_read_the_database_while_it_is_sent(self: Any) -> None:
        User.objects.create(username="ada")
        self.emulator.publish("https://app.test/list", method="GET")
        [delivery] = self.emulator.deliveries()
        assert delivery.response.text == "ada\n"

    def test_a_function_may_use_the_database(self: Any) -> None:
        User.objects.create(username="ada")

        def count(request: Request) -> str:
            return str(User.objects.count())

        self.emulator.mount("https://other.test", with_connections(count))
        self.emulator.publish("https://other.test/")
        [delivery] = self.emulator.deliveries()
        assert delivery.response.text == "1"

    def test_the_effects_of_a_receiver_are_read_in_the_transaction(self: Any) -> None:
        """The effect is called in the test's thread, and deliveries at once are no proof (D-575, D-576)."""

        def receive(request: Request) -> int:
            Group.objects.get_or_create(name=request.headers["svc-message-id"])
            return 200

        def middleware(request: Request) -> Any:
            return shared(request)

        shared = with_connections(receive)
        for application in (shared, middleware):
            report = self.emulator.check_receiver(application, effect=Group.objects.count)
            assert report["idempotency"].verdict is Verdict.PASSED, report["idempotency"].note
            for check_id in ("concurrent", "concurrent-effect"):
                assert report[check_id].verdict is Verdict.NOT_JUDGED
                assert "take turns (with_connections)" in report[check_id].note


class TestInATransaction(Deliveries, TestCase):  # type: ignore[misc]  # Django has no types
    def test_without_it_a_handler_has_the_connection_of_its_thread(self) -> None:
        """D-690: the test's while it waits for the emulator, and another one while it waits for something else."""
        User.objects.create(username="ada")
        main = threading.current_thread()

        def seen(request: Request) -> str:
            if threading.current_thread() is main:
                return str(User.objects.count())
            try:
                return f"another: {User.objects.count()}"
            finally:
                connection.close()

        emulator: Any = self.emulator
        emulator.mount("https://other.test", seen)
        emulator.publish("https://other.test/", retries=0)
        httpx.post(
            f"{emulator.url}/v2/publish/https://other.test/",
            headers={"Authorization": f"Bearer {emulator.token}", "Svc-Retries": "0"},
            trust_env=False,
        ).raise_for_status()
        here, over_http = emulator.deliveries()
        assert here.response.text == "1"
        # The test's row is not there for it, or locked.
        assert over_http.response.text != "another: 1"

    def test_what_runs_on_an_event_loop_is_refused(self) -> None:
        async def hook(request: Request) -> None:
            await asyncio.sleep(0)

        async def app(scope: Any, receive: Any, send: Any) -> None: ...

        applications: list[Any] = [hook, app]
        for application in applications:
            with pytest.raises(TypeError, match="which runs on an event loop"):
                with_connections(application)


class TestWithoutATransaction(Deliveries, TransactionTestCase):  # type: ignore[misc]  # as above
    pass
