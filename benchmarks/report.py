"""Size and load time of the report page by the number of episodes, in a real Chromium.

    python benchmarks/report.py --episodes 20 500 2000 5000

Each page has made-up scores, drawn pictures of camera size and traces of eight dimensions; the budget of pictures is
that of ``ptr report``. Prints megabytes, seconds to write it, seconds until the list can be used, and until an episode
is open.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from selenium import webdriver

from ptr_robot.audit.page.build import FRAME_BYTES, FRAME_WIDTH, MAX_FRAMES, PageSettings
from ptr_robot.audit.page.contents import MAX_DIMENSIONS, MAX_POINTS, EpisodeCard, EpisodeDetail, Page, Stretch
from ptr_robot.audit.page.html import render
from ptr_robot.audit.page.pictures import COLUMNS, data_uri

HEIGHT = FRAME_WIDTH * 3 // 4
CHANNELS = {"outcome": "where the motion leads", "action": "what is done there", "jerk": "roughness of the actions"}


def sheet(generator: np.random.Generator, frames: int) -> tuple[str, str]:
    """A sprite sheet and a thumbnail with about the detail of a camera's picture."""
    rows = -(-frames // COLUMNS)
    noise = generator.integers(0, 255, (rows * 14, COLUMNS * 18, 3)).astype(np.uint8)
    picture = Image.fromarray(noise).resize((COLUMNS * FRAME_WIDTH, rows * HEIGHT), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(picture)
    for place in range(frames):
        x, y = place % COLUMNS * FRAME_WIDTH, place // COLUMNS * HEIGHT
        pen.ellipse((x + 3 * place, y + 30, x + 3 * place + 24, y + 54), fill=(240, 200, 40))
    return data_uri(picture), data_uri(picture.crop((0, 0, FRAME_WIDTH, HEIGHT)).resize((108, 81)))


def make_page(count: int) -> tuple[Page, Iterator[EpisodeDetail]]:
    """A page of ``count`` episodes; sixteen different picture sheets are shared among them."""
    generator = np.random.default_rng(0)
    frames = min(MAX_FRAMES, int(PageSettings().max_megabytes * 1e6 / (FRAME_BYTES * count)))
    sheets = [sheet(generator, frames) for _ in range(16)] if frames else [("", "")] * 16
    cards = []
    for number in range(count):
        verdict = ("keep", "keep", "keep", "flag", "drop")[number % 5]
        score = float(generator.random()) * (1 if verdict == "keep" else 0.05)
        cards.append(
            EpisodeCard(
                episode_index=number,
                task=f"put object {number % 12} into the box",
                length=300,
                score=score,
                low=score / 2,
                high=min(1.0, 1.5 * score),
                weight=1.0,
                verdict=verdict,
                reason="" if verdict == "keep" else "does not move for 3.1 s",
                corrected_instruction=None,
                evidence=tuple(generator.random(len(CHANNELS)).tolist()),
                start=(float(generator.normal()), float(generator.normal())),
                end=(float(generator.normal()), float(generator.normal())),
                thumbnail=sheets[number % 16][1],
            )
        )
    counts = {name: sum(card.verdict == name for card in cards) for name in ("keep", "flag", "drop")}
    page = Page("benchmark", {"episodes": str(count)}, counts, [], CHANNELS, cards, fps=30.0)
    return page, details(generator, count, frames, [sprite for sprite, _ in sheets])


def details(generator: np.random.Generator, count: int, frames: int, sprites: list[str]) -> Iterator[EpisodeDetail]:
    """One an episode."""
    for number in range(count):
        traces = generator.normal(size=(2, MAX_DIMENSIONS, MAX_POINTS)).cumsum(axis=2).astype(np.float32)
        yield EpisodeDetail(
            episode_index=number,
            length=300,
            timelines={name: generator.random(MAX_POINTS).astype(np.float32) for name in CHANNELS},
            states={f"joint {place}": trace for place, trace in enumerate(traces[0])},
            actions={f"action {place}": trace for place, trace in enumerate(traces[1])},
            stretches=(Stretch(40, 90, "outcome"),),
            frames=tuple(range(0, 300, max(1, 300 // frames)))[:frames] if frames else (),
            sprite=sprites[number % 16],
            frame_size=(FRAME_WIDTH, HEIGHT),
        )


def load(browser: webdriver.Chrome, path: Path) -> tuple[float, float]:
    """Seconds until the list can be used, and until an episode is open."""
    started = time.perf_counter()
    browser.get(path.as_uri())
    while browser.execute_script("return document.documentElement.dataset.ready") != "true":
        time.sleep(0.01)
    ready = time.perf_counter() - started
    started = time.perf_counter()
    browser.find_element("css selector", "#list .card").click()
    browser.find_element("id", "detail-title")
    return ready, time.perf_counter() - started


def open_browser(folder: Path) -> webdriver.Chrome:
    """Debian's Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder}"):
        options.add_argument(flag)
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, nargs="+", default=[20, 500, 2000, 5000])
    print("episodes  megabytes  write s  list s  open s")
    with tempfile.TemporaryDirectory() as name:
        browser = open_browser(Path(name) / "profile")
        for count in parser.parse_args().episodes:
            path, started = Path(name) / "page.html", time.perf_counter()
            with path.open("w") as file:
                file.writelines(render(*make_page(count)))
            written = time.perf_counter() - started
            ready, opened = load(browser, path)
            print(f"{count:8d}  {path.stat().st_size / 1e6:9.1f}  {written:7.1f}  {ready:6.2f}  {opened:6.2f}")
        browser.quit()


if __name__ == "__main__":
    main()
