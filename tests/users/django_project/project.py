"""A Django project in one file: its settings, and a hook that works on its database."""

import json
import os
from typing import Any

import httpx
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

SECRET_KEY = "no secret"
ROOT_URLCONF = "project"
ALLOWED_HOSTS = ["app.test"]
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes"]
# In memory Django never closes a connection; in a file it does, as with every other database.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ":memory:",
        "ATOMIC_REQUESTS": True,
        "TEST": {"NAME": os.environ.get("DATABASE")},
    }
}
USE_TZ = True


def promote(request: HttpRequest) -> HttpResponse:
    """Make somebody a member of the staff, and leave a trace."""
    from django.contrib.auth.models import Group, User

    user = User.objects.get(username=request.body.decode())
    user.is_staff = True
    user.save()
    Group.objects.create(name=f"of {user.username}")
    return HttpResponse(status=204)


def listing(request: HttpRequest) -> StreamingHttpResponse:
    """A response that reads the database while it is sent."""
    from django.contrib.auth.models import User

    def names() -> Any:
        yield from (f"{user.username}\n" for user in User.objects.order_by("username"))

    return StreamingHttpResponse(names())


def delegate(request: HttpRequest) -> HttpResponse:
    """Publish the promotion, as the code of an application does, from within a handler."""
    to = json.loads(request.body)
    answer = httpx.post(
        f"{to['emulator']}/v2/publish/https://app.test/promote",
        content=to["username"],
        headers={"Authorization": f"Bearer {to['token']}"},
        trust_env=False,
    )
    return HttpResponse(status=answer.status_code)


def checked(request: HttpRequest) -> HttpResponse:
    """A view that asserts, as those of a test do."""
    assert request.body == b"right", "wrong"
    return HttpResponse(status=204)


urlpatterns = [path(each.__name__, each) for each in (promote, delegate, checked)] + [path("list", listing)]
