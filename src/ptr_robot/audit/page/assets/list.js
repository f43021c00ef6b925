// The answer, and every episode at a glance.
const BATCH = 60;
const PRINTED = 300;
let shown = [], rendered = 0, current = -1;

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
  const checked = page.checks.filter((row) => typeof row.recall === "number"), kinds = (rows) => (rows.length ? rows.map((row) => row.title).join("; ") : "none");
  if (checked.length) $("statements").append(make("p", { text: `Known faults were put into copies of your own episodes. Half of them or more would be dropped: ${kinds(checked.filter((row) => row.recall >= .5))}. Fewer: ${kinds(checked.filter((row) => row.recall < .5))}.` }));
  if (!page.checks.length) $("statements").append(make("p", { class: "note", text: "How far to trust this has not been checked here: ptr score DATASET --check=true puts known faults into copies of your own episodes and says which are found." }));
}
function options(select, values, all = "all") {
  select.append(make("option", { value: "", text: all }));
  for (const [value, text] of values) select.append(make("option", { value, text: text.length > 60 ? text.slice(0, 57) + "…" : text }));
  select.addEventListener("change", refresh);
}
const plain = (values) => distinct(values).map((value) => [value, value]);
function drawFilters() {
  options($("filter-verdict"), [["keep", "✓ fine"], ["flag", "! to look at"], ["drop", "✕ to drop"], ["mislabelled", "✎ another instruction"], ["marked", "marked by me"]]);
  options($("filter-task"), plain(page.episodes.map((card) => card.task)));
  options($("filter-reason"), plain(page.episodes.map((card) => reasonKind(card.reason))));
  page.labels.forEach((name, place) => {
    const select = make("select", { "data-label": place });
    options(select, plain(page.episodes.map((card) => card.labels[place])));
    $("filter-reason").parentElement.before(make("label", {}, name[0].toUpperCase() + name.slice(1) + " ", select));
  });
  const sort = $("sort");
  for (const [value, text] of [["score", "score, worst first"], ["-score", "score, best first"], ["index", "order of recording"], ["length", "length"],
    ...channels.map((name) => ["channel:" + name, "evidence: " + spoken(name)])]) sort.append(make("option", { value, text }));
  sort.addEventListener("change", refresh);
  $("search").addEventListener("input", refresh);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
}
const reasonKind = (reason) => reason.replace(/[-\d.,]+( s| %|%)?/g, "…").slice(0, 80);
function matcher() {
  const verdict = $("filter-verdict").value, task = $("filter-task").value, reason = $("filter-reason").value;
  const labels = [...document.querySelectorAll("[data-label]")].map((select) => select.value);
  const words = $("search").value.trim().toLowerCase();
  return (card) => {
    if (verdict === "mislabelled" ? !card.corrected_instruction : verdict === "marked" ? !marks[card.episode_index] : verdict && verdictOf(card) !== verdict) return false;
    if (task && card.task !== task) return false;
    if (reason && reasonKind(card.reason) !== reason) return false;
    if (labels.some((value, place) => value && card.labels[place] !== value)) return false;
    return !words || [String(card.episode_index), card.task, card.reason, card.verdict, card.corrected_instruction || "", ...card.labels].some((text) => text.toLowerCase().includes(words));
  };
}
function refresh() {
  const key = $("sort").value;
  const value = (card) => {
    if (key === "index") return card.episode_index;
    if (key === "length") return card.length;
    if (key.startsWith("channel:")) { const found = card.evidence[channels.indexOf(key.slice(8))]; return found === null ? Infinity : found; }
    return (key === "-score" ? -1 : 1) * (card.score === null ? -Infinity : card.score);
  };
  shown = page.episodes.filter(matcher()).sort((a, b) => value(a) - value(b) || a.episode_index - b.episode_index);
  $("list").replaceChildren();
  rendered = 0; current = -1;
  $("shown").textContent = shown.length ? `${shown.length} of ${page.episodes.length} episodes.` : `None of ${page.episodes.length} episodes is like that.`;
  renderMore();
}
function renderMore() {
  const batch = shown.slice(rendered, rendered + BATCH);
  $("list").append(...batch.map(cardElement));
  rendered += batch.length;
}
function scoreBar(card) {
  const svg = drawing(200, 12, `score ${number(card.score)}, interval ${number(card.low)} to ${number(card.high)}`);
  svg.setAttribute("class", "bar"); svg.setAttribute("preserveAspectRatio", "none"); svg.removeAttribute("width"); svg.removeAttribute("height");
  const x = (value) => 4 + 192 * Math.min(1, Math.max(0, value === null ? 0 : value));
  const tick = x(card.score);
  svg.append(shape("line", { x1: 4, x2: 196, y1: 6, y2: 6, stroke: "var(--line)", "stroke-width": 4 }),
    shape("line", { x1: x(card.low), x2: x(card.high), y1: 6, y2: 6, stroke: "var(--tone)", "stroke-width": 4, opacity: .5 }),
    shape("line", { x1: tick, x2: tick, y1: 0, y2: 12, stroke: "var(--tone)", "stroke-width": 4 }));
  return svg;
}
function verdictElement(card) {
  const verdict = verdictOf(card);
  return make("span", { class: "verdict " + verdict, text: `${SIGNS[verdict]} ${WORDS[verdict]}` });
}
// A low score without a verdict against it must not read as if nothing had been seen.
function reasonOf(card) {
  if (card.reason) return card.reason;
  if (card.score === null || card.score >= page.weak) return "nothing stands out";
  const [name] = weakest(card);
  return "low, but too little evidence to flag it" + (name ? `; most of it: ${page.channels[name]}` : "");
}
const weakest = (card) => channels.filter((_, place) => card.evidence[place] !== null).sort((a, b) => card.evidence[channels.indexOf(a)] - card.evidence[channels.indexOf(b)]);
function cardElement(card) {
  const verdict = verdictOf(card);
  const open = () => { current = shown.indexOf(card); highlight(false); openDetail(card.episode_index); };
  return make("li", { id: "card-" + card.episode_index, class: `card ${verdict}` + (card.thumbnail ? "" : " no-picture"), tabindex: 0, role: "button",
    "aria-label": `Episode ${card.episode_index}, ${WORDS[verdict]}, score ${number(card.score)}. ${reasonOf(card)}`, onclick: open },
  card.thumbnail ? make("img", { src: card.thumbnail, alt: "", loading: "lazy" }) : null,
  make("div", { class: "words" },
    make("div", { class: "top" }, make("strong", { text: "Episode " + card.episode_index }), verdictElement(card),
      marks[card.episode_index] ? make("span", { class: "marked", text: "✎ your mark" }) : null,
      make("span", { class: "score", text: `${number(card.score)} [${number(card.low)}, ${number(card.high)}]` })),
    scoreBar(card),
    make("div", { class: "reason", text: reasonOf(card) }),
    make("div", { class: "task", text: [card.corrected_instruction ? `${card.task} → ${card.corrected_instruction}` : card.task, ...card.labels.filter(Boolean)].join(" · ") })));
}
function highlight(scroll = true) {
  for (const element of document.querySelectorAll(".card[aria-current]")) element.removeAttribute("aria-current");
  if (current < 0 || !shown[current]) return;
  while (current >= rendered) renderMore();
  const element = $("card-" + shown[current].episode_index);
  element.setAttribute("aria-current", "true");
  if (scroll) { element.scrollIntoView({ block: "nearest" }); element.focus({ preventScroll: true }); }
}
