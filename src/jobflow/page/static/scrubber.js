// The slider over the time of a flow. Its value is the seconds since the start; the address has the time.
import { go } from "./navigate.js";

const PAUSE = 150; // milliseconds
let waiting = 0;

const slider = () => document.querySelector("[data-scrub]");
const start = (field) => Date.parse(field.dataset.scrub);
const end = (field) => (field.dataset.end ? Date.parse(field.dataset.end) : Date.now());
const chosen = () => new URLSearchParams(location.search).get("at");

// The right end is the end of the flow, or the present time, although the axis has room to grow.
function stretch(field) {
  const axis = Number(field.dataset.axis);
  const most = Math.min(Math.max(Math.round((end(field) - start(field)) / 1000), 1), axis);
  field.max = most;
  document.querySelector(".moments").style.width = `calc((100% - 16px) * ${axis / most})`;
}

function place() {
  const field = slider();
  if (!field || waiting) return;
  stretch(field);
  const at = Date.parse(chosen() ?? "");
  const shown = Number.isNaN(at) ? end(field) : Math.min(at, end(field));
  const value = String(Math.max(Math.round((shown - start(field)) / 1000), 0));
  if (field.value !== value) field.value = value;
  const text = new Date(shown).toISOString().slice(11, 19);
  field.setAttribute("aria-valuetext", Number.isNaN(at) ? `live, ${text} UTC` : `${text} UTC`);
}

// The links to the moments before and after the time of the address, at once.
function aim() {
  const all = document.querySelector("[data-moments]");
  if (!all) return;
  const moments = all.dataset.moments.split(" ").filter(Boolean);
  const at = Date.parse(chosen() ?? "");
  const found = {
    before: moments.findLast((each) => Number.isNaN(at) || Date.parse(each) < at),
    behind: moments.find((each) => Date.parse(each) > at),
  };
  for (const link of all.querySelectorAll("[data-moment]")) {
    const to = found[link.dataset.moment];
    link.hidden = !to;
    link.setAttribute("href", `?at=${encodeURIComponent(to ?? "")}`);
  }
  all.querySelector(".live").hidden = Number.isNaN(at);
}

document.addEventListener("input", (event) => {
  if (!("scrub" in event.target.dataset)) return;
  const field = event.target;
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    waiting = 0;
    const at = start(field) + Number(field.value) * 1000;
    const query = new URLSearchParams(location.search);
    query.set("at", at < end(field) - 1000 ? `${new Date(at).toISOString().slice(0, 19)}Z` : "");
    go(query, { replaces: true });
  }, PAUSE);
});
document.addEventListener("page-address", () => {
  clearTimeout(waiting);
  waiting = 0;
  place();
  aim();
});
document.addEventListener("fresh", ({ detail }) => detail.querySelector("[data-scrub]") && place());
setInterval(place, 1000);
place();
