"""`headgate keys`: what is printed, what is written, and what is left as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headgate import IdentityOptions, KeysFileError, Limiter
from headgate.cli import app
from headgate.identity import read_secret
from headgate.model.api_keys import load_api_keys

FORMS = ["keys.yaml", "keys.json", "keys.jsonl"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["keys", *words])


def create(file: str = "keys.yaml", *words: str) -> str:
    result = run("create", "--file", file, *words)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def listed(file: str = "keys.yaml") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("list", "--file", file, "--json").stdout)
    return found


def limiter(file: str) -> Limiter:
    return Limiter(identity=IdentityOptions(api_keys=file, api_key_secret=read_secret("keys.secret")))


@pytest.mark.parametrize("file", FORMS)
def test_a_key_is_printed_once_and_its_hash_is_kept(file: str) -> None:
    first = create(file, "--user", "42", "--tier", "pro", "--org", "acme", "--name", 'a "quoted" name: #1')
    second = create(file, "--user", "43")
    assert first != second
    assert first not in Path(file).read_text()
    known = limiter(file)
    assert known.identify(api_key=first).facts() == {
        "user": "42",
        "tier": "pro",
        "org": "acme",
        "api_key": first.split("_")[1],
    }
    assert known.identify(api_key=second).user == "43"
    assert [entry["name"] for entry in listed(file)[:1]] == ['a "quoted" name: #1']
    assert "hash" not in listed(file)[0]


@pytest.mark.parametrize("file", FORMS)
def test_a_revoked_key_ends_and_the_others_do_not(file: str) -> None:
    made = [create(file, "--user", str(nth)) for nth in range(3)]
    key_id = made[1].split("_")[1]
    assert run("revoke", key_id, "--file", file, "--by", "me").exit_code == 0
    known = limiter(file)
    errors = [known.identify(api_key=value).error for value in made]
    assert errors == [None, "the API key was revoked", None]
    assert "by me" in listed(file)[1]["state"]
    again = run("revoke", key_id, "--file", file)
    assert (again.exit_code, "was revoked already" in again.stderr) == (2, True)


def test_a_file_that_people_write_stays_as_they_wrote_it() -> None:
    first = create()
    text = "# ours\n" + Path("keys.yaml").read_text().replace("  - id", "  # the first\n  - id")
    Path("keys.yaml").write_text(text.rstrip("\n"))
    create()
    assert Path("keys.yaml").read_text().startswith(text)
    run("revoke", first.split("_")[1])
    after = Path("keys.yaml").read_text()
    assert [line for line in text.splitlines() if line not in after.splitlines()] == []
    assert len(listed()) == 2


@pytest.mark.parametrize("text", ["keys:\n- id: a\n  hash: '{}'\n", "keys: []\n", "keys:\n", "", "# none yet\n"])
def test_a_key_is_added_however_the_list_is_indented(text: str) -> None:
    Path("keys.yaml").write_text(text.format("0" * 64))
    before = len(listed())
    value = create()
    assert len(listed()) == before + 1
    assert limiter("keys.yaml").identify(api_key=value).error is None


@pytest.mark.parametrize(
    "text", ["keys: [{id: a, hash: b}]\n", "keys:\n  - id: a\nother: 1\n", "[1]", "keys: {}", "a: b: c"]
)
def test_a_file_that_cannot_be_changed_is_left_alone(text: str) -> None:
    Path("keys.yaml").write_text(text)
    result = run("create")
    assert result.exit_code == 2
    assert "keys.yaml" in result.stderr
    assert Path("keys.yaml").read_text() == text
    assert not list(Path().glob("*.new"))


def test_two_changes_at_once_do_not_lose_one() -> None:
    create()
    Path("keys.yaml.new").touch()
    result = run("create")
    assert (result.exit_code, "someone else is changing the file" in result.stderr) == (2, True)
    assert len(listed()) == 1


@pytest.mark.parametrize(
    ("when", "written"),
    [("2027-01-31", "2027-01-31T00:00:00Z"), ("2027-01-31T12:00:00+02:00", "2027-01-31T10:00:00Z"), ("soon", None)],
)
def test_an_end_is_a_time(when: str, written: str | None) -> None:
    result = run("create", "--expires", when)
    assert result.exit_code == (0 if written else 2)
    if written:
        assert listed()[0]["expires"] == written


def test_a_weak_secret_makes_no_keys() -> None:
    Path("keys.secret").write_text("weak")
    result = run("create")
    assert (result.exit_code, "too weak" in result.stderr) == (2, True)
    assert not Path("keys.yaml").exists()


def test_an_unknown_key_cannot_be_revoked() -> None:
    create()
    assert "there is no key with the id nobody" in run("revoke", "nobody").stderr


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("keys.yaml", "keys:\n  - id: a\n    hash: short\n", "keys.yaml:2:5: keys[0]: hash: expected 64"),
        ("keys.yaml", "keys:\n  - id: a\n    id: b\n", "keys.yaml:3:5: `id` is written twice"),
        ("keys.json", '{"keys": [{"id": "a"}]}', "keys.json:1:11: keys[0]: missing field `hash`"),
        ("keys.jsonl", f'{{"id":"a","hash":"{"0" * 64}"}}\n{{"id":"a"}}\n', "keys.jsonl:2:1: missing field `hash`"),
        ("keys.jsonl", "{}x\n", "keys.jsonl:1:1: "),
        ("missing.yaml", "", "missing.yaml: cannot be read"),
        ("missing.jsonl", "", "missing.jsonl: cannot be read"),
    ],
)
def test_mistakes_in_a_file_are_told_with_their_place(file: str, text: str, place: str) -> None:
    if text:
        Path(file).write_text(text)
    with pytest.raises(KeysFileError) as caught:
        load_api_keys(file, b"x" * 32)
    assert str(caught.value).startswith(place)
