// The page: a file is read, a worker trains, and what it returns is shown, tried and saved.

import { errorOf } from "../package/errors.js";
import { answerOf, element } from "../playground/render.js";
import { decode, examplesOf, guessColumns, readTable } from "../playground/rows.js";

const SHOWN_ROWS = 3;
const SHOWN_CHARACTERS = 200;
const SHOWN_LABELS = 8;
const MOST_IN_TABLE = 40; // labels of a table of confusion
const PAUSE = 60; // ms after the last key
const NETWORK_ROWS = 1000; // of fewer, n-grams alone are as accurate

const by = (id) => document.getElementById(id);
const [status, drop, file, columns, about, textColumn, labelColumn, preview, kind, start, cancel, progress, model, figures, text, answer, save] =
  ["status", "drop", "file", "columns", "about", "text-column", "label-column", "preview", "kind", "start", "cancel", "progress", "model", "figures", "text", "answer", "save"].map(by);
const PLANS = { "mixling-small": JSON.parse(by("plan").textContent) }; // of networks that are trained

let table = null;
let worker = null;
let waiting = new Map();
let asked = 0;
let content = null;
let saved = true;
let timer = 0;

function report(message, problem = false) {
  status.textContent = message;
  status.classList.toggle("problem", problem);
}

const percent = (value) => `${(100 * value).toFixed(1)}%`;
const many = (number, thing) => `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
const short = (value) => (value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value);

/** Begin a worker, whose script is an element of the page. */
function begin() {
  const url = URL.createObjectURL(new Blob([by("worker").textContent], { type: "text/javascript" }));
  return new Promise((resolve, reject) => {
    const made = new Worker(url);
    made.onerror = (event) => {
      const error = new Error(event.message || "the worker could not begin");
      reject(error);
      for (const { failed } of waiting.values()) failed(error);
    };
    made.onmessage = ({ data: { ready, id, progress: told, value, error } }) => {
      if (ready) return resolve(made);
      const { done, failed, tell } = waiting.get(id) ?? {}; // none, of a worker that was stopped
      if (told) return tell?.(told);
      waiting.delete(id);
      if (error) failed?.(errorOf(error));
      else done?.(value);
    };
  });
}

async function call(method, given, tell) {
  worker ??= await begin();
  return new Promise((done, failed) => {
    waiting.set(++asked, { done, failed, tell });
    worker.postMessage({ id: asked, method, given });
  });
}

async function open(chosen) {
  if (!chosen) return;
  stop();
  model.hidden = columns.hidden = true;
  let read;
  try {
    read = decode(new Uint8Array(await chosen.arrayBuffer()));
    table = readTable(read.text, chosen.name);
    if (table.columns.length < 2) throw new Error(`${chosen.name}: has the column ${JSON.stringify(table.columns[0])} alone; a column of texts and one of labels are required`);
  } catch (error) {
    return report(error.message, true);
  }
  const guess = guessColumns(table);
  for (const [select, name] of [[textColumn, guess.text], [labelColumn, guess.label]]) {
    const options = table.columns.map((column) => element("option", { value: column, selected: column === name }, column));
    select.replaceChildren(...(name === null ? [element("option", { value: "", selected: true }, "choose…")] : []), ...options);
  }
  const as = read.encoding === "utf-8" ? "" : `, read as ${read.encoding}: see whether its letters are right`;
  about.textContent = `${chosen.name}: ${many(table.rows.length, "row")}${as}`;
  columns.hidden = false;
  look();
}

/** Show the rows with the chosen columns. */
function look() {
  const [texts, labels] = [textColumn.value, labelColumn.value];
  start.disabled = !texts || !labels || texts === labels;
  preview.replaceChildren();
  if (start.disabled) return report(texts && texts === labels ? "Text and label are the same column; choose two." : "Choose the columns of text and label.", true);
  const { examples, left } = examplesOf(table, texts, labels);
  kind.value = examples.length < NETWORK_ROWS ? "mixling-linear" : "mixling-small";
  const counts = new Map();
  for (const { label } of examples) counts.set(label, (counts.get(label) ?? 0) + 1);
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  const named = sorted.slice(0, SHOWN_LABELS).map(([label, count]) => `${short(label)} (${count.toLocaleString("en")})`);
  if (sorted.length > SHOWN_LABELS) named.push(`${sorted.length - SHOWN_LABELS} more`);
  const rows = examples.slice(0, SHOWN_ROWS).map((row) => element("tr", {}, element("td", { dir: "auto" }, short(row.text)), element("td", { dir: "auto" }, short(row.label))));
  const head = element("tr", {}, element("th", { scope: "col" }, "Text"), element("th", { scope: "col" }, "Label"));
  preview.append(
    element("table", { ariaLabel: "The first rows" }, element("thead", {}, head), element("tbody", {}, ...rows)),
    element("p", { className: "note" }, `${many(sorted.length, "label")}: ${named.join(", ")}`),
  );
  if (left) preview.append(element("p", { className: "note" }, `${many(left, "row")} without a text or a label ${left === 1 ? "is" : "are"} left out.`));
  report(`${many(examples.length, "row")} to train on.`);
}

/** Show how far the training is. */
function told({ phase, fits, done, accuracy }) {
  const parts = { reading: 0.05, network: done, features: 0.1, fit: 0.15 + 0.65 * (1 - 0.8 ** (fits ?? 0)), refit: 0.85, writing: 0.95 };
  const words = { reading: "Reading the texts", features: "Counting words and n-grams", refit: "Fitting all rows", writing: "Writing and testing the model" };
  progress.value = parts[phase];
  const right = accuracy === undefined ? "" : `: ${percent(accuracy)} of the validation rows are right`;
  if (phase === "network") return report(`Network, ${percent(done)}${right}`);
  report(phase === "fit" && fits ? `Fit ${fits}${right}` : (words[phase] ?? "Fitting"));
}

function stop() {
  worker?.terminate();
  worker = null;
  waiting = new Map();
  finished();
}

function finished() {
  progress.hidden = cancel.hidden = true;
  start.hidden = false;
}

async function train() {
  stop();
  model.hidden = true;
  progress.hidden = cancel.hidden = false;
  start.hidden = true;
  told({ phase: "reading" });
  cancel.focus();
  const began = performance.now();
  try {
    const rows = examplesOf(table, textColumn.value, labelColumn.value).examples;
    const found = await call("train", { rows, wasm: by("trainer.wasm").textContent, template: by(kind.value).textContent, plan: PLANS[kind.value] ?? null }, told);
    content = found.content;
    saved = false;
    show(found, (performance.now() - began) / 1000);
  } catch (error) {
    report(error.message, true);
  }
  finished();
}

function show({ labels, report: found }, seconds) {
  const { test } = found;
  const parts = [];
  if (test) {
    const [low, high] = test.interval.map(percent);
    parts.push(
      element("p", { className: "answer" }, `${percent(test.accuracy)} of ${many(test.rows, "row")} that it never saw`),
      element("p", { className: "note" }, `The true accuracy is probably between ${low} and ${high}. Always answering “${test.majority.label}” gets ${percent(test.majority.accuracy)}.`),
      ...confusion(labels, test),
    );
    if (test.mistakes.length) {
      const lines = test.mistakes.map((row) => element("li", {}, element("bdi", {}, short(row.text)), element("br"), `line ${row.line}: is ${row.label}, answered ${row.answer} (${percent(row.probability)})`));
      parts.push(element("h3", {}, "Most confident mistakes"), element("ul", { className: "mistakes", tabIndex: 0, ariaLabel: "Most confident mistakes" }, ...lines));
    }
  } else parts.push(element("p", { className: "note" }, "The rows are too few to hold some out, so there is no figure: label at least 50."));
  const kb = Math.round(found.file / 1000);
  parts.push(element("p", { className: "note" }, `${many(found.training + found.validation, "row")} trained it; a file of ${kb.toLocaleString("en")} kB, in ${seconds.toFixed(1)} s.`));
  figures.replaceChildren(...parts);
  answer.replaceChildren();
  model.hidden = false;
  report("The model is ready: try it, and save it.");
  text.focus();
  if (text.value) ask();
}

/** Return the table of confusion: a row for each label, a column for each answer. */
function confusion(labels, { confusion: counts, f1 }) {
  if (labels.length > MOST_IN_TABLE) return [];
  const head = element("tr", {}, element("td"), ...labels.map((label) => element("th", { scope: "col", dir: "auto" }, short(label))), element("th", { scope: "col" }, "F1"));
  const rows = labels.map((label, i) => {
    const cells = counts[i].map((count, j) => element("td", { className: !count ? "" : i === j ? "right" : "wrong" }, count ? String(count) : ""));
    return element("tr", {}, element("th", { scope: "row", dir: "auto" }, short(label)), ...cells, element("td", {}, f1[i].f1.toFixed(2)));
  });
  const whole = element("table", { className: "confusion", ariaLabel: "Labels by row, answers by column" }, element("thead", {}, head), element("tbody", {}, ...rows));
  return [element("h3", {}, "Labels (rows) and answers (columns)"), element("div", { className: "wide", tabIndex: 0, role: "group", ariaLabel: "Confusion" }, whole)];
}

async function ask() {
  const typed = text.value;
  if (!typed.trim()) return answer.replaceChildren();
  try {
    const prediction = await call("predict", { text: typed });
    if (text.value === typed) answer.replaceChildren(...answerOf(prediction, { text: typed, other: "" }));
  } catch (error) {
    report(error.message, true);
  }
}

function download() {
  const link = element("a", { href: URL.createObjectURL(new Blob([content], { type: "application/octet-stream" })), download: "model.onnx" });
  link.click();
  saved = true;
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

file.addEventListener("change", () => open(file.files[0]));
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", name === "dragover");
    if (name === "drop") open(event.dataTransfer.files[0]);
  });
}
textColumn.addEventListener("change", look);
labelColumn.addEventListener("change", look);
columns.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!start.disabled && cancel.hidden) train();
});
cancel.addEventListener("click", () => {
  stop();
  report("Training was cancelled.");
  start.focus();
});
text.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(ask, PAUSE);
});
save.addEventListener("click", download);
addEventListener("beforeunload", (event) => saved || event.preventDefault());
