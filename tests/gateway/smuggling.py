"""Requests that two servers might read differently, and for each kind a neighbour that nobody can misread.

Most carry a second request where only a lenient reader would find one.
"""

from __future__ import annotations

HOST = b"Host: shop.example\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: shop.example\r\n\r\n"
EMPTY_CHUNKS = b"0\r\n\r\n"


def post(fields: bytes, body: bytes = b"", line: bytes = b"POST / HTTP/1.1\r\n") -> bytes:
    return line + HOST + fields + b"\r\n" + body


def get(fields: bytes = b"", line: bytes = b"GET / HTTP/1.1\r\n", host: bytes = HOST) -> bytes:
    return line + host + fields + b"\r\n"


def target(text: bytes) -> bytes:
    return get(line=b"GET " + text + b" HTTP/1.1\r\n")


def coded(value: bytes) -> bytes:
    """A coding that is `chunked` only to some."""
    return post(b"Transfer-Encoding:" + value + b"\r\n", EMPTY_CHUNKS + HIDDEN)


def sized(value: bytes) -> bytes:
    return post(b"Content-Length:" + value + b"\r\n", b"abcde" + HIDDEN)


LENGTHS: dict[str, bytes] = {
    "CL.TE": post(b"Content-Length: 5\r\n" + CHUNKED, EMPTY_CHUNKS + HIDDEN),
    "TE.CL": post(CHUNKED + b"Content-Length: 4\r\n", b"2c\r\n" + HIDDEN + b"\r\n0\r\n\r\n"),
    "CL.TE, length 0": post(b"Content-Length: 0\r\n" + CHUNKED, EMPTY_CHUNKS + HIDDEN),
    "CL.TE in small letters": post(b"content-length: 5\r\ntransfer-encoding: chunked\r\n", EMPTY_CHUNKS + HIDDEN),
    "two lengths": post(b"Content-Length: 5\r\nContent-Length: 0\r\n", b"abcde" + HIDDEN),
    "two equal lengths": post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"abcde"),
    "two lengths apart": post(b"Content-Length: 5\r\nX-A: b\r\ncontent-length: 0\r\n", b"abcde" + HIDDEN),
    "a list of lengths": sized(b" 5, 5"),
    "a list of different lengths": sized(b" 5, 0"),
    "an empty length": sized(b""),
    "plus": sized(b" +5"),
    "minus": sized(b" -5"),
    "minus nothing": sized(b" -0"),
    "hexadecimal": sized(b" 0x5"),
    "a fraction": sized(b" 5.0"),
    "an exponent": sized(b" 5e0"),
    "an underscore": sized(b" 0_5"),
    "a space within": sized(b" 5 0"),
    "quoted": sized(b' "5"'),
    "letters after": sized(b" 5abc"),
    "other digits": sized(b" \xd9\xa5"),
    "beyond 64 bits": sized(b" 18446744073709551621"),
    "beyond 63 bits": sized(b" 9223372036854775808"),
    "with an underscore": post(b"Content_Length: 5\r\n", b"abcde" + HIDDEN),
    "with a dot": post(b"Content.Length: 5\r\n", b"abcde" + HIDDEN),
    "forty digits": sized(b" " + b"9" * 40),
    "a vertical tab before": sized(b" \x0b5"),
    "a form feed after": sized(b" 5\x0c"),
}

CODINGS: dict[str, bytes] = {
    "another word": coded(b" xchunked"),
    "identity": coded(b" identity"),
    "gzip": coded(b" gzip"),
    "gzip, chunked": coded(b" gzip, chunked"),
    "chunked, identity": coded(b" chunked, identity"),
    "chunked twice in a list": coded(b" chunked, chunked"),
    "a comma before": coded(b" , chunked"),
    "a comma after": coded(b" chunked,"),
    "with a parameter": coded(b" chunked;q=1"),
    "quoted": coded(b' "chunked"'),
    "empty": coded(b""),
    "two lines": post(CHUNKED + CHUNKED, EMPTY_CHUNKS + HIDDEN),
    "two lines, the second another": post(CHUNKED + b"Transfer-Encoding: x\r\n", EMPTY_CHUNKS + HIDDEN),
    "two lines, the first another": post(b"Transfer-Encoding: x\r\n" + CHUNKED, EMPTY_CHUNKS + HIDDEN),
    "a vertical tab before": coded(b" \x0bchunked"),
    "a no-break space before": coded(b" \xa0chunked"),
    "a NUL after": coded(b" chunked\0"),
    "folded": coded(b"\r\n chunked"),
    "in HTTP/1.0": post(CHUNKED, EMPTY_CHUNKS + HIDDEN, line=b"POST / HTTP/1.0\r\n"),
    "in HTTP/1.0, kept alive": post(
        b"Connection: keep-alive\r\n" + CHUNKED, EMPTY_CHUNKS + HIDDEN, line=b"POST / HTTP/1.0\r\n"
    ),
    "a space before the colon": post(b"Transfer-Encoding : chunked\r\n", EMPTY_CHUNKS + HIDDEN),
    "a tab before the colon": post(b"Transfer-Encoding\t: chunked\r\n", EMPTY_CHUNKS + HIDDEN),
    "with an underscore": post(b"Transfer_Encoding: chunked\r\n", EMPTY_CHUNKS + HIDDEN),
    "behind a fold": post(b"X-A: b\r\n Transfer-Encoding: chunked\r\n", EMPTY_CHUNKS + HIDDEN),
    "behind a bare LF": post(b"X-A: b\nTransfer-Encoding: chunked\r\n", EMPTY_CHUNKS + HIDDEN),
    "behind a bare CR": post(b"X-A: b\rTransfer-Encoding: chunked\r\n", EMPTY_CHUNKS + HIDDEN),
}

