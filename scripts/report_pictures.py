"""Pictures of the report page for the docs, taken in a real Chromium.

ptr report FOLDER --output_dir=outputs/report
python scripts/report_pictures.py outputs/report/ptr_report.html docs/images
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver


def open_browser(folder: str) -> webdriver.Chrome:
    """Debian's Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={folder}")
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def shoot(browser: webdriver.Chrome, path: Path, width: int, height: int, *, dark: bool = False) -> None:
    """One picture of the window as it is now."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    time.sleep(0.5)  # drawings follow a window's width a little later
    browser.save_screenshot(str(path))
    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)  # a third of the bytes


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = open_browser(profile)
        browser.get(arguments.report.resolve().as_uri())
        shoot(browser, arguments.folder / "report-list.png", 1200, 760)
        shoot(browser, arguments.folder / "report-phone-dark.png", 400, 800, dark=True)
        browser.execute_script("document.querySelector('#list .card').click()")
        shoot(browser, arguments.folder / "report-episode.png", 1200, 1900)
        browser.execute_script("document.getElementById('detail').close()")
        browser.execute_script("document.querySelector('[data-view=dataset]').click()")
        shoot(browser, arguments.folder / "report-dataset.png", 1200, 1000)
        browser.execute_script("document.querySelector('[data-view=trust]').click()")
        shoot(browser, arguments.folder / "report-trust.png", 1200, 1080)
        browser.quit()


if __name__ == "__main__":
    main()
