// The exact times of a lane of the timeline, beside the pointer or the lane that has the focus.
const bubble = document.createElement("div");
bubble.id = "exact-times";
bubble.hidden = true;
bubble.setAttribute("aria-hidden", "true"); // the bars have the same words as their name
document.body.append(bubble);

function show(lane) {
  const bars = lane?.querySelector("[data-words]");
  bubble.hidden = !bars;
  if (!bars) return;
  bubble.textContent = bars.getAttribute("aria-label").replaceAll("; ", "\n");
  const place = bars.getBoundingClientRect();
  const left = Math.min(place.left, document.documentElement.clientWidth - bubble.offsetWidth - 8);
  bubble.style.setProperty("left", `${Math.max(left, 8) + scrollX}px`);
  bubble.style.setProperty("top", `${place.bottom + scrollY + 2}px`);
}

const laneOf = (event) => event.target.closest?.(".lane");
document.addEventListener("mouseover", (event) => {
  const lane = laneOf(event);
  if (lane || !bubble.hidden) show(lane);
});
document.addEventListener("focusin", (event) => show(laneOf(event)));
document.addEventListener("focusout", () => show(null));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") show(null);
});
