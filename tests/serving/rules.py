"""Requests that RFC 9112 allows or does not, with the statuses of their answers."""

from __future__ import annotations

BODY = b'{"texts":["what a film"]}'
PATH = b"/v1/models/m/predict"
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n" % (len(BODY), BODY)


def post(headers: bytes = b"", body: bytes = BODY, version: bytes = b"1.1", host: bytes = b"localhost") -> bytes:
    if not headers:
        headers = b"Content-Length: %d\r\n" % len(body)
    return b"POST " + PATH + b" HTTP/" + version + b"\r\nHost: " + host + b"\r\n" + headers + b"\r\n" + body


# httptools (llhttp) finds most of them; what it does not is in `serving/arriving.py` and `serving/heads.py`.
RULES: list[tuple[bytes, list[int]]] = [
    (post(), [200]),
    (post(CHUNKED, CHUNKS + b"0\r\n\r\n"), [200]),
    (post(CHUNKED, CHUNKS + b"0\r\nX-A: b\r\n\r\n"), [200]),
    (post(CHUNKED, b"".join(b"1\r\n%c\r\n" % char for char in BODY) + b"0\r\n\r\n"), [200]),
    (post(CHUNKED, b"19;a=b\r\n" + BODY + b"\r\n0\r\n\r\n"), [200]),
    (post(b"Expect: 100-continue\r\nContent-Length: 25\r\n"), [100, 200]),
    (post(b"Expect: 100-continue\r\nContent-Length: 25\r\n", version=b"1.0"), [200]),
    (post(b"Content-Length: 25\r\nContent-Encoding: identity\r\n"), [200]),
    (post(b"Expect: 100-Continue\r\nContent-Length: 25\r\n"), [100, 200]),
    (post(b"Expect: 200-ok\r\nContent-Length: 25\r\n"), [200]),
    (post(b"Expect: 100-continue\r\nContent-Length: 999999999\r\n", b""), [413]),
    # Spaces and tabs around a value are no part of it.
    *((post(b"Content-Length:" + value + b"\r\n"), [200]) for value in (b"25", b"  25", b" 25 ", b"\t25\t", b" 025")),
    (post(b"Content-Encoding: identity \r\nTransfer-Encoding:\tchunked \r\n", CHUNKS + b"0\r\n\r\n"), [200]),
    *((b"GET /healthz HTTP/1.1\r\nHost:" + host + b"\r\n\r\n", [200]) for host in
      (b"localhost", b" localhost \t", b" LOCALHOST", b" localhost.", b" localhost:", b" [::1]:80")),
    *((b"GET /healthz HTTP/1.1\r\nHost:" + host + b"\r\n\r\n", [421]) for host in
      (b"", b" 127.1", b" 2130706433", b" 0.0.0.0", b" localhost%00", b" localhost.evil.example")),
    *((GET + line + b"\r\n\r\n", [200]) for line in
      (b"a:", b"a:b", b"a: \xe9", b"Content_Length: 9", b"Connection: x")),
    *((post(CHUNKED, CHUNKS + rest), [200]) for rest in
      (b"00\r\n\r\n", b"0;a=b\r\n\r\n", b"0\r\nHost: evil.example\r\nExpect: 100-continue\r\n\r\n")),
    *((post(CHUNKED, chunk + BODY + b"\r\n0\r\n\r\n"), [200]) for chunk in
      (b"019\r\n", b"19;a\r\n", b'19;a="b;c"\r\n', b'19;a="b\\"c";d\r\n')),
    (post(b"Transfer-Encoding: Chunked\r\n", CHUNKS + b"0\r\n\r\n"), [200]),
    (GET + b"\r\n", [200]),
    (b"\r\n\r\n" + GET + b"\r\n", [200]),
    (b"GET /healthz HTTP/1.0\r\n\r\n", [200]),  # as load balancers ask; a browser sends a Host
    (b"GET http://evil.example/healthz HTTP/1.0\r\n\r\n", [421]),
    (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", [200]),
    (b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [200]),
    (b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [200]),
    (b"GET http://localhost:80?a HTTP/1.1\r\nHost: localhost\r\n\r\n", [200]),
    (b"GET HTTP://LOCALHOST/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [200]),
    (b"GET http:///healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET http://localhost:x/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [421]),
    (b"GET http://localhost/healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", [421]),
    (b"GET http://a@localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET ftp://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET /healthz#a HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET http://localhost/healthz#a HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET /healthz HTTP/1.1\r\n\r\n", [400]),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", [400]),
    *((b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", [400]) for host in
      (b"a b", b"local/host", b"a@localhost", b"localhost:x", b"[::1", b"::1", b"a,b", b"http://localhost", b"a\tb")),
    *((b"GET /healthz HTTP/" + version + b"\r\nHost: localhost\r\n\r\n", [505]) for version in
      (b"0.9", b"1.2", b"2.0", b"9.9")),
    *((b"GET /healthz HTTP/" + version + b"\r\nHost: localhost\r\n\r\n", [400]) for version in
      (b"1", b"01.1", b"1.01", b"1,1", b"1.-1", b"1.1x", b"1.1 ")),
    *((line + b"\r\nHost: localhost\r\n\r\n", [400]) for line in
      (b"get /healthz HTTP/1.1", b"GET /healthz http/1.1", b"GET /healthz HTTPS/1.1", b"GET\t/healthz HTTP/1.1",
       b" GET /healthz HTTP/1.1", b"GET /a b HTTP/1.1", b"GET /a\0 HTTP/1.1", b"GET /a\x7f HTTP/1.1",
       b"GET /\xff HTTP/1.1", b"GET /a\rb HTTP/1.1", b"GET HTTP/1.1", b"G@T / HTTP/1.1", b"FOO / HTTP/1.1")),
    (b"GET /healthz\r\n\r\n", [505]),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
    (b"CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", [400]),
    *((post(b"Content-Length: " + value + b"\r\n"), [400]) for value in
      (b"", b"-1", b"+25", b"0x19", b"25, 25", b"2 5", b"25;", b"9" * 30, b"1_0", b"2_5", b"2\xb2", b"1e1", b"\x0b25",
       b"25\0", b"18446744073709551641")),  # the last one is 25 in 64 bits
    (post(b"Content-Length: 4294967321\r\n"), [413]),  # 25 in 32 bits
    *((post(b"Content-Length: %d\r\nContent-Length: %d\r\n" % sizes), [400]) for sizes in
      ((25, 25), (25, 24), (24, 25))),
    *((post(b"Content-Length" + colon + b" 25\r\n"), [400]) for colon in (b" :", b"\t:", b"\r\n :", b"")),
    *((post(b"Transfer-Encoding" + colon + b" chunked\r\n", CHUNKS + b"0\r\n\r\n"), [400]) for colon in
      (b" :", b":\x0b")),
    (post(b"Content-Length: 25\r\n" + CHUNKED, CHUNKS + b"0\r\n\r\n"), [400]),
    (post(CHUNKED + b"Content-Length: 25\r\n", CHUNKS + b"0\r\n\r\n"), [400]),
    (post(CHUNKED, CHUNKS + b"0\r\n\r\n", version=b"1.0"), [400]),
    *((post(b"Transfer-Encoding: " + value + b"\r\n", CHUNKS + b"0\r\n\r\n"), [status]) for value, status in
      ((b"gzip, chunked", 415), (b"GZIP,chunked", 415), (b"x, chunked", 501), (b"identity, chunked", 501),
       (b"identity", 400), (b"gzip", 400), (b"chunked;a=b", 400), (b"xchunked", 400), (b'"chunked"', 400),
       (b",chunked", 501),
       (b"", 400), (b"chunked,", 400), (b"chunked\r\nTransfer-Encoding: chunked", 400), (b"chunked, identity", 400),
       (b"chunked, chunked", 400))),
    (post(b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", CHUNKS + b"0\r\n\r\n"), [415]),
    (post(b"Content-Encoding: gzip\r\nContent-Length: 25\r\n"), [415]),
    *((post(CHUNKED, chunk + BODY + b"\r\n0\r\n\r\n"), [400]) for chunk in
      (b"-1\r\n", b"0x19\r\n", b"1" + b"0" * 16 + b"\r\n", b"\r\n", b"19\n", b"19 \r \n", b" 19\r\n", b"19\t\r\n",
       b"1_9\r\n", b"19h\r\n", b"19 ;a\r\n", b"19;a\0\r\n", b"19;a\n", b"19;a\nb\r\n", b"10000000000000019\r\n",
       b"F" * 17 + b"\r\n", b"18\r\n", b"\r\n19\r\n")),
    *((post(CHUNKED, b"19\r\n" + BODY + rest), [400]) for rest in
      (b"0\r\n\r\n", b"\n0\r\n\r\n", b"\r\n0\n\r\n", b"\r\n0\r\n\n", b"\r\n0\r\na b: c\r\n\r\n",
       b"\r\n0\r\na: b\r\n c\r\n\r\n",
       b"\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n", b"\r\n0\r\nContent-Length: 5\r\n\r\n")),
    # A line ends with both, CR and LF.
    (b"GET /healthz HTTP/1.1\nHost: localhost\n\n", [400]),
    (b"GET /healthz HTTP/1.1\nHost: localhost\r\n\r\n", [400]),
    (b"GET /healthz HTTP/1.1\rHost: localhost\r\n\r\n", [400]),
    *((b"GET /healthz HTTP/1.1\r\nHost: localhost" + end, [400]) for end in
      (b"\nX: y\r\n\r\n", b"\rX: y\r\n\r\n", b"\r\n\n", b"\n\r\n")),
    *((GET + line + b"\r\n\r\n", [400]) for line in
      (b"a: b\r\n c", b"a: b\r\n\tc", b"a:\r\n b", b"a: b\0c", b"a: b\x7f", b"a: b\rc", b"abc", b": b", b"a b: c",
       b"a\t: b", b"a(b: c", b"\xe9: c", b"a\0: b")),
    # What follows is not answered: the client asked to close, or for another protocol.
    *((GET + b"Connection: " + value + b"\r\n\r\n" + GET + b"\r\n", [200]) for value in
      (b"close", b"CLOSE", b"keep-alive, close", b"keep-alive\r\nConnection: close")),
    *((b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n" + line + b"\r\n" + GET + b"\r\n", [200]) for line in
      (b"", b"Connection: keep-alive\r\n")),  # HTTP/1.0 is answered, and nothing is kept for it
    (GET + b"TE: trailers\r\nConnection: TE\r\n\r\n", [200]),
    (b"GET /healthz HTTP/1.1\r\n X: y\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", [414]),
    (b"GET /" + b"a" * 30_000 + b" HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 9_000 + b"\r\n", [431]),
    (GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + GET + b"\r\n", [200]),
    (GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n", [200]),
    # With content, too, which Java's client sends beside a wish for HTTP/2.
    *((post(framing + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n", body), codes)
      for framing, body, codes in (
        (b"Content-Length: 25\r\n", BODY + GET + b"\r\n", [200]), (CHUNKED, CHUNKS + b"0\r\n\r\n" + GET, [200]),
        (CHUNKED, CHUNKS + b"0\r\na: b\r\n\r\n", [200]), (CHUNKED, b"19h\r\n", [400]),
        (b"Content-Length: 999999999\r\n", b"", [413]), (b"Content-Length: 25\r\n" + CHUNKED, BODY, [400]))),
    (post(b"Content-Length: 0\r\n", GET + b"\r\n"), [400, 200]),
    ((GET + b"\r\n") * 500 + b"junk\r\n\r\n", [200] * 500 + [400]),
    (post() * 40 + GET + b"Host: a\r\n\r\n", [200] * 40 + [400]),
]  # fmt: skip


def one(line: bytes, host: bytes = b"localhost") -> bytes:
    return line + b"\r\nHost: " + host + b"\r\n\r\n"


# What RFC 9112 demands of a server that gets a request, each with a request above.
MUSTS: dict[str, bytes] = {
    "2.2: a bare CR is invalid": one(b"GET /a\rb HTTP/1.1"),
    "2.2: an empty line before a request is ignored": b"\r\n\r\n" + GET + b"\r\n",
    "2.2: space before the first field is refused": b"GET /healthz HTTP/1.1\r\n X: y\r\nHost: localhost\r\n\r\n",
    "2.3: the version is in capitals": one(b"GET /healthz http/1.1"),
    "3: an invalid request line is refused": one(b"GET HTTP/1.1"),
    "3: a target that is too long gets 414": one(b"GET /" + b"a" * 70_000 + b" HTTP/1.1"),
    "3.1: methods are in capitals": one(b"get /healthz HTTP/1.1"),
    "3.2: a target has no space": one(b"GET /a b HTTP/1.1"),
    "3.2: HTTP/1.1 has a Host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "3.2: only one": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "3.2: a sound one": one(b"GET /healthz HTTP/1.1", b"a b"),
    "3.2.2: a whole address is a target": one(b"GET http://localhost/healthz HTTP/1.1"),
    # It is not answered under the name of the target alone, as the section wants: both must be known.
    "3.2.2: its name counts": one(b"GET http://evil.example/healthz HTTP/1.1"),
    "3.2.3: an authority is for CONNECT": one(b"CONNECT a:1 HTTP/1.1"),
    "5: a line has a colon": GET + b"abc\r\n\r\n",
    "5.1: no space before a colon": GET + b"a\t: b\r\n\r\n",
    "5.1: space around a value is no part of it": post(b"Content-Length:  25\r\n"),
    "5.2: a folded line is refused": GET + b"a: b\r\n c\r\n\r\n",
    "6.1: HTTP/1.0 has no Transfer-Encoding": post(CHUNKED, CHUNKS + b"0\r\n\r\n", version=b"1.0"),
    "6.1: an unknown one gets 501": post(b"Transfer-Encoding: x, chunked\r\n", CHUNKS + b"0\r\n\r\n"),
    "6.1: one with a length is refused": post(b"Content-Length: 25\r\n" + CHUNKED, CHUNKS + b"0\r\n\r\n"),
    "6.3: the last one is chunked": post(b"Transfer-Encoding: gzip\r\n", CHUNKS + b"0\r\n\r\n"),
    "6.3: a length is a number": post(b"Content-Length: 25, 25\r\n"),
    "6.3: lengths do not differ": post(b"Content-Length: 25\r\nContent-Length: 24\r\n"),
    "6.3: without one there is no body": GET + b"\r\n",
    "7.1: chunks are read": post(CHUNKED, CHUNKS + b"0\r\n\r\n"),
    "7.1: sizes do not overflow": post(CHUNKED, b"10000000000000019\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "7.1.1: unknown extensions are ignored": post(CHUNKED, b"19;a=b\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "7.1.2: trailers are no headers": post(
        CHUNKED, CHUNKS + b"0\r\nHost: evil.example\r\nExpect: 100-continue\r\n\r\n"
    ),
    "7.4: TE is for answers": GET + b"TE: trailers\r\nConnection: TE\r\n\r\n",
    "9.3: HTTP/1.0 keeps nothing": b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n" + GET + b"\r\n",
    "9.3.2: answers are in the order of requests": post() * 40 + GET + b"Host: a\r\n\r\n",
    "9.6: nothing is answered after close": GET + b"Connection: close\r\n\r\n" + GET + b"\r\n",
    "9.8: TLS is not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "RFC 9110, 7.8: Upgrade may be ignored": GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
    "RFC 9110, 9.1: HEAD is answered": one(b"HEAD /healthz HTTP/1.1"),
    "RFC 9110, 10.1.1: 100 is sent, or the answer": post(b"Expect: 100-continue\r\nContent-Length: 25\r\n"),
    "RFC 9110, 10.1.1: not to HTTP/1.0": post(b"Expect: 100-continue\r\nContent-Length: 25\r\n", version=b"1.0"),
    "RFC 9110, 15.6.6: other versions get 505": one(b"GET /healthz HTTP/2.0"),
}
