// The page: the next texts are here before they are asked for, and answers are sent while the next one is read.

import { ask, download, leave, Refused, ServerGone, useKey } from "../playground/api.js";
import { element } from "../playground/render.js";
import { biasOf, drawModel } from "./curve.js";
import { Outbox } from "./outbox.js";
import { Words } from "./words.js";

const AHEAD = 6; // texts that are here
const RETRY = 1000; // ms
const POLL = 3000; // ms between looks at a training
const LONG = 600; // characters
const SEARCHED = 20; // labels
const KEYS = [..."123456789abcdefghijklmnopqrstuvwxyz"];

const by = (id) => document.getElementById(id);
const random = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
const page = random();
const address = new URLSearchParams(location.search);
const annotator = address.get("annotator") ?? "";
const decides = address.has("decide"); // texts on which annotators differ
const passed = new Set(); // their keys, for later

let state = null;
let queue = []; // the texts to label; the first is shown
let words = null;
let chosen = new Set(); // several labels
let history = []; // what can be taken back, the last one last
const known = new Map(); // texts by their keys
let outbox = new Outbox("");
let busy = false;
let timer = 0;
let began = performance.now();
let active = 0; // ms
let wanted = null; // the key of a text that is to be shown next
let review = false;
let exhausted = false; // the server had fewer texts than were asked for

