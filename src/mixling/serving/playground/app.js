// The page: what is typed is sent after a short pause; late answers to what was typed before are dropped.

import { addressOf, hasKey, models, predict, Refused, ServerGone, useKey } from "./api.js";
import { codeOf, fragmentOf, typedOf } from "./code.js";
import { answerOf, element, summaryOf } from "./render.js";
import { textsOf } from "./dropped.js";

const PAUSE = 60; // ms after the last key
const RETRY = 1000; // ms
const MAX_ROWS = 50; // of a file
const COLUMN = "column-"; // before the names of further texts and of columns in a link

const by = (id) => document.getElementById(id);
const [form, status, first, second, text, other, explain, results] =
  ["form", "status", "first", "second", "text", "other", "explain", "results"].map(by);

const LABELS = {
  texts: ["Text", ""],
  pairs: ["First text", "Second text"],
  questions: ["Question", "Context"],
};

let known = [];
let timer = 0;
let running = null;

function report(message, problem = false) {
  status.textContent = message;
  status.classList.toggle("problem", problem);
}

/** Return the columns beside the text that a model reads, as [name, kind]. */
const columnsOf = (model) => (model.columns ?? []).map((column) => {
  const at = column.lastIndexOf(":");
  return [column.slice(0, at), column.slice(at + 1)];
});
/** Return the texts after the second one, whose fields are beside those of columns. */
const furtherOf = (model) => (model.texts ?? []).slice(2);
const typedFurther = (model) => furtherOf(model).map((name) => cells()[name] ?? "");
const cells = () => Object.fromEntries([...by("columns").querySelectorAll("input")].map((input) => [input.name, input.value]));

const find = (name) => known.find((model) => model.name === name);
const kind = (model) => model.inputs[0];

function choices(select, list, chosen) {
  select.replaceChildren(...list.map(([value, label]) => element("option", { value, selected: value === chosen }, label)));
}

/** Show the inputs of the first model, and the models that take the same for comparison. */
function arrange() {
  const model = find(first.value);
  const [one, two] = model.texts ?? LABELS[kind(model)];
  const same = known.filter((item) => kind(item) === kind(model) && item !== model);
  choices(second, [["", "nothing"], ...same.map((item) => [item.name, item.name])], second.value);
  by("text-label").textContent = one;
  by("other-label").textContent = two;
  by("two").hidden = !two;
  by("explain-row").hidden = !model.options.includes("explain");
  fields();
  by("file-row").hidden = !takesFiles(model);
  const buttons = (model.examples ?? []).map((example) => {
    const [one, two, ...rest] = [example].flat();
    return button(two === undefined ? one : [one, two, ...rest].join(" | "), () => {
      furtherOf(model).forEach((name, i) => (by("columns").querySelector(`[name="${CSS.escape(name)}"]`).value = rest[i]));
      return write({ text: one, other: two });
    });
  });
  by("examples").replaceChildren(...buttons);
  by("examples").hidden = !buttons.length;
}

/** Whether a file's texts alone are what a model reads. */
const takesFiles = (model) => kind(model) === "texts" && !columnsOf(model).length;

/** Show a field for each column of the chosen models; typed values stay. */
function fields(typed = cells()) {
  const columns = new Map([first, second].flatMap((select) => {
    const model = find(select.value) ?? {};
    return [...furtherOf(model).map((name) => [name, "text"]), ...columnsOf(model)];
  }));
  by("columns").hidden = !columns.size;
  by("columns").replaceChildren(
    ...[...columns].map(([name, kind], place) => {
      const id = `column-${place}`;
      const input = element("input", { id, name, type: "text", value: typed[name] ?? "", placeholder: kind, autocomplete: "off" });
      return element("div", {}, element("label", { htmlFor: id, dir: "auto" }, name), input);
    }),
  );
}

function button(name, action) {
  const made = element("button", { type: "button" }, name);
  made.addEventListener("click", action);
  return made;
}

/** Put texts into the page, and answer. */
function write(typed) {
  text.value = typed.text ?? "";
  other.value = typed.other ?? "";
  return run();
}

/** Put what a link has into the page, without an answer. */
function readLink() {
  const typed = typedOf(location.hash);
  if (find(typed.model)) first.value = typed.model;
  arrange();
  if (find(typed.second)) second.value = typed.second;
  if (typed.text !== undefined || typed.other !== undefined) {
    text.value = typed.text ?? "";
    other.value = typed.other ?? "";
    explain.checked = Boolean(typed.explain);
    const linked = Object.entries(typed).filter(([key]) => key.startsWith(COLUMN));
    fields(Object.fromEntries(linked.map(([key, value]) => [key.slice(COLUMN.length), value])));
  }
}

/** Show buttons that copy what was typed as a link, and as code. */
function offer(model) {
  const typed = { model: model.name, second: second.value, text: text.value, other: other.value, explain: explain.checked ? "1" : "" };
  for (const [name, value] of Object.entries(cells())) typed[COLUMN + name] = value;
  const fragment = fragmentOf(typed);
  const address = addressOf(model.name);
  const code = address ? codeOf(address, requestOf(model), hasKey()) : {};
  const link = fragment ? { link: new URL(fragment, location.href).href } : {};
  const buttons = Object.entries({ ...link, ...code }).map(([name, value]) =>
    button(`Copy ${name === "link" ? "a link" : `as ${name}`}`, () => copy(value)),
  );
  by("copy").replaceChildren(...buttons);
  by("copy").hidden = !buttons.length;
  by("copied").hidden = true;
}

