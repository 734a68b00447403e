// Follows the server's events of this page and replaces what has changed.
import { tick } from "./clock.js";

const RETRY = 2000; // milliseconds, if the server has closed the stream for good
const SILENCE = 40000; // milliseconds; the server gives a sign of life every 15 seconds
const LOST = "Connection lost. Reconnecting…";
const ENDED = "This page has ended. Open the link that jobflow ui printed.";
const note = document.getElementById("connection");
const page = document.body.dataset.page;
let source = null;
let last = "0";
let retry = 0;
let heard = performance.now();

// Counts, which tests read: what "only what has changed" comes to.
export const counts = { events: 0, replaced: 0, added: 0, removed: 0, bytes: 0 };
window.jobflow = { counts };

export function connect() {
  clearTimeout(retry);
  source?.close();
  heard = performance.now();
  const query = new URLSearchParams(location.search);
  query.set("page_id", page);
  query.set("last", last);
  source = new EventSource(`${location.pathname}/stream?${query}`);
  source.addEventListener("open", () => {
    heard = performance.now();
    say("");
  });
  source.addEventListener("alive", () => {
    heard = performance.now();
  });
  source.addEventListener("update", (event) => {
    heard = performance.now();
    last = event.lastEventId;
    counts.bytes += event.data.length;
    apply(JSON.parse(event.data));
    counts.events += 1;
    document.body.dataset.last = last;
  });
  source.addEventListener("error", async () => {
    if (note.textContent !== ENDED) say(LOST);
    if (source.readyState !== EventSource.CLOSED) return;
    clearTimeout(retry);
    retry = setTimeout(connect, RETRY);
    const answer = await fetch(location.href, { redirect: "manual" }).catch(() => null);
    if (answer?.status === 403) say(ENDED);
  });
}

// A connection can be lost without an end, such as that of a machine that was asleep.
setInterval(() => {
  if (document.visibilityState !== "visible" || performance.now() - heard < SILENCE) return;
  say(LOST);
  connect();
}, 5000);

// A hidden page gives up its connection: a browser opens only six to one server.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") connect();
  else source?.close();
});

function say(text) {
  if (note.textContent === text) return;
  note.textContent = text;
  document.dispatchEvent(new Event("page-connection"));
}

function apply({ html = {}, order = {} }) {
  const added = new Map();
  for (const [id, text] of Object.entries(html)) {
    const fresh = parse(text);
    const old = document.getElementById(id);
    if (!old) added.set(id, fresh);
    else if (!old.isEqualNode(fresh)) replace(old, fresh);
    tick(fresh);
    document.dispatchEvent(new CustomEvent("fresh", { detail: fresh }));
  }
  for (const [id, ids] of Object.entries(order)) arrange(document.getElementById(id), ids, added);
  document.dispatchEvent(new Event("page-changed"));
}

function parse(text) {
  const template = document.createElement("template");
  const isSvg = /^\s*<(g[\s>]|a id="node:)/.test(text);
  template.innerHTML = isSvg ? `<svg>${text}</svg>` : text;
  const root = template.content.firstElementChild;
  return isSvg ? root.firstElementChild : root;
}

const FOCUSABLE = "a[href], button, input, select, textarea, [tabindex]";

function replace(old, fresh) {
  const held = old.contains(document.activeElement) ? document.activeElement : null;
  const heir = held && counterpart(held, old, fresh);
  const { scrollLeft, scrollTop } = old;
  if (old.matches("details")) fresh.open = old.open;
  old.replaceWith(fresh);
  fresh.scrollTo?.(scrollLeft, scrollTop);
  if (held) (heir ?? fresh.querySelector(FOCUSABLE))?.focus({ preventScroll: true });
  counts.replaced += 1;
}

// The element that takes the focus of `element`: the one of its kind with the same title, or else, for an
// element without a title, the one at the same place among its kind.
function counterpart(element, old, fresh) {
  const kind = (each) => `${each.localName}.${each.classList[0]}`;
  const alike = (root) =>
    [root, ...root.querySelectorAll(FOCUSABLE)].filter((each) => kind(each) === kind(element));
  if (element.title) return alike(fresh).find((each) => each.title === element.title);
  return alike(fresh)[alike(old).indexOf(element)];
}

function arrange(parent, ids, added) {
  if (!parent) return;
  const wanted = new Set(ids);
  for (const child of [...parent.children]) {
    if (!wanted.has(child.id)) {
      child.remove();
      counts.removed += 1;
    }
  }
  let next = parent.firstElementChild;
  for (const id of ids) {
    const child = added.get(id) ?? document.getElementById(id);
    if (!child) continue;
    if (added.has(id)) counts.added += 1;
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}
