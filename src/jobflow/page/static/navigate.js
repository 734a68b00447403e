// Changes of the address that stay on the page: the stream brings what they change.
//
// A link with data-live has the whole new query. One with data-set changes only some parameters: those
// that data-set names, or else all that its address names; an empty or missing one is removed. A form
// with data-live sets a parameter for each field, and removes the page of a list.
import { connect } from "./stream.js";

const PAUSE = 200; // milliseconds after the last key
const PATIENCE = 1000; // milliseconds for the answer of the server, which sends nothing if nothing changes
let typing = 0;
let answered = Promise.resolve();

export function go(query, { replaces = false } = {}) {
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  const text = query.size ? `?${query}` : "";
  if (text === location.search) return;
  const address = location.pathname + text;
  if (replaces) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  follow();
}

// Changes parameters that only the browser reads: the stream stays.
export function replaceQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.size ? `?${query}` : "";
  if (text !== location.search) history.replaceState(null, "", location.pathname + text);
}

function follow() {
  answered = new Promise((resolve) => {
    document.addEventListener("page-changed", resolve, { once: true });
    setTimeout(resolve, PATIENCE);
  });
  fill();
  connect();
  document.dispatchEvent(new Event("page-address"));
}

function fill() {
  const query = new URLSearchParams(location.search);
  for (const field of document.querySelectorAll("form[data-live] [name]")) {
    if (field === document.activeElement) continue;
    const value = query.get(field.name);
    if (field.type === "checkbox") field.checked = value === field.value;
    else if (value !== null || field.name !== "ns") field.value = value ?? "";
  }
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = event.target.closest?.("a[data-live], a[data-set]");
  if (!link) return;
  event.preventDefault();
  const named = new URLSearchParams(link.getAttribute("href").split("?")[1] ?? "");
  if ("live" in link.dataset) return go(named);
  const query = typing ? read(document.querySelector("form[data-live]")) : new URLSearchParams(location.search);
  for (const name of link.dataset.set.split(" ").filter(Boolean)) query.set(name, named.get(name) ?? "");
  if (!link.dataset.set) for (const [name, value] of named) query.set(name, value);
  go(query);
});

function read(form) {
  clearTimeout(typing);
  typing = 0;
  const query = new URLSearchParams(location.search);
  for (const field of form.querySelectorAll("[name]")) query.delete(field.name);
  query.delete("page");
  for (const [name, value] of new FormData(form)) query.set(name, value);
  return query;
}

function send(form, replaces) {
  go(read(form), { replaces });
}

// Waits until the page shows what a form asks for.
export function settle(form) {
  if (typing) send(form, true);
  return answered;
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-live]");
  if (!form) return;
  clearTimeout(typing);
  typing = setTimeout(() => send(form, true), event.target.type === "search" ? PAUSE : 0);
});

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-live]")) return;
  event.preventDefault();
  send(event.target, false);
});

window.addEventListener("popstate", follow);
