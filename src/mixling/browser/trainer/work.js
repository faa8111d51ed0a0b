// Trains in a worker, and answers with the model that was trained.

import { Mixling } from "../package/index.js";
import { learn } from "../labeler/lesson.js";
import { Core } from "./core.js";
import { train } from "./train.js";

let module;
let model;

/** Return what was compressed, and written in base64. */
async function bytesOf(text) {
  const stream = new Blob([Uint8Array.from(atob(text), (character) => character.charCodeAt(0))]).stream();
  return new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

async function opened({ wasm, template, plan }) {
  module ??= await WebAssembly.compile(await bytesOf(wasm));
  return { wasm: module, template: await bytesOf(template), plan };
}

/** Return the bytes of a hash as digits. */
const digits = (hash) => Array.from({ length: 8 }, (_, i) => ((hash >> BigInt(8 * i)) & 255n).toString(16).padStart(2, "0")).join("");

const METHODS = {
  /** Return the fingerprints of texts and what is drawn by them: mixling/labeling/texts.py and queue.py. */
  async keys({ texts, ...given }) {
    const { wasm, template } = await opened(given);
    const core = await Core.open(wasm, template, { min_n: 3, max_n: 4 });
    return texts.map((text) => {
      const key = digits(core.hash(text));
      const drawn = (purpose) => digits(core.blake2b(`${purpose} ${key}`));
      return { key, test: Number(BigInt(`0x${drawn("test")}`) % 5n), order: drawn("order") };
    });
  },
  learn: async ({ lesson, ...given }) => learn(lesson, await opened(given)),
  async train({ rows, ...given }, tell) {
    const found = await train(rows, await opened(given), tell);
    model = await Mixling.load(found.content, { wasm: module });
    return found;
  },
  predict: ({ text }) => ({ ...model.predict(text), explanation: text.trim() && text.length <= 10_000 ? model.explain(text) : undefined }),
};

self.onmessage = async ({ data: { id, method, given } }) => {
  try {
    const value = await METHODS[method](given, (progress) => self.postMessage({ id, progress }));
    self.postMessage({ id, value });
  } catch (error) {
    self.postMessage({ id, error: { name: error.name, message: error.message } });
  }
};
self.postMessage({ ready: true });