const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? sessionStorage.getItem("token");
if (token) {
  sessionStorage.setItem("token", token);
  useKey(token);
  window.history.replaceState(null, "", location.pathname + location.search);
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const post = (path, body) => ask(path, { method: "POST", body: JSON.stringify({ ...body, annotator }) });

function report(message, problem = false) {
  if (by("status").textContent !== message) by("status").textContent = message;
  by("status").classList.toggle("problem", problem);
}

// Requests

/** Send what is not confirmed, and fetch what is missing; one request at a time, again until all is done. */
async function sync() {
  if (busy) return;
  busy = true;
  clearTimeout(timer);
  const sent = outbox.lines.slice(0, 200);
  const text = wanted;
  const count = Math.max(0, AHEAD - queue.length);
  try {
    const holding = queue.slice(0, 10).map((item) => item.key);
    const reviewed = review;
    const answer = await post("api/work", { page, lines: sent, holding, count, text, review, decide: decides, passed: [...passed] });
    if (reviewed) review = false;
    exhausted = answer.texts.length < count;
    if (wanted === text) wanted = null;
    const remark = settle(answer.saved);
    take(answer, text);
    report(remark || (outbox.lines.length ? `${outbox.lines.length} to save…` : state.kept ?? "Saved"), Boolean(remark));
    busy = false;
    if (outbox.lines.length || wanted || review || (!queue.length && !exhausted)) sync();
    else if (state.training || !queue.length) timer = setTimeout(sync, POLL);
  } catch (error) {
    busy = false;
    if (!(error instanceof ServerGone || error instanceof Refused)) throw error;
    const kept = outbox.lines.length ? ` ${outbox.lines.length} answers are kept in this page.` : "";
    report(`${error.message.replace(/[.]?$/, ".")}${kept} Trying again…`, true);
    timer = setTimeout(sync, RETRY);
  }
}

const isOfThisPage = (line) => !line.text || (line.what === "decide") === decides;

/** Forget what is saved; return what people should know of it. */
function settle(saved) {
  outbox.confirm(saved.map((item) => item.id));
  const refused = saved.find((item) => item.refused);
  if (refused) return `Not accepted: ${refused.refused}`;
  const between = saved.find((item) => item.between)?.between;
  return between ? `Another page had said ${shownValue(between)} of that text; your answer counts now, and Undo takes it back.` : "";
}

function take({ texts, state: now }, asked) {
  const first = state === null;
  state = now;
  if (first) {
    history = now.history.filter(isOfThisPage).reverse();
    outbox = new Outbox(`${now.file} ${now.annotator}`);
    outbox.restore();
  }
  const here = new Set(queue.map((item) => item.key));
  const unsent = new Set(outbox.lines.map((line) => line.text));
  const was = queue[0];
  for (const text of texts) {
    known.set(text.key, text);
    if (text.key === asked) queue = [text, ...queue.filter((item) => item.key !== text.key)];
    else if (!here.has(text.key) && !unsent.has(text.key)) queue.push(text);
  }
  showState();
  if (queue[0] !== was || first || !queue.length) show();
}

// What is shown

function show() {
  const text = queue[0];
  const home = by("text");
  by("note").value = text?.note ?? "";
  by("note-row").hidden = !text?.note;
  by("write").setAttribute("aria-expanded", String(!by("note-row").hidden));
  for (const id of ["skip", "unsure", "write"]) by(id).disabled = !text || (decides && id !== "skip");
  by("unsure").hidden = by("write").hidden = decides;
  by("done").hidden = state.task === "classification";
  by("done").disabled = !text;
  words = null;
  chosen = new Set();
  if (!text) {
    const all = state.answered + state.given >= state.texts ? "All texts have labels." : "No text is left for this page: others have them, or they were skipped.";
    const decided = passed.size ? `${passed.size} texts were skipped: load the page again to see them.` : "Nothing is left to decide.";
    home.replaceChildren(element("p", {}, !exhausted ? "The next text is coming…" : decides ? decided : all));
    by("about").textContent = "";
    by("said").hidden = true;
    return showLabels();
  }
  const guess = by("guesses").checked ? text.guess : null;
  const before = valueOf(text.last) ?? text.given;
  by("about").textContent = `Row ${text.row.toLocaleString("en")}${text.test ? " · a random one, which tests the model" : ""}`;
  by("said").replaceChildren(...saidOf(text, before));
  by("said").hidden = !by("said").childNodes.length;
  const size = text.pieces ? text.pieces.join("").length : text.text.length;
  home.classList.toggle("long", size > LONG || Array.isArray(text.text));
  if (text.pieces) words = new Words(home, text.pieces, text.draft ?? before ?? guess ?? [], showLabels);
  else {
    if (state.task === "multi_label") chosen = new Set(text.draft ?? before ?? guess ?? []);
    const parts = Array.isArray(text.text) ? text.text : [text.text];
    home.replaceChildren(...parts.map((part) => element("p", { dir: "auto" }, part)));
    showLabels();
  }
  home.scrollTop = 0;
  began = performance.now();
}

/** What is known of a text: what each annotator says, which somebody who decides can take; or its label. */
function saidOf(text, before) {
  const answers = Object.entries(text.answers ?? {});
  if (answers.length < 2) return before === null ? [] : [`Its label: ${shown(before)}`];
  if (!decides) return [answers.map(([name, value]) => `${name}: ${shown(value)}`).join("; ")];
  return answers.map(([name, value]) => {
    const made = element("button", { type: "button", dir: "auto" }, `${name}: ${shown(value)}`);
    made.addEventListener("click", () => {
      if (state.task === "classification") return give(value);
      text.draft = value;
      show();
    });
    return made;
  });
}

const shown = (value) => (typeof value === "string" ? value : value.map((item) => (typeof item === "string" ? item : item[2])).join(", ") || "none");
const valueOf = (line) => line?.label ?? line?.labels ?? line?.spans ?? null;
const shownValue = (line) => (valueOf(line) === null ? line.what : `“${shown(valueOf(line))}”`);

/** Show the buttons of the labels: those that a search finds, pressed where they are given. */
function showLabels() {
  const text = queue[0];
  const wantedWords = by("search").value.trim().toLowerCase();
  const found = state.labels.map((label, at) => ({ ...label, key: KEYS[at] })).filter(({ name }) => name.toLowerCase().includes(wantedWords));
  const guess = text && by("guesses").checked ? text.guess : null;
  const current = state.task === "classification" ? valueOf(text?.last) ?? text?.given : null;
  const buttons = found.map(({ name, count, key }) => {
    const pressed = chosen.has(name) || current === name;
    const made = element("button", { type: "button", dataset: { label: name }, className: guess === name ? "guess" : "", disabled: !text });
    if (key) made.append(element("kbd", { ariaHidden: "true" }, key), " ");
    made.append(element("span", { dir: "auto" }, name), element("small", {}, count.toLocaleString("en")));
    if (state.task !== "tagging") made.setAttribute("aria-pressed", String(pressed));
    if (key) made.setAttribute("aria-keyshortcuts", key);
    if (guess === name) made.setAttribute("aria-description", "the model's guess");
    return made;
  });
  by("labels").tabIndex = text ? -1 : 0; // buttons that cannot be pressed do not scroll
  by("labels").dataset.all = state.labels.map(({ name }) => name).join("\n");
  by("labels").replaceChildren(...buttons);
}

function showState() {
  by("file").textContent = state.file;
  document.title = `${state.file}: label`;
  by("search-row").hidden = state.labels.length <= SEARCHED;
  showProgress();
  const names = state.labels.map(({ name }) => element("option", { value: name }, name));
  const old = by("old").value;
  by("old").replaceChildren(...names);
  if (state.labels.some(({ name }) => name === old)) by("old").value = old;
  by("names").replaceChildren(...state.labels.map(({ name }) => element("option", { value: name })));
  const buttons = new Map(Array.from(by("labels").children, (button) => [button.dataset.label, button]));
  const all = state.labels.map(({ name }) => name).join("\n");
  if (by("labels").dataset.all !== all) showLabels();
  else for (const { name, count } of state.labels) if (buttons.has(name)) buttons.get(name).querySelector("small").textContent = count.toLocaleString("en");
  if (!by("format").options.length) by("format").replaceChildren(...state.exports.map(({ name, suffix }) => element("option", { value: name }, `${name} (${suffix})`)));
  drawModel(state, by("model"), by("curve"), by("settled"));
  by("bias").textContent = biasOf(state.bias);
  const agreed = state.agreement;
  by("agreement").hidden = by("agreed-row").hidden = !agreed;
  if (agreed) {
    const kappas = agreed.kappas.map(({ of, kappa }) => `${of.join(" and ")}: Cohen's kappa ${number(kappa)}`).join("; ");
    by("agreed").textContent = `${agreed.texts} texts have several answers: Krippendorff's alpha ${number(agreed.alpha)}. ${kappas}. Annotators differ on ${agreed.differing}; ${agreed.undecided} are not decided.`;
    by("decide").href = `?annotator=${encodeURIComponent(state.annotator)}${decides ? "" : "&decide"}`;
    by("decide").textContent = decides ? "Label texts" : "Decide them";
    by("decide").hidden = !decides && !agreed.undecided;
  }
}

const number = (value) => (value === null ? "undefined" : value.toFixed(2));

function showProgress() {
  const waiting = outbox.lines.filter((line) => line.what === saying).length;
  const done = state.answered + waiting;
  const minutes = active / 60000;
  const pace = minutes > 0.5 ? ` · ${minutes.toFixed(0)} min, ${Math.round(session / minutes)} a minute` : "";
  const { differing = 0, undecided = 0 } = state.agreement ?? {};
  const decided = `${(differing - undecided + waiting).toLocaleString("en")} of ${differing.toLocaleString("en")} differences decided`;
  by("progress").textContent = decides ? `${decided}${pace}` : `${done.toLocaleString("en")} answers${state.given ? `, ${state.given.toLocaleString("en")} labels before` : ""}, ${state.texts.toLocaleString("en")} texts${pace}`;
}

let session = 0; // answers in this page

// What people do

function send(line) {
  const made = { ...line, id: random(), time: new Date().toISOString() };
  outbox.add(made);
  if (made.what !== "undo") history.push(made);
  sync();
  return made;
}

/** Say something of the text that is shown, and show the next one. */
function say(what, value = {}) {
  const text = queue[0];
  if (!text) return;
  if (decides && what !== "decide") return pass(text);
  saveNote();
  const seconds = (performance.now() - began) / 1000;
  active += Math.min(seconds, 60) * 1000;
  const guess = text.guess === null ? {} : { [by("guesses").checked ? "guess" : "hidden_guess"]: text.guess };
  const line = { what, text: text.key, ...value, ...guess, seconds: Math.round(seconds * 10) / 10, seen: text.last?.id ?? "" };
  queue = queue.slice(1);
  if (what === saying) session += 1;
  by("search").value = "";
  show();
  text.last = send(line);
  showProgress();
}

/** Decide a text later; no line says so, as it would stand for an answer. */
function pass(text) {
  passed.add(text.key);
  queue = queue.slice(1);
  show();
  sync();
}

const saying = decides ? "decide" : "answer";

function give(label) {
  if (!queue[0]) return;
  if (state.task === "classification") return say(saying, { label });
  if (state.task === "tagging") return words.give(label);
  if (!chosen.delete(label)) chosen.add(label);
  by("search").value = "";
  showLabels();
}

function done() {
  if (state.task === "multi_label") say(saying, { labels: state.labels.map(({ name }) => name).filter((name) => chosen.has(name)) });
  else if (words) say(saying, { spans: words.spans });
  else if (by("guesses").checked && queue[0]?.guess) say(saying, { label: queue[0].guess });
}

function saveNote() {
  const text = queue[0];
  if (!text || by("note").value === (text.note ?? "")) return;
  text.note = by("note").value;
  send({ what: "note", text: text.key, note: text.note });
}

function undo() {
  const line = history.pop();
  if (!line) return report("There is nothing to undo");
  send({ what: "undo", of: line.id });
  if (!line.text) return;
  const text = known.get(line.text);
  if (!text) {
    wanted = line.text;
    return sync();
  }
  text.last = history.findLast((other) => other.text === line.text && other.what !== "note" && isOfThisPage(other)) ?? null;
  if (line.what === "note") text.note = "";
  if (line.what === saying && session > 0) session -= 1;
  text.draft = valueOf(line);
  queue = [text, ...queue.filter((item) => item.key !== text.key)];
  show();
  report("Taken back");
}

function addLabel(name) {
  const label = name.trim();
  if (!label || state.labels.some((item) => item.name === label)) return;
  state.labels.push({ name: label, count: 0 });
  send({ what: "add", label });
  showState();
  showLabels();
}

function renameLabel() {
  const old = by("old").value;
  const to = by("to").value.trim();
  if (!old || !to || old === to) return;
  const merges = state.labels.some(({ name }) => name === to);
  if (merges && !confirm(`Merge “${old}” into “${to}”? All texts with “${old}” get “${to}”.`)) return;
  send({ what: "rename", label: old, to });
  state.labels = state.labels.filter(({ name }) => name !== old || !merges).map((item) => (item.name === old ? { ...item, name: to } : item));
  by("to").value = "";
  showState();
  showLabels();
}

async function saveRows() {
  const format = by("format").value;
  try {
    for (let wait = 0; outbox.lines.length && wait < 20; wait += 1) {
      sync();
      await pause(100);
    }
    const content = await download("api/export", JSON.stringify({ format, agreed: by("only-agreed").checked }));
    const name = `${state.file.replace(/\.[^.]*$/, "")}.labeled${state.exports.find((item) => item.name === format).suffix}`;
    const link = element("a", { href: URL.createObjectURL(content), download: name });
    link.click();
    by("export").replaceChildren("Saved as ", element("code", {}, name), "; train with ", element("code", {}, `mixling train ${name}`));
  } catch (error) {
    report(error.message, true);
  }
}

async function showList() {
  const kind = by("list").value;
  by("found").replaceChildren();
  if (!kind) return;
  if (kind === "contradicted") {
    review = true;
    do {
      by("found").replaceChildren(element("li", {}, "Models are looking through the labels…"));
      await sync();
      await pause(500);
    } while ((review || state.reviewing) && by("list").value === kind);
  }
  const { texts } = await post("api/list", { kind });
  const items = texts.map((text) => {
    const content = text.pieces ? text.pieces.join("") : [text.text].flat().join(" / ");
    const answers = Object.entries(text.answers).map(([, value]) => shown(value)).join(" / ");
    const made = element("button", { type: "button", dir: "auto" }, `${content.slice(0, 100)} (${answers || (text.given === null ? text.last?.what ?? "" : shown(text.given))})`);
    made.addEventListener("click", () => {
      known.set(text.key, text);
      queue = [text, ...queue.filter((item) => item.key !== text.key)];
      show();
      by("text").focus();
    });
    return element("li", {}, made);
  });
  by("found").replaceChildren(...(items.length ? items : [element("li", {}, "There are none.")]));
}

// Keys

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !state) return;
  const field = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape" && field) return by("text").focus();
  if (field) {
    if (event.target === by("search") && event.key === "Enter") {
      event.preventDefault();
      const first = by("labels").querySelector("button");
      if (first) give(first.dataset.label);
      by("text").focus();
    }
    return;
  }
  const onButton = event.target.closest("button, a");
  if (onButton && (event.key === "Enter" || event.key === " ")) return;
  if (words && event.target === by("text") && words.key(event)) return event.preventDefault();
  if (event.key === "Enter") return done();
  if (!by("keys").checked) return;
  const commands = {
    Backspace: undo, "-": () => say("skip"), 0: () => say("unsure"), ".": () => by("write").click(),
    "/": () => by("search").focus(), "+": () => by("new").focus(),
  };
  const label = state.labels[KEYS.indexOf(event.key.toLowerCase())];
  const action = commands[event.key] ?? (label && (() => give(label.name)));
  if (!action) return;
  event.preventDefault();
  action();
}

