"""An application that knows nothing of limits: what the gateway lets through is all that it sees."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        told = {
            "path": self.path,
            "user": self.headers.get("X-Headgate-User"),
            "tier": self.headers.get("X-Headgate-Tier"),
            "from": self.headers.get("X-Forwarded-For"),
        }
        body = json.dumps(told).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Hello).serve_forever()
