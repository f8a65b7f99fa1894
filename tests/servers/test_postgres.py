"""The PostgreSQL that tests use does what its methods say."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers.postgres import Postgres

TIMEOUT_S = 2


def test_what_was_committed_outlives_a_stop_and_a_crash() -> None:
    with Postgres() as server:
        url = server.empty_database()
        name = url.rsplit("/", 1)[1]
        server.execute("CREATE TABLE t (n int)", name)
        server.execute("INSERT INTO t VALUES (1)", name)
        server.restart()
        assert server.execute("SELECT n FROM t", name) == [(1,)]
        server.kill9()
        assert not server.is_running
        with pytest.raises(psycopg.OperationalError):
            server.execute("SELECT 1")
        server.start()
        assert server.is_running
    assert not server.folder.exists()


def test_a_hung_server_answers_nobody_until_it_goes_on(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as open_before:
        postgres.hang()
        try:
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(postgres.url(), connect_timeout=TIMEOUT_S)
        finally:
            postgres.cont()
        assert open_before.execute("SELECT 1").fetchone() == (1,)
    assert postgres.execute("SELECT 2") == [(2,)]
