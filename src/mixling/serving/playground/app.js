// The page: what is typed is sent after a short pause; late answers to what was typed before are dropped.

import { models, predict, Refused, ServerGone, useKey } from "./api.js";
import { answerOf, element } from "./render.js";

const PAUSE = 60; // ms after the last key
const RETRY = 1000; // ms

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
const cells = () => Object.fromEntries([...by("columns").querySelectorAll("input")].map((input) => [input.name, input.value]));

const find = (name) => known.find((model) => model.name === name);
const kind = (model) => model.inputs[0];

function choices(select, list, chosen) {
  select.replaceChildren(...list.map(([value, label]) => element("option", { value, selected: value === chosen }, label)));
}

/** Show the inputs of the first model, and the models that take the same for comparison. */
function arrange() {
  const model = find(first.value);
  const [one, two] = LABELS[kind(model)];
  const same = known.filter((item) => kind(item) === kind(model) && item !== model);
  choices(second, [["", "nothing"], ...same.map((item) => [item.name, item.name])], second.value);
  by("text-label").textContent = one;
  by("other-label").textContent = two;
  by("two").hidden = !two;
  by("explain-row").hidden = !model.options.includes("explain");
  fields();
}

/** Show a field for each column of the chosen models; typed values stay. */
function fields() {
  const typed = cells();
  const columns = new Map([first, second].flatMap((select) => columnsOf(find(select.value) ?? {})));
  by("columns").hidden = !columns.size;
  by("columns").replaceChildren(
    ...[...columns].map(([name, kind], place) => {
      const id = `column-${place}`;
      const input = element("input", { id, name, type: "text", value: typed[name] ?? "", placeholder: kind, autocomplete: "off" });
      return element("div", {}, element("label", { htmlFor: id, dir: "auto" }, name), input);
    }),
  );
}

function requestOf(model) {
  const request = {
    texts: () => ({ texts: [text.value] }),
    pairs: () => ({ pairs: [[text.value, other.value]] }),
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
  return kind(model) === "questions" ? text.value && other.value : text.value || other.value;
}

async function run() {
  clearTimeout(timer);
  running?.abort();
  const mine = (running = new AbortController());
  const chosen = [find(first.value), find(second.value)].filter(Boolean);
  results.classList.toggle("two", chosen.length > 1);
  if (!chosen.length || !isComplete(chosen[0])) {
    results.replaceChildren();
    return report("Ready");
  }
  const typed = { text: text.value, other: other.value };
  try {
    const answers = await Promise.all(chosen.map((model) => predict(model.name, requestOf(model), mine.signal)));
    if (mine !== running) return;
    const articles = chosen.map((model, index) =>
      element("article", { dataset: { model: model.name } }, element("h2", {}, model.name), ...answerOf(answers[index], typed)),
    );
    results.replaceChildren(...articles);
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
  arrange();
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
by("key").addEventListener("change", (event) => {
  useKey(event.target.value);
  start();
});
await start();
