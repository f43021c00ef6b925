// One episode: what was seen, where the evidence lies, and a good one beside it.
const COLUMNS = 6; // frames in a row of a sprite sheet

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
const isWeak = (detail, frame) => detail.stretches.some((stretch) => frame >= stretch.first && frame <= stretch.last);
function film(detail, hasWeak = true) {
  const strip = make("div", { class: "film" }), [width, height] = detail.frame_size;
  detail.frames.forEach((frame, place) => {
    const weak = hasWeak && isWeak(detail, frame);
    const picture = make("div", { class: "picture", role: "img", "aria-label": "frame at " + seconds(frame) + (weak ? ", in a weak stretch" : "") });
    Object.assign(picture.style, { width: width + "px", height: height + "px", backgroundImage: `url("${detail.sprite}")`, backgroundPosition: `-${place % COLUMNS * width}px -${Math.floor(place / COLUMNS) * height}px` });
    strip.append(make("figure", { class: weak ? "weak" : "" }, picture, make("figcaption", { text: seconds(frame) })));
  });
  return strip;
}
function stretchList(detail) {
  if (!detail.stretches.length) return null;
  const last = detail.length - 1;
  const time = (stretch) => (stretch.first <= 0 && stretch.last >= last ? "the whole episode" : `${seconds(stretch.first)} to ${seconds(stretch.last)}`);
  return make("div", {}, make("h3", { text: "Where it is weak" }), make("ul", { class: "stretches" },
    ...detail.stretches.map((stretch) => make("li", {}, make("strong", { text: time(stretch) }), ` ${page.channels[stretch.channel] || spoken(stretch.channel)}`))));
}
function timelines(card, detail, width) {
  const order = weakest(card), names = Object.keys(detail.timelines).sort((a, b) => order.indexOf(a) - order.indexOf(b));
  if (!names.length) return null;
  const row = 20, left = 96, svg = drawing(width, row * names.length + 18, "Evidence of each channel over the episode; dark is weak");
  names.forEach((name, place) => {
    const label = shape("text", { x: left - 8, y: place * row + 14, "text-anchor": "end" }, spoken(name));
    label.append(shape("title", {}, page.channels[name] || name));
    svg.append(label);
    const points = detail.timelines[name], step = (width - left - 4) / Math.max(1, points.length);
    points.forEach((value, index) => {
      if (value === null) return;
      const weak = Math.min(1, Math.max(0, 1 - value));
      svg.append(shape("rect", { x: (left + index * step).toFixed(1), y: place * row + 2, width: (step + .4).toFixed(1), height: row - 4, fill: "var(--drop)", opacity: (.06 + .94 * weak ** 4).toFixed(2) }));
    });
  });
  svg.append(shape("text", { x: left, y: row * names.length + 13 }, seconds(0)), shape("text", { x: width - 4, y: row * names.length + 13, "text-anchor": "end" }, seconds(detail.length - 1)));
  return make("figure", {}, make("h3", { text: "Evidence over time (dark: weak), the weakest channel first" }), svg);
}
function traces(label, part, detail, beside, width, colours) {
  const series = detail[part], limits = range([...Object.values(series), ...(beside ? Object.values(beside.detail[part]) : [])]);
  const last = Math.max(1, detail.length - 1), bands = detail.stretches.map((stretch) => [stretch.first / last, Math.min(1, (stretch.last + 1) / last)]);
  const own = lines(label, series, { width, left: 96, limits, colours, bands: bands.filter(([from, to]) => to - from < .6), ends: [seconds(0), seconds(detail.length - 1)] });
  const other = beside ? lines(`${label} of episode ${beside.index}, on the same scale`, beside.detail[part], { width, height: 90, left: 96, limits, colours, ends: [seconds(0), seconds(beside.detail.length - 1)] }) : null;
  return [own, own ? other : null];
}
function likeness(detail) {
  if (!detail.likeness.length) return null;
  const box = make("div", {}, make("h3", { text: "The weakest chunks: what was seen to follow, and what followed from the most similar situation of a kept episode" }));
  for (const found of detail.likeness) {
    const later = seconds(found.offset) + " later";
    const names = [`here, at ${seconds(found.frame)}`, later, `episode ${found.other_episode}, at ${seconds(found.other_frame)}`, later];
    const row = make("div", { class: "likeness" });
    found.pictures.forEach((source, place) => row.append(make("figure", {}, make("img", { src: source, alt: names[place] }), make("figcaption", { text: names[place] }))));
    if (!found.pictures.length) row.append(make("p", { text: `${names[0]}: compare with ${names[2]}` }));
    box.append(row);
  }
  return box;
}
function evidenceTable(card) {
  const silent = channels.filter((_, place) => card.evidence[place] === null);
  const rows = weakest(card).map((name) => cells(spoken(name), number(card.evidence[channels.indexOf(name)], 3), page.channels[name]));
  return make("div", {}, make("h3", { text: "Evidence by channel (0: no good episode looks like this, 1: as usual)" }), headed(["channel", "evidence", "what it looks for"], rows),
    silent.length ? make("p", { class: "note", text: "Says nothing here: " + silent.map(spoken).join(", ") + "." }) : null);
}
function detailHead(card, dialog) {
  const place = shown.indexOf(card), index = card.episode_index;
  const go = (step) => { current = place + step; highlight(); openDetail(shown[current].episode_index); };
  const markButton = (mark, text) => button(text, () => { setMark(card, mark); openDetail(index); }, { "aria-pressed": String((marks[index] || null) === mark) });
  return make("div", { class: "head" },
    make("div", { class: "row" }, make("h2", { id: "detail-title", text: `Episode ${index}` }), verdictElement(card),
      make("span", { class: "score", text: `score ${number(card.score)} [${number(card.low)}, ${number(card.high)}], weight ${number(card.weight)}, ${seconds(card.length)}` }),
      make("span", { class: "row end" }, place > 0 ? button("‹ Previous", () => go(-1)) : null, place >= 0 && place + 1 < shown.length ? button("Next ›", () => go(1)) : null, button("Close", () => dialog.close()))),
    make("div", { class: "row" }, make("span", { class: "overrule", text: "Overrule:" }), markButton("keep", "✓ keep it"), markButton("drop", "✕ drop it"), markButton(null, "as scored")));
}
function openDetail(index) {
  const card = byIndex.get(index), dialog = $("detail"), detail = readDetail(index);
  if (!dialog.open) dialog.showModal();
  const width = room(dialog), other = card.neighbour === null ? null : readDetail(card.neighbour), beside = other ? { index: card.neighbour, detail: other } : null;
  const colours = new Map(); // a dimension has one colour in all drawings of an episode
  fill(dialog, detailHead(card, dialog),
    make("p", { text: [card.task || "(no instruction)", ...card.labels.map((label, place) => label && `${page.labels[place]}: ${label}`).filter(Boolean)].join(" · ") }),
    card.corrected_instruction ? make("p", { class: "mislabelled verdict", text: "✎ its motion fits: " + card.corrected_instruction }) : null,
    make("p", { class: "reason", text: reasonOf(card) }),
    card.duplicate_of === null ? null : make("p", { text: `Moves almost exactly like episode ${card.duplicate_of}.` }),
    ...(detail ? [
      detail.frames.length ? make("div", {}, make("h3", { text: "Frames at chunk starts" + (detail.frames.some((frame) => isWeak(detail, frame)) ? " (underlined: in a weak stretch)" : "") }), film(detail)) : make("p", { class: "note", text: detail.note }),
      beside ? make("div", {}, make("div", { class: "row" }, make("h3", { text: `Its most similar kept episode: ${beside.index}` }), button("Open it", () => openDetail(beside.index))), other.frames.length ? film(other, false) : null) : null,
      stretchList(detail), likeness(detail), timelines(card, detail, width),
      ...traces("States", "states", detail, beside, width, colours), ...traces("Actions", "actions", detail, beside, width, colours),
    ] : [make("p", { class: "note", text: "Its details are not part of this page." })]),
    evidenceTable(card));
  dialog.dataset.episode = index;
}
