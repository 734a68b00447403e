// Actions: a button opens its dialog, which shows the command line that does the same; the answer of the
// server is shown, and the stream brings what it changes.
const connection = document.getElementById("connection");
const done = document.getElementById("done");
const SAID = "jobflow-said"; // what the page before this one has done
const TYPING = 300; // milliseconds without a key after which a form is asked about
const effects = new Map(); // the timer of each form
let hiding = 0;

function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`;
}

// `-m ""` is no flag; a field of several lines is a flag for each.
function flags(form) {
  const found = [];
  for (const field of form.querySelectorAll("[data-flag]")) {
    const { flag } = field.dataset;
    if (field.type === "checkbox") {
      if (field.checked) found.push(flag);
      continue;
    }
    const values = field.matches("textarea") ? field.value.split("\n") : [field.value];
    for (const value of values.map((each) => each.trim()).filter(Boolean)) found.push(flag, quote(value));
  }
  return found;
}

function preview(form) {
  const step = form.elements.step?.value ?? "";
  const base = form.dataset.command.replace(" STEP", () => ` ${quote(step)}`);
  form.querySelector(".same code").textContent = [base, ...flags(form)].join(" ");
}

// The effect of a checkbox, as the server says it for the present values of the form.
async function showEffect(form) {
  const place = form.querySelector(".preview");
  if (!place) return;
  clearTimeout(effects.get(form));
  const { of } = place.dataset; // a checkbox; "" if the action has an effect in any case
  if (of && !form.elements[of].checked) return place.replaceChildren();
  await new Promise((resume) => effects.set(form, setTimeout(resume, TYPING)));
  const values = String(new URLSearchParams(new FormData(form)));
  const { head, rows, note, error } = await send(form, `${form.action}-preview`);
  // while the server answered, more was typed
  if (values !== String(new URLSearchParams(new FormData(form)))) return;
  place.replaceChildren(...(rows?.length ? [table(head, rows)] : []), Object.assign(document.createElement("p"), { textContent: error ?? note }));
}

function table(head, rows) {
  const made = Object.assign(document.createElement("table"), { className: "again" });
  const titles = head.map((textContent) => Object.assign(document.createElement("th"), { scope: "col", textContent }));
  if (titles.length) made.createTHead().insertRow().append(...titles);
  const body = made.createTBody();
  for (const cells of rows) {
    const row = body.insertRow();
    for (const text of cells) row.insertCell().textContent = text;
  }
  return made;
}

function open(button) {
  if (button.getAttribute("aria-disabled") === "true") {
    const why = document.getElementById(button.getAttribute("aria-describedby")) ?? connection;
    return show({ error: why.textContent });
  }
  const dialog = document.getElementById(`action-${button.dataset.action}`);
  const form = dialog.querySelector("form");
  form.reset();
  if (button.dataset.preset) form.elements[button.dataset.preset].checked = true;
  form.querySelector(".fault").textContent = "";
  if (form.elements.step) {
    form.elements.step.value = button.dataset.step;
    dialog.querySelector(".about").textContent = button.dataset.step;
    dialog.querySelector(".question").textContent = button.dataset.question ?? "";
    if (button.dataset.effect) dialog.querySelector(".effect").textContent = button.dataset.effect;
    form.dataset.command = button.dataset.command ?? form.dataset.command; // a step of a child flow
  }
  const note = document.getElementById(`note-${button.dataset.action}`);
  showEffect(form);
  form.querySelector(".note").replaceChildren(...(note?.cloneNode(true).childNodes ?? []));
  preview(form);
  dialog.showModal();
  dialog.addEventListener("close", () => goBack(dialog, button.dataset), { once: true });
}

// The button may have been replaced while the dialog was open: then its successor gets the focus. The
// browser leaves the focus in the closed dialog until it draws the page again.
function goBack(dialog, { action, step = "" }) {
  const held = document.activeElement;
  if (held !== document.body && !dialog.contains(held)) return;
  const buttons = [...document.querySelectorAll("[data-action]")];
  const same = buttons.find((each) => each.dataset.action === action && (each.dataset.step ?? "") === step);
  (same ?? buttons.find((each) => each.dataset.step === step) ?? buttons[0])?.focus();
}

function show({ message, error }) {
  clearTimeout(hiding);
  done.classList.toggle("error", Boolean(error));
  done.textContent = message ?? `${error[0].toUpperCase()}${error.slice(1)}${error.endsWith(".") ? "" : "."}`;
  done.hidden = false;
  hiding = setTimeout(() => (done.hidden = true), 8000);
}

async function send(form, address = form.action) {
  const body = new URLSearchParams(new FormData(form));
  try {
    const answer = await fetch(address, { method: "POST", body });
    return await answer.json();
  } catch {
    return { error: "the page has lost its connection to `jobflow ui`" };
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-action]");
  if (button) open(button);
  if (event.target.closest?.("[data-close]")) event.target.closest("dialog").close();
});

// Without a connection, no action can be done.
document.addEventListener("page-connection", () => {
  const isLost = connection.textContent !== "";
  for (const button of document.querySelectorAll(isLost ? "[data-action]:not([aria-disabled])" : "[data-lost]")) {
    button.toggleAttribute("data-lost", isLost);
    if (isLost) button.setAttribute("aria-disabled", true);
    else button.removeAttribute("aria-disabled");
  }
});

document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-command]");
  if (!form) return;
  form.querySelector(".fault").textContent = ""; // of the values before
  preview(form);
  if (event.target.name !== "comment") showEffect(form);
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form[data-command]")) return;
  event.preventDefault();
  const button = form.querySelector("button:not([type])");
  if (button.disabled) return;
  const dialog = form.closest("dialog");
  const meanwhile = form.querySelector(".meanwhile");
  const fault = form.querySelector(".fault");
  button.disabled = true;
  fault.textContent = "";
  if (meanwhile) meanwhile.textContent = meanwhile.dataset.text;
  const answer = await send(form);
  button.disabled = false;
  if (meanwhile) meanwhile.textContent = "";
  if (answer.error && dialog.open) fault.textContent = answer.error;
  if (answer.error) return dialog.open || show(answer);
  dialog.close();
  if (!answer.goesTo) return show(answer);
  sessionStorage.setItem(SAID, answer.message);
  location.assign(answer.goesTo);
});

const said = sessionStorage.getItem(SAID);
if (said) {
  sessionStorage.removeItem(SAID);
  show({ message: said });
}
