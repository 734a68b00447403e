// The pane of logs: follows the selected step's logs by a stream of JSON lines. Texts are only ever set
// as texts. The pane shows at most MAX lines; earlier ones come on request, all are in the download.
import { replaceQuery } from "./navigate.js";

const MAX = 5000;
const RETRY = 2000; // milliseconds
const LEAST = 110; // pixels; with less room the log has the height of the style sheet
const BELOW = 18; // pixels below the log
const CHOICES = ["task", "pod", "container", "attempt"];
const OPTIONS = ["find", "wrap", "times"];
let pane = null;

export const counts = { shown: 0, dropped: 0, requests: 0 };
window.jobflow.logs = counts;

class Pane {
  constructor(root) {
    this.root = root;
    this.box = root.querySelector(".log");
    this.lines = root.querySelector(".lines");
    this.field = (name) => root.querySelector(`[name="${name}"]`);
    this.tail = 0;
    this.restore();
    this.listen();
    this.connect();
  }

  restore() {
    const query = new URLSearchParams(location.search);
    this.chosen = {};
    for (const name of CHOICES) this.chosen[name] = query.get(name) ?? "";
    this.field("find").value = query.get("find") ?? "";
    for (const name of ["wrap", "times"]) this.field(name).checked = query.get(name) === "1";
    if (!query.has("wrap")) this.field("wrap").checked = matchMedia("(max-width: 640px)").matches;
    this.widen(query.get("logs") === "wide");
    this.dress();
  }

  listen() {
    this.root.addEventListener("input", (event) => this.change(event.target));
    this.root.addEventListener("click", (event) => {
      const { target } = event;
      if (target.closest("[data-logs-widen]")) this.widen(!document.body.classList.contains("wide-logs"), true);
      if (target.closest(".logs-earlier")) this.earlier();
      if (target.closest(".logs-newer")) this.follow(true);
    });
    this.box.addEventListener("scroll", () => this.noteScroll());
  }

  change(field) {
    if (CHOICES.includes(field.name)) {
      this.chosen[field.name] = field.value;
      this.tail = 0;
      this.connect();
    } else if (field.name === "follow") this.follow(field.checked);
    else this.dress();
    this.keep();
  }

  // Keeps the choices in the address, without telling the stream of the page.
  keep() {
    const changes = { ...this.chosen, find: this.field("find").value };
    for (const name of ["wrap", "times"]) changes[name] = this.field(name).checked ? "1" : "";
    if (!changes.wrap && matchMedia("(max-width: 640px)").matches) changes.wrap = "0";
    changes.logs = document.body.classList.contains("wide-logs") ? "wide" : "";
    replaceQuery(changes);
  }

  dress() {
    this.box.classList.toggle("wraps", this.field("wrap").checked);
    this.box.classList.toggle("has-times", this.field("times").checked);
    this.filter();
  }