LINES: dict[str, bytes] = {
    "LF after the first line": b"GET / HTTP/1.1\n" + HOST + b"\r\n",
    "LF after a field": get(b"X-A: b\n"),
    "LF at the end": b"GET / HTTP/1.1\r\n" + HOST + b"\n",
    "nothing but LF": b"GET / HTTP/1.1\nHost: shop.example\n\n",
    "CR after the first line": b"GET / HTTP/1.1\r" + HOST + b"\r\n",
    "CR within a value": get(b"X-A: b\rc\r\n"),
    "CR before CRLF": get(b"X-A: b\r\r\n"),
    "CR within a name": get(b"X-\rA: b\r\n"),
    "CR in the target": target(b"/\rx"),
    "LF in the target": target(b"/\nx"),
    "an empty line before": b"\r\n" + get(),
    "LF before": b"\n" + get(),
    "a space before": b" " + get(),
    "folded with a space": get(b"X-A: b\r\n c\r\n"),
    "folded with a tab": get(b"X-A: b\r\n\tc\r\n"),
    "a fold as the first field": b"GET / HTTP/1.1\r\n " + HOST + b"\r\n",
    "an empty fold": get(b"X-A: b\r\n \r\n"),
    "a line without a colon": get(b"X-A\r\n"),
    "a line of nothing but a colon": get(b": b\r\n"),
    "no name": get(b": Host\r\n"),
    "a space in a name": get(b"X A: b\r\n"),
    "a space before the colon": get(b"X-A : b\r\n"),
    "a tab before the colon": get(b"X-A\t: b\r\n"),
    "a space before the name": get(b" X-A: b\r\n"),
    "a letter beyond ASCII in a name": get(b"X-\xc3\x84: b\r\n"),
    "a bracket in a name": get(b"X(A): b\r\n"),
    "a NUL in a name": get(b"X-\0A: b\r\n"),
    "a NUL in a value": get(b"X-A: b\0c\r\n"),
    "a bell in a value": get(b"X-A: b\x07c\r\n"),
    "a backspace in a value": get(b"X-A: b\x08\r\n"),
    "a DEL in a value": get(b"X-A: b\x7fc\r\n"),
    "an escape in a value": get(b"X-A: \x1b[0m\r\n"),
    "a NUL in the first line": b"GET /\0 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a bad method": get(line=b"GE T / HTTP/1.1\r\n"),
    "a method with a colon": get(line=b"GET: / HTTP/1.1\r\n"),
    "a method with brackets": get(line=b"G(E)T / HTTP/1.1\r\n"),
    "no method": get(line=b" / HTTP/1.1\r\n"),
    "two spaces before the target": get(line=b"GET  / HTTP/1.1\r\n"),
    "two spaces after the target": get(line=b"GET /  HTTP/1.1\r\n"),
    "a tab after the method": get(line=b"GET\t/ HTTP/1.1\r\n"),
    "a space after the version": get(line=b"GET / HTTP/1.1 \r\n"),
    "a first line that goes on": get(line=b"GET / HTTP/1.1 x HTTP/1.1\r\n"),
}

TARGETS: dict[str, bytes] = {
    "absolute": target(b"http://shop.example/"),
    "absolute, elsewhere": target(b"http://evil.example/x"),
    "absolute, https": target(b"https://shop.example/"),
    "another scheme": target(b"file:///etc/passwd"),
    "authority": target(b"shop.example:80"),
    "asterisk": target(b"*"),
    "asterisk of OPTIONS": get(line=b"OPTIONS * HTTP/1.1\r\n"),
    "CONNECT": get(line=b"CONNECT shop.example:80 HTTP/1.1\r\n"),
    "no slash": target(b"x"),
    "only a query": target(b"?x"),
    "empty": get(line=b"GET  HTTP/1.1\r\n"),
    "beyond ASCII": target(b"/caf\xc3\xa9"),
    "DEL": target(b"/\x7f"),
    "a tab": target(b"/a\tb"),
}

