"""A redirect can be pasted: the whole URL, or its query; anything else is refused with what is wrong."""

from __future__ import annotations

import re

import pytest

from pflow_mcp_plugin.client.request_failures import NoAccessToken


def test_the_pasted_redirect_signs_in(visitor, authorization_server):
    sign_in = visitor.sign_in(browser=False)
    assert sign_in.tokens.access
    assert visitor.urls == []
    page, question = visitor.shown
    assert page.startswith("Open this URL in a browser:")
    assert sign_in.registration.redirect_uris[0] in question


@pytest.mark.parametrize("made", [lambda url: f"  {url}  ", lambda url: url.partition("?")[2]])
def test_spaces_around_it_and_the_query_alone_are_taken(visitor, made):
    visitor.pastes = lambda redirect: [made(redirect)]
    assert visitor.sign_in(browser=False).tokens.access


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (
            lambda url: url.replace("http://127.0.0.1", "https://evil.example"),
            "a URL of https://evil.example",
        ),
        (lambda url: url.replace("/callback", "/other"), r"not of http://127\.0\.0\.1:\d+/callback"),
        (lambda url: url.replace("state=", "state=x"), "its state differs"),
        (lambda url: url.partition("&state")[0], "That is not all of it: it has no state"),
        (lambda url: url.replace("state=", "state=\udcff"), "its state differs"),
        (lambda _: "just-a-code", "That is not a URL"),
        (lambda _: "?", "That is not a URL"),
    ],
)
def test_anything_else_is_refused_and_asked_for_again(visitor, authorization_server, made, wrong):
    visitor.pastes = lambda redirect: [made(redirect), redirect]
    assert visitor.sign_in(browser=False).tokens.access
    (told,) = visitor.shown[2:]
    assert re.search(wrong, told)
    assert told.endswith("Paste the whole URL:")
    for secret in authorization_server.secrets():
        assert secret not in "".join(visitor.shown)


def test_somebody_who_pastes_nothing_is_not_signed_in(visitor):
    visitor.pastes = lambda _: []
    with pytest.raises(NoAccessToken, match="no redirect was pasted") as failure:
        visitor.sign_in(browser=False)
    assert failure.value.remedy == "login"
