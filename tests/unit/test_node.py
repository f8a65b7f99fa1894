"""The parts of the node process: its rules file and its signals."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from headgate import Limiter, RulesFileError
from headgate.node import process
from headgate.running.signals import SignalQueue
from headgate.settings import Settings
from headgate.upkeep.rules_file import STARTER_FILE, Outcome, RulesFile

RULES = "rules:\n  - {name: a, by: ip, limit: 5/minute}\n"
MORE = RULES + "  - {name: b, by: org, limit: 5/minute}\n"
BROKEN = RULES.replace("5/minute", "often")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "rules.yaml"
    file.write_text(RULES)
    return file


@pytest.fixture
def limiter() -> Limiter:
    return Limiter()


@pytest.fixture
def rules_file(limiter: Limiter, path: Path) -> RulesFile:
    file = RulesFile(limiter, path)
    file.load()
    return file


def save(path: Path, text: str) -> None:
    """As an editor does: a new file takes the old one's place."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    os.replace(draft, path)


def test_an_unchanged_file_is_left_alone(rules_file: RulesFile, limiter: Limiter) -> None:
    version = limiter.rules_version()
    assert rules_file.poll() is None
    assert limiter.rules_version() == version


def test_a_changed_file_is_loaded_once(rules_file: RulesFile, limiter: Limiter, path: Path) -> None:
    save(path, MORE)
    assert rules_file.poll() == Outcome(None)
    assert limiter.rule_count() == 2
    assert rules_file.poll() is None


def test_a_file_rewritten_with_the_same_words_is_no_change(rules_file: RulesFile, limiter: Limiter, path: Path) -> None:
    version = limiter.rules_version()
    save(path, RULES)
    assert rules_file.poll() is None
    assert limiter.rules_version() == version


def test_a_broken_file_is_refused_once_and_the_old_rules_go_on(
    rules_file: RulesFile, limiter: Limiter, path: Path
) -> None:
    save(path, BROKEN)
    outcome = rules_file.poll()
    assert outcome is not None
    assert outcome.error is not None
    assert outcome.error.startswith(f"{path}:2:")
    assert limiter.rule_count() == 1
    assert rules_file.poll() is None
    save(path, RULES)
    assert rules_file.poll() == Outcome(None)


def test_a_file_that_vanishes_is_reported_once_and_may_return(
    rules_file: RulesFile, limiter: Limiter, path: Path
) -> None:
    path.unlink()
    outcome = rules_file.poll()
    assert outcome is not None
    assert "cannot be read" in str(outcome.error)
    assert rules_file.poll() is None
    assert limiter.rule_count() == 1
    save(path, MORE)
    assert rules_file.poll() == Outcome(None)
    assert limiter.rule_count() == 2


def test_a_reload_on_demand_reads_even_an_unchanged_file(rules_file: RulesFile, limiter: Limiter) -> None:
    version = limiter.rules_version()
    assert rules_file.reload() == Outcome(None)
    assert limiter.rules_version() >= version


def test_an_unexpected_failure_of_a_reload_is_an_outcome_and_not_the_end(
    rules_file: RulesFile, limiter: Limiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(rules: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(limiter, "reload", explode)
    assert "MemoryError: no room" in str(rules_file.reload().error)


def test_the_first_load_of_a_broken_file_raises(limiter: Limiter, path: Path) -> None:
    path.write_text(BROKEN)
    with pytest.raises(RulesFileError):
        RulesFile(limiter, path).load()


def test_signals_are_queued_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with SignalQueue(signal.SIGHUP, signal.SIGTERM).open() as signals:
        assert signals.wait(0) == []
        os.kill(os.getpid(), signal.SIGHUP)
        assert signals.wait(5) == [signal.SIGHUP]
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.wait(5) == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) == before


def test_the_command_to_try_goes_to_what_was_bound() -> None:
    plain, tls = Settings(), Settings(tls_cert="c.pem", tls_key="k.pem", tls_client_ca="ca.pem")
    both = {"http": "127.0.0.1:8080", "uds": "unix:/a b"}
    assert "http://127.0.0.1:8080/v1/check" in process._try_it(plain, both)
    assert "--unix-socket '/a b'" in process._try_it(plain, {"uds": "unix:/a b"})
    assert "--unix-socket '/a b'" in process._try_it(tls, both)
    assert "--cert CLIENT.pem --key CLIENT.key https://127.0.0.1:8081/" in process._try_it(
        tls, {"grpc": "127.0.0.1:8081"}
    )


def test_the_starter_rules_are_shipped() -> None:
    assert STARTER_FILE.is_file()
