"""Names that become files and folders."""

from __future__ import annotations

from ptr_robot.errors import ConfigError


def check_name(what: str, name: str) -> None:
    """Refuse a name that could lead out of its folder or that a shell would take apart."""
    is_plain = all(character.isalnum() or character in "-_." for character in name)
    if not name or not is_plain or name.startswith("."):
        raise ConfigError(f"the {what} name {name!r} must be made of letters, digits, '-', '_' and '.', not first '.'")
