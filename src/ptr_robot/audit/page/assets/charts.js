// Lines over time, points in a plane, scores along a strip: plain SVG, as wide as its place.
const MARGIN = 46;
const DENSE = 1500; // above it, kept episodes are one path: ten thousand elements would be slow
const TONES = { keep: "var(--keep)", flag: "var(--flag)", drop: "var(--drop)" };

function line(points, x, y) {
  let path = "", pen = "M";
  points.forEach((value, index) => {
    if (value === null) { pen = "M"; return; }
    path += `${pen}${x(index).toFixed(1)} ${y(value).toFixed(1)}`; pen = "L";
  });
  return path;
}
const range = (series) => {
  let low = Infinity, high = -Infinity;
  for (const points of series) for (const value of points) if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
  return low > high ? [0, 1] : [low, high];
};
// series: points by name; bands: [first, last] in shares of the width; ends: the texts below the axis
function lines(label, series, { width, height = 110, left = MARGIN, ends = [], bands = [], colours = new Map(), limits = null, legend = true }) {
  const names = Object.keys(series);
  if (!names.length) return null;
  let [low, high] = limits || range(Object.values(series));
  if (low === high) { low -= Math.abs(low) / 2 || .5; high += Math.abs(high) / 2 || .5; } // a line that never moves runs through the middle
  const span = high - low, bottom = height - 16;
  const svg = drawing(width, height, `${label}: ${names.join(", ")}`);
  const across = (share) => left + (width - left - 4) * share, y = (value) => bottom - 3 - (value - low) / span * (bottom - 8);
  for (const [first, last] of bands) svg.append(shape("rect", { x: across(first), y: 0, width: Math.max(2, across(last) - across(first)), height: bottom, fill: "var(--drop)", opacity: .12 }));
  svg.append(shape("path", { d: `M${left} 0V${bottom}H${width - 4}`, fill: "none", stroke: "var(--line)" }),
    shape("text", { x: left - 5, y: 11, "text-anchor": "end" }, short(high)), shape("text", { x: left - 5, y: bottom, "text-anchor": "end" }, short(low)));
  if (ends.length) svg.append(shape("text", { x: left, y: height - 3 }, ends[0]), shape("text", { x: width - 4, y: height - 3, "text-anchor": "end" }, ends[1]));
  const list = make("p", { class: "note legend" });
  for (const name of names) {
    if (!colours.has(name)) colours.set(name, colours.size);
    const place = colours.get(name), style = { stroke: COLOURS[place % COLOURS.length], "stroke-dasharray": place < COLOURS.length ? "none" : "5 3" };
    const points = series[name];
    const drawn = shape("path", { d: line(points, (index) => across(index / Math.max(1, points.length - 1)), y), fill: "none", "stroke-width": 1.6, ...style });
    drawn.append(shape("title", {}, name));
    svg.append(drawn);
    const mark = shape("svg", { viewBox: "0 0 16 8", width: 16, height: 8, "aria-hidden": "true" });
    mark.append(shape("line", { x1: 0, x2: 16, y1: 4, y2: 4, "stroke-width": 3, ...style }));
    list.append(make("span", {}, mark, make("span", { text: name })));
  }
  return make("figure", {}, make("h3", { text: label }), svg, legend ? list : null);
}
function mark(card, x, y, size = 4.5) {
  const verdict = verdictOf(card), style = { fill: verdict === "flag" ? "none" : TONES[verdict], stroke: TONES[verdict], "stroke-width": 1.5, opacity: .8 };
  const element = verdict === "drop" ? shape("path", { d: `M${x - size} ${y - size}L${x + size} ${y + size}M${x - size} ${y + size}L${x + size} ${y - size}`, ...style, "stroke-width": 2.2 })
    : verdict === "flag" ? shape("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, ...style }) : shape("circle", { cx: x, cy: y, r: size - 1, ...style });
  element.append(shape("title", {}, `episode ${card.episode_index}: ${card.reason || "fine"}`));
  return element;
}
// points: { x, y, card }; a click opens the nearest episode
function scatter(label, points, { width, height = 260, left = 10, limits = null, ends = [], sides = [], trend = null, note = "" }) {
  const [lowX, highX] = range([points.map((point) => point.x)]), [lowY, highY] = limits || range([points.map((point) => point.y)]);
  const svg = drawing(width, height, label), bottom = height - (ends.length ? 18 : 4);
  const x = (value) => left + 10 + (value - lowX) / (highX - lowX || 1) * (width - left - 24), y = (value) => bottom - 10 - (value - lowY) / (highY - lowY || 1) * (bottom - 22);
  svg.append(shape("rect", { x: left, y: 2, width: width - left - 4, height: bottom - 2, fill: "none", stroke: "var(--line)" }));
  if (ends.length) svg.append(shape("text", { x: left, y: height - 4 }, ends[0]), shape("text", { x: width - 4, y: height - 4, "text-anchor": "end" }, ends[1]));
  if (sides.length) svg.append(shape("text", { x: left - 5, y: y(lowY) + 4, "text-anchor": "end" }, sides[0]), shape("text", { x: left - 5, y: y(highY) + 4, "text-anchor": "end" }, sides[1]));
  const single = points.length > DENSE ? points.filter((point) => verdictOf(point.card) !== "keep") : points;
  if (points.length > DENSE) {
    const kept = points.filter((point) => verdictOf(point.card) === "keep");
    svg.append(shape("path", { d: kept.map((point) => `M${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}h0`).join(""), stroke: TONES.keep, "stroke-width": 4, "stroke-linecap": "round", opacity: .45 }));
  }
  svg.append(...single.map((point) => mark(point.card, x(point.x), y(point.y), points.length > 400 ? 3 : 4.5)));
  if (trend) svg.append(shape("path", { d: line(trend.map((point) => point.y), (index) => x(trend[index].x), y), fill: "none", stroke: "var(--ink)", "stroke-width": 2, opacity: .75 }));
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect(), scale = width / box.width, atX = (event.clientX - box.left) * scale, atY = (event.clientY - box.top) * scale;
    let best = null, least = 14 * 14;
    for (const point of points) { const far = (x(point.x) - atX) ** 2 + (y(point.y) - atY) ** 2; if (far < least) { least = far; best = point.card; } }
    if (best) openDetail(best.episode_index);
  });
  return make("figure", {}, make("h3", { text: label }), svg, note ? make("p", { class: "note", text: note }) : null);
}
function bars(label, shares, width, height = 130) {
  const names = Object.keys(shares), top = Math.max(...Object.values(shares)) || 1, step = (width - MARGIN - 4) / names.length, bottom = height - 18;
  const svg = drawing(width, height, label);
  names.forEach((name, place) => {
    const size = shares[name] / top * (bottom - 12), x = MARGIN + place * step;
    svg.append(shape("rect", { x: x + 1, y: bottom - size, width: Math.max(1, step - 2), height: size, fill: "var(--keep)" }));
    if (place % Math.ceil(40 / step) === 0) svg.append(shape("text", { x: x + 1, y: height - 4 }, name));
  });
  svg.append(shape("path", { d: `M${MARGIN} 0V${bottom}H${width - 4}`, fill: "none", stroke: "var(--line)" }), shape("text", { x: MARGIN - 5, y: 12, "text-anchor": "end" }, short(top)));
  return make("figure", {}, make("h3", { text: label }), svg);
}
function strip(cards, width = 220) {
  const svg = drawing(width, 20, `scores of ${cards.length} episodes from 0 to 1`);
  const x = (card) => 6 + (width - 12) * (card.score ?? 0);
  svg.append(shape("line", { x1: 2, x2: width - 2, y1: 10, y2: 10, stroke: "var(--line)", "stroke-width": 2 }));
  const kept = cards.filter((card) => verdictOf(card) === "keep");
  svg.append(shape("path", { d: kept.map((card) => `M${x(card).toFixed(1)} 10h0`).join("") || "M0 0", stroke: TONES.keep, "stroke-width": 7, "stroke-linecap": "round", opacity: kept.length > 50 ? .25 : .6 }),
    ...cards.filter((card) => verdictOf(card) !== "keep").slice(0, 300).map((card) => mark(card, x(card), 10, 4)));
  return svg;
}
