// node answers.mjs PACKAGE < {model: path, inputs: [...], explained: [...]}: what JavaScript answers, as JSON.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { Mixling } = await import(pathToFileURL(process.argv[2]).href);
const { model: path, inputs, explained } = JSON.parse(readFileSync(0, "utf8"));
const model = await Mixling.load(path, { cacheBytes: 1 << 16 }); // small, so that it is emptied on the way
const scored = !["tagging", "question_answering"].includes(model.task);
const out = inputs.map((input) => ({
  prediction: model.predict(input),
  ...(scored && { logits: model.logits(input) }),
  ...(typeof input === "string" && { words: model.words(input).map(({ start, end }) => [start, end]) }),
}));
const explanations = explained.map((input) => model.explain(input));
console.log(JSON.stringify({ task: model.task, labels: model.labels, pairs: model.pairs, out, explanations }));
