"""How Kong's plugins are set and written down: what is taken over, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

from headgate.importing.kong import read_kong
from tests.importing.deciding import moved
from tests.importing.kong_files import BOB, EVE, HEAD, configured, importing, own_notes


def test_answers_and_failure_are_as_they_were_set(tmp_path: Path) -> None:
    config = "minute: 1, fault_tolerant: false, error_code: 403, error_message: Slow down, hide_client_headers: true"
    there = configured(tmp_path, config)
    rule = there.rule("kong/global")
    assert rule["on_store_failure"] == "closed"
    assert rule["response"] == {"status": 403, "message": "Slow down", "hide_remaining": True}
    assert there.admitted(1, user="bob") == 1
    assert there.limiter.check(user="bob").status == 403
    assert [what for _, what in own_notes(there, "differs")] == [
        "only what remains is hidden from a rule's headers; the setting `headers: none` leaves out all of them",
        "a request that cannot be decided gets 503, not 500",
    ]


def test_months_and_years_are_of_a_fixed_length_and_it_is_said(tmp_path: Path) -> None:
    there = configured(tmp_path, "month: 3, year: 4")
    assert own_notes(there, "differs") == [
        ("theirs.yaml:4:12", "a month is 30 days here, not a month of the calendar"),
        ("theirs.yaml:4:22", "a year is 365 days here, not a year of the calendar"),
    ]
    assert there.admitted(9, user="bob") == 3


def test_the_advanced_plugin_is_imported_as_far_as_it_can_be(tmp_path: Path) -> None:
    config = "limit: [6, 2], window_size: [60, 10], window_type: fixed, identifier: ip, namespace: n, throttling: {}"
    off = "- {name: rate-limiting, enabled: false, config: {minute: 1}}\n"
    there = importing(tmp_path, f"plugins:\n{off}- name: rate-limiting-advanced\n  config: {{{config}}}\n")
    assert there.admitted(9, ip=BOB) == 2
    there.clock.advance(10)
    assert there.admitted(9, ip=BOB) == 2
    assert there.rule("kong/global")["counter"] == "kong/n"
    assert own_notes(there, "cannot") == [
        ("theirs.yaml:5:100", "`throttling` is not known here, and was left out; the plugin itself is imported")
    ]
    sliding = configured(tmp_path, "limit: [6], window_size: [60]", "rate-limiting-advanced")
    assert sliding.rule("kong/global")["algorithm"] == "sliding_window_counter"
    assert own_notes(sliding, "differs") == [
        (
            "theirs.yaml:4:11",
            "a refused request counts there, unless `disable_penalty` is set; here it never does",
        )
    ]
    compound = "limit: [2], window_size: [60], window_type: fixed, compound_identifier: [consumer, ip]"
    both = configured(tmp_path, compound, "rate-limiting-advanced")
    assert both.admitted(9, user="bob", ip=BOB) == 2
    assert both.admitted(9, user="bob", ip=EVE) == 2


def test_plugins_that_cannot_be_imported_are_told(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        """\
        services: [{name: off, enabled: false, routes: [{name: gone, paths: [/gone]}]}]
        routes:
        - {name: pattern, paths: ["~/a/[0-9]+$"], plugins: [{name: rate-limiting, config: {minute: 1}}]}
        - {name: mixed, paths: ["~/b$", "/c*", /d], plugins: [{name: rate-limiting, config: {minute: 2}}]}
        - {name: expressed, expression: 'http.path == "/e"', plugins: [{name: rate-limiting, config: {minute: 1}}]}
        - {name: hosted, hosts: [a.example], plugins: [{name: rate-limiting, config: {minute: 1}}]}
        - {name: both, hosts: [a.example], paths: [/f], plugins: [{name: rate-limiting, config: {minute: 1}}]}
        plugins:
        - {name: rate-limiting, enabled: false, config: {minute: 1}}
        - {name: rate-limiting, route: nowhere, config: {minute: 1}}
        - {name: rate-limiting, consumer: 42, config: {minute: 3}}
        - {name: rate-limiting-advanced, config: {limit: [1], window_size: [1]}}
        - {name: response-ratelimiting, config: {}}
        - {name: cors}
        """,
    )
    assert own_notes(there, "cannot") == [
        (
            "theirs.yaml:4:27",
            "the path `~/a/[0-9]+$` is a regular expression; write the rule with `{name}` and `*`",
        ),
        ("theirs.yaml:5:25", "the path `~/b$` is a regular expression; write the rule with `{name}` and `*`"),
        ("theirs.yaml:5:33", "the path `/c*` is too long for a rule, or has a character it cannot have"),
        ("theirs.yaml:6:3", "the route `expressed` is an expression; its plugins are left out"),
        ("theirs.yaml:7:3", "the route `hosted` is known by its hosts alone; its plugins are left out"),
        ("theirs.yaml:11:32", "the route `nowhere` is in none of these files; its plugin is left out"),
        (
            "theirs.yaml:13:3",
            "rate-limiting-advanced runs beside rate-limiting there, and rules of both would compete; "
            "import one kind at a time",
        ),
        (
            "theirs.yaml:14:3",
            "`response-ratelimiting` is not imported; only rate-limiting and rate-limiting-advanced are",
        ),
    ]
    assert own_notes(there, "differs") == [
        ("theirs.yaml:8:3", "the route `both` tests hosts as well; its rules apply whatever they are")
    ]
    assert own_notes(there, "note") == [
        ("theirs.yaml:12:35", "the consumer `42` is in none of these files; taken for the id of a user"),
        ("theirs.yaml:10:3", "this plugin is switched off, and was left out"),
    ]
    assert there.admitted(9, path="/d/x", user="bob") == 2
    assert there.admitted(9, path="/a/1", user="bob") == 9
    assert there.admitted(9, path="/f", user="42") == 3


def test_before_version_three_a_path_with_odd_characters_is_a_pattern(tmp_path: Path) -> None:
    text = "_format_version: '2.1'\nroutes: [{name: old, paths: ['/a/\\d+']}]\n"
    there = moved(read_kong, tmp_path, text)
    (said,) = there.said("cannot")
    assert said[1].startswith("the path `/a/\\d+` is a regular expression")


def test_plugins_of_deck_may_share_a_configuration(tmp_path: Path) -> None:
    there = importing(
        tmp_path,
        """\
        _plugin_configs: {slow: {minute: 2, hour: 9}}
        plugins: [{name: rate-limiting, _config: slow, config: {minute: 4}}]
        """,
    )
    assert there.admitted(9, user="bob") == 4


def test_files_are_read_together(tmp_path: Path) -> None:
    (tmp_path / "services.yaml").write_text(f"{HEAD}services: [{{name: s, id: u-1, routes: [{{paths: [/a]}}]}}]\n")
    (tmp_path / "plugins.json").write_text(
        '{"plugins": [{"name": "rate-limiting", "service": {"id": "u-1"}, "config": {"minute": 2, "limit_by": "ip"}}]}'
    )
    imported = read_kong([tmp_path / "services.yaml", tmp_path / "plugins.json"])
    assert [rule["match"] for rule in imported.document["rules"]] == [{"endpoint": ["/a", "/a/*"]}]


def test_a_password_of_the_store_is_in_no_note(tmp_path: Path) -> None:
    there = configured(tmp_path, "minute: 1, policy: redis, redis: {password: hunter2}, redis_password: hunter2")
    assert "hunter2" not in repr(there.imported)
    assert there.said("cannot") == []


def test_names_of_any_length_make_rules_that_are_taken(tmp_path: Path) -> None:
    long = "x" * 1_000
    there = importing(
        tmp_path,
        f"""\
        services: [{{name: {long}, routes: [{{name: {long}, paths: [/{long}]}}]}}]
        consumers: [{{username: {long}}}]
        plugins:
        - {{name: rate-limiting, service: {long}, consumer: {long}, config: {{minute: 2}}}}
        - {{name: rate-limiting, service: {long}, config: {{minute: 1}}}}
        """,
    )
    assert there.admitted(9, path=f"/{long}", user=long) == 2
    assert there.admitted(9, path=f"/{long}", user="bob") == 1
