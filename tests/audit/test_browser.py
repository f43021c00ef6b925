"""The page in a real Chromium: clicks, keys, marks, and nothing that leaves it."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from ptr_robot.audit.report import write_report
from ptr_robot.errors import DataError

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser(index, scores, tmp_path_factory):
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium and chromium-driver are not installed: the report is not tried in a browser")
    from selenium import webdriver

    folder = tmp_path_factory.mktemp("browser")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}", "--window-size=1200,900"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder / "downloads")})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    driver.get(write_report(index, scores, folder).path.as_uri())
    yield driver
    driver.quit()


@pytest.fixture(autouse=True)
def fresh(browser):
    browser.execute_script("localStorage.clear()")
    browser.refresh()
    assert browser.execute_script("return document.documentElement.dataset.ready") == "true"


def press(browser, keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(keys).perform()


def cards(browser) -> list[str]:
    found = browser.find_elements("css selector", "#list > .card")
    return [element.get_attribute("id").removeprefix("card-") for element in found]


def test_the_answer_stands_first_and_the_worst_episode_first_in_the_list(browser):
    answer = browser.find_element("id", "answer").text.split("\n")
    assert answer[:6] == ["3", "fine", "1", "to look at", "1", "to drop"]
    assert cards(browser)[:2] == ["3", "2"]


def test_the_answer_says_what_the_check_found(browser):
    said = browser.find_element("id", "statements").text
    assert "would be dropped: noise on actions. Fewer: standing still." in said
    browser.find_element("css selector", "[data-view='trust']").click()
    row = browser.find_element("css selector", "#view-trust tbody tr").text
    assert row == "noise on actions 0.97 0.94 to 0.99 75% of 4 jerk"


def test_texts_of_the_dataset_stay_texts(browser):
    assert browser.title == "puck"
    assert "onerror=alert(1)" in browser.find_element("id", "card-3").text
    assert browser.find_elements("css selector", "#list img[src='x']") == []


def test_filters_and_search(browser):
    browser.find_element("css selector", "#answer button.drop").click()
    assert cards(browser) == ["3"]
    browser.find_element("css selector", "#filter-verdict option[value='']").click()
    browser.find_element("id", "search").send_keys("push the puck")
    assert sorted(cards(browser)) == ["0", "2", "4"]
    assert browser.find_element("id", "shown").text.startswith("3 of 5")


def test_episodes_are_filtered_by_who_recorded_them(browser):
    browser.find_element("css selector", "[data-label='0'] option[value='Grace']").click()
    assert sorted(cards(browser)) == ["1", "3"]
    browser.find_element("css selector", "[data-view='dataset']").click()
    rows = browser.find_elements("css selector", "#view-dataset td:first-child")
    assert {"Ada", "Grace"} <= {row.text for row in rows}


def test_an_opened_episode_says_where_it_is_weak_beside_a_kept_one(browser):
    browser.find_element("id", "card-3").click()
    dialog = browser.find_element("id", "detail")
    assert dialog.find_element("css selector", ".stretches li").text == "0.0 s to 0.3 s where the motion leads"
    assert len(dialog.find_elements("css selector", ".likeness img")) >= 4
    assert len(dialog.find_elements("css selector", ".film")) == 2
    titles = [element.text for element in dialog.find_elements("css selector", "h3")]
    assert "States" in titles
    assert any(title.startswith("States of episode") for title in titles)


def test_buttons_go_on_to_the_next_episode_of_the_list(browser):
    browser.find_element("id", "card-3").click()
    browser.find_element("xpath", "//dialog//button[contains(., 'Next')]").click()
    assert browser.find_element("id", "detail-title").text == "Episode 2"
    browser.find_element("xpath", "//dialog//button[contains(., 'Previous')]").click()
    assert browser.find_element("id", "detail-title").text == "Episode 3"


def test_a_click_on_a_mark_opens_its_episode(browser):
    browser.find_element("css selector", "[data-view='dataset']").click()
    browser.find_element("css selector", "#view-dataset svg > path[stroke='var(--drop)']").click()
    assert browser.find_element("id", "detail-title").text == "Episode 3"


def test_paper_has_every_part_in_light_colours(browser):
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    try:
        browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
        assert browser.find_element("css selector", "#view-dataset svg").is_displayed()
        assert browser.find_element("css selector", "#view-trust table").is_displayed()
        assert not browser.find_element("id", "filters").is_displayed()
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_keys_move_open_mark_and_close(browser):
    from selenium.webdriver.common.keys import Keys

    press(browser, "j")
    press(browser, "j")
    assert browser.find_element("css selector", ".card[aria-current]").get_attribute("id") == "card-2"
    press(browser, Keys.ENTER)
    dialog = browser.find_element("id", "detail")
    assert dialog.get_attribute("open") is not None
    assert dialog.find_element("id", "detail-title").text == "Episode 2"
    assert len(dialog.find_elements("css selector", ".film .picture")) >= 2
    assert dialog.find_elements("css selector", "svg[aria-label^='Evidence']")
    assert "null" not in dialog.text.split("\n")
    press(browser, "x")
    press(browser, Keys.ESCAPE)
    assert dialog.get_attribute("open") is None
    assert "your mark" in browser.find_element("id", "card-2").text
    browser.refresh()
    assert "your mark" in browser.find_element("id", "card-2").text


def test_marks_are_saved_as_a_file_that_the_commands_take(browser, scores, index, tmp_path):
    from ptr_robot.scorers.marks import read_marks

    press(browser, "j")
    press(browser, "xx")  # drop, then keep
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.find_element("css selector", "[data-view='act']").click()
    browser.find_element("id", "save-marks").click()
    for _ in range(100):
        if list(tmp_path.glob("ptr_verdicts.json")):
            break
        time.sleep(0.1)
    file = tmp_path / "ptr_verdicts.json"
    assert read_marks(file, scores.rows, index.total_frames) == {3: "keep"}
    with pytest.raises(DataError, match="marks a dataset of"):
        read_marks(file, scores.rows, index.total_frames + 1)


def test_every_view_draws(browser):
    for name, wanted in (("dataset", "svg circle"), ("trust", "table td"), ("act", "pre")):
        browser.find_element("css selector", f"[data-view='{name}']").click()
        assert browser.find_elements("css selector", f"#view-{name} {wanted}")
        assert browser.find_element("id", f"view-{name}").is_displayed()


def test_nothing_leaves_the_page_and_nothing_is_logged(browser):
    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [event["params"] for event in sent if event["method"] == "Network.requestWillBeSent"]
    urls = [request["request"]["url"] for request in asked if request["documentURL"].startswith("file:")]
    assert urls
    assert [url for url in urls if not url.startswith(("file:", "data:", "blob:"))] == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def drawings(browser) -> list[list[float]]:
    """Of each drawing of the open episode, the width that it is shown in and the one that it was drawn for: equal where
    it is not shrunk and its texts can be read.
    """
    return browser.execute_script(
        "return [...document.querySelectorAll('#detail figure > svg')].map("
        "svg => [Math.round(svg.getBoundingClientRect().width), svg.viewBox.baseVal.width])"
    )


def test_a_narrow_window_needs_no_sideways_scrolling(browser):
    from selenium.webdriver.support.ui import WebDriverWait

    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 380, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 380
        browser.find_element("id", "card-3").click()
        # A window of another width draws anew a moment later: sizes are asked for in one go, until that is done.
        WebDriverWait(browser, 20).until(lambda _: (sizes := drawings(browser)) and sizes[0][0] == sizes[0][1])
        assert max(shown for shown, _ in drawings(browser)) <= 380
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
