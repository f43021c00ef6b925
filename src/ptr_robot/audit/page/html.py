"""The page as one HTML file: style, script and data inside it, and a policy that lets nothing leave it.

Texts of a dataset go in as JSON whose every ``<``, ``>`` and ``&`` is escaped, and come out through ``textContent``
alone: no text of a dataset is ever parsed as HTML. The content security policy allows this page's own script and
style, by their hashes, and pictures that are part of the page; no request can be made.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import json
import math
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Any

from ptr_robot.audit.page.contents import EpisodeDetail, Page, encode_trace

_FILES = resources.files("ptr_robot.audit.page") / "assets"
_SCRIPTS = ("elements", "marks", "charts", "list", "episode", "dataset", "start")  # parts of one function, in order


def render(page: Page, details: Iterable[EpisodeDetail]) -> Iterator[str]:
    """The parts of the file in their order; details are asked for one at a time."""
    style, script = (_FILES / "page.css").read_text("utf-8"), _script()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    yield f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(page.title)}</title>
<style>{style}</style>
</head>
<body>
"""
    yield (_FILES / "page.html").read_text("utf-8")
    yield island("page", _page_values(page))
    for detail in details:
        yield island(f"episode-{detail.episode_index}", _detail_values(detail))
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def _script() -> str:
    parts = "\n".join((_FILES / f"{name}.js").read_text("utf-8") for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();'


def island(name: str, values: Any) -> str:
    """Values as a JSON block that no text inside it can end."""
    text = json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{html.escape(name)}">{text}</script>\n'


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _page_values(page: Page) -> dict[str, Any]:
    values = {entry.name: getattr(page, entry.name) for entry in dataclasses.fields(page)}
    values["episodes"] = [_finite(dataclasses.asdict(card)) for card in page.episodes]
    return {name: _finite(value) for name, value in values.items()}


def _detail_values(detail: EpisodeDetail) -> dict[str, Any]:
    values = dataclasses.asdict(dataclasses.replace(detail, timelines={}, states={}, actions={}))
    for name in ("timelines", "states", "actions"):
        values[name] = {key: encode_trace(trace) for key, trace in getattr(detail, name).items()}
    return values


def _finite(value: Any) -> Any:
    """NaN and infinities as None, which is what JSON has for them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