VERSIONS: dict[str, bytes] = {
    "HTTP/0.9": b"GET /\r\n",
    "HTTP/0.9 with fields": b"GET /\r\n" + HOST + b"\r\n",
    "HTTP/1.2": get(line=b"GET / HTTP/1.2\r\n"),
    "HTTP/2.0": get(line=b"GET / HTTP/2.0\r\n"),
    "HTTP/2": get(line=b"GET / HTTP/2\r\n"),
    "HTTP/1": get(line=b"GET / HTTP/1\r\n"),
    "HTTP/11": get(line=b"GET / HTTP/11\r\n"),
    "HTTP/1.10": get(line=b"GET / HTTP/1.10\r\n"),
    "HTTP/01.1": get(line=b"GET / HTTP/01.1\r\n"),
    "small letters": get(line=b"GET / http/1.1\r\n"),
    "another protocol": get(line=b"GET / ICAP/1.0\r\n"),
}

HOSTS: dict[str, bytes] = {
    "none": get(host=b""),
    "none but a field like it": get(host=b"X-Host: shop.example\r\n"),
    "two": get(HOST),
    "two different": get(b"Host: evil.example\r\n"),
    "with a path": get(host=b"Host: shop.example/x\r\n"),
    "with somebody's name": get(host=b"Host: user@shop.example\r\n"),
    "a list": get(host=b"Host: shop.example, evil.example\r\n"),
    "longer than any name": get(host=b"Host: " + b"x" * 1000 + b"\r\n"),
    "a space within": get(host=b"Host: shop.example evil.example\r\n"),
}

# What is too large is told so.
SIZES: dict[str, bytes] = {
    "a value of a megabyte": get(b"X-A: " + b"b" * 2**20 + b"\r\n"),
    "a target of a megabyte": target(b"/" + b"x" * 2**20),
    "fields of 40 KiB": get(b"".join(b"X-%04d: %b\r\n" % (at, b"b" * 1000) for at in range(40))),
    "101 fields": get(b"".join(b"X-%d: b\r\n" % at for at in range(100))),
    "1000 fields": get(b"A: b\r\n" * 1000),
    "a name of a megabyte": get(b"X" * 2**20 + b": b\r\n"),
}


def chunks(body: bytes) -> bytes:
    return post(CHUNKED, body)


