"""The copy elsewhere: curl and an S3 server, with the page's own commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.backup.page import Places, commands, shown
from tests.backup.storage_server import ACCESS_KEY, SECRET_KEY, StorageServer

SECTION = "A copy elsewhere"
WRITTEN_URL = "https://s3.example.com"
BUCKET = "headgate-backups"


def shell_in(folder: Path, storage: StorageServer) -> Places:
    """In a folder with the page's configuration."""
    keys = shown(SECTION, "text").replace("ACCESS_KEY:SECRET_KEY", f"{ACCESS_KEY}:{SECRET_KEY}")
    (folder / "s3.conf").write_text(keys)
    return Places(
        {WRITTEN_URL: storage.url, "/var/backups/headgate": str(folder / "kept")}, {"no_proxy": "*"}, folder=folder
    )


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageServer]:
    """With a bucket."""
    with StorageServer() as server:
        shell = shell_in(tmp_path_factory.mktemp("storage"), server)
        shell.run(f"curl --config s3.conf --request PUT {WRITTEN_URL}/{BUCKET}")
        yield server


@pytest.fixture
def shell(storage: StorageServer, tmp_path: Path) -> Places:
    return shell_in(tmp_path, storage)


def test_what_is_sent_is_what_is_fetched_by_those_who_have_the_key(
    shell: Places, storage: StorageServer, tmp_path: Path
) -> None:
    # More than one part of what the server stores at a time.
    content = bytes(range(256)) * 40_000
    (tmp_path / "headgate-2026-11-16.backup").write_bytes(content)
    send, fetch, *_ = commands(SECTION)
    shell.run(send)
    shell.run(fetch)
    assert (tmp_path / "fetched.backup").read_bytes() == content
    url = f"{storage.url}/{BUCKET}/daily/headgate-2026-11-16.backup"
    assert httpx.get(url, trust_env=False).status_code == 403


def test_a_base_backup_and_an_archive_go_the_same_way(shell: Places, tmp_path: Path) -> None:
    base, archive = tmp_path / "kept" / "base" / "2026-11-16", tmp_path / "kept" / "wal"
    base.mkdir(parents=True)
    archive.mkdir()
    (base / "backup_manifest").write_text("{}")
    for name in ("000000010000000000000001", "000000010000000000000002"):
        (archive / name).write_text(name)
    _, _, *rest = commands(SECTION)
    for command in rest:
        shell.run(command)
    fetch = f"curl --config s3.conf {WRITTEN_URL}/{BUCKET}"
    assert shell.run(f"{fetch}/wal/000000010000000000000002") == "000000010000000000000002"
    listed = shell.run(f"{fetch}/base/base-2026-11-16.tar.gz | tar -tzf -")
    assert "2026-11-16/backup_manifest" in listed
