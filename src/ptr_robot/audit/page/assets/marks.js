// A person's word over the tool's, kept in this browser and saved as a file.
const MARKS = [null, "drop", "keep"];
const STORE = "ptr-report:" + page.title + ":" + page.episodes.length;
let marks = readMarks();

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
const verdictOf = (card) => marks[card.episode_index] || card.verdict;
function saveMarks() {
  const verdicts = { format: 1, dataset: page.title, total_frames: page.total_frames, verdicts: marks };
  const url = URL.createObjectURL(new Blob([JSON.stringify(verdicts, null, 2) + "\n"], { type: "application/json" }));
  make("a", { href: url, download: "ptr_verdicts.json" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
