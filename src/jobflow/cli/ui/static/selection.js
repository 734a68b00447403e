// The panel of a step comes into view if it is selected where little of the panel is visible.
const name = () => document.getElementById("step")?.getAttribute("aria-label") ?? "";
let shown = name();

document.addEventListener("page-changed", () => {
  if (name() === shown) return;
  shown = name();
  if (!shown) return;
  const panel = document.getElementById("step");
  const { top } = panel.getBoundingClientRect();
  if (top < 0 || top > innerHeight / 2) panel.scrollIntoView({ block: "start" });
});
