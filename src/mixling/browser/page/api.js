// In place of the server's api.js: models of models.json, each in a worker of this page. In a page of one file, all are
// elements of the page, and the model is in the page itself.

import { Mixling, MixlingError } from "../mixling/index.js";

export class ServerGone extends Error {}

export class Refused extends Error {}

export function useKey() {} // there are no keys

export const hasKey = () => false;

export const addressOf = () => null; // no server answers

const MAX_EXPLAINED = 10_000; // characters, as of the server

let known = [];
const loaded = new Map();

const embedded = (name) => document.getElementById(name)?.textContent;
const bytesOf = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** Return the model of a name; one that could not be loaded is tried again the next time. */
function load(name) {
  if (!loaded.has(name)) {
    const { file, version } = known.find((model) => model.name === name);
    const inside = embedded(file);
    const loading = inside
      ? Mixling.load(bytesOf(inside), { wasm: bytesOf(embedded("mixling.wasm")) })
      : Mixling.loadInWorker(`${file}?${version}`);
    loading.catch(() => loaded.delete(name));
    loaded.set(name, loading);
  }
  return loaded.get(name);
}

export async function models() {
  const inside = embedded("models.json");
  const response = inside ? null : await fetch("models.json", { cache: "no-cache" }).catch(() => null);
  if (!inside && !response?.ok) throw new ServerGone("The models of this page cannot be loaded.");
  known = (inside ? JSON.parse(inside) : await response.json()).models;
  load(known[0].name); // ready when the first text is
  return known;
}

export async function predict(name, { texts, pairs, questions, columns, explain }, signal) {
  const keys = known.find((model) => model.name === name).texts ?? ["first", "second"];
  const inputs = texts ?? questions ?? pairs.map((several) => Object.fromEntries(keys.map((key, i) => [key, several[i]])));
  const predictions = [];
  for (const [place, only] of inputs.entries()) {
    const input = columns ? { ...(typeof only === "string" ? { text: only } : only), columns: columns[place] } : only;
    predictions.push(await predictOne(name, input, explain, signal));
  }
  return predictions;
}

async function predictOne(name, input, explain, signal) {
  try {
    const model = await load(name);
    signal.throwIfAborted(); // another text was typed meanwhile
    const prediction = await model.predict(input);
    signal.throwIfAborted();
    if (explain) {
      const { columns, ...parts } = typeof input === "string" ? { input } : input;
      const size = Object.values(parts).join("").length;
      if (size > MAX_EXPLAINED) throw new Refused(`Texts of at most ${MAX_EXPLAINED} characters are explained.`);
      prediction.explanation = await model.explain(input);
    }
    return prediction;
  } catch (error) {
    if (error instanceof MixlingError) throw new Refused(error.message);
    throw error;
  }
}
