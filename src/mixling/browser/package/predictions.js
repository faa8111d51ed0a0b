// From logits to predictions: the same values as `Prediction.to_dict()` in Python.

import { ModelFileError } from "./errors.js";

const THRESHOLD = 0.5; // of the probability of each of several labels

/** The decoders by task: of a model, what was typed, and its metadata, to the fields of a prediction. */
export const DECODERS = {
  classification(engine, input, { threshold, conformal, rule }) {
    const { logits, ...flags } = engine.predict(input);
    const probabilities = softmax(logits);
    const path = rule?.levels ? pathOf(engine.labels, probabilities, rule.levels) : undefined;
    const best = path ? undefined : answerOf(logits, rule);
    // What is uncertain is answered higher up, by the deepest part of the path that reaches the threshold.
    const answers = path ?? [[engine.labels[best], probabilities[best]]];
    const certain = answers.findLast(([, probability]) => probability >= (threshold ?? 0));
    const fields = { label: (certain ?? answers.at(-1))[0] };
    if (threshold !== null) fields.abstained = certain === undefined;
    if (conformal !== null) fields.label_set = labelSet(probabilities, conformal).map((i) => engine.labels[i]);
    if (path) fields.path = Object.fromEntries(path);
    fields.probabilities = byName(engine.labels, probabilities);
    return finish(fields, flags);
  },

  multi_label(engine, input, { threshold, labelThresholds }) {
    const { logits, ...flags } = engine.predict(input);
    const probabilities = Array.from(finite(logits), sigmoid);
    const labels = engine.labels.filter(
      (name, i) => probabilities[i] >= (labelThresholds.get(name) ?? threshold ?? THRESHOLD),
    );
    return finish({ labels, probabilities: byName(engine.labels, probabilities) }, flags);
  },

  regression(engine, input, metadata) {
    const { logits, ...flags } = engine.predict(input);
    return finish({ value: numberOf(logits, metadata) }, flags);
  },

  tagging(engine, { texts: [first] }) {
    const { words, logits, tags, probabilities, ...flags } = engine.tag(first);
    finite(logits);
    const names = tags.map((tag) => engine.labels[tag]);
    const spans = iobSpans(names).map(([label, from, to]) => ({
      label,
      start: words[from].start,
      end: words[to - 1].end,
      score: probabilities.slice(from, to).reduce((sum, value) => sum + value, 0) / (to - from),
    }));
    const characters = Array.from(first);
    const tokens = words.map(({ start, end }) => characters.slice(start, end).join(""));
    return finish({ spans, tokens, tags: names }, flags);
  },

  question_answering(engine, { texts: [first, second] }, { reading }) {
    const { start, end, found, margin, probability, noAnswer, truncated } = engine.answer(first, second);
    if (Number.isNaN(probability)) throw notFinite();
    const { threshold } = reading;
    if (!found || (threshold !== null && margin > threshold)) {
      return { answer: "", start: null, end: null, score: noAnswer, no_answer: true, truncated };
    }
    const answer = Array.from(second).slice(start, end).join("");
    return { answer, start, end, score: probability, no_answer: false, truncated };
  },
};

/** The predicted number of a regression. */
export function numberOf(logits, { numbers }) {
  return numbers.mean + numbers.deviation * finite(logits)[0];
}

/** Return logits; throw where one is not finite. */
export function finite(logits) {
  if (!logits.every(Number.isFinite)) throw notFinite();
  return logits;
}

function notFinite() {
  return new ModelFileError("the model computed a logit that is not finite: it is damaged, or its training diverged");
}

export function argmax(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

/** The label that logits are answered with: the most probable one, unless a rule has offsets, costs of errors or levels. */
export function answerOf(logits, rule, names) {
  if (!rule) return argmax(logits);
  if (rule.levels) return names.indexOf(pathOf(names, softmax(logits), rule.levels).at(-1)[0]);
  if (rule.offsets.length) return argmax(Array.from(logits, (value, i) => value + rule.offsets[i]));
  const probabilities = softmax(logits);
  return argmax(rule.costs.map((_, j) => -probabilities.reduce((sum, p, i) => sum + p * rule.costs[i][j], 0)));
}

/** The parts [name, probability] of the most probable label of each level, from the top down; see mixling/answers/levels.py. */
export function pathOf(names, probabilities, separator) {
  const path = [];
  let left = names.map((_, i) => i);
  for (let level = 1; ; level++) {
    const sums = new Map();
    const partOf = (i) => names[i].split(separator).slice(0, level).join(separator);
    for (const i of left) sums.set(partOf(i), (sums.get(partOf(i)) ?? 0) + probabilities[i]);
    const best = [...sums].reduce((first, second) => (second[1] > first[1] ? second : first));
    path.push(best);
    left = left.filter((i) => partOf(i) === best[0]);
    if (left.some((i) => names[i] === best[0])) return path;
  }
}

function softmax(logits) {
  const top = finite(logits)[argmax(logits)];
  const exponentials = Array.from(logits, (value) => Math.exp(value - top));
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
}

export function sigmoid(value) {
  const small = Math.exp(-Math.abs(value));
  return (value >= 0 ? 1 : small) / (1 + small);
}

/** The labels of a conformal set, the most probable first; see mixling/answers/conformal.py. */
function labelSet(probabilities, { method, quantile }) {
  const order = probabilities.map((_, i) => i).sort((a, b) => probabilities[b] - probabilities[a]); // a stable sort
  let before = 0; // the probability of the labels that are more probable
  return order.filter((i) => {
    const score = method === "lac" ? 1 - probabilities[i] : Math.min(before, 1);
    before += probabilities[i];
    return score <= quantile;
  });
}

/** An object with a property for each name, also for "__proto__", which an assignment would not make. */
function byName(names, values) {
  return Object.fromEntries(names.map((name, i) => [name, values[i]]));
}

function finish(fields, { truncated, empty }) {
  fields.truncated = truncated;
  if (empty) fields.empty = true;
  return fields;
}

/** The spans [type, first word, last word + 1] of tags, in order: B-x begins one, and so does an I-x that continues none. */
function iobSpans(tags) {
  const spans = [];
  let [current, first] = ["", 0];
  for (const [index, tag] of [...tags, "O"].entries()) {
    const dash = tag.indexOf("-");
    const [prefix, kind] = dash < 0 ? [tag, ""] : [tag.slice(0, dash), tag.slice(dash + 1)];
    if (current && (prefix !== "I" || kind !== current)) {
      spans.push([current, first, index]);
      current = "";
    }
    if (kind && !current) [current, first] = [kind, index];
  }
  return spans;
}
