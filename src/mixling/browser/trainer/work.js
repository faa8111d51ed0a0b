// Trains in a worker, and answers with the model that was trained.

import { Mixling } from "../package/index.js";
import { train } from "./train.js";

let module;
let model;

/** Return what was compressed, and written in base64. */
async function bytesOf(text) {
  const stream = new Blob([Uint8Array.from(atob(text), (character) => character.charCodeAt(0))]).stream();
  return new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

const METHODS = {
  async train({ rows, wasm, template, plan }, tell) {
    module ??= await WebAssembly.compile(await bytesOf(wasm));
    const found = await train(rows, { wasm: module, template: await bytesOf(template), plan }, tell);
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
