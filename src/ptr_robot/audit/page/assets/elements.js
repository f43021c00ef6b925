// Every text of the dataset enters the document through textContent; no string is ever parsed as HTML.
const page = JSON.parse(document.getElementById("page").textContent);
const SIGNS = { keep: "✓", flag: "!", drop: "✕" };
const WORDS = { keep: "keep", flag: "look at it", drop: "drop" };
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c6d31"]; // told apart by the colour-blind
const channels = Object.keys(page.channels);
const byIndex = new Map(page.episodes.map((card) => [card.episode_index, card]));

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}
const present = (children) => children.filter((child) => child !== null && child !== undefined);
const fill = (element, ...children) => element.replaceChildren(...present(children));
const button = (text, onclick, attributes = {}) => make("button", { type: "button", class: "button", text, onclick, ...attributes });
function shape(tag, attributes = {}, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
const drawing = (width, height, label) => shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, width, height });
const $ = (name) => document.getElementById(name);
const number = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
function short(value) {
  if (value === null || value === undefined) return "–";
  return value !== 0 && (Math.abs(value) < .001 || Math.abs(value) >= 1e5) ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}
const percent = (share) => (share === null || share === undefined ? "–" : Math.round(100 * share) + "%");
const seconds = (frame) => (page.fps ? (frame / page.fps).toFixed(1) + " s" : "frame " + frame);
const spoken = (channel) => channel.replaceAll("_", " ");
const distinct = (values) => [...new Set(values.filter(Boolean))].sort();
// Pixels to draw in: text in a drawing keeps its size on a phone only if the drawing is as wide as its place.
const room = (element) => Math.max(280, Math.min(1312, (element.clientWidth || document.body.clientWidth) - (element.tagName === "DIALOG" ? 32 : 0)));
function headed(names, rows) {
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...names.map((text) => make("th", { scope: "col", text })))), make("tbody", {}, ...rows)));
}
const cells = (...contents) => make("tr", {}, ...contents.map((content) => (content instanceof Node ? make("td", {}, content) : make("td", { text: content }))));
