"""HTTP/2 requests that would be others, or several, once they are written as HTTP/1.1; and careful neighbours."""

from __future__ import annotations

from tests.gateway.h2 import Field, fields

INJECTED = "x\r\nHost: evil.example\r\n\r\nGET /hidden HTTP/1.1"


def without(name: str) -> list[Field]:
    return [pair for pair in fields() if pair[0] != name]


def instead(name: str, value: bytes | str) -> list[Field]:
    return [(name, value) if pair[0] == name else pair for pair in fields()]


# Header blocks; none of them has a body.
HEADS: dict[str, list[Field]] = {
    "transfer-encoding": fields(("transfer-encoding", "chunked")),
    "transfer-encoding, another": fields(("transfer-encoding", "identity")),
    "transfer_encoding": fields(("transfer_encoding", "chunked")),
    "content_length": fields(("content_length", "5")),
    "connection": fields(("connection", "close")),
    "connection that names a field": fields(("connection", "x-a"), ("x-a", "b")),
    "keep-alive": fields(("keep-alive", "timeout=5")),
    "proxy-connection": fields(("proxy-connection", "keep-alive")),
    "upgrade": fields(("upgrade", "websocket")),
    "te": fields(("te", "gzip")),
    "te with a list": fields(("te", "trailers, deflate")),
    "a capital": fields(("X-A", "b")),
    "a name with a space": fields(("x a", "b")),
    "a name with a colon": fields(("x:a", "b")),
    "a name with CRLF": fields(("x\r\nhost", "evil.example")),
    "a name with NUL": fields(("x\0a", "b")),
    "an empty name": fields(("", "b")),
    "a name beyond ASCII": fields(("x-ä".encode(), "b")),
    "CRLF in a value": fields(("x-a", INJECTED)),
    "CR in a value": fields(("x-a", "b\rc")),
    "LF in a value": fields(("x-a", "b\nc")),
    "NUL in a value": fields(("x-a", "b\0c")),
    "a path with a space": instead(":path", "/ HTTP/1.1"),
    "a path with CRLF": instead(":path", "/ HTTP/1.1\r\nHost: evil.example\r\n\r\nGET /hidden"),
    "a path with LF": instead(":path", "/\nx"),
    "a path with a tab": instead(":path", "/\tx"),
    "a path with NUL": instead(":path", "/\0"),
    "a path beyond ASCII": instead(":path", "/é".encode()),
    "an absolute path": instead(":path", "http://evil.example/"),
    "a path without a slash": instead(":path", "x"),
    "an empty path": instead(":path", ""),
    "an asterisk": instead(":path", "*"),
    "two paths": fields((":path", "/hidden")),
    "two methods": fields((":method", "POST")),
    "two schemes": fields((":scheme", "http")),
    "two authorities": fields((":authority", "evil.example")),
    "no path": without(":path"),
    "no method": without(":method"),
    "no scheme": without(":scheme"),
    "no authority": without(":authority"),
    "a method with a space": instead(":method", "GET /hidden HTTP/1.1"),
    "a method with CRLF": instead(":method", "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET"),
    "an empty method": instead(":method", ""),
    "CONNECT": [(":method", "CONNECT"), (":authority", "shop.example:80")],
    "CONNECT with a protocol": [*instead(":method", "CONNECT"), (":protocol", "websocket")],
    "an authority with CRLF": instead(":authority", "x\r\nX-Headgate-User: admin"),
    "an authority with a space": instead(":authority", "shop.example evil.example"),
    "an authority with a path": instead(":authority", "shop.example/x"),
    "an authority with somebody's name": instead(":authority", "user@shop.example"),
    "a pseudo-header nobody knows": fields((":odd", "1")),
    "a response's pseudo-header": fields((":status", "200")),
    "a pseudo-header late": [*without(":path"), ("x-a", "b"), (":path", "/")],
    "another host": fields(("host", "evil.example")),
    "two hosts": fields(("host", "shop.example"), ("host", "evil.example")),
    "a length and no body": fields(("content-length", "5"), method="POST"),
    "two lengths": fields(("content-length", "0"), ("content-length", "0"), method="POST"),
    "two different lengths": fields(("content-length", "0"), ("content-length", "5"), method="POST"),
    "a list of lengths": fields(("content-length", "0, 0"), method="POST"),
    "a length with a sign": fields(("content-length", "+0"), method="POST"),
    "a length that is none": fields(("content-length", "x"), method="POST"),
    "an empty length": fields(("content-length", ""), method="POST"),
}

# Lengths that the body `abcde` does not have: the upstream may have begun to read.
LENGTHS = ["0", "4", "6", "5, 5", "05x", "-5", "+5", "0x5"]

TRAILERS: dict[str, list[Field]] = {
    "a pseudo-header": [(":path", "/hidden")],
    "transfer-encoding": [("transfer-encoding", "chunked")],
    "content-length": [("content-length", "5")],
    "host": [("host", "evil.example")],
    "x-forwarded-for": [("x-forwarded-for", "203.0.113.1")],
    "forwarded": [("forwarded", "for=203.0.113.1")],
    "x-headgate-user": [("x-headgate-user", "admin")],
    "with underscores": [("x_headgate_user", "admin")],
    "a capital": [("X-A", "b")],
    "CRLF": [("x-a", "b\r\nc: d")],
    "connection": [("connection", "close")],
}

GOOD: dict[str, list[Field]] = {
    "nothing odd": fields(),
    "te": fields(("te", "trailers")),
    "the same host": fields(("host", "shop.example")),
    "a host instead of the authority": [*without(":authority"), ("host", "shop.example")],
    "a value beyond ASCII": fields(("x-a", "é".encode())),
    "an empty value": fields(("x-a", "")),
    "a length of nothing": fields(("content-length", "0"), method="POST"),
    "a path with odd letters": fields(path="/a!$&'()*+,;=:@~-._%20?/?a=[b]|{c}"),
    "an authority with a port": fields(authority="shop.example:8080"),
}
