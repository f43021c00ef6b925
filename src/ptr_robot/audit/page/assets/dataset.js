// The dataset as a whole, what can be trusted, a training run, and what to type now.
function median(values) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
}
function drift(points) {
  const reach = Math.max(3, Math.round(points.length / 20)), step = Math.max(1, Math.floor(points.length / 200));
  return points.filter((_, place) => place % step === 0).map((point, place) => ({ x: point.x, y: median(points.slice(Math.max(0, place * step - reach), place * step + reach + 1).map((near) => near.y)) }));
}
function groupTable(title, key, isOrdered = false) {
  const groups = new Map();
  for (const card of page.episodes) { const name = key(card); if (!groups.has(name)) groups.set(name, []); groups.get(name).push(card); }
  const ordered = isOrdered ? [...groups] : [...groups].sort((a, b) => b[1].length - a[1].length);
  const rows = ordered.slice(0, 100).map(([name, cards]) => {
    const count = (verdict) => String(cards.filter((card) => verdictOf(card) === verdict).length);
    return cells(name || "(no text)", String(cards.length), count("keep"), count("flag"), count("drop"), number(median(cards.map((card) => card.score))), strip(cards));
  });
  const left = ordered.length - rows.length;
  return make("div", {}, make("h3", { text: title }), headed(["", "episodes", "fine", "look", "drop", "median score", "scores from 0 to 1"], rows),
    left > 0 ? make("p", { class: "note", text: `${left} smaller groups are not shown.` }) : null);
}
// Nobody says where a session ends: tenths of the recording show a bad day where no label does.
function partTable() {
  if (page.episodes.length < 20) return null;
  const size = Math.max(5, Math.ceil(page.episodes.length / 10)), places = new Map(page.episodes.map((card, place) => [card, Math.floor(place / size)]));
  const name = (card) => { const first = places.get(card) * size, last = Math.min(first + size, page.episodes.length) - 1; return `episodes ${page.episodes[first].episode_index} to ${page.episodes[last].episode_index}`; };
  return groupTable("By part of the recording", name, true);
}
function drawDataset() {
  const box = $("view-dataset"), width = room(box), half = width > 800 ? (width - 32) / 2 : width;
  const order = page.episodes.map((card) => ({ x: card.episode_index, y: card.score === null ? 0 : card.score, card }));
  const duplicates = page.episodes.filter((card) => card.duplicate_of !== null), place = (side) => page.episodes.map((card) => ({ x: card[side][0], y: card[side][1], card }));
  const plane = "States in the plane of their largest spread: empty places are not covered, lonely marks are rare.";
  fill(box,
    make("p", { class: "note", text: "● fine, □ to look at, ✕ to drop; click a mark to open its episode." }),
    scatter("Score in the order of recording", order, { width, height: 200, left: 34, limits: [0, 1], sides: ["0", "1"], ends: ["first recorded", "last recorded"], trend: order.length >= 10 ? drift(order) : null,
      note: order.length >= 10 ? "The line is the median of neighbouring episodes: where it falls, recording has changed." : "" }),
    make("div", { class: "columns" }, scatter("Where episodes start", place("start"), { width: half, note: plane }), scatter("Where episodes end", place("end"), { width: half, note: plane })),
    groupTable("By task", (card) => card.task),
    ...page.labels.map((name, number) => groupTable("By " + name, (card) => card.labels[number])),
    partTable(),
    make("h3", { text: "Instructions that the motion contradicts" }),
    page.confusions.length ? headed(["episodes", "recorded as", "moves like"], page.confusions.map(([given, fits, count]) => cells(String(count), given, fits))) : make("p", { text: "none" }),
    make("h3", { text: "Near-duplicates" }),
    duplicates.length ? make("p", { class: "row" }, ...duplicates.slice(0, 200).map((card) => button(`${card.episode_index} ≈ ${card.duplicate_of}`, () => openDetail(card.episode_index))), duplicates.length > 200 ? `and ${duplicates.length - 200} more` : null) : make("p", { text: "none" }));
}
function table(rows) {
  const columns = Object.keys(rows[0]);
  return headed(columns.map(spoken), rows.map((row) => cells(...columns.map((name) => (typeof row[name] === "number" ? (Number.isInteger(row[name]) ? String(row[name]) : number(row[name])) : String(row[name] ?? "–"))))));
}
function checkTable() {
  if (page.checks[0].title === undefined) return table(page.checks);
  const seen = page.checks.some((row) => typeof row.auroc_without_pictures === "number");
  const blind = (row) => (seen ? [typeof row.auroc_without_pictures === "number" ? number(row.auroc_without_pictures) : "–"] : []);
  return headed(["fault", "AUROC", "interval", ...(seen ? ["without pictures"] : []), "would be dropped", "seen by"], page.checks.map((row) => cells(row.title, number(row.auroc), `${number(row.auroc_low)} to ${number(row.auroc_high)}`, ...blind(row), `${percent(row.recall)} of ${row.num_copies}`, spoken(row.strongest || "–"))));
}
function drawTrust() {
  const view = $("view-trust");
  view.replaceChildren(make("h2", { text: "How far to trust it here" }), ...page.statements.map((text) => make("p", { text })),
    make("p", { text: "A score is the share of good episodes that have as much evidence against them by chance; its interval is what other draws of the scorer would give." }));
  if (page.checks.length) view.append(make("p", { text: "Faults of known kinds were put into copies of this dataset's own episodes and scored like the rest. AUROC: how well they are told from the others (.5 is a guess)." }), checkTable());
  else view.append(make("p", { text: "Nothing was injected to check it: run ptr score DATASET --check=true, then ptr report again." }));
  view.append(make("h2", { text: "What each channel looks for" }), table(channels.map((name) => ({ channel: spoken(name), "looks for": page.channels[name] }))));
}
function drawTraining() {
  if (!page.training) return;
  document.querySelector('[data-view="training"]').hidden = false;
  const box = $("view-training"), training = page.training, width = room(box), size = width > 800 ? (width - 64) / 3 : width;
  fill(box, make("h2", { text: "Training run " + training.name }), make("p", { text: training.agreement }));
  const weights = training.weights, cards = page.episodes.filter((card) => weights[card.episode_index] !== undefined && weights[card.episode_index] !== null);
  if (cards.length) {
    const points = cards.map((card) => ({ x: card.score ?? 0, y: weights[card.episode_index], card })), [low, high] = range([points.map((point) => point.y)]);
    box.append(scatter("Mean weight in training (up) against the audit's score (right)", points, { width: Math.min(width, 620), left: 46, sides: [short(low), short(high)], ends: ["worst score", "best score"] }));
  }
  if (Object.keys(training.weight_shares).length) box.append(bars("Weights of the last batch (share of its chunks by weight)", training.weight_shares, Math.min(width, 620)));
  const ends = training.steps.map((step) => "step " + step);
  for (const [title, series] of Object.entries(training.curves))
    box.append(make("h2", { text: title }), make("div", { class: "small columns" }, ...Object.entries(series).map(([name, points]) => lines(name, { [name]: points }, { width: size, height: 90, ends, legend: false }))));
}
function drawAct() {
  const count = Object.keys(marks).length;
  $("view-act").replaceChildren(make("h2", { text: "What to do now" }),
    make("p", { text: count ? `You have overruled ${count} verdict(s). Save them and give the file to the commands below as --verdicts=ptr_verdicts.json.` : "Mark episodes (x, or in an opened episode) to overrule verdicts; marks are kept in this browser." }),
    make("p", {}, button("Save my marks (ptr_verdicts.json)", saveMarks, { id: "save-marks", disabled: !count })),
    ...page.commands.flatMap(([words, command]) => [make("h3", { text: words }), make("pre", { tabindex: 0, text: command })]));
}
