"""Settings: flags, then environment, then headgate.toml, then defaults; every value remembers where it came from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from headgate.errors import ConfigError, SettingsError
from headgate.setting_values import without_password
from headgate.settings import Settings, read_settings, setting_items


def read(folder: Path, *, flags: dict[str, object | None] | None = None, env: dict[str, str] | None = None) -> Settings:
    return read_settings(flags, environ=env or {}, folder=folder)


def problems(folder: Path, **given: dict[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(folder, **given)  # type: ignore[arg-type]
    return str(caught.value).splitlines()


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    file = "threads = 2\nmax_keys = 200\nregion = 'file'\n"
    (tmp_path / "headgate.toml").write_text(file)
    env = {"HEADGATE_THREADS": "3", "HEADGATE_MAX_KEYS": "300"}
    settings = read(tmp_path, flags={"threads": "4", "max_keys": None}, env=env)
    assert (settings.threads, settings.max_keys, settings.region, settings.ipv6_prefix) == (
        4,
        300,
        "file",
        64,
    )
    assert settings.sources["threads"] == "flag --threads"
    assert settings.sources["max_keys"] == "environment HEADGATE_MAX_KEYS"
    assert settings.sources["region"] == "file headgate.toml"
    assert settings.sources["ipv6_prefix"] == "default"


def test_without_anything_the_defaults_stand(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert settings == Settings()
    assert settings.listen == "127.0.0.1:8080"
    assert settings.store == "memory://"
    assert settings.drain_timeout_s == 10
    assert set(settings.sources.values()) == {"default"}


def test_settings_are_frozen(tmp_path: Path) -> None:
    settings = read(tmp_path)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.threads = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.sources["threads"] = "me"  # type: ignore[index]


def test_every_setting_has_a_description_and_a_default_its_own_reader_takes() -> None:
    for item in setting_items():
        assert item.about
        assert item.default is None or item.read(item.default) == item.default


def test_an_unknown_key_in_the_file_is_refused_with_a_guess(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text("thread = 2\nzebra = 1\n")
    assert problems(tmp_path) == [
        "headgate.toml: unknown setting 'thread'; did you mean threads?",
        "headgate.toml: unknown setting 'zebra'",
    ]


def test_an_unknown_variable_is_a_warning_with_a_guess(tmp_path: Path) -> None:
    settings = read(tmp_path, env={"HEADGATE_THREDS": "2", "HEADGATE_CONFIG": "", "PATH": "x"})
    assert settings.warnings == ("environment HEADGATE_THREDS: no such setting; did you mean HEADGATE_THREADS?",)


def test_variables_that_kubernetes_sets_are_no_mistakes(tmp_path: Path) -> None:
    env = {
        "HEADGATE_PORT": "tcp://10.0.0.1:8080",
        "HEADGATE_SERVICE_HOST": "10.0.0.1",
        "HEADGATE_PORT_8080_TCP_ADDR": "10.0.0.1",
    }
    assert read(tmp_path, env=env).warnings == ()


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("listen", "8080", "expected HOST:PORT"),
        ("listen", "::1:8080", "expected HOST:PORT"),
        ("listen", "localhost:http", "expected a port"),
        ("listen", "localhost:70000", "expected a port"),
        ("listen", ":8080", "expected HOST:PORT"),
        ("threads", "many", "whole number from 0 to 1024"),
        ("threads", "-1", "whole number from 0 to 1024"),
        ("threads", "1.5", "whole number"),
        ("max_keys", "0", "whole number from 1"),
        ("max_keys", "9" * 5000, "whole number from 1"),
        ("ipv6_prefix", "129", "from 1 to 128"),
        ("no_rule", "maybe", "one of allow, deny"),
        ("log_level", "loud", "one of debug"),
        ("log_format", "xml", "one of console, json"),
        ("drain_timeout_s", "nan", "expected seconds"),
        ("rules_poll_s", "inf", "expected seconds"),
        ("rules_poll_s", "soon", "expected seconds"),
        ("rules_poll_s", "-1", "expected seconds from 0"),
        ("store", "", "expected text"),
        ("jwt_leeway_s", "-1", "expected seconds from 0"),
        ("jwt_cache", "many", "whole number from 0"),
        ("trusted_proxies", "10.0.0.0/8,proxy", "'proxy' is none"),
        ("trusted_proxies", "10.0.0.1/8", "'10.0.0.1/8' is none"),
        ("api_key_header", "X API Key", "the name of a header"),
        ("unverified", "maybe", "one of reject, anonymous"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(tmp_path: Path, name: str, raw: str, words: str) -> None:
    variable = f"HEADGATE_{name.upper()}"
    found = problems(tmp_path, env={variable: raw})
    assert len(found) == 1
    assert found[0].startswith(f"{variable}: ")
    assert words in found[0]


@pytest.mark.parametrize("line", ["threads = true", "threads = '2 x'", "threads = [2]", "region = 3", "uds = false"])
def test_a_value_of_another_type_in_the_file_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "headgate.toml").write_text(line)
    assert problems(tmp_path)[0].startswith(f"headgate.toml: {line.split()[0]}: expected ")


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text("threads = -1\nwhat = 1\n")
    found = problems(tmp_path, env={"HEADGATE_LISTEN": "x"}, flags={"no_rule": "x"})
    assert [line.split(":")[0] for line in found] == [
        "headgate.toml",
        "HEADGATE_LISTEN",
        "headgate.toml",
        "--no-rule",
    ]


@pytest.mark.parametrize("raw", ["127.0.0.1:0", "[::1]:8080", "localhost:65535", "0.0.0.0:1"])
def test_addresses_are_taken_as_written(tmp_path: Path, raw: str) -> None:
    assert read(tmp_path, env={"HEADGATE_LISTEN": raw}).listen == raw


def test_an_empty_address_means_only_the_socket(tmp_path: Path) -> None:
    settings = read(tmp_path, env={"HEADGATE_LISTEN": "", "HEADGATE_UDS": "/run/x.sock"})
    assert (settings.listen, settings.uds) == (None, "/run/x.sock")
    assert "nowhere to answer" in problems(tmp_path, env={"HEADGATE_LISTEN": ""})[0]


def test_a_named_file_must_exist_and_be_toml(tmp_path: Path) -> None:
    assert problems(tmp_path, env={"HEADGATE_CONFIG": "x.toml"}) == ["x.toml: there is no such file"]
    (tmp_path / "x.toml").write_text("threads = = 2")
    assert problems(tmp_path, env={"HEADGATE_CONFIG": "x.toml"})[0].startswith("x.toml: not TOML: ")
    (tmp_path / "x.toml").write_bytes(b"\xff")
    assert problems(tmp_path, env={"HEADGATE_CONFIG": "x.toml"})[0].startswith("x.toml: not TOML: ")
    assert problems(tmp_path, env={"HEADGATE_CONFIG": "."})[0].startswith(".: cannot be read: ")


def test_the_config_flag_beats_the_variable(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("threads = 1")
    (tmp_path / "b.toml").write_text("threads = 2")
    settings = read_settings(config="a.toml", environ={"HEADGATE_CONFIG": "b.toml"}, folder=tmp_path)
    assert settings.threads == 1
    assert settings.sources["threads"] == "file a.toml"


def test_passwords_are_never_shown(tmp_path: Path) -> None:
    settings = read(tmp_path, env={"HEADGATE_STORE": "redis://me:hunter2@host:6379/0"})
    assert "hunter2" not in str(settings.shown())
    assert without_password("redis://:hunter2@host") == "redis://***@host"
    assert without_password("redis://a:s@x:1,b:t@y:2") == "redis://***@y:2"
    assert without_password("redis://a:p/s@x,@y:2/0") == "redis://***@y:2/0"
    assert without_password("redis://y?password=s&a=b") == "redis://y?password=***&a=b"
    assert without_password("memory://") == "memory://"
    assert without_password("127.0.0.1:8080") == "127.0.0.1:8080"


def test_a_settings_error_is_a_config_error_is_a_value_error() -> None:
    assert issubclass(SettingsError, ConfigError)
    assert issubclass(ConfigError, ValueError)


def test_lists_are_written_by_comma_or_as_a_list(tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text("jwt_issuer = ['https://a', 'https://b']\ntrusted_proxies = ''\n")
    settings = read(tmp_path, env={"HEADGATE_JWT_AUDIENCE": " x , y,"})
    assert (settings.jwt_issuer, settings.jwt_audience) == ("https://a,https://b", "x,y")
    assert settings.trusted_proxies is None


def test_api_keys_need_their_secret(tmp_path: Path) -> None:
    for one in ("HEADGATE_API_KEYS", "HEADGATE_API_KEY_SECRET_FILE"):
        assert "go together" in problems(tmp_path, env={one: "x"})[0]
