// From rows of texts and labels to a model file and what it gets right on rows that it was not trained on.

import { DataError } from "../package/errors.js";
import { Mixling } from "../package/index.js";
import { Core } from "./core.js";
import { writeModel } from "./file.js";
import { fitBranch } from "./fit.js";
import { trainNetwork } from "./network.js";
import { divide } from "./split.js";
import { interval } from "./interval.js";

const FEWEST_TO_TEST = 50; // rows; of fewer, none are held out
const FEW = 1000;
const FEW_LEARNED = 200;
const MOST_TESTED = 20_000;
const MOST_LABELS = 1000;
const LENGTHS = { min_n: 3, max_n: 4 };

/** Return labels in the order of a model: by code points, or by value if all are integers. */
function labelsOf(names) {
  const distinct = [...new Set(names)];
  if (distinct.every((name) => /^-?\d+$/.test(name))) return distinct.sort((a, b) => Number(a) - Number(b) || (a < b ? -1 : 1));
  const points = (name) => Array.from(name, (letter) => letter.codePointAt(0));
  return distinct.map((name) => [name, points(name)]).sort(([, a], [, b]) => compare(a, b)).map(([name]) => name);
}

function compare(a, b) {
  const at = a.findIndex((point, i) => point !== b[i]);
  return at < 0 ? a.length - b.length : b[at] === undefined ? 1 : a[at] - b[at];
}

/** Return the part of the rows that is held out to test on. */
function testFraction(rows) {
  if (rows < FEW) return rows < FEWEST_TO_TEST ? 0 : 0.2;
  return Number(Math.min(0.1, MOST_TESTED / rows).toPrecision(1));
}

function check(rows) {
  const counts = new Map();
  for (const { label } of rows) counts.set(label, (counts.get(label) ?? 0) + 1);
  if (counts.size < 2) {
    const only = counts.size ? `only the label ${JSON.stringify([...counts.keys()][0])}` : "no rows with text and label";
    throw new DataError(`${only}; at least two distinct labels are required`);
  }
  if (counts.size > MOST_LABELS) {
    throw new DataError(`${counts.size} distinct labels; a page trains up to ${MOST_LABELS}: choose another label column, or use mixling train`);
  }
  if (counts.size > 2 && counts.size > (2 / 3) * rows.length) {
    throw new DataError(`${counts.size} distinct labels in ${rows.length} rows are too many; choose another label column`);
  }
}

/**
 * Train a model.
 *
 * @param {{text: string, label: string}[]} rows
 * @param {{wasm: WebAssembly.Module, template: Uint8Array, plan: object | null}} given the compiled trainer, a model file to
 *   begin with, and the plan of its network; null: n-grams are alone
 *   `lesson`: nothing is held out to test on, and more to choose on where rows are few
 * @param {(progress: object) => void} tell called before each phase and fit
 * @returns {Promise<{content: Uint8Array, labels: string[], report: object}>} the model file, and its figures
 */
export async function train(rows, { wasm, template, plan, lesson }, tell = () => {}) {
  check(rows);
  const core = await Core.open(wasm, template, LENGTHS);
  tell({ phase: "reading", rows: rows.length });
  const hashes = BigUint64Array.from(rows, ({ text }) => core.hash(text));
  const numbers = new Map();
  const classes = rows.map(({ label }) => numbers.get(label) ?? (numbers.set(label, numbers.size), numbers.size - 1));
  const part = (indices, fraction) =>
    divide(BigUint64Array.from(indices, (i) => hashes[i]), indices.map((i) => classes[i]), fraction).map((own) => own.map((i) => indices[i]));
  const fraction = lesson ? 0 : testFraction(rows.length);
  const [rest, test] = fraction ? part([...rows.keys()], fraction) : [[...rows.keys()], []];
  const [trained, chosen] = part(rest, lesson && rest.length < FEW_LEARNED ? 0.3 : 0.1);
  const labels = labelsOf(trained.map((i) => rows[i].label));
  if (labels.length < 2 || !chosen.length) throw new DataError(`${rows.length} rows are too few to set some aside for validation; give more rows of each label`);
  const ids = new Map(labels.map((label, id) => [label, id]));
  const known = (indices) => indices.filter((i) => ids.has(rows[i].label));
  const targets = (indices) => indices.map((i) => ids.get(rows[i].label));
  const validated = known(chosen);
  const windows = (indices, toEnd) => indices.map((i) => core.read(rows[i].text, toEnd));
  const validation = { windows: windows(validated, true), beginnings: windows(validated, false), targets: targets(validated) };
  const texts = { windows: windows(trained, false), targets: targets(trained) };
  const network = plan && trainNetwork(core, plan, texts, validation, labels.length, tell);
  const written = (branch, weight) => writeModel(template, labels, network?.weights ?? null, branch, { ...LENGTHS, network: weight }, (bytes) => core.sha256(bytes));
  const alone = written(null, 1);
  const logits = network && (await answersOf(alone, wasm, validated.map((i) => rows[i].text)));
  const { branch, weight, report } = fitBranch(core, texts, validation, { logits, bytes: alone.length }, labels.length, tell);
  tell({ phase: "writing" });
  const content = written(branch, weight);
  const figures = test.length ? await evaluate(content, wasm, test.map((i) => rows[i]), labels) : null;
  const sizes = { rows: rows.length, training: trained.length, validation: validated.length, test: test.length };
  return { content, labels, report: { ...sizes, ...report, network: network && { weight, ...network.report }, file: content.length, test: figures } };
}

/** Return the logits of a model for texts. */
async function answersOf(content, wasm, texts) {
  const model = await Mixling.load(content, { wasm });
  const found = texts.map((text) => model.logits(text));
  model.close();
  return found;
}

/** Return accuracy with its interval, the most frequent label's, macro F1 and confusion (C, C) of rows that a model did not see. */
async function evaluate(content, wasm, rows, labels) {
  const model = await Mixling.load(content, { wasm });
  const ids = new Map(labels.map((label, id) => [label, id]));
  const confusion = labels.map(() => labels.map(() => 0));
  const mistakes = [];
  let unknown = 0;
  for (const { text, label, line } of rows) {
    const { label: answer, probabilities } = model.predict(text);
    if (!ids.has(label)) {
      unknown++;
      continue;
    }
    confusion[ids.get(label)][ids.get(answer)]++;
    if (answer !== label) mistakes.push({ text, label, answer, line, probability: probabilities[answer] });
  }
  model.close();
  const sum = (values) => values.reduce((all, value) => all + value, 0);
  const right = sum(confusion.map((row, i) => row[i]));
  const given = confusion.map(sum);
  const answered = labels.map((_, i) => sum(confusion.map((row) => row[i])));
  const scores = labels.map((_, i) => (given[i] + answered[i] ? (2 * confusion[i][i]) / (given[i] + answered[i]) : 0));
  const used = labels.filter((_, i) => given[i] + answered[i]).length;
  mistakes.sort((a, b) => b.probability - a.probability);
  const most = given.indexOf(Math.max(...given));
  return {
    rows: rows.length,
    accuracy: right / rows.length,
    interval: interval(right, rows.length),
    majority: { label: labels[most], accuracy: given[most] / rows.length },
    f1: scores.map((value, i) => ({ label: labels[i], f1: value, rows: given[i] })),
    macroF1: sum(scores) / Math.max(used, 1),
    confusion,
    unknown,
    mistakes: mistakes.slice(0, 20),
  };
}
