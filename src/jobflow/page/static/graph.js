// The graph: its size, and which part of it is visible at first.
const SMALLEST = 0.3;
const LARGEST = 2;
const READABLE = 0.8; // a graph begins at least this large
const STEP = 1.25;
let scale = 0;

function resize(wanted) {
  const svg = document.querySelector("#graph svg");
  if (!svg) return;
  const region = svg.parentElement;
  const { width, height } = svg.viewBox.baseVal;
  const before = svg.width.baseVal.value / width;
  scale = Math.min(Math.max(wanted, SMALLEST), LARGEST);
  const middle = [region.scrollLeft + region.clientWidth / 2, region.scrollTop + region.clientHeight / 2];
  svg.setAttribute("width", Math.round(width * scale));
  svg.setAttribute("height", Math.round(height * scale));
  region.scrollLeft = (middle[0] * scale) / before - region.clientWidth / 2;
  region.scrollTop = (middle[1] * scale) / before - region.clientHeight / 2;
}

function fitting() {
  const svg = document.querySelector("#graph svg");
  return svg ? Math.min((svg.parentElement.clientWidth - 8) / svg.viewBox.baseVal.width, 1) : 1;
}

function center(node) {
  const region = document.getElementById("graph");
  const at = node.getBoundingClientRect();
  const frame = region.getBoundingClientRect();
  region.scrollLeft += at.left + at.width / 2 - frame.left - region.clientWidth / 2;
  region.scrollTop += at.top + at.height / 2 - frame.top - region.clientHeight / 2;
}

// Shows the selected step where the graph is scrolled away from it.
export function reveal() {
  const node = document.querySelector(".node[aria-current]");
  if (!node) return;
  const at = node.getBoundingClientRect();
  const frame = document.getElementById("graph").getBoundingClientRect();
  if (at.left < frame.left || at.right > frame.right || at.top < frame.top || at.bottom > frame.bottom) center(node);
}

function begin() {
  if (!document.querySelector("#graph svg")) return;
  resize(scale || Math.max(fitting(), READABLE));
  const first = [".node[aria-current]", ".node.is-failed", ".node.is-running"]
    .map((each) => document.querySelector(each))
    .find(Boolean);
  if (first) center(first);
}

function jump(name) {
  const nodes = [...document.querySelectorAll(`.node.${name}`)];
  if (!nodes.length) return;
  const next = nodes[(nodes.indexOf(document.activeElement) + 1) % nodes.length];
  next.focus({ preventScroll: true, focusVisible: true });
  center(next);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-zoom], [data-jump]");
  if (!button) return;
  const { zoom, jump: name } = button.dataset;
  if (name) jump(name);
  else resize({ out: scale / STEP, in: scale * STEP, fit: fitting() }[zoom]);
});

document.addEventListener("fresh", ({ detail }) => {
  if (detail.id === "graph" || detail.querySelector("#graph")) begin();
});
begin();