  widen(wide, isAsked = false) {
    document.body.classList.toggle("wide-logs", wide);
    const button = this.root.querySelector("[data-logs-widen]");
    button.setAttribute("aria-pressed", wide);
    if (!isAsked) return;
    this.keep();
    this.box.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: "nearest" });
    if (this.isFollowing) this.toEnd();
  }

  // Ends the log with the window, so that its last line is visible: without scrolling, or else if the
  // panel begins at the top of the window.
  fit() {
    const { top } = this.box.getBoundingClientRect();
    const inPanel = top - this.root.closest(".step").getBoundingClientRect().top;
    const rooms = [top + scrollY, inPanel].map((above) => Math.floor(innerHeight - above - BELOW));
    const room = rooms.find((each) => each >= LEAST);
    this.isLow = rooms[0] < LEAST;
    const height = room ? `${room}px` : "";
    if (height === this.box.style.getPropertyValue("--log-height")) return;
    this.box.style.setProperty("--log-height", height);
    if (this.isFollowing) this.toEnd();
  }

  // ---------------------------------------------------------------- the stream

  address() {
    const [path, own] = this.root.dataset.logs.split("?");
    const query = new URLSearchParams(own);
    for (const [name, value] of Object.entries(this.chosen)) if (value) query.set(name, value);
    const download = this.root.querySelector(".logs-download");
    download.href = `${path}.txt?${query}`;
    if (this.tail) query.set("tail", this.tail);
    return `${path}?${query}`;
  }

  async connect() {
    this.stop();
    const stop = (this.aborter = new AbortController());
    this.clear();
    counts.requests += 1;
    try {
      const answer = await fetch(this.address(), { signal: stop.signal });
      if (!answer.ok) throw new Error(answer.status);
      await this.read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch {
      // below
    }
    if (stop.signal.aborted || this.hasEnded) return;
    this.note(["The connection was lost. Reconnecting…"]);
    this.retry = setTimeout(() => this.connect(), RETRY);
  }

  async read(reader) {
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line) this.take(JSON.parse(line));
    }
  }

  stop() {
    clearTimeout(this.retry);
    this.aborter?.abort();
  }

  clear() {
    this.hasEnded = false;
    this.sources = new Map();
    this.all = []; // { time, node }
    this.held = [];
    this.dropped = 0;
    this.lines.replaceChildren();
    this.field("follow").checked = true;
    this.showHeld();
  }

  take({ sources = [], lines = [], empty, notes, choices, end }) {
    for (const each of sources) this.sources.set(each.id, { ...each, count: 0 });
    if (sources.length) this.box.classList.toggle("has-sources", this.sources.size > 1);
    if (choices) for (const name of CHOICES) this.choose(name, choices[name]);
    if (empty !== undefined) this.root.querySelector(".logs-empty").textContent = empty;
    if (notes) this.note(notes);
    if (lines.length) this.add(lines);
    this.fit();
    if (end) this.hasEnded = true;
  }

  note(notes) {
    const items = notes.map((text) => Object.assign(document.createElement("li"), { textContent: text }));
    this.root.querySelector(".logs-notes").replaceChildren(...items);
  }

  choose(name, values) {
    const select = this.field(name);
    const chosen = this.chosen[name];
    const all = chosen && !values.includes(chosen) ? [chosen, ...values] : values;
    const label = select.getAttribute("aria-label").toLowerCase();
    const options = [new Option(`all ${label}s`, ""), ...all.map((each) => new Option(name === "attempt" ? `attempt ${each}` : each, each))];
    const known = [...select.options].map((each) => each.value).join("\n");
    if (known !== options.map((each) => each.value).join("\n")) select.replaceChildren(...options);
    select.value = chosen;
    select.hidden = all.length < 2 && !chosen;
  }

  // ---------------------------------------------------------------- lines

  get isFollowing() {
    return this.field("follow").checked;
  }

  add(lines) {
    if (!this.isFollowing && this.all.length + lines.length > MAX) {
      this.held.push(...lines); // what is being read stays where it is
      if (this.held.length > MAX) this.dropped += this.held.splice(0, this.held.length - MAX).length;
      this.showHeld();
      return;
    }
    for (const line of lines.slice(-MAX)) this.insert(line);
    this.trim();
    this.showCount();
    if (this.isFollowing) this.toEnd();
    else this.showHeld(lines.length);
  }

  // In order of time, because each container begins with the lines that it has written before.
  insert([source, time, text]) {
    let at = this.all.length;
    while (time && at && this.all[at - 1].time > time) at -= 1;
    const node = this.make(source, time, text);
    this.lines.insertBefore(node, this.all[at]?.node ?? null);
    const { attempt = "" } = this.sources.get(source);
    const line = { time: time || (this.all[at - 1]?.time ?? ""), text: text.toLowerCase(), node, attempt };
    if (at === this.all.length) this.all.push(line);
    else this.all.splice(at, 0, line);
    node.hidden = !line.text.includes(this.wanted);
    for (const each of [at, at + 1]) this.separate(each);
  }

  // Writes the attempt above the first of its lines, if several attempts have lines.
  separate(at) {
    const [before, line] = [this.all[at - 1], this.all[at]];
    if (!line) return;
    const begins = line.attempt && before && before.attempt !== line.attempt;
    if (begins) line.node.dataset.attempt = `attempt ${line.attempt}`;
    else delete line.node.dataset.attempt;
  }

  make(source, time, text) {
    const line = document.createElement("div");
    const { name, title, id } = this.sources.get(source);
    this.sources.get(source).count += 1;
    const parts = [["time", time.slice(11, 23)], ["b", name], ["span", text]];
    for (const [tag, content] of parts) {
      const part = document.createElement(tag);
      part.textContent = content;
      line.append(part);
    }
    line.children[0].title = time;
    line.children[1].title = title;
    line.children[1].className = `source-${id % 7}`;
    return line;
  }

  trim() {
    const more = this.all.length - MAX;
    if (more > 0) {
      for (const { node } of this.all.splice(0, more)) node.remove();
      counts.dropped += more;
    }
    counts.shown = this.all.length;
    const button = this.root.querySelector(".logs-earlier");
    const { tail = 0 } = [...this.sources.values()].find((each) => each.tail && each.count >= each.tail) ?? {};
    button.hidden = !tail && !counts.dropped;
    button.disabled = this.tail >= MAX;
    button.textContent = button.disabled ? "Earlier lines are in the download" : "Earlier lines";
  }

  earlier() {
    this.tail = Math.min((this.tail || 500) * 4, MAX);
    this.connect();
  }

  filter() {
    this.wanted = this.field("find").value.trim().toLowerCase();
    for (const { text, node } of this.all ?? []) node.hidden = !text.includes(this.wanted);
    this.showCount();
    if (this.all && this.isFollowing) this.toEnd();
  }

  showCount() {
    const total = this.all?.length ?? 0;
    const found = this.wanted ? this.all.filter(({ node }) => !node.hidden).length : total;
    const text = this.wanted ? `${found} of ${total} lines` : "";
    this.root.querySelector(".logs-count").textContent = text;
  }

  // ---------------------------------------------------------------- following

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
    this.seen = this.box.scrollTop;
  }

  noteScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < 24;
    if (isAtEnd && !this.isFollowing) this.follow(true);
    else if (!isAtEnd && this.isFollowing && scrollTop < this.seen) this.follow(false);
    this.seen = scrollTop;
  }

  follow(follows) {
    this.field("follow").checked = follows;
    this.newer = 0;
    if (follows) {
      const held = this.held;
      this.held = [];
      if (held.length) this.add(held);
      this.toEnd();
    }
    this.showHeld();
  }

  showHeld(more = 0) {
    this.newer = (this.newer ?? 0) + more;
    const count = this.held.length + this.dropped + (this.isFollowing ? 0 : this.newer);
    const button = this.root.querySelector(".logs-newer");
    button.hidden = this.isFollowing || !count;
    button.textContent = `${count} new ${count === 1 ? "line" : "lines"} ↓`;
  }
}

