// The keyboard: / filters, j and k move, an element with data-key is pressed by that key.
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
    if (key === "Escape") target.blur();
    if (key === "Enter" && "find" in target.dataset) find(target);
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  const act = {
    "/": () => document.querySelector("[data-filter]")?.focus(),
    j: () => move(1),
    k: () => move(-1),
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

function find(field) {
  const text = field.value.trim().toLowerCase();
  const found = text && items().find((each) => each.getAttribute("aria-label").toLowerCase().includes(text));
  if (!found) return;
  found.focus();
  found.scrollIntoView({ block: "nearest", inline: "center" });
  press(found);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-dialog]");
  if (button) document.getElementById(button.dataset.dialog).showModal();
});
