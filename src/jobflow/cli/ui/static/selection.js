// The panel of a step comes into view if it is selected where the panel is not visible.
const LEAST = 120; // pixels of the panel
const name = () => document.getElementById("step")?.getAttribute("aria-label") ?? "";
let shown = name();

document.addEventListener("page-changed", () => {
  if (name() === shown) return;
  shown = name();
  if (!shown) return;
  const panel = document.getElementById("step");
  const { top } = panel.getBoundingClientRect();
  if (top < 0 || top > innerHeight - LEAST) panel.scrollIntoView({ block: "start" });
});
