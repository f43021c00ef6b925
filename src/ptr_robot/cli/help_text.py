"""What ``ptr VERB --help`` prints: draccus's list of flags without its inner workings."""

from __future__ import annotations

import re
import shutil
import textwrap

_CONFIG_PATH = "  --config_path str     Settings from a YAML or JSON file; flags win over them.\n"
_NO_DEFAULT = re.compile(r"\s*\(default:\s+(?:None)?\)")  # the comment beside it says what happens then
_HEADING = re.compile(r"^\w+(?: \['([\w.]+)'\])?:\n  (.*)\n", re.MULTILINE)


def readable_help(text: str, program: str) -> str:
    """One line of usage, what the verb does, then its flags, group by group."""
    _, _, flags = text.partition("\n\n")  # the usage names every flag once more
    _, _, flags = flags.partition("\n\n")  # so do the options: the file of settings, and what no group takes
    width = min(100, shutil.get_terminal_size().columns)
    flags = _HEADING.sub(lambda found: _heading(found, width), _NO_DEFAULT.sub("", flags))
    description, _, flags = flags.partition("\n\n")
    return f"usage: {program} [--flag=value ...]\n\n{description}\n\n{_CONFIG_PATH}{flags}"


def _heading(found: re.Match[str], width: int) -> str:
    group, description = found.groups()
    title = f"{group}:\n" if group else ""
    return title + textwrap.fill(description, width, initial_indent="  ", subsequent_indent="  ") + "\n"
