// The panel of a step comes into view if it is selected where little of it or of its log is visible, and
// its node in the graph if the panel takes its place.
import { reveal } from "./graph.js";
import { isLow } from "./logs.js";

const name = () => document.getElementById("step")?.getAttribute("aria-label") ?? "";
let shown = name();

// Where the panel had the focus, the step in the view gets it.
function goBackTo(step) {
  if (document.activeElement !== document.body) return;
  const all = [...document.querySelectorAll("[data-item]")];
  const find = (path) => all.find((each) => each.getAttribute("aria-label")?.split(", ")[0] === path);
  (find(step) ?? find(step.split("/")[0]))?.focus({ preventScroll: true });
}

document.addEventListener("page-changed", () => {
  if (name() === shown) return;
  const before = shown;
  shown = name();
  if (!shown) return goBackTo(before.replace(/^Step /, ""));
  const panel = document.getElementById("step");
  const { top } = panel.getBoundingClientRect();
  reveal();
  if (top < 0 || top > innerHeight / 2 || isLow()) panel.scrollIntoView({ block: "start" });
});
