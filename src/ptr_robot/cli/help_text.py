"""What ``ptr VERB --help`` prints: draccus's list of flags without its inner workings."""

from __future__ import annotations

import contextlib
import re
import shutil
import textwrap
from collections.abc import Iterator

_FILE_FLAG, _FILE_TEXT = "  --config_path str", "Settings from a YAML or JSON file; flags win over them."
_NO_DEFAULT = re.compile(r"\s*\(default:\s+(?:None)?\)")  # the comment beside it says what happens then
_HEADING = re.compile(r"^\w+(?: \['([\w.]+)'\])?:\n  (.*)\n", re.MULTILINE)
_EMPTY_GROUP = re.compile(r"^\w+ \['([\w.]+)'\]:\n  .*\n\n(?=\w+ \['\1'\]:\n)", re.MULTILINE)  # it comes again
_EXPLAINED_FLAG = re.compile(r"^(  --\S+ \S+ {2,})\S", re.MULTILINE)


@contextlib.contextmanager
def flag_comments(*, are_read: bool) -> Iterator[None]:
    """The comments beside a setting, which help prints and nothing else needs.

    For each of them draccus parses the whole file of the class anew: nine tenths of the time that reading flags takes.
    """
    from draccus.wrappers import docstring

    found = docstring.get_attribute_docstring
    if not are_read:
        docstring.get_attribute_docstring = lambda *_: docstring.AttributeDocString()
    try:
        yield
    finally:
        docstring.get_attribute_docstring = found


def readable_help(text: str, program: str) -> str:
    """One line of usage, what the verb does, then its flags, group by group."""
    _, _, flags = text.partition("\n\n")  # the usage names every flag once more
    _, _, flags = flags.partition("\n\n")  # so do the options: the file of settings, and what no group takes
    width = min(100, shutil.get_terminal_size().columns)
    flags = _EMPTY_GROUP.sub("", _NO_DEFAULT.sub("", flags))
    flags = _HEADING.sub(lambda found: _heading(found, width), flags)
    description, _, flags = flags.partition("\n\n")
    return f"usage: {program} [--flag=value ...]\n\n{description}\n\n{_file_flag(flags, width)}{flags}"


def _file_flag(flags: str, width: int) -> str:
    """Laid out as the other flags are."""
    explained = _EXPLAINED_FLAG.search(flags)
    indent = " " * (len(explained[1]) if explained else 24)
    text = textwrap.fill(_FILE_TEXT, max(width - 2, len(indent) + 20), initial_indent=indent, subsequent_indent=indent)
    fits = len(_FILE_FLAG) + 2 <= len(indent)
    return (_FILE_FLAG + text[len(_FILE_FLAG) :] if fits else f"{_FILE_FLAG}\n{text}") + "\n"


def _heading(found: re.Match[str], width: int) -> str:
    group, description = found.groups()
    title = f"{group}:\n" if group else ""
    return title + textwrap.fill(description, width, initial_indent="  ", subsequent_indent="  ") + "\n"
