"""The documents say what exists, no more and no less, and their examples work."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate import Decision, Limiter, LimitResult
from headgate import setting_values as values
from headgate._core import Server
from headgate.model import find_mistakes, schema_text
from headgate.settings import CONFIG_FILE, read_settings, setting_items
from headgate.testing import FakeClock
from headgate.upkeep.rules_file import STARTER_FILE
from tests.docs.markdown import Example, Page
from tests.docs.pages import DOCS, LINKING, README, WRITTEN, examples, first_rules, named
from tests.servers.server import Server as StoreServer

SCHEMA: dict[str, Any] = json.loads(schema_text())
PATIENCE_S = 30.0
# These need more than a rules file; tests of their own run them.
RUN_ELSEWHERE = ("client", "stores", "moving/")
RUN_HERE = [
    page
    for name, page in {"README": README, **DOCS}.items()
    if page in WRITTEN and page.examples_in("python") and not name.startswith(RUN_ELSEWHERE)
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text(first_rules(), encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def store() -> Iterator[StoreServer]:
    with StoreServer() as server:
        yield server


@pytest.fixture
def node() -> Iterator[httpx.Client]:
    """A server with the starter rules, as `headgate serve` has them."""
    yield from serving(Limiter(STARTER_FILE))


def serving(limiter: Limiter) -> Iterator[httpx.Client]:
    server = Server(limiter, listen="127.0.0.1:0", threads=1)
    server.start()
    try:
        with httpx.Client(base_url=f"http://{server.addresses()['http']}", timeout=PATIENCE_S) as client:
            yield client
    finally:
        server.drain(PATIENCE_S)


# --- what is listed is what exists


def test_every_setting_is_documented_in_all_its_forms_with_its_default() -> None:
    documented = [
        tuple(cell.strip("`") for cell in row[:4]) for row in DOCS["settings"].section("Every setting").rows()
    ]
    existing = [
        (item.name, item.flag, item.variable, "none" if item.default is None else str(values.shown(item.default)))
        for item in setting_items()
    ]
    assert documented == existing


@pytest.fixture
def sharing_node(store: StoreServer) -> Iterator[httpx.Client]:
    limiter = Limiter(STARTER_FILE, store=store.url)
    limiter.set_feed_status(contact_us=1, source="redis://127.0.0.1", error=None)
    yield from serving(limiter)


def test_every_metric_is_documented_with_its_kind_and_labels(sharing_node: httpx.Client) -> None:
    node = sharing_node
    node.post("/v1/check", json={"user": "1"})
    kinds: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for line in node.get("/metrics").text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kinds[name] = line.split()
            labels[name] = set()
        elif not line.startswith("#"):
            labels[re.split(r"[{ ]", line)[0]] |= set(re.findall(r'(\w+)="', line))
    rows = DOCS["http"].section("Metrics").rows()
    assert {row[0].strip("`"): row[1] for row in rows} == kinds
    assert {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[2])) for row in rows} == labels


def test_every_route_is_documented(node: httpx.Client) -> None:
    listed = node.get("/nowhere").json()["detail"].partition("try ")[2].split(", ")
    assert sorted(DOCS["http"].section("Routes").codes()) == sorted(listed)


def test_every_field_of_a_request_is_documented(node: httpx.Client) -> None:
    for path in ("/v1/check", "/v1/limit"):
        known = node.post(path, json={"nonsense": 1}).json()["detail"].partition("one of ")[2].split(", ")
        text = DOCS["http"].section(f"POST {path}")
        fields = [row[0] for row in text.rows() if len(row) == 3]
        assert sorted(re.findall(r"`(\w+)`", " ".join(fields))) == sorted(known), path


def test_every_field_of_an_answer_is_documented(node: httpx.Client) -> None:
    answer = node.post("/v1/check", json={"user": "1"}).json()
    rows = [row[0] for row in DOCS["http"].section("POST /v1/check").rows() if len(row) == 2]
    assert re.findall(r"`(\w+)`", " ".join(rows)) == [
        "allowed",
        "limit",
        "remaining",
        "reset_after",
        "retry_after",
        "rule",
        "path",
        "degraded",
        "status",
        "results",
    ]
    assert set(answer) == set(re.findall(r"`(\w+)`", " ".join(rows)))


def test_every_header_is_documented() -> None:
    limiter = Limiter(clock=FakeClock())
    allowed, refused = (limiter.check_limit("k", 1, 60) for _ in range(2))
    given = {name for decision in (allowed, refused) for name in decision.headers()}
    assert not refused.allowed
    assert set(DOCS["headers"].section("Headers").codes()) == given
    families = {row[0].strip("`"): row[1].strip("`") for row in DOCS["headers"].section("Headers").rows()}
    for family in ("x-ratelimit", "ietf"):
        documented = {name for name, of in families.items() if of in (family, "always")}
        assert documented == set(refused.headers(families=[family]))


@pytest.mark.parametrize(
    ("title", "definition"),
    [
        ("The document", SCHEMA),
        ("A rule", SCHEMA["$defs"]["rule"]),
        ("Match", SCHEMA["$defs"]["match"]),
        ("Responses", SCHEMA["$defs"]["response"]),
    ],
    ids=["document", "rule", "match", "response"],
)
def test_every_rule_key_is_documented(title: str, definition: dict[str, Any]) -> None:
    assert sorted(DOCS["rules"].section(title).codes()) == sorted(definition["properties"])


def test_every_key_of_overrides_and_single_limits_is_documented() -> None:
    definitions = SCHEMA["$defs"]
    block = definitions["override"]["properties"]["block"]["oneOf"][1]["properties"]
    assert sorted(DOCS["rules"].section("Overrides").codes()) == sorted(
        [*definitions["override"]["properties"], *block]
    )
    limit_keys = DOCS["rules"].section("Limits").codes()
    assert set(limit_keys) >= set(definitions["limit_object"]["properties"])


def test_every_choice_a_rule_has_is_documented() -> None:
    choices = SCHEMA["$defs"]["rule"]["properties"]
    assert set(DOCS["rules"].section("Actions").codes()) == set(choices["action"]["enum"])
    assert set(DOCS["rules"].section("Classes").codes()) == set(choices["class"]["enum"])
    assert set(DOCS["algorithms"].section("Algorithms").codes()) == set(SCHEMA["$defs"]["algorithm"]["enum"])


@pytest.mark.parametrize("kind", [Limiter, Decision, LimitResult], ids=lambda kind: kind.__name__)
def test_every_member_is_documented(kind: type) -> None:
    documented = [code.partition("(")[0] for code in DOCS["python"].section(kind.__name__).codes()]
    arguments = set(inspect.signature(Limiter.__init__).parameters) - {"self"}
    if kind is Limiter:
        assert arguments <= set(documented)
        documented = [name for name in documented if name not in arguments]
    assert sorted(documented) == sorted(name for name in dir(kind) if not name.startswith("_"))


# --- examples work


@named(examples("yaml"), "example")
def test_rules_in_examples_have_no_mistakes(page: Page, example: Example) -> None:
    count, mistakes = find_mistakes(example.text)
    assert not mistakes
    assert count > 0


@named(examples("jsonl"), "example")
def test_bulk_rules_in_examples_load(page: Page, example: Example, tmp_path: Path) -> None:
    path = tmp_path / "rules.jsonl"
    path.write_text(example.text, encoding="utf-8")
    assert find_mistakes(path) == (len(example.text.splitlines()), [])


@named(examples("json"), "example")
def test_json_in_examples_is_json(page: Page, example: Example) -> None:
    json.loads(example.text)


@named(examples("toml"), "example")
def test_settings_in_examples_are_read(page: Page, example: Example, folder: Path) -> None:
    (folder / CONFIG_FILE).write_text(example.text, encoding="utf-8")
    settings = read_settings(environ={}, folder=folder)
    for name in tomllib.loads(example.text):
        assert settings.sources[name] == f"file {CONFIG_FILE}"


@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: page.path.stem)
def test_python_examples_run_in_order_as_one_program(page: Page, folder: Path) -> None:
    program: dict[str, Any] = {"__name__": "example"}
    for example in page.examples_in("python"):
        # Blank lines before it, so that a failure names the line of the page.
        text = "\n" * (example.line - 1) + example.text
        exec(compile(text, str(page.path), "exec"), program)  # The examples are our own.


def test_the_example_of_a_shared_store_runs(store: StoreServer, folder: Path) -> None:
    program: dict[str, Any] = {}
    for example in DOCS["stores"].examples_in("python"):
        exec(example.text.replace("redis://cache:6379", store.url), program)  # The examples are our own.
    assert program["limiter"].check(user="42").allowed


def test_the_examples_of_the_main_pages_are_among_those_run() -> None:
    assert {page.path.stem for page in RUN_HERE} >= {"README", "python", "getting-started", "failure"}


def test_curl_examples_are_answered(node: httpx.Client) -> None:
    call = re.compile(r"localhost:8080(/[^\s']+)'? -d '([^']+)'")
    consoles = [example.text.replace("\\\n", " ") for _, example in examples("console")]
    calls = [found for text in consoles for found in call.findall(re.sub(r" +", " ", text))]
    assert len(calls) >= 8
    for path, body in calls:
        response = node.post(path, content=body)
        wrong_on_purpose = '"usr"' in body
        assert response.status_code == (400 if wrong_on_purpose else 200), (path, body, response.text)


def test_the_sixth_login_of_the_readme_is_refused(node: httpx.Client) -> None:
    loop = next(example.text for example in README.examples_in("console") if "for i in" in example.text)
    found = re.search(r"-d '([^']+)'", loop)
    assert found
    answers = [node.post("/v1/check", content=found[1]).json() for _ in range(6)]
    assert [answer["allowed"] for answer in answers] == [True] * 5 + [False]
    assert {answer["rule"] for answer in answers} == {"free-login"}


def test_getting_started_shows_the_rules_that_its_commands_are_tried_with() -> None:
    assert DOCS["getting-started"].examples_in("yaml")[0].text == first_rules()


def test_the_web_application_of_getting_started_refuses_the_sixth_login(folder: Path) -> None:
    program: dict[str, Any] = {}
    for example in DOCS["getting-started"].examples_in("python"):
        exec(example.text, program)  # The examples are our own.

    async def statuses() -> list[int]:
        transport = httpx.ASGITransport(program["app"])
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            return [(await client.post("/api/v1/login")).status_code for _ in range(6)]

    # It has no routes: 404 is the application's own answer.
    assert asyncio.run(statuses()) == [404] * 5 + [429]


def test_getting_started_is_refused_when_it_says_so(folder: Path) -> None:
    page = DOCS["getting-started"]
    loop = next(example.text for example in page.examples_in("console") if "for i in" in example.text)
    headers = dict(text.split(": ") for text in re.findall(r"-H '([^']+)'", loop))
    shown = [int(line) for line in loop.splitlines() if line.isdigit()]
    for node in serving(Limiter("rules.yaml")):
        assert [node.get("/v1/authorize", headers=headers).status_code for _ in shown] == shown


# --- links lead somewhere


@named([(page, link) for page in LINKING for link in page.links()], "link")
def test_links_lead_somewhere(page: Page, link: str) -> None:
    if re.match(r"[a-z]+:", link):
        return
    name, _, anchor = link.partition("#")
    target = page.path.parent / name if name else page.path
    assert target.exists(), f"{link} does not exist"
    if anchor:
        assert anchor in Page(target).anchors()
