// The effect of each word on an answer, found by leaving it out: `Predictor.explain(method="leave_one_out")` in Python.

import { ConfigError } from "./errors.js";
import { answerOf, finite, numberOf, sigmoid } from "./predictions.js";

/** The score that is divided among the words: the log-odds of a label, or the predicted number. */
function scoreOf(task, logits, label, metadata) {
  if (task === "regression") return numberOf(logits, metadata);
  finite(logits);
  if (task === "multi_label") return logits[label];
  const others = Array.from(logits).filter((_, i) => i !== label);
  const top = Math.max(...others);
  return logits[label] - top - Math.log(others.reduce((sum, value) => sum + Math.exp(value - top), 0));
}

/** The words that a model reads of texts that belong together. */
function readWords(engine, { texts }) {
  const read = texts.map((text, part) => {
    const characters = Array.from(text.replace(/\p{Surrogate}/gu, "\ufffd")); // as the model reads lone ones
    const word = ({ start, end }) => ({ word: characters.slice(start, end).join(""), start, end, part });
    return engine.words(text).map(word);
  });
  // The longest texts lose words at their end; a separator needs one place.
  const kept = read.map((words) => words.length);
  let over = kept.reduce((sum, size) => sum + size + 1, -1) - engine.maxLen;
  while (over-- > 0) kept[kept.lastIndexOf(Math.max(...kept))]--;
  return read.flatMap((words, part) => words.slice(0, Math.max(kept[part], 0)));
}

/** Return why a model gives its answer to a text: `WordEffect`s, as `Explanation.to_dict()` in Python. */
export function explain(engine, input, metadata, target) {
  const { task, labels } = engine;
  const named = task !== "regression";
  if (target !== undefined && !labels.includes(target)) {
    throw new ConfigError(`target: the model has no label ${JSON.stringify(target)}; it has ${labels.join(", ")}`);
  }
  const words = readWords(engine, input);
  const logitsWithout = (left) => {
    const joined = (part) => words.filter((word, i) => word.part === part && left(i)).map(({ word }) => word).join(" ");
    const texts = input.texts.map((_, part) => joined(part));
    const cells = input.cells?.map((cell, i) => (left(words.length + i) ? cell : null));
    return engine.predict({ texts, cells }, false).logits;
  };
  const all = logitsWithout(() => true);
  const label = target === undefined ? answerOf(all, metadata.rule, labels) : labels.indexOf(target);
  const score = scoreOf(task, all, label, metadata);
  const without = (left) => scoreOf(task, logitsWithout(left), label, metadata);
  const players = [...words, ...(input.cells ?? [])];
  const effects = players.map((_, i) => score - without((j) => j !== i));
  const base = without(() => false);
  return {
    ...(named && { target: labels[label] }),
    method: "leave_one_out",
    score,
    base,
    ...(named && { probability: sigmoid(score) }),
    words: words.map(({ word, start, end, part }, i) => {
      const item = { word, start, end, effect: effects[i] };
      return input.texts.length === 1 ? item : { ...item, part };
    }),
    ...(input.cells && {
      columns: engine.columns.map((name, i) => ({ name, value: input.cells[i], effect: effects[words.length + i] })),
    }),
    truncated: engine.predict(input, false).truncated,
  };
}