# Their heads are in order: the upstream may have begun to read, and must never come to a request's end.
CHUNKS: dict[str, bytes] = {
    "an extension": chunks(b"5;a=b\r\nabcde\r\n0\r\n\r\n"),
    "an extension of the last": chunks(b"5\r\nabcde\r\n0;a\r\n\r\n"),
    "an extension with LF": chunks(b"5;\nabcde\r\n0\r\n\r\n"),
    "no size": chunks(b"\r\nabcde\r\n0\r\n\r\n"),
    "not a number": chunks(b"x\r\nabcde\r\n0\r\n\r\n"),
    "0x": chunks(b"0x5\r\nabcde\r\n0\r\n\r\n"),
    "a sign": chunks(b"+5\r\nabcde\r\n0\r\n\r\n"),
    "minus": chunks(b"-5\r\nabcde\r\n0\r\n\r\n"),
    "an underscore": chunks(b"0_5\r\nabcde\r\n0\r\n\r\n"),
    "a space before": chunks(b" 5\r\nabcde\r\n0\r\n\r\n"),
    "a space after": chunks(b"5 \r\nabcde\r\n0\r\n\r\n"),
    "a tab after": chunks(b"5\t\r\nabcde\r\n0\r\n\r\n"),
    "beyond 64 bits": chunks(b"10000000000000005\r\nabcde\r\n0\r\n\r\n"),
    "64 bits": chunks(b"ffffffffffffffff\r\nabcde\r\n0\r\n\r\n"),
    "a size that never ends": chunks(b"0" * 100_000 + b"5\r\nabcde\r\n0\r\n\r\n"),
    "LF after the size": chunks(b"5\nabcde\r\n0\r\n\r\n"),
    "CR after the size": chunks(b"5\rabcde\r\n0\r\n\r\n"),
    "LF after the data": chunks(b"5\r\nabcde\n0\r\n\r\n"),
    "nothing after the data": chunks(b"5\r\nabcde0\r\n\r\n"),
    "two letters after the data": chunks(b"5\r\nabcdefg0\r\n\r\n"),
    "LF after the last": chunks(b"0\n\r\n"),
    "LF at the end": chunks(b"0\r\n\n"),
    "a trailer with LF": chunks(b"0\r\nX-A: b\n\r\n"),
    "a folded trailer": chunks(b"0\r\nX-A: b\r\n c\r\n\r\n"),
    "a trailer with a NUL": chunks(b"0\r\nX-A: b\0\r\n\r\n"),
    "a trailer with a space before the colon": chunks(b"0\r\nX-A : b\r\n\r\n"),
    "a trailer without a colon": chunks(b"0\r\nX-A\r\n\r\n"),
    "a trailer that frames": chunks(b"0\r\nContent-Length: 5\r\n\r\n"),
    "a trailer that codes": chunks(b"0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a trailer that names a host": chunks(b"0\r\nHost: evil.example\r\n\r\n"),
    "a trailer that forwards": chunks(b"0\r\nX-Forwarded-For: 203.0.113.1\r\n\r\n"),
    "a trailer that forwards otherwise": chunks(b"0\r\nForwarded: for=203.0.113.1\r\n\r\n"),
    "a trailer that vouches": chunks(b"0\r\nX-Headgate-User: admin\r\n\r\n"),
    "a trailer that vouches with underscores": chunks(b"0\r\nX_Headgate_User: admin\r\n\r\n"),
    "trailers of a megabyte": chunks(b"0\r\nX-A: " + b"b" * 2**20 + b"\r\n\r\n"),
}

HEADS: dict[str, dict[str, bytes]] = {
    "length": LENGTHS,
    "coding": CODINGS,
    "line": LINES,
    "target": TARGETS,
    "version": VERSIONS,
    "host": HOSTS,
}

# How a careful client would have said each of the above, and the body that then arrives.
GOOD: dict[str, tuple[bytes, bytes]] = {
    "a length": (sized(b" 5").removesuffix(HIDDEN), b"abcde"),
    "a length without a space": (sized(b"5").removesuffix(HIDDEN), b"abcde"),
    "a length among spaces": (sized(b" \t 5 \t ").removesuffix(HIDDEN), b"abcde"),
    "a length with zeros before": (sized(b" 0005").removesuffix(HIDDEN), b"abcde"),
    "a length of nothing": (post(b"Content-Length: 0\r\n"), b""),
    "chunks": (chunks(b"5\r\nabcde\r\n0\r\n\r\n"), b"abcde"),
    "chunks in capitals": (post(b"TRANSFER-ENCODING: CHUNKED\r\n", b"A\r\nabcdefghij\r\n0\r\n\r\n"), b"abcdefghij"),
    "chunks without a space": (coded(b"chunked").removesuffix(HIDDEN), b""),
    "chunks among spaces": (coded(b" \tchunked\t ").removesuffix(HIDDEN), b""),
    "a chunk's size with zeros before": (chunks(b"0005\r\nabcde\r\n000\r\n\r\n"), b"abcde"),
    "no chunks": (chunks(b"0\r\n\r\n"), b""),
    "a chunk that looks like a request": (
        chunks(b"2d\r\n" + HIDDEN.ljust(0x2D) + b"\r\n0\r\n\r\n"),
        HIDDEN.ljust(0x2D),
    ),
    "a body that looks like a request": (post(b"Content-Length: %d\r\n" % len(HIDDEN), HIDDEN), HIDDEN),
    "a trailer": (chunks(b"5\r\nabcde\r\n0\r\nX-A: b\r\n\r\n"), b"abcde"),
    "a field without a space": (get(b"X-A:b\r\n"), b""),
    "a field without a value": (get(b"X-A:\r\n"), b""),
    "a field with odd letters": (get(b"!#$%&'*+.^_`|~09: b\r\n"), b""),
    "a value with a tab and beyond ASCII": (get(b"X-A: b\tc \xc3\xa9\xff\r\n"), b""),
    "99 fields": (get(b"".join(b"X-%d: b\r\n" % at for at in range(90))), b""),
    "30 KiB of fields": (get(b"".join(b"X-%02d: %b\r\n" % (at, b"b" * 1000) for at in range(30))), b""),
    "a target with odd letters": (target(b"/a!$&'()*+,;=:@~-._%20?/?a=[b]|{c}"), b""),
    "two slashes": (target(b"//evil.example/x"), b""),
    "a scheme in the query": (target(b"/?http://evil.example/"), b""),
    "HTTP/1.0": (get(line=b"GET / HTTP/1.0\r\n"), b""),
    "HTTP/1.0 with a length": (post(b"Content-Length: 5\r\n", b"abcde", line=b"POST / HTTP/1.0\r\n"), b"abcde"),
    "a host with a port": (get(host=b"Host: shop.example:8080\r\n"), b""),
    "a host in small letters": (get(host=b"host: shop.example\r\n"), b""),
}