/** Copy a text, and show it: a page without encryption may not copy. */
async function copy(value) {
  by("copied").textContent = value;
  by("copied").hidden = false;
  try {
    await navigator.clipboard.writeText(value);
    report("Copied");
  } catch {
    getSelection().selectAllChildren(by("copied"));
    report("Selected: copy it with the keyboard");
  }
}

/** Answer the first rows of a file, as a table whose texts can be clicked. */
async function answerFile(file) {
  const model = find(first.value);
  if (!file || !model || !takesFiles(model)) return;
  running?.abort();
  const mine = (running = new AbortController());
  try {
    const { texts, column } = await textsOf(file, MAX_ROWS);
    const begin = performance.now();
    const answers = await predict(model.name, { texts }, mine.signal);
    const spent = performance.now() - begin;
    if (mine !== running) return;
    const rows = texts.map((value, place) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, button(value.slice(0, 200) || "(empty)", () => write({ text: value }))),
        element("td", { dir: "auto" }, summaryOf(answers[place])),
      ),
    );
    const source = column === undefined ? "lines" : `rows, column “${column}”`;
    const title = `${file.name}: the first ${texts.length} ${source}, ${time(spent)}`;
    const shown = element("table", { className: "rows" }, element("tbody", {}, ...rows));
    results.classList.remove("two");
    results.replaceChildren(element("article", {}, element("h2", {}, title), shown));
    report("Ready");
  } catch (error) {
    if (error instanceof ServerGone || error instanceof Refused) await fail(error, () => answerFile(file));
    else if (mine === running) report(error.message, true);
  }
}

const time = (spent) => (spent < 10 ? `${spent.toFixed(1)} ms` : `${Math.round(spent)} ms`);

function requestOf(model) {
  const request = {
    texts: () => ({ texts: [text.value] }),
    pairs: () => ({ pairs: [[text.value, other.value, ...typedFurther(model)]] }),
    questions: () => ({ questions: [{ question: text.value, context: other.value }] }),
  }[kind(model)]();
  const columns = columnsOf(model);
  if (columns.length) {
    const values = cells(); // an empty field is a missing value
    request.columns = [Object.fromEntries(columns.map(([name]) => [name, values[name] || null]))];
  }
  if (explain.checked && model.options.includes("explain")) request.explain = true;
  return request;
}

function isComplete(model) {
  return kind(model) === "questions" ? text.value && other.value : [text.value, other.value, ...typedFurther(model)].some(Boolean);
}

async function run() {
  clearTimeout(timer);
  running?.abort();
  const mine = (running = new AbortController());
  const chosen = [find(first.value), find(second.value)].filter(Boolean);
  results.classList.toggle("two", chosen.length > 1);
  if (!chosen.length || !isComplete(chosen[0])) {
    results.replaceChildren();
    by("copy").hidden = by("copied").hidden = true;
    return report("Ready");
  }
  const begin = performance.now();
  const typed = { text: text.value, other: other.value, further: typedFurther(chosen[0]) };
  try {
    const answers = await Promise.all(chosen.map((model) => predict(model.name, requestOf(model), mine.signal)));
    if (mine !== running) return;
    const spent = element("p", { className: "time" }, `${time(performance.now() - begin)} from here and back`);
    const articles = chosen.map((model, index) =>
      element("article", { dataset: { model: model.name } }, element("h2", {}, model.name), ...answerOf(answers[index][0], typed)),
    );
    articles[0].append(spent);
    results.replaceChildren(...articles);
    offer(chosen[0]);
    report("Ready");
  } catch (error) {
    if (mine === running) await fail(error, run);
  }
}

/** Report an error; when the server is gone, try again until it is back. */
async function fail(error, again) {
  for (const article of results.children) article.classList.add("stale");
  if (error instanceof ServerGone || error.status === 503) {
    report(`${error.message} Trying again…`, true);
    timer = setTimeout(again, RETRY);
  } else if (error instanceof Refused) {
    if (error.status === 401) by("key-row").hidden = false;
    report(error.message, true);
    if (error.status === 404) timer = setTimeout(start, RETRY); // other models are served now
  } else if (error.name !== "AbortError") {
    report(`The page failed: ${error.message}`, true);
    throw error;
  }
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(run, PAUSE);
}

async function start() {
  try {
    known = await models();
  } catch (error) {
    return fail(error, start);
  }
  by("key-row").hidden = true;
  choices(first, known.map((model) => [model.name, `${model.name} (${model.task.replaceAll("_", " ")})`]), first.value);
  readLink();
  await run();
}

form.addEventListener("submit", (event) => event.preventDefault());
for (const input of [text, other]) input.addEventListener("input", soon);
by("columns").addEventListener("input", soon);
explain.addEventListener("change", run);
second.addEventListener("change", () => {
  fields();
  run();
});
first.addEventListener("change", () => {
  arrange();
  run();
});
by("file").addEventListener("change", (event) => answerFile(event.target.files[0]));
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  answerFile(event.dataTransfer.files[0]);
});
addEventListener("hashchange", () => {
  readLink();
  run();
});
by("key").addEventListener("change", (event) => {
  useKey(event.target.value);
  start();
});
await start();
