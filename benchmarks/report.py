"""Size and load time of the report page by the number of episodes, in a real Chromium.

    python benchmarks/report.py --episodes 20 500 2000 5000

Each page has made-up scores, one episode in ten suspected, drawn pictures of about a camera's detail and traces of
eight dimensions; pictures are shared out as ``ptr report`` does. Prints megabytes, processor seconds to write the page,
and in the browser seconds until the list can be used, until an episode is open, and until the dataset's view is drawn.
``--keep=FILE`` leaves the last page there to look at.
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

from ptr_robot.audit.page.budget import FRAME_WIDTH, PictureBudget, share_pictures
from ptr_robot.audit.page.build import PageSettings
from ptr_robot.audit.page.contents import MAX_DIMENSIONS, MAX_POINTS, EpisodeCard, EpisodeDetail, Page, Stretch
from ptr_robot.audit.page.html import render
from ptr_robot.audit.page.pictures import COLUMNS, data_uri

HEIGHT = FRAME_WIDTH * 3 // 4
CHANNELS = {"outcome": "where the motion leads", "action": "what is done there", "jerk": "roughness of the actions"}


def sheet(generator: np.random.Generator, frames: int) -> tuple[str, str]:
    """A sprite sheet and a thumbnail with about the detail of a camera's picture (2.4 kB a frame)."""
    rows, columns = -(-max(1, frames) // COLUMNS), min(COLUMNS, max(1, frames))
    noise = generator.integers(40, 215, (rows * 12, columns * 16, 3)).astype(np.uint8)
    picture = Image.fromarray(noise).resize((columns * FRAME_WIDTH, rows * HEIGHT), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(picture)
    for place in range(frames):
        x, y = place % COLUMNS * FRAME_WIDTH, place // COLUMNS * HEIGHT
        pen.ellipse((x + 3 * place, y + 30, x + 3 * place + 24, y + 54), fill=(240, 200, 40))
    return data_uri(picture) if frames else "", data_uri(picture.crop((0, 0, FRAME_WIDTH, HEIGHT)).resize((108, 81)))


def make_page(count: int) -> tuple[Page, Iterator[EpisodeDetail]]:
    """A page of ``count`` episodes; sixteen different picture sheets of each length are shared among them."""
    generator = np.random.default_rng(0)
    verdicts = {number: {3: "flag", 7: "drop"}.get(number % 20, "keep") for number in range(count)}
    nearest = {number: (number // 20) * 20 for number, verdict in verdicts.items() if verdict != "keep"}
    budget = share_pictures(verdicts, nearest, PageSettings().max_megabytes)
    sheets = {frames: [sheet(generator, frames) for _ in range(16)] for frames in set(budget.frames.values())}
    cards = []
    for number, verdict in verdicts.items():
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
                labels=(("Ada", "Grace", "Edsger")[number % 3],),
                neighbour=nearest.get(number),
                start=(float(generator.normal()), float(generator.normal())),
                end=(float(generator.normal()), float(generator.normal())),
                thumbnail=sheets[budget.frames[number]][number % 16][1] if number in budget.thumbnails else "",
            )
        )
    counts = {name: sum(card.verdict == name for card in cards) for name in ("keep", "flag", "drop")}
    facts = {"episodes": str(count)}
    page = Page("benchmark", facts, counts, [], CHANNELS, cards, labels=["operator"], fps=30.0)
    sprites = {frames: [sprite for sprite, _ in found] for frames, found in sheets.items()}
    return page, details(generator, budget, sprites)


def details(
    generator: np.random.Generator, budget: PictureBudget, sprites: dict[int, list[str]]
) -> Iterator[EpisodeDetail]:
    """One an episode."""
    for number, frames in budget.frames.items():
        traces = generator.normal(size=(2, MAX_DIMENSIONS, MAX_POINTS)).cumsum(axis=2).astype(np.float32)
        yield EpisodeDetail(
            episode_index=number,
            length=300,
            timelines={name: generator.random(MAX_POINTS).astype(np.float32) for name in CHANNELS},
            states={f"joint {place}": trace for place, trace in enumerate(traces[0])},
            actions={f"action {place}": trace for place, trace in enumerate(traces[1])},
            stretches=(Stretch(40, 90, "outcome"),),
            frames=tuple(range(0, 300, max(1, 300 // frames)))[:frames] if frames else (),
            sprite=sprites[frames][number % 16],
            frame_size=(FRAME_WIDTH, HEIGHT),
        )


def load(browser: webdriver.Chrome, path: Path) -> tuple[float, float, float]:
    """Seconds until the list can be used, until an episode is open, and until the dataset's view is drawn."""
    started = time.perf_counter()
    browser.get(path.as_uri())
    while browser.execute_script("return document.documentElement.dataset.ready") != "true":
        time.sleep(0.01)
    times = [time.perf_counter()]
    browser.find_element("css selector", "#list .card").click()
    browser.find_element("id", "detail-title")
    times.append(time.perf_counter())
    browser.execute_script("document.getElementById('detail').close()")
    times.append(time.perf_counter())
    browser.execute_script("document.querySelector('[data-view=dataset]').click()")
    browser.find_element("css selector", "#view-dataset svg")
    return times[0] - started, times[1] - times[0], time.perf_counter() - times[2]


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
    parser.add_argument("--episodes", type=int, nargs="+", default=[20, 500, 2000, 5000, 10000])
    parser.add_argument("--keep", type=Path, help="leave the last page there")
    options = parser.parse_args()
    print("episodes  megabytes  write s  list s  open s  dataset s")
    with tempfile.TemporaryDirectory() as name:
        for count in options.episodes:
            path, started = Path(name) / "page.html", time.process_time()
            with path.open("w") as file:
                file.writelines(render(*make_page(count)))
            written = time.process_time() - started
            browser = open_browser(Path(name) / f"profile_{count}")
            ready, opened, drawn = load(browser, path)
            browser.quit()
            size = path.stat().st_size / 1e6
            print(f"{count:8d}  {size:9.1f}  {written:7.1f}  {ready:6.2f}  {opened:6.2f}  {drawn:9.2f}", flush=True)
        if options.keep:
            shutil.copy(path, options.keep)


if __name__ == "__main__":
    main()
