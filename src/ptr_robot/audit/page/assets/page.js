"use strict";
// Every text of the dataset enters the document through textContent; no string is ever parsed as HTML.
(() => {
  const page = JSON.parse(document.getElementById("page").textContent);
  const SIGNS = { keep: "✓", flag: "!", drop: "✕" };
  const WORDS = { keep: "keep", flag: "look at it", drop: "drop" };
  const MARKS = [null, "drop", "keep"];
  const BATCH = 60;
  const STORE = "ptr-report:" + page.title + ":" + page.episodes.length;
  const channels = Object.keys(page.channels);
  const byIndex = new Map(page.episodes.map((card) => [card.episode_index, card]));
  let marks = readMarks(), shown = [], rendered = 0, current = -1;

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") element.textContent = value;
      else if (name === "class") element.className = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }
  function fill(element, ...children) {
    element.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  }
  function drawing(width, height, label) {
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, width });
    return svg;
  }
  function shape(tag, attributes = {}, text) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }
  const $ = (name) => document.getElementById(name);
  const number = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const seconds = (frame) => (page.fps ? (frame / page.fps).toFixed(1) + " s" : "frame " + frame);
  const verdictOf = (card) => marks[card.episode_index] || card.verdict;

  // ---- marks: a person's word over the tool's, kept in this browser and saved as a file
  function readMarks() {
    try { return JSON.parse(localStorage.getItem(STORE)) || {}; } catch { return {}; }
  }
  function setMark(card, mark) {
    if (mark) marks[card.episode_index] = mark; else delete marks[card.episode_index];
    try { localStorage.setItem(STORE, JSON.stringify(marks)); } catch { /* a browser that keeps nothing still works */ }
    const old = $("card-" + card.episode_index);
    if (old) old.replaceWith(cardElement(card));
    highlight(false);
    drawAct();
  }
  const nextMark = (card) => MARKS[(MARKS.indexOf(marks[card.episode_index] || null) + 1) % MARKS.length];
  function saveMarks() {
    const verdicts = { format: 1, dataset: page.title, total_frames: page.total_frames, verdicts: marks };
    const url = URL.createObjectURL(new Blob([JSON.stringify(verdicts, null, 2) + "\n"], { type: "application/json" }));
    const link = make("a", { href: url, download: "ptr_verdicts.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  // ---- the answer
  function drawAnswer() {
    $("title").textContent = page.title;
    $("facts").textContent = Object.entries(page.facts).map(([name, value]) => `${name}: ${value}`).join(" · ");
    const words = { keep: "fine", flag: "to look at", drop: "to drop", mislabelled: "with another instruction's motion" };
    for (const [name, word] of Object.entries(words)) {
      const show = () => { $("filter-verdict").value = name; view("episodes"); refresh(); };
      $("answer").append(make("li", {}, make("button", { class: name, type: "button", onclick: show },
        make("strong", { text: String(page.counts[name] || 0) }), make("span", { text: word }))));
    }
    for (const statement of page.statements) $("statements").append(make("p", { text: statement }));
  }

  // ---- the list
  function options(select, values, all) {
    select.append(make("option", { value: "", text: all }));
    for (const [value, text] of values) select.append(make("option", { value, text: text.length > 60 ? text.slice(0, 57) + "…" : text }));
    select.addEventListener("change", refresh);
  }
  function distinct(values) { return [...new Set(values.filter(Boolean))].sort(); }
  function drawFilters() {
    options($("filter-verdict"), [["keep", "✓ fine"], ["flag", "! to look at"], ["drop", "✕ to drop"], ["mislabelled", "✎ another instruction"], ["marked", "marked by me"]], "all");
    options($("filter-task"), distinct(page.episodes.map((card) => card.task)).map((task) => [task, task]), "all");
    options($("filter-source"), distinct(page.episodes.map((card) => card.source)).map((name) => [name, name]), "all");
    options($("filter-reason"), distinct(page.episodes.map((card) => reasonKind(card.reason))).map((reason) => [reason, reason]), "all");
    $("filter-source").parentElement.hidden = distinct(page.episodes.map((card) => card.source)).length < 2;
    const sort = $("sort");
    for (const [value, text] of [["score", "score, worst first"], ["-score", "score, best first"], ["index", "order of recording"], ["length", "length"],
      ...channels.map((name) => ["channel:" + name, "evidence: " + name])]) sort.append(make("option", { value, text }));
    sort.addEventListener("change", refresh);
    $("search").addEventListener("input", refresh);
    $("filters").addEventListener("submit", (event) => event.preventDefault());
  }
  const reasonKind = (reason) => reason.replace(/[-\d.,]+( s| %|%)?/g, "…").slice(0, 80);
  function matches(card) {
    const verdict = $("filter-verdict").value, task = $("filter-task").value, source = $("filter-source").value, reason = $("filter-reason").value;
    if (verdict === "mislabelled" ? !card.corrected_instruction : verdict === "marked" ? !marks[card.episode_index] : verdict && verdictOf(card) !== verdict) return false;
    if (task && card.task !== task) return false;
    if (source && card.source !== source) return false;
    if (reason && reasonKind(card.reason) !== reason) return false;
    const words = $("search").value.trim().toLowerCase();
    return !words || [String(card.episode_index), card.task, card.reason, card.verdict, card.corrected_instruction || ""].some((text) => text.toLowerCase().includes(words));
  }
  function refresh() {
    const key = $("sort").value;
    const value = (card) => {
      if (key === "index") return card.episode_index;
      if (key === "length") return card.length;
      if (key.startsWith("channel:")) { const found = card.evidence[channels.indexOf(key.slice(8))]; return found === null ? Infinity : found; }
      return (key === "-score" ? -1 : 1) * (card.score === null ? -Infinity : card.score);
    };
    shown = page.episodes.filter(matches).sort((a, b) => value(a) - value(b) || a.episode_index - b.episode_index);
    $("list").replaceChildren();
    rendered = 0; current = -1;
    $("shown").textContent = `${shown.length} of ${page.episodes.length} episodes.`;
    renderMore();
  }
  function renderMore() {
    const batch = shown.slice(rendered, rendered + BATCH);
    $("list").append(...batch.map(cardElement));
    rendered += batch.length;
  }
  function scoreBar(card) {
    const svg = drawing(200, 12, `score ${number(card.score)}, interval ${number(card.low)} to ${number(card.high)}`);
    svg.setAttribute("class", "bar"); svg.setAttribute("preserveAspectRatio", "none"); svg.removeAttribute("width");
    const x = (value) => 4 + 192 * Math.min(1, Math.max(0, value === null ? 0 : value));
    svg.append(shape("line", { x1: 4, x2: 196, y1: 6, y2: 6, stroke: "var(--line)", "stroke-width": 4 }),
      shape("line", { x1: x(card.low), x2: x(card.high), y1: 6, y2: 6, stroke: "var(--tone)", "stroke-width": 4, opacity: .5 }),
      shape("circle", { cx: x(card.score), cy: 6, r: 4.5, fill: "var(--tone)" }));
    return svg;
  }
  function verdictElement(card) {
    const verdict = verdictOf(card);
    return make("span", { class: "verdict " + verdict, text: `${SIGNS[verdict]} ${WORDS[verdict]}` });
  }
  function cardElement(card) {
    const verdict = verdictOf(card);
    const open = () => { current = shown.indexOf(card); highlight(false); openDetail(card.episode_index); };
    const element = make("li", { id: "card-" + card.episode_index, class: `card ${verdict}` + (card.thumbnail ? "" : " no-picture"), tabindex: 0, role: "button",
      "aria-label": `Episode ${card.episode_index}, ${WORDS[verdict]}, score ${number(card.score)}. ${card.reason}`, onclick: open },
    card.thumbnail ? make("img", { src: card.thumbnail, alt: "", loading: "lazy" }) : null,
    make("div", { class: "top" }, make("strong", { text: "Episode " + card.episode_index }), verdictElement(card),
      make("span", { class: "score", text: `${number(card.score)} [${number(card.low)}, ${number(card.high)}]` }),
      marks[card.episode_index] ? make("span", { class: "marked", text: "✎ your mark" }) : null),
    scoreBar(card),
    make("div", { class: "reason", text: card.reason || "nothing stands out" }),
    make("div", { class: "task", text: card.corrected_instruction ? `${card.task} → ${card.corrected_instruction}` : card.task }));
    return element;
  }
  function highlight(scroll = true) {
    for (const element of document.querySelectorAll(".card[aria-current]")) element.removeAttribute("aria-current");
    if (current < 0 || !shown[current]) return;
    while (current >= rendered) renderMore();
    const element = $("card-" + shown[current].episode_index);
    element.setAttribute("aria-current", "true");
    if (scroll) { element.scrollIntoView({ block: "nearest" }); element.focus({ preventScroll: true }); }
  }

  // ---- one episode
  function decodeTrace(trace) {
    const bytes = atob(trace.data), span = (trace.high - trace.low) / 254;
    return Array.from(bytes, (sign) => (sign.charCodeAt(0) === 255 ? null : trace.low + sign.charCodeAt(0) * span));
  }
  function readDetail(index) {
    const island = $("episode-" + index);
    if (!island) return null;
    const detail = JSON.parse(island.textContent);
    for (const part of ["timelines", "states", "actions"])
      detail[part] = Object.fromEntries(Object.entries(detail[part]).map(([name, trace]) => [name, decodeTrace(trace)]));
    return detail;
  }
  function traces(label, series, length, height = 90) {
    const names = Object.keys(series);
    if (!names.length) return null;
    const values = names.flatMap((name) => series[name]).filter((value) => value !== null);
    const low = Math.min(...values), high = Math.max(...values), span = high - low || 1, width = 900;
    const svg = drawing(width, height, `${label}: ${names.join(", ")}`);
    names.forEach((name, place) => {
      const points = series[name], step = (width - 10) / Math.max(1, points.length - 1);
      let path = "", pen = "M";
      points.forEach((value, index) => {
        if (value === null) { pen = "M"; return; }
        path += `${pen}${(5 + index * step).toFixed(1)} ${(height - 5 - (value - low) / span * (height - 10)).toFixed(1)}`; pen = "L";
      });
      const line = shape("path", { d: path, fill: "none", "stroke-width": 1.6, stroke: COLOURS[place % COLOURS.length], "stroke-dasharray": place < COLOURS.length ? "none" : "5 3" });
      line.append(shape("title", {}, name));
      svg.append(line);
    });
    const legend = make("p", { class: "note" });
    names.forEach((name, place) => {
      const mark = drawing(16, 8, ""); mark.setAttribute("width", 16); mark.setAttribute("aria-hidden", "true");
      mark.append(shape("line", { x1: 0, x2: 16, y1: 4, y2: 4, stroke: COLOURS[place % COLOURS.length], "stroke-width": 3, "stroke-dasharray": place < COLOURS.length ? "none" : "5 3" }));
      const item = make("span", { class: "row" }); item.style.display = "inline-flex"; item.style.marginRight = "1rem";
      item.append(mark, make("span", { text: name }));
      legend.append(item);
    });
    return make("figure", {}, make("h3", { text: label }), svg, legend);
  }
  const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c6d31"];
  function timelines(detail) {
    const names = Object.keys(detail.timelines);
    if (!names.length) return null;
    const width = 900, row = 20, left = 150;
    const svg = drawing(width, row * names.length + 18, "Evidence of each channel over the episode; dark is weak");
    const x = (frame) => left + (width - left - 5) * frame / Math.max(1, detail.length - 1);
    names.forEach((name, place) => {
      svg.append(shape("text", { x: left - 8, y: place * row + 14, "text-anchor": "end" }, name));
      const points = detail.timelines[name], step = (width - left - 5) / Math.max(1, points.length);
      points.forEach((value, index) => {
        if (value === null) return;
        const weak = Math.min(1, Math.max(0, 1 - value));
        const cell = shape("rect", { x: (left + index * step).toFixed(1), y: place * row + 2, width: (step + .4).toFixed(1), height: row - 4, fill: "var(--drop)", opacity: (.06 + .94 * weak * weak).toFixed(2) });
        svg.append(cell);
      });
    });
    svg.append(shape("text", { x: left, y: row * names.length + 13 }, "0 s"), shape("text", { x: width - 5, y: row * names.length + 13, "text-anchor": "end" }, seconds(detail.length - 1)));
    for (const stretch of detail.stretches) svg.append(shape("line", { x1: x(stretch.first), x2: x(stretch.last + 1), y1: row * names.length + 1, y2: row * names.length + 1, stroke: "var(--drop)", "stroke-width": 3 }));
    return make("figure", {}, make("h3", { text: "Evidence over time (dark: weak)" }), svg);
  }
  function film(detail) {
    const strip = make("div", { class: "film" });
    const [width, height] = detail.frame_size;
    detail.frames.forEach((frame, place) => {
      const weak = detail.stretches.some((stretch) => frame >= stretch.first && frame <= stretch.last);
      const picture = make("div", { class: "picture", role: "img", "aria-label": "frame at " + seconds(frame) + (weak ? ", in a weak stretch" : "") });
      Object.assign(picture.style, { width: width + "px", height: height + "px", backgroundImage: `url("${detail.sprite}")`, backgroundPosition: `-${place % 6 * width}px -${Math.floor(place / 6) * height}px` });
      strip.append(make("figure", { class: weak ? "weak" : "" }, picture, make("figcaption", { text: seconds(frame) })));
    });
    return strip;
  }
  function likeness(detail) {
    if (!detail.likeness.length) return null;
    const box = make("div", {}, make("h3", { text: "The weakest chunks, and what followed from a similar situation in a kept episode" }));
    for (const found of detail.likeness) {
      const names = [`here at ${seconds(found.frame)}`, `${found.offset} frames later`, `episode ${found.other_episode} at ${seconds(found.other_frame)}`, `${found.offset} frames later`];
      const row = make("div", { class: "likeness" });
      found.pictures.forEach((source, place) => row.append(make("figure", {}, make("img", { src: source, alt: names[place] }), make("figcaption", { text: names[place] }))));
      if (!found.pictures.length) row.append(make("p", { text: `${names[0]}: compare with ${names[2]}` }));
      box.append(row);
    }
    return box;
  }
  function evidenceTable(card) {
    const body = make("tbody");
    channels.map((name, place) => [name, card.evidence[place]]).sort((a, b) => (a[1] ?? 9) - (b[1] ?? 9)).forEach(([name, value]) =>
      body.append(make("tr", {}, make("td", { text: name }), make("td", { text: number(value, 3) }), make("td", { text: page.channels[name] }))));
    return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...["channel", "evidence", "what it looks at"].map((text) => make("th", { scope: "col", text })))), body));
  }
  function openDetail(index) {
    const card = byIndex.get(index), dialog = $("detail"), detail = readDetail(index);
    const neighbour = card.neighbour === null ? null : byIndex.get(card.neighbour);
    const markButton = (mark, text) => make("button", { type: "button", class: "button", "aria-pressed": String((marks[index] || null) === mark), text, onclick: () => { setMark(card, mark); openDetail(index); } });
    fill(dialog,
      make("div", { class: "row" }, make("h2", { id: "detail-title", text: `Episode ${index}` }), verdictElement(card),
        make("span", { class: "score", text: `score ${number(card.score)} [${number(card.low)}, ${number(card.high)}], weight ${number(card.weight)}` }),
        make("button", { type: "button", class: "button", text: "Close", onclick: () => dialog.close() })),
      make("p", { text: card.task }),
      card.corrected_instruction ? make("p", { class: "mislabelled verdict", text: "✎ its motion fits: " + card.corrected_instruction }) : null,
      make("p", { text: card.reason || "Nothing stands out." }),
      card.duplicate_of === null ? null : make("p", { text: `Moves almost exactly like episode ${card.duplicate_of}.` }),
      make("div", { class: "row" }, make("span", { text: "Overrule:" }), markButton("keep", "✓ keep it"), markButton("drop", "✕ drop it"), markButton(null, "as scored")),
      detail && detail.frames.length ? make("div", {}, make("h3", { text: "Frames" }), film(detail)) : make("p", { class: "note", text: detail ? detail.note : "Its details are not part of this page." }),
      detail ? timelines(detail) : null,
      detail ? traces("States", detail.states, detail.length) : null,
      detail ? traces("Actions", detail.actions, detail.length) : null,
      detail ? likeness(detail) : null,
      make("h3", { text: "Evidence by channel (0: no good episode looks like this, 1: as usual)" }), evidenceTable(card),
      neighbour ? neighbourElement(neighbour) : null);
    if (!dialog.open) dialog.showModal();
  }
  function neighbourElement(card) {
    const detail = readDetail(card.episode_index);
    return make("div", {}, make("h3", { text: `Its most similar kept episode: ${card.episode_index}` }),
      detail && detail.frames.length ? film(detail) : null, detail ? traces("Its states", detail.states, detail.length) : null,
      make("button", { type: "button", class: "button", text: "Open it", onclick: () => openDetail(card.episode_index) }));
  }

  // ---- the dataset
  function scatter(label, points, { width = 420, height = 260, ends = [], wide = false } = {}) {
    const xs = points.map((point) => point.x), ys = points.map((point) => point.y);
    const lowX = Math.min(...xs), highX = Math.max(...xs), lowY = Math.min(...ys), highY = Math.max(...ys);
    const svg = drawing(width, height, label);
    svg.append(shape("rect", { x: 2, y: 2, width: width - 4, height: height - 4, fill: "none", stroke: "var(--line)" }));
    if (ends.length) svg.append(shape("text", { x: 8, y: height - 7 }, ends[0]), shape("text", { x: width - 8, y: height - 7, "text-anchor": "end" }, ends[1]));
    const tone = { keep: "var(--keep)", flag: "var(--flag)", drop: "var(--drop)" };
    for (const point of points) {
      const x = 14 + (point.x - lowX) / (highX - lowX || 1) * (width - 28), y = height - 24 - (point.y - lowY) / (highY - lowY || 1) * (height - 40);
      const verdict = verdictOf(point.card), size = 4.5, style = { fill: verdict === "flag" ? "none" : tone[verdict], stroke: tone[verdict], "stroke-width": 1.5, opacity: .8 };
      const mark = verdict === "drop" ? shape("path", { d: `M${x - size} ${y - size}L${x + size} ${y + size}M${x - size} ${y + size}L${x + size} ${y - size}`, ...style, "stroke-width": 2.2 })
        : verdict === "flag" ? shape("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, ...style }) : shape("circle", { cx: x, cy: y, r: size - 1, ...style });
      mark.append(shape("title", {}, `episode ${point.card.episode_index}: ${point.card.reason || "fine"}`));
      mark.addEventListener("click", () => openDetail(point.card.episode_index));
      svg.append(mark);
    }
    return make("figure", { class: wide ? "wide" : "" }, make("h3", { text: label }), svg);
  }
  function groupTable(title, key) {
    const groups = new Map();
    for (const card of page.episodes) { const name = key(card); if (!groups.has(name)) groups.set(name, []); groups.get(name).push(card); }
    const body = make("tbody");
    for (const [name, cards] of [...groups].sort((a, b) => b[1].length - a[1].length).slice(0, 100)) {
      const scores = cards.map((card) => card.score).filter((score) => score !== null).sort((a, b) => a - b);
      const median = scores.length ? scores[Math.floor(scores.length / 2)] : null;
      const count = (verdict) => String(cards.filter((card) => verdictOf(card) === verdict).length);
      body.append(make("tr", {}, make("td", { text: name || "(no text)" }), ...[String(cards.length), count("keep"), count("flag"), count("drop"), number(median)].map((text) => make("td", { text }))));
    }
    return make("div", {}, make("h3", { text: title }), make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...["", "episodes", "fine", "look", "drop", "median score"].map((text) => make("th", { scope: "col", text })))), body)));
  }
  function drawDataset() {
    const order = page.episodes.map((card) => ({ x: card.episode_index, y: card.score === null ? 0 : card.score, card }));
    const duplicates = page.episodes.filter((card) => card.duplicate_of !== null);
    fill($("view-dataset"),
      make("p", { class: "note", text: "● fine, □ to look at, ✕ to drop; click a mark to open its episode." }),
      make("div", { class: "columns" }, scatter("Score in the order of recording (drift shows)", order, { width: 900, height: 180, ends: ["first recorded", "last recorded"], wide: true }), scatter("Where episodes start (states, largest spread)", page.episodes.map((card) => ({ x: card.start[0], y: card.start[1], card }))),
        scatter("Where episodes end", page.episodes.map((card) => ({ x: card.end[0], y: card.end[1], card })))),
      groupTable("By task", (card) => card.task),
      distinct(page.episodes.map((card) => card.source)).length > 1 ? groupTable("By source", (card) => card.source) : null,
      page.confusions.length ? make("div", {}, make("h3", { text: "Instructions that the motion contradicts" }), make("ul", {}, ...page.confusions.map(([given, fits, count]) => make("li", { text: `${count} × “${given}” moves like “${fits}”` })))) : null,
      make("h3", { text: "Near-duplicates" }), make("p", { text: duplicates.length ? duplicates.slice(0, 200).map((card) => `${card.episode_index} ≈ ${card.duplicate_of}`).join(", ") : "none" }));
  }
  function table(rows) {
    const columns = Object.keys(rows[0]);
    return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...columns.map((text) => make("th", { scope: "col", text })))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...columns.map((name) => make("td", { text: typeof row[name] === "number" ? number(row[name]) : String(row[name] ?? "–") })))))));
  }
  function drawTrust() {
    const view = $("view-trust");
    view.replaceChildren(make("h2", { text: "How far to trust it here" }), ...page.statements.map((text) => make("p", { text })));
    if (page.checks.length) view.append(make("p", { text: "Faults of known kinds were put into copies of this dataset's own episodes and scored like the rest:" }), table(page.checks));
    else view.append(make("p", { text: "Nothing was injected to check it: run ptr score DATASET --check=true, then ptr report again." }));
    view.append(make("h2", { text: "What each channel looks at" }), table(channels.map((name) => ({ channel: name, "looks at": page.channels[name] }))));
  }
  function drawTraining() {
    if (!page.training) return;
    document.querySelector('[data-view="training"]').hidden = false;
    const view = $("view-training");
    view.replaceChildren(make("h2", { text: "Training run " + page.training.name }), make("p", { text: page.training.agreement }));
    for (const [title, series] of Object.entries(page.training.curves)) view.append(traces(title, series, 1, 160) || "");
    const weights = page.training.weights, cards = page.episodes.filter((card) => weights[card.episode_index] !== undefined && weights[card.episode_index] !== null);
    if (cards.length) view.append(scatter("Mean weight in training (up) against the score (right)", cards.map((card) => ({ x: card.score ?? 0, y: weights[card.episode_index], card }))));
  }
  function drawAct() {
    const count = Object.keys(marks).length;
    $("view-act").replaceChildren(make("h2", { text: "What to do now" }),
      make("p", { text: count ? `You have overruled ${count} verdict(s). Save them and give the file to the commands below as --verdicts=ptr_verdicts.json.` : "Mark episodes (x, or in an opened episode) to overrule verdicts; marks are kept in this browser." }),
      make("p", {}, make("button", { type: "button", class: "button", id: "save-marks", text: "Save my marks (ptr_verdicts.json)", onclick: saveMarks })),
      ...page.commands.flatMap(([words, command]) => [make("h3", { text: words }), make("pre", { tabindex: 0, text: command })]));
  }

  // ---- getting around
  function view(name) {
    for (const button of document.querySelectorAll("nav button")) button.setAttribute("aria-pressed", String(button.dataset.view === name));
    for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== "view-" + name;
    if (name === "dataset") drawDataset();
  }
  document.querySelector("nav").addEventListener("click", (event) => { if (event.target.dataset.view) view(event.target.dataset.view); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName), dialog = $("detail");
    if (typing) { if (event.key === "Escape") event.target.blur(); return; }
    const step = { j: 1, k: -1 }[event.key];
    if (step) {
      current = Math.min(shown.length - 1, Math.max(0, current + step)); highlight();
      if (dialog.open && shown[current]) openDetail(shown[current].episode_index);
    } else if (event.key === "Enter" && !dialog.open) {
      const focused = document.activeElement && document.activeElement.id.startsWith("card-") ? Number(document.activeElement.id.slice(5)) : null;
      if (focused !== null) { current = shown.findIndex((card) => card.episode_index === focused); openDetail(focused); event.preventDefault(); }
    } else if (event.key === "x" && current >= 0 && shown[current]) {
      setMark(shown[current], nextMark(shown[current]));
      if (dialog.open) openDetail(shown[current].episode_index);
    } else if (event.key === "/") { $("search").focus(); event.preventDefault(); }
  });
  new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) renderMore(); }, { rootMargin: "600px" }).observe($("more"));
  drawAnswer(); drawFilters(); drawTrust(); drawTraining(); drawAct(); refresh();
  document.documentElement.dataset.ready = "true";
})();
