"""Flags as users write them, and one clear line for each way to write them wrongly."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field

import pytest

from ptr_robot.cli.flags import flag_names, parse_flags, program
from ptr_robot.errors import ConfigError


@dataclass(frozen=True)
class Inner:
    """Settings of a part."""

    alpha: float = 1.0  # how much
    is_deep: bool = False


@dataclass(frozen=True)
class Flags:
    """Settings of a verb."""

    source: str = ""  # where from
    target: str = ""
    number: int = 3  # how many
    json: bool = False
    limit: float | None = None
    inner: Inner = field(default_factory=Inner)
    names: list[str] = field(default_factory=list)
    numbers: list[int] | None = None
    shares: dict[str, float] = field(default_factory=dict)
    label: str | None = None


def parse(*arguments: str) -> Flags:
    return parse_flags(Flags, arguments, positional=("source", "target"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Flags()),
        (["here", "there"], Flags(source="here", target="there")),
        (["--number=4", "here"], Flags(source="here", number=4)),
        (["--number", "-4"], Flags(number=-4)),
        (["--source=a=b"], Flags(source="a=b")),
        (["--limit=0.5"], Flags(limit=0.5)),
        (["--inner.alpha=2"], Flags(inner=Inner(alpha=2.0))),
        (["--json", "here"], Flags(source="here", json=True)),
        (["here", "--json"], Flags(source="here", json=True)),
        (["--json", "false", "here"], Flags(source="here")),
        (["--json=false"], Flags()),
        (["--inner.is_deep"], Flags(inner=Inner(is_deep=True))),
        (["--names=[a, b]"], Flags(names=["a", "b"])),
        (["--names=a"], Flags(names=["a"])),
        (["--names=a,b-v3"], Flags(names=["a", "b-v3"])),
        (["--numbers=1,2"], Flags(numbers=[1, 2])),
        (["--numbers=null"], Flags()),
        (["--shares={a: 1}"], Flags(shares={"a": 1.0})),
        (["007"], Flags(source="007")),
        (["--source=[x"], Flags(source="[x")),
        (["--source=a: b"], Flags(source="a: b")),
        (["--label=1e3"], Flags(label="1e3")),
        (["--label=null"], Flags()),
    ],
)
def test_what_users_write_is_understood(arguments, expected):
    assert parse(*arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--numbr=4"], "there is no flag --numbr; did you mean 'number'?"),
        (["--inner.alpa=4"], "there is no flag --inner.alpa; did you mean 'inner.alpha'?"),
        (["--number=four"], "--number: Couldn't parse 'four' into an int"),
        (["--limit=much"], "--limit: float: Couldn't parse 'much' into a float"),
        (["--inner=3"], "--inner is a group of flags; write --inner.alpha=VALUE"),
        (["--numbers=[1, 2"], "--numbers is a list; write --numbers='[1, 2]'"),
        (["--numbers=one"], "--numbers"),
        (["--shares=a"], "--shares maps names to values; write --shares='{first: 0.5, second: 1.0}'"),
        (["--shares=[a]"], "--shares maps names to values"),
        (["--shares={a: many}"], "--shares.a: Couldn't parse 'many' into a float"),
        (["--json=perhaps"], "Couldn't parse 'perhaps' into a bool"),
        (["--number"], "the flag --number needs a value: --number=VALUE"),
        (["--numbr"], "there is no flag --numbr; did you mean 'number'?"),
        (["--numbr", "4"], "there is no flag --numbr; did you mean 'number'?"),
        (["--number", "--json"], "the flag --number needs a value: --number=VALUE"),
        (["a", "b", "c"], "unexpected word 'c'"),
        (["-n", "4"], "unexpected '-n'"),
    ],
)
def test_mistakes_are_one_line_that_names_them(arguments, message):
    with pytest.raises(ConfigError) as caught:
        parse(*arguments)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("spelling", ["--config_path={}", "--config_path {}"])
def test_a_config_file_is_the_base_and_flags_win(tmp_path, spelling):
    path = tmp_path / "flags.yaml"
    path.write_text("number: 7\nsource: here\ninner:\n  alpha: 2.5\n")
    arguments = spelling.format(path).split(" ")
    assert parse(*arguments) == Flags(source="here", number=7, inner=Inner(alpha=2.5))
    assert parse(*arguments, "--number=9") == Flags(source="here", number=9, inner=Inner(alpha=2.5))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("numbr: 7\n", "there is no setting 'numbr'; did you mean 'number'?"),
        ("inner: {alfa: 7}\n", "flags.yaml: there is no setting 'inner.alfa'; did you mean 'alpha'?"),
        ("inner: 5\n", "flags.yaml: inner is a group of settings; write inner: {setting: value}"),
        ("number: [7\n", "not valid YAML"),
        ("- 7\n", "must hold settings as name: value"),
        ("number: many\n", "Couldn't parse 'many' into an int"),
    ],
)
def test_a_wrong_config_file_is_one_line(tmp_path, content, message):
    path = tmp_path / "flags.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        parse(f"--config_path={path}")
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_config_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such file"):
        parse(f"--config_path={tmp_path / 'nowhere.yaml'}")


def test_help_shows_every_flag_with_its_comment(capsys):
    program.set("ptr")
    with pytest.raises(SystemExit) as caught:
        parse("--help")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for name in flag_names(Flags):
        assert name == "inner" or f"--{name} " in text
    assert "how many (default: 3)" in text
    assert text.startswith("usage: ptr [SOURCE] [TARGET] [--flag=value ...]\n\n")
    assert "Config file for" not in text  # a group is no flag
    assert "default: None" not in text


def test_comments_are_read_for_help_alone(monkeypatch, capsys):
    """draccus parses source code for each of them, which would be most of the time that any command takes to start."""

    @dataclass(frozen=True)
    class NewFlags:  # draccus keeps what it has parsed once
        number: int = 3  # how many

    asked = []
    real = inspect.getsource
    monkeypatch.setattr("inspect.getsource", lambda owner: asked.append(owner) or real(owner))
    parse_flags(NewFlags, ["--number=4"])
    with pytest.raises(ConfigError):
        parse_flags(NewFlags, ["--number=four"])
    assert not asked
    with pytest.raises(SystemExit):
        parse_flags(NewFlags, ["--help"])
    assert asked
    assert "how many" in capsys.readouterr().out


@pytest.mark.parametrize("value", ["100000000000000000000000", "-100000000000000000000000", "0x" + 5000 * "f"])
@pytest.mark.parametrize("flag", ["--number", "--numbers"])
def test_a_number_that_nothing_could_be_done_with_is_refused(tmp_path, flag, value):
    with pytest.raises(ConfigError, match=f"^{flag} is a number beyond 1000000000"):
        parse(f"{flag}={value}")
    file = tmp_path / "settings.yaml"
    file.write_text(f"{flag.removeprefix('--')}: {value if flag == '--number' else f'[1, {value}]'}\n")
    with pytest.raises(ConfigError, match=r"settings\.yaml: number"):
        parse(f"--config_path={file}")
