"""A control plane made of a folder: a log of deltas and a snapshot, for brokers, for files, and over HTTP.

`python -m tests.feed.toy_control FOLDER PORT` is its HTTP feed, as a process that can be killed and hung.
"""

from __future__ import annotations

import http.server
import json
import os
import socket
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from headgate.feed.codec import delta_reach, encode_delta, feed_token, write_snapshot
from headgate.feed.entry import Entry, Kind, Position
from headgate.storage.streams import Broker
from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

KEY = b"k" * 32
EPOCH = 1_700_000_000_000_000


def now_us() -> int:
    return time.time_ns() // 1000


class ToyControl:
    def __init__(self, folder: Path, *, key: bytes = KEY, epoch: int = EPOCH) -> None:
        self.folder = folder
        self.key = key
        self.position = Position(epoch, 0)
        self.bodies: dict[tuple[Kind, str], str] = {}
        folder.mkdir(exist_ok=True)
        self._keep()

    @property
    def snapshot_path(self) -> Path:
        return self.folder / "snapshot.hgs"

    def change(self, *entries: Entry) -> bytes:
        """One version more; the delta that leads to it."""
        since, self.position = self.position, Position(self.position.epoch, self.position.version + 1)
        raw = encode_delta(self.key, since, self.position, now_us(), entries)
        for entry in entries:
            if entry.body is None:
                self.bodies.pop((entry.kind, entry.id), None)
            else:
                self.bodies[entry.kind, entry.id] = entry.body
        (self.folder / f"delta-{since}").write_bytes(raw)
        self._keep()
        return raw

    def rule(self, name: str, body: str | None = None) -> bytes:
        whole = json.dumps({"name": name, "limit": "5/minute", "by": "user"})
        return self.change(Entry(Kind.RULE, name, body or whole))

    def new_epoch(self) -> None:
        self.position = Position(self.position.epoch + 1_000_000, 1)
        self._keep()

    def publish_snapshot(self, broker: Broker) -> None:
        assert broker.publish_snapshot(str(self.snapshot_path), broker.state(), now_us()) is not None
        self.pulse(broker)

    def publish(self, broker: Broker, raw: bytes) -> None:
        assert broker.publish_delta(raw, after_id=broker.state().stream.last_id)
        self.pulse(broker)

    def pulse(self, broker: Broker) -> None:
        broker.pulse(self.position, now_us())

    def _keep(self) -> None:
        draft = self.folder / "draft"
        with draft.open("wb") as file:
            entries = [Entry(kind, name, body) for (kind, name), body in self.bodies.items()]
            write_snapshot(file, self.key, self.position, now_us(), entries)
        os.replace(draft, self.snapshot_path)
        draft.write_text(str(self.position))
        os.replace(draft, self.folder / "head")


class ToyFeed(Closing):
    """The HTTP feed of a folder, as a process."""

    def __init__(self, control: ToyControl) -> None:
        self.folder = control.folder
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.feed.toy_control", str(self.folder), str(self.port)]
        self.process = Process(
            command, self.folder, {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        )
        wait_for("the feed", self._answers, 20)

    def _answers(self) -> bool:
        socket.create_connection((HOST, self.port), 1).close()
        return True

    def restart(self) -> None:
        self.process.kill()
        self._start()

    def heartbeats(self) -> list[dict[str, object]]:
        try:
            return [json.loads(line) for line in (self.folder / "beats").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def close(self) -> None:
        self.process.kill()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {feed_token(KEY)}":
            return self._answer(401, b"who are you?")
        where = urlsplit(self.path)
        if where.path == "/feed/v1/snapshot":
            return self._answer(200, (self.folder / "snapshot.hgs").read_bytes())
        query = parse_qs(where.query)
        since = Position.parse(query["since"][0])
        end_s = time.monotonic() + float(query["wait"][0])
        while True:
            head = Position.parse((self.folder / "head").read_text())
            if since != head:
                return self._delta(since, head)
            if time.monotonic() >= end_s:
                return self._answer(204, b"")
            time.sleep(0.01)

    def _delta(self, since: Position, head: Position) -> None:
        path = self.folder / f"delta-{since}"
        if not path.exists() or delta_reach(path.read_bytes())[1] > head:
            return self._answer(410, b"take the snapshot")
        return self._answer(200, path.read_bytes())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with (self.folder / "beats").open("ab") as file:
            file.write(body + b"\n")
        self._answer(204, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        elif (age := self.folder / "age").exists():
            self.send_header("Age", age.read_text())
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


def main() -> None:
    _Handler.folder = Path(sys.argv[1])
    http.server.ThreadingHTTPServer((HOST, int(sys.argv[2])), _Handler).serve_forever()


if __name__ == "__main__":
    main()
