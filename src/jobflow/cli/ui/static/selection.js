// The panel of a step comes into view if it is selected where little of it or of its log is visible.
import { isLow } from "./logs.js";

const name = () => document.getElementById("step")?.getAttribute("aria-label") ?? "";
let shown = name();

document.addEventListener("page-changed", () => {
  if (name() === shown) return;
  shown = name();
  if (!shown) return;
  const panel = document.getElementById("step");
  const { top } = panel.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2 || isLow()) panel.scrollIntoView({ block: "start" });
});