document.addEventListener("keydown", onKey);
by("labels").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) give(button.dataset.label);
});
const home = by("text");
home.addEventListener("pointerdown", (event) => words?.press(event));
home.addEventListener("pointermove", (event) => words?.drag(event));
document.addEventListener("pointerup", () => words?.release());
for (const [id, action] of Object.entries({ done, undo, skip: () => say("skip"), unsure: () => say("unsure"), save: saveRows })) by(id).addEventListener("click", action);
by("write").addEventListener("click", () => {
  by("note-row").hidden = !by("note-row").hidden;
  by("write").setAttribute("aria-expanded", String(!by("note-row").hidden));
  if (!by("note-row").hidden) by("note").focus();
});
by("note").addEventListener("change", saveNote);
by("search").addEventListener("input", showLabels);
by("list").addEventListener("change", showList);
by("guesses").addEventListener("change", show);
for (const [id, action] of [["add", () => (addLabel(by("new").value), (by("new").value = ""), by("text").focus())], ["rename", renameLabel]]) {
  by(id).addEventListener("submit", (event) => {
    event.preventDefault();
    action();
  });
}
by("to").addEventListener("input", () => {
  by("rename-button").textContent = state.labels.some(({ name }) => name === by("to").value.trim()) ? "Merge" : "Rename";
});
window.addEventListener("pagehide", () => {
  leave("api/work", JSON.stringify({ page, annotator })); // its texts are free
});
window.addEventListener("beforeunload", (event) => {
  if (outbox.lines.length) event.preventDefault();
});
await sync();
by("text").focus();
