// The page: a file is read, a worker trains, and what it returns is shown, tried and saved.

import { keep, offerKept } from "../labeler/kept.js";
import { begin, fileOf, projectOf, showLabeling, textsOf } from "../labeler/studio.js";
import { answerOf, element } from "../playground/render.js";
import { decode, examplesOf, guessColumns, readTable } from "../playground/rows.js";
import { Remote } from "./remote.js";

const SHOWN_ROWS = 3;
const SHOWN_CHARACTERS = 200;
const SHOWN_LABELS = 8;
const MOST_IN_TABLE = 40; // labels of a table of confusion
const PAUSE = 60; // ms after the last key
const KEEP = 300; // ms after the last answer
const NETWORK_ROWS = 1000; // of fewer, n-grams alone are as accurate

const by = (id) => document.getElementById(id);
const [status, drop, file, columns, about, textColumn, labelColumn, preview, kind, start, label, cancel, progress, model, figures, text, answer, save] =
  ["status", "drop", "file", "columns", "about", "text-column", "label-column", "preview", "kind", "start", "label", "cancel", "progress", "model", "figures", "text", "answer", "save"].map(by);
const PLANS = { "mixling-small": JSON.parse(by("plan").textContent) }; // of networks that are trained

let table = null;
let name = "";
let session = null; // of the labeling of the table
const remote = new Remote();
let content = null;
let saved = true;
let timer = 0;
let keeping = 0;

function report(message, problem = false) {
  status.textContent = message;
  status.classList.toggle("problem", problem);
}

const percent = (value) => `${(100 * value).toFixed(1)}%`;
const many = (number, thing) => `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
const short = (value) => (value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value);

async function open(chosen) {
  if (!chosen) return;
  if (session && !saved && !confirm(`The answers of ${session.file} are not saved as a project. Open ${chosen.name} without them?`)) return;
  stop();
  model.hidden = columns.hidden = true;
  let read;
  try {
    read = decode(new Uint8Array(await chosen.arrayBuffer()));
    const project = projectOf(read.text, chosen.name);
    if (project) return labelIt(await begin(project, trainerOf("mixling-linear"), changed));
    table = readTable(read.text, chosen.name);
  } catch (error) {
    return report(error.message, true);
  }
  name = chosen.name;
  session = null;
  const guess = table.columns.length > 1 ? guessColumns(table) : { text: table.columns[0], label: null };
  offer(guess);
  const as = read.encoding === "utf-8" ? "" : `, read as ${read.encoding}: see whether its letters are right`;
  about.textContent = `${chosen.name}: ${many(table.rows.length, "row")}${as}`;
  columns.hidden = false;
  look();
}

/** Offer the columns of the table. */
function offer(guess) {
  for (const [select, chosen, none] of [[textColumn, guess.text, "choose…"], [labelColumn, guess.label, "no labels yet"]]) {
    const options = table.columns.map((column) => element("option", { value: column, selected: column === chosen }, column));
    select.replaceChildren(...(select === labelColumn || chosen === null ? [element("option", { value: "", selected: chosen === null }, none)] : []), ...options);
  }
}

/** Show the rows with the chosen columns. */
function look() {
  const [texts, labels] = [textColumn.value, labelColumn.value];
  label.disabled = !texts || texts === labels;
  start.disabled = label.disabled || !labels;
  preview.replaceChildren();
  if (label.disabled) return report(texts ? "Text and label are the same column; choose two." : "Choose the column of texts.", true);
  if (!labels) return report(`${many(textsOf(table, texts, "").length, "text")} to label.`);
  let found;
  try {
    found = examplesOf(table, texts, labels);
  } catch (error) {
    label.disabled = start.disabled = true;
    return report(error.message, true);
  }
  const { examples, left } = found;
  kind.value = examples.length < NETWORK_ROWS ? "mixling-linear" : "mixling-small";
  const counts = new Map();
  for (const { label } of examples) counts.set(label, (counts.get(label) ?? 0) + 1);
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  const named = sorted.slice(0, SHOWN_LABELS).map(([label, count]) => `\u2068${short(label)}\u2069 (${count.toLocaleString("en")})`); // whatever its direction
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

const trainerOf = (preset) => ({ wasm: by("trainer.wasm").textContent, template: by(preset).textContent, plan: PLANS[preset] ?? null });

function changed() {
  saved = false;
  clearTimeout(keeping);
  keeping = setTimeout(async () => {
    const number = session.lines.length;
    const isKept = await keep(session, fileOf(session)).catch(() => false); // as where its storage is full
    if (isKept && number === session.lines.length) saved = true;
  }, KEEP);
}

/** Show the page of labeling. */
function labelIt(found) {
  session = found;
  const called = `${found.file.replace(/\.[^.]*$/, "")}.mixling.json`;
  showLabeling(found, { save: () => saveAs(new Blob([fileOf(found)]), called), train: () => take(found) });
}

/** Train on what was labeled. */
function take(given) {
  const rows = given.values().map(({ text, label: value, line }) => ({ line, values: { text, label: value } }));
  table = { columns: ["text", "label"], rows };
  about.textContent = `${given.file}: ${many(rows.length, "labeled text")}`;
  offer({ text: "text", label: "label" });
  columns.hidden = false;
  look();
  start.focus();
}

function stop() {
  remote.stop();
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
    const found = await remote.call("train", { rows, ...trainerOf(kind.value) }, told);
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
  const epochs = found.network ? `, the network in ${many(found.network.epochs, "epoch")}` : "";
  parts.push(element("p", { className: "note" }, `${many(found.training + found.validation, "row")} trained it${epochs}; a file of ${kb.toLocaleString("en")} kB, in ${seconds.toFixed(1)} s.`));
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
    const prediction = await remote.call("predict", { text: typed });
    if (text.value === typed) answer.replaceChildren(...answerOf(prediction, { text: typed, other: "" }));
  } catch (error) {
    report(error.message, true);
  }
}

function saveAs(blob, called) {
  const link = element("a", { href: URL.createObjectURL(blob), download: called });
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
save.addEventListener("click", () => saveAs(new Blob([content], { type: "application/octet-stream" }), "model.onnx"));
label.addEventListener("click", async () => {
  label.disabled = true;
  try {
    const project = () => ({ file: name, texts: textsOf(table, textColumn.value, labelColumn.value), lines: [] });
    labelIt(session ?? (await begin(project(), trainerOf("mixling-linear"), changed)));
  } catch (error) {
    report(error.message, true);
  }
  label.disabled = false;
});
offerKept(by("kept"), open);
addEventListener("beforeunload", (event) => saved || event.preventDefault());