// Whether the log ends in the window only if the panel begins at the top of the window.
export const isLow = () => Boolean(pane?.isLow);

function find() {
  const root = document.querySelector("[data-logs]");
  if (root === pane?.root) return pane?.fit();
  if (pane) {
    pane.stop();
    if (pane.root.dataset.step !== root?.dataset.step) {
      const gone = [...CHOICES, ...OPTIONS.slice(0, 1), ...(root ? [] : [...OPTIONS, "logs"])];
      replaceQuery(Object.fromEntries(gone.map((name) => [name, ""])));
    }
  }
  if (!root) document.body.classList.remove("wide-logs");
  if (!root && !new URLSearchParams(location.search).get("step")) replaceQuery({ logs: "" });
  pane = root ? new Pane(root) : null;
  pane?.fit();
}

document.addEventListener("page-changed", find);
// Runs before the keys of the page, so that Escape first makes the logs narrow, and then closes the step.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !pane || !document.body.classList.contains("wide-logs")) return;
  if (event.target.matches("input[type=search]") || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  pane.widen(false, true);
}, true);
window.addEventListener("resize", () => pane?.fit());
document.addEventListener("visibilitychange", () => {
  if (!pane) return;
  if (document.visibilityState === "hidden") pane.stop();
  else if (!pane.hasEnded) pane.connect();
});
find();
