// The keyboard: / filters, j and k move, p goes into the panel, an element with data-key is pressed by
// that key.
import { settle } from "./navigate.js";

const items = () => [...document.querySelectorAll("[data-item]")];

function move(step) {
  const all = items();
  if (!all.length) return;
  const current = document.querySelector("[data-item][aria-current]");
  const at = all.indexOf(document.activeElement.closest("[data-item]") ?? current);
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1);
  all[next].focus();
  all[next].scrollIntoView({ block: "nearest", inline: "nearest" });
}

function isTyping(element) {
  return element.matches("input:not([type=checkbox], [type=range]), textarea, select");
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const { target, key } = event;
  if (isTyping(target)) {
    if (key === "Escape") leave(target);
    if (key !== "Enter" || event.isComposing || !("filter" in target.dataset)) return;
    event.preventDefault();
    find(target);
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  const panel = document.querySelector("aside.step");
  const act = {
    "/": () => document.querySelector("[data-filter]")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    p: panel && (() => panel.focus()),
  }[key];
  const pressed = act ? null : document.querySelector(`[data-key="${CSS.escape(key)}"]:not([hidden])`);
  if (!act && !pressed) return;
  event.preventDefault();
  if (act) act();
  else press(pressed);
});

function press(element) {
  element.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, view: window }));
}

// Clears a field of a search, and leaves another one or an empty one.
function leave(field) {
  if (field.type !== "search" || !field.value) return field.blur();
  field.value = "";
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

const nameOf = (item) => (item.getAttribute("aria-label") ?? item.textContent).split(", ")[0].toLowerCase();

// Opens the only match, or the one whose name is the text; moves to the first of several.
async function find(field) {
  await settle(field.form);
  const text = field.value.trim().toLowerCase();
  const found = items().filter((each) => nameOf(each).includes(text));
  const exact = found.filter((each) => nameOf(each) === text);
  const [first] = exact.length ? exact : found;
  if (!first || document.activeElement !== field) return;
  first.focus();
  first.scrollIntoView({ block: "nearest", inline: "center" });
  if (text && Math.min(found.length, exact.length || found.length) === 1) press(first);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-dialog]");
  if (button) document.getElementById(button.dataset.dialog).showModal();
});
