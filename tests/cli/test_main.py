"""The entry point: verbs, help, and exit codes."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ptr_robot import __version__
from ptr_robot.cli import main as cli
from ptr_robot.errors import ConfigError, DataError


def exit_of(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ptr", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return caught.value.code


@pytest.fixture
def verb_that_raises(monkeypatch):
    """A verb whose work ends in the error that a test gives."""

    def install(error: BaseException) -> None:
        module = importlib.import_module("ptr_robot.cli.info")

        def fail(arguments):
            raise error

        monkeypatch.setattr(module, "main", fail)

    return install


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_help_lists_every_verb(monkeypatch, capsys, arguments):
    assert exit_of(monkeypatch, *arguments) == 0
    text = capsys.readouterr().out
    assert all(f"  {verb} " in text for verb in cli.VERBS)


def test_version(monkeypatch, capsys):
    assert exit_of(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == __version__


def test_an_unknown_verb_gets_a_hint(monkeypatch, capsys):
    assert exit_of(monkeypatch, "corupt") == 1
    assert capsys.readouterr().err == "ptr: error: there is no verb 'corupt'; did you mean 'corrupt'?\n"


@pytest.mark.parametrize("verb", cli.VERBS)
def test_the_help_of_a_verb_explains_every_flag(monkeypatch, capsys, verb):
    monkeypatch.setenv("COLUMNS", "80")
    assert exit_of(monkeypatch, verb, "--help") == 0
    text = capsys.readouterr().out
    words = {"collect": " [OUTPUT]", "corrupt": " [SOURCE]", "study": " [STUDY]"}.get(verb, "")
    words = " [DATASET]" if verb in ("export", "info", "report", "score") else words
    assert text.startswith(f"usage: ptr {verb}{words} [--flag=value ...]\n\n  ")
    text = text[text.index("\n  --config_path ") :]  # the description before it may wrap to a line like a flag's
    flags = re.findall(r"^  (--\S+)(?: \S+)*?(?: {2,}|\n {15,})(\S?)", text, re.MULTILINE)
    assert "--config_path" in dict(flags)
    assert [name for name, explained in flags if not explained] == []
    assert len(flags) == len(re.findall(r"^  --", text, re.MULTILINE))
    titles = re.findall(r"^([\w.]+):$", text, re.MULTILINE)
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("error", [DataError("the file is gone"), ConfigError("the file is gone")])
def test_an_expected_error_is_one_line_and_exit_code_one(monkeypatch, capsys, verb_that_raises, error):
    verb_that_raises(error)
    assert exit_of(monkeypatch, "info", "x") == 1
    assert capsys.readouterr().err == "ptr: error: the file is gone\n"


def test_names_of_others_steer_no_terminal(monkeypatch, capsys, verb_that_raises):
    verb_that_raises(DataError("data/a\nb\x1b]0;title\x07.parquet: no such file"))
    assert exit_of(monkeypatch, "info", "x") == 1
    assert capsys.readouterr().err == "ptr: error: data/a b\\x1b]0;title\\x07.parquet: no such file\n"


def test_a_name_that_is_no_text_is_one_line(monkeypatch, capsys):
    assert exit_of(monkeypatch, "info", os.fsdecode(b"/data/\xff\xfe")) == 1
    assert capsys.readouterr().err == "ptr: error: '/data/\\udcff\\udcfe' is no text in UTF-8; rename what it names\n"


def test_control_c_is_exit_code_130(monkeypatch, capsys, verb_that_raises):
    verb_that_raises(KeyboardInterrupt())
    assert exit_of(monkeypatch, "info", "x") == 130
    assert "interrupted" in capsys.readouterr().err


VERB_THAT_CLEANS_UP = """
import sys, time
from ptr_robot.cli import info
from ptr_robot.cli.main import main

def work(arguments):
    try:
        print("at work", flush=True)
        time.sleep(600)
    finally:
        print("cleaned up", flush=True)

info.main = work
sys.argv = ["ptr", "info"]
main()
"""


def test_sigterm_cleans_up_as_control_c_does():
    process = subprocess.Popen(
        [sys.executable, "-c", VERB_THAT_CLEANS_UP], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "at work\n"
    process.send_signal(signal.SIGTERM)
    printed, complaint = process.communicate(timeout=600)
    assert (printed, complaint, process.returncode) == ("cleaned up\n", "ptr: interrupted\n", 130)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_output_that_cannot_be_written_is_one_line():
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "ptr_robot.cli.main", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.stderr == "ptr: error: the output could not be written (No space left on device)\n"
    assert ended.returncode == 1


def test_letters_that_a_terminal_lacks_are_spelt_out():
    program = "import sys; from ptr_robot.cli import main, info; info.main = lambda a: print('é σ'); "
    program += "sys.argv = ['ptr', 'info']; main.main()"
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("\\xe9 \\u03c3\n", "", 0)


def test_handlers_are_given_back(monkeypatch):
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    exit_of(monkeypatch, "--version")
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_library_that_fails_on_control_c_is_an_interruption_all_the_same(monkeypatch, capsys):
    def half_imported(arguments):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(600)
        except KeyboardInterrupt:
            raise RecursionError from None

    monkeypatch.setattr("ptr_robot.cli.info.main", half_imported)
    assert exit_of(monkeypatch, "info", "x") == 130
    assert capsys.readouterr().err == "ptr: interrupted\n"


def test_a_process_that_ignores_control_c_goes_on_ignoring_it(monkeypatch, capsys):
    """As one that a shell has started in the background."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        monkeypatch.setattr("ptr_robot.cli.info.main", lambda arguments: os.kill(os.getpid(), signal.SIGINT))
        assert exit_of(monkeypatch, "info", "x") == 0
    finally:
        signal.signal(signal.SIGINT, previous)


def test_an_unexpected_error_keeps_its_traceback(monkeypatch, verb_that_raises):
    verb_that_raises(ZeroDivisionError())
    monkeypatch.setattr(sys, "argv", ["ptr", "info", "x"])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_help_loads_no_heavy_library():
    code = "import sys; from ptr_robot.cli.main import run; run(['--help']); print([m for m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = result.stdout.splitlines()[-1]
    assert not [name for name in ("'lerobot'", "'torch'", "'pyarrow'", "'transformers'") if name in loaded]


@pytest.mark.parametrize("columns", [60, 80])
def test_the_list_of_verbs_fits_the_terminal(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert exit_of(monkeypatch, "--help") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[1:])) <= columns
    assert all(any(line.startswith(f"  {verb} ") for line in lines) for verb in cli.VERBS)
