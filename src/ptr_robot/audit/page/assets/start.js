// Getting around: views, keys, a window that changes its size, paper.
const DRAWN = { dataset: drawDataset, training: drawTraining }; // drawings are made for the width that they find

function view(name) {
  for (const button of document.querySelectorAll("nav button")) button.setAttribute("aria-pressed", String(button.dataset.view === name));
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== "view-" + name;
  if (DRAWN[name]) DRAWN[name]();
}
document.querySelector("nav").addEventListener("click", (event) => { if (event.target.dataset.view) view(event.target.dataset.view); });
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName), dialog = $("detail");
  if (typing) { if (event.key === "Escape") event.target.blur(); return; }
  const step = { j: 1, k: -1 }[event.key];
  if (step && shown.length) {
    current = Math.min(shown.length - 1, Math.max(0, current + step)); highlight();
    if (dialog.open) openDetail(shown[current].episode_index);
  } else if (event.key === "Enter" && !dialog.open) {
    const focused = document.activeElement && document.activeElement.id.startsWith("card-") ? Number(document.activeElement.id.slice(5)) : null;
    if (focused !== null) { current = shown.findIndex((card) => card.episode_index === focused); openDetail(focused); event.preventDefault(); }
  } else if (event.key === "x") {
    const card = dialog.open ? byIndex.get(Number(dialog.dataset.episode)) : shown[current];
    if (!card) return;
    setMark(card, nextMark(card));
    if (dialog.open) openDetail(card.episode_index);
  } else if (event.key === "/" && !dialog.open) { view("episodes"); $("search").focus(); event.preventDefault(); }
});
new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) renderMore(); }, { rootMargin: "600px" }).observe($("more"));
let waiting = 0, drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === drawnWidth) return; // a phone's address bar comes and goes
  drawnWidth = window.innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    for (const [name, draw] of Object.entries(DRAWN)) if (!$("view-" + name).hidden) draw();
    if ($("detail").open) openDetail(Number($("detail").dataset.episode));
  }, 150);
});
window.addEventListener("beforeprint", () => {
  while (rendered < Math.min(shown.length, PRINTED)) renderMore();
  $("printed").textContent = shown.length > rendered ? `The first ${rendered} of ${shown.length} episodes are printed.` : "";
  for (const draw of Object.values(DRAWN)) draw();
});
drawAnswer(); drawFilters(); drawTrust(); drawAct(); refresh();
if (page.training) document.querySelector('[data-view="training"]').hidden = false;
document.documentElement.dataset.ready = "true";
