// A worker that holds one model; `Mixling.loadInWorker` talks to it.

import { Mixling } from "./index.js";

let model;

async function answer(method, given) {
  if (method !== "open") return model[method](...given);
  model = await Mixling.load(...given);
  const { task, labels, columns, pairs, texts } = model;
  return { task, labels, columns, pairs, texts };
}

self.onmessage = async ({ data: { id, method, given } }) => {
  try {
    self.postMessage({ id, value: await answer(method, given) });
  } catch (error) {
    self.postMessage({ id, error: { name: error.name, message: error.message } });
  }
};
