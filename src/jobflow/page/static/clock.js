// Moves times on: an element with data-since shows the time since then, until data-end if it is set; one
// with data-until the time until then, and around it, one with data-left is hidden when that time has
// come: an estimate that was wrong. In timelines, a bar or line with data-since and data-seconds, the
// time of the whole width, ends at the present time.
const UNITS = [[86400, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]];

function format(seconds) {
  for (const [size, unit, innerSize, inner] of UNITS) {
    if (seconds >= size) {
      const rest = Math.floor((seconds % size) / innerSize);
      return `${Math.floor(seconds / size)}${unit}${rest ? rest + inner : ""}`;
    }
  }
  return `${seconds}s`;
}

export function tick(root) {
  const now = Date.now();
  grow(root, now);
  for (const each of root.querySelectorAll(".tick[data-until]")) {
    const seconds = Math.max(Math.floor((Date.parse(each.dataset.until) - now) / 1000), 0);
    const text = format(seconds);
    if (each.textContent !== text) each.textContent = text;
  }
  for (const each of root.querySelectorAll("[data-left]")) {
    const all = [...each.querySelectorAll("[data-until]")];
    each.hidden = all.every((until) => Date.parse(until.dataset.until) - now < 1000);
  }
  for (const each of root.querySelectorAll('.tick[data-end=""]')) {
    const seconds = Math.max(Math.floor((now - Date.parse(each.dataset.since)) / 1000), 0);
    const text = format(seconds);
    if (each.textContent !== text) each.textContent = text;
  }
}

function grow(root, now) {
  for (const each of root.querySelectorAll("[data-seconds]")) {
    const seconds = (now - Date.parse(each.dataset.since)) / 1000;
    const width = `${Math.min(Math.max((seconds / each.dataset.seconds) * 100, 0), 100).toFixed(3)}%`;
    for (const name of each.tagName === "line" ? ["x1", "x2"] : ["width"]) each.setAttribute(name, width);
  }
}

setInterval(() => tick(document), 1000);
