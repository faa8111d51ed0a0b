"""Under which names a server answers, and that pages of other origins are refused before their body is read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from mixling import ConfigError
from mixling.cli.commands.serve import ServeOptions
from mixling.serving import hosts_of
from mixling.serving.page import page_routes

Make = Callable[..., TestClient]
PATH = "/v1/models/golden/predict"
BODY = {"texts": ["what a film"]}
GETS = ("/", "/metrics", "/healthz", "/readyz", "/v1/models", "/openapi.json", "/v2", "/nope", *page_routes())
EVIL = (
    "evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.2", "0.0.0.0",
    "127.1", "2130706433", "0x7f.1", "[::2]", "[::ffff:7f00:2]", "", "localhost..", "xn--localhost", "evil.example.",
)  # fmt: skip
LOCAL = (
    "localhost", "localhost:8000", "LOCALHOST", "LocalHost.:80", "localhost.", "127.0.0.1", "127.0.0.1:1", "[::1]",
    "[::1]:8000", "[0:0:0:0:0:0:0:1]",
)  # fmt: skip


@pytest.fixture
def local(make_client: Make) -> TestClient:
    return make_client(hosts=hosts_of("127.0.0.1", ()))


@pytest.mark.parametrize("host", EVIL)
def test_a_local_server_answers_no_foreign_name(local: TestClient, host: str) -> None:
    for path in GETS:
        assert local.get(path, headers={"Host": host}).status_code == 421
    # A rebound page has the foreign name as its origin, too.
    for headers in ({"Host": host}, {"Host": host, "Origin": f"http://{host}"}):
        assert local.post(PATH, json=BODY, headers=headers).status_code == 421
        assert local.options(PATH, headers=headers).status_code == 421


@pytest.mark.parametrize("host", LOCAL)
def test_a_local_server_answers_local_names(local: TestClient, host: str) -> None:
    assert local.post(PATH, json=BODY, headers={"Host": host}).status_code == 200
    assert local.post(PATH, json=BODY, headers={"Host": host, "Origin": f"http://{host.lower()}"}).status_code == 200


def test_it_listens_on_the_loopback_unless_told_otherwise() -> None:
    assert ServeOptions.host == "127.0.0.1"
    assert hosts_of(ServeOptions.host, ServeOptions.allowed_host or ()) == ("localhost", "127.0.0.1", "::1")


def test_which_names_a_server_has() -> None:
    local = ("localhost", "127.0.0.1", "::1")
    assert hosts_of("127.0.0.1", ()) == hosts_of("::1", ()) == hosts_of("::ffff:127.0.0.1", ()) == local
    assert hosts_of("127.0.0.5", ()) == (*local, "127.0.0.5")
    assert (
        hosts_of("0.0.0.0", ()) == hosts_of("::", ()) == hosts_of("192.0.2.1", ()) == hosts_of("fe80::1%eth0", ()) == ()
    )
    assert hosts_of("0.0.0.0", ["Shop.example."]) == (*local, "0.0.0.0", "shop.example")
    assert hosts_of("127.0.0.1", ["2001:DB8::0"])[-1] == "2001:db8::"
    for wrong in ("http://shop.example", "shop.example:80", "a b", "", "shop.example/", "[::1]:80"):
        with pytest.raises(ConfigError, match="--allowed-host: got"):
            hosts_of("127.0.0.1", [wrong])


def test_further_names_are_allowed_where_they_are_given(make_client: Make) -> None:
    client = make_client(hosts=hosts_of("127.0.0.1", ["shop.example"]))
    for host, status in (("shop.example", 200), ("SHOP.example.:443", 200), ("a.shop.example", 421)):
        assert client.get("/healthz", headers={"Host": host}).status_code == status
    client = make_client(hosts=hosts_of("127.0.0.1", ["*"]))
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 200


ORIGINS = (
    "http://evil.example", "https://localhost.evil.example", "null", "", "http://localhost:3000", "http://127.0.0.1",
    "file://", "chrome-extension://localhost", "http://localhost@evil.example", "HTTP://LOCALHOST:1",
)  # fmt: skip


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_foreign_origin_is_refused_before_its_body_is_read(local: TestClient, origin: str) -> None:
    headers = {"Host": "localhost:8000", "Origin": origin}
    texts = {**headers, "Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site"}
    too_large = b" " * 2_000_000
    for sent in (headers, texts):
        response = local.post(PATH, content=too_large, headers=sent)
        assert (response.status_code, response.headers["connection"]) == (403, "close")
        assert "--cors" in response.json()["detail"]
    for path in GETS:
        assert local.get(path, headers=headers).status_code == 403
    asked = {**headers, "Access-Control-Request-Method": "POST"}
    assert local.options(PATH, headers=asked).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_that_sends_no_origin_is_refused_unless_it_is_a_link(local: TestClient, site: str) -> None:
    headers = {"Host": "localhost", "Sec-Fetch-Site": site}
    assert local.post(PATH, json=BODY, headers={**headers, "Sec-Fetch-Mode": "navigate"}).status_code == 403
    for mode, status in (("no-cors", 403), ("navigate", 200)):
        assert local.get("/v1/models", headers={**headers, "Sec-Fetch-Mode": mode}).status_code == status
    for own in ("same-origin", "none"):
        assert local.post(PATH, json=BODY, headers={"Host": "localhost", "Sec-Fetch-Site": own}).status_code == 200


def test_origins_that_are_named_may_ask(make_client: Make) -> None:
    client = make_client(hosts=hosts_of("127.0.0.1", ()), cors=("https://shop.example", "null"))
    for origin, status in (("https://shop.example", 200), ("null", 200), ("http://shop.example", 403)):
        headers = {"Host": "localhost", "Origin": origin, "Sec-Fetch-Site": "cross-site"}
        response = client.post(PATH, json=BODY, headers=headers)
        assert response.status_code == status
        assert response.headers.get("access-control-allow-origin") == (origin if status == 200 else None)
    client = make_client(cors=("*",))
    assert client.post(PATH, json=BODY, headers={"Origin": "https://any.example"}).status_code == 200


def test_a_proxy_with_tls_has_the_origin_of_its_pages(make_client: Make) -> None:
    client = make_client()
    headers = {"Host": "shop.example", "Origin": "https://shop.example"}
    assert client.post(PATH, json=BODY, headers=headers).status_code == 200
    assert client.post(PATH, json=BODY, headers={**headers, "Origin": "https://shop.example:8443"}).status_code == 403
