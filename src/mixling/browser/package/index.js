// mixling in JavaScript: a model file to predictions, in browsers and in node, without a server.

import { Engine } from "./engine.js";
import { ConfigError, DataError, MixlingError, ModelFileError, UnsupportedModelError, errorOf } from "./errors.js";
import { explain } from "./explanation.js";
import { DECODERS } from "./predictions.js";

export { ConfigError, DataError, MixlingError, ModelFileError, UnsupportedModelError };

const CACHE_BYTES = 16 << 20;
const FILES_OF_NODE = "node:fs/promises"; // not in the import itself, where bundlers for browsers would look for it
const besideThis = () => new URL("./mixling.wasm", import.meta.url);

let compiled; // of the file beside this one, once for all models

export class Mixling {
  #engine;
  #metadata;

  /**
   * Load a model. See index.d.ts for the methods.
   *
   * @param source the address of a model.onnx, or its content; in node also a path
   * @param options.wasm the same for mixling.wasm, which else lies beside this file
   * @param options.cacheBytes about the memory for words that were met
   */
  static async load(source, { wasm, cacheBytes = CACHE_BYTES } = {}) {
    const [module, [data, name]] = await Promise.all([compile(wasm), read(source)]);
    const model = new Mixling();
    model.#engine = await Engine.open(module, data, name, cacheBytes);
    model.#metadata = checked(model.#engine, name);
    return model;
  }

  /** Load a model in a worker of the browser, so that the page stays responsive while it computes. */
  static async loadInWorker(source, { wasm, cacheBytes } = {}) {
    if (typeof Worker === "undefined") throw new MixlingError("loadInWorker needs the Worker of a browser; use load");
    const absolute = (item) => (typeof item === "string" || item instanceof URL ? String(new URL(item, location.href)) : item);
    const model = new RemoteModel(new Worker(new URL("./worker.js", import.meta.url), { type: "module" }));
    try {
      await model.open(absolute(source), { wasm: absolute(wasm), cacheBytes });
    } catch (error) {
      model.close();
      throw error;
    }
    return model;
  }

  /** "classification", "multi_label", "regression", "tagging" or "question_answering". */
  get task() {
    return this.#opened.task;
  }

  get labels() {
    return [...this.#opened.labels];
  }

  /** Whether inputs are several texts; null where the file does not state it. */
  get pairs() {
    return this.#opened.numTexts ? this.#opened.numTexts > 1 : null;
  }

  /** The keys of the texts that belong together, such as title and body; of a single text none. */
  get texts() {
    if (this.task === "question_answering") return ["question", "context"];
    return this.pairs === false ? [] : [...(this.#metadata.texts ?? ["first", "second"])];
  }

  /** The names of the columns beside each text; most models have none. */
  get columns() {
    return [...this.#opened.columns];
  }

  predict(input) {
    if (Array.isArray(input)) return input.map((item, number) => this.#predict(item, number));
    return this.#predict(input, 0);
  }

  logits(input) {
    this.#refuse(["tagging", "question_answering"], "logits");
    return Array.from(this.#opened.predict(this.#checked(input, 0)).logits);
  }

  words(text) {
    if (typeof text !== "string") throw new DataError(`words are of one text, not of ${typeof text}`);
    return this.#opened.words(text);
  }

  explain(input, { target } = {}) {
    this.#refuse(["tagging", "question_answering"], "explanations");
    return explain(this.#engine, this.#checked(input, 0), this.#metadata, target);
  }

  close() {
    this.#engine = undefined;
  }

  get #opened() {
    if (!this.#engine) throw new MixlingError("the model was closed");
    return this.#engine;
  }

  #predict(input, number) {
    return DECODERS[this.task](this.#engine, this.#checked(input, number), this.#metadata);
  }

  #refuse(tasks, what) {
    if (tasks.includes(this.task)) throw new ConfigError(`${what}: a model for ${this.task} has none in JavaScript`);
  }

  /** Return the texts of an input, with the cells of its columns. */
  #checked(input, number) {
    const names = this.#opened.columns;
    if (!names.length) return this.#texts(input, number);
    const { columns, ...rest } = typeof input === "object" && input !== null ? input : {};
    const example = names.map((name) => `${JSON.stringify(name)}: ...`).join(", ");
    if (columns === undefined || columns === null || typeof columns !== "object") {
      const texts = this.pairs ? this.texts.map((name) => `${name}: ...`).join(", ") : "text: ...";
      throw new DataError(`item ${number} has no columns; this model needs {${texts}, columns: {${example}}}`);
    }
    for (const name of [...names, ...Object.keys(columns)]) {
      if (names.includes(name) && Object.hasOwn(columns, name)) continue;
      const problem = names.includes(name) ? "has no column" : "has the column";
      throw new DataError(`item ${number} ${problem} ${JSON.stringify(name)}; the model reads ${names.join(", ")}`);
    }
    const { texts } = this.#texts(this.pairs ? rest : (rest.text ?? rest), number);
    return { texts, cells: names.map((name) => cellOf(columns[name], name, number)) };
  }

  /** Return the texts of an input. */
  #texts(input, number) {
    const keys = this.texts;
    const wanted = keys.length ? `pass {${keys.map((key) => `${key}: "..."`).join(", ")}}` : "pass a string";
    const fail = (what) => {
      throw new DataError(`item ${number} ${what}: ${wanted}`);
    };
    if (typeof input === "string") {
      const several = this.pairs || this.task === "question_answering";
      if (several) fail(`is one text; this model reads ${keys.length > 2 ? `${keys.length} texts` : "pairs"}`);
      return { texts: [input] };
    }
    const names = keys.length ? keys : ["first", "second"];
    const texts = names.map((key) => input?.[key]);
    const isText = (text) => typeof text === "string";
    if (!texts.some(isText)) fail("is no text");
    if (!texts.every(isText)) fail(`has no text ${JSON.stringify(names.find((_, i) => !isText(texts[i])))}`);
    if (!keys.length) fail("is a pair of texts; this model was trained on single texts");
    return { texts };
  }
}

/** A model in a worker: the same methods, whose results are promises. */
class RemoteModel {
  #worker;
  #waiting = new Map();
  #number = 0;

  constructor(worker) {
    this.#worker = worker;
    worker.onmessage = ({ data: { id, value, error } }) => {
      const { resolve, reject } = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) reject(errorOf(error));
      else resolve(value);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(new MixlingError(`the worker failed: ${event.message ?? "its files could not be loaded"}`));
    };
  }

  async open(source, options) {
    Object.assign(this, await this.#call("open", source, options));
  }

  predict(input) {
    return this.#call("predict", input);
  }

  logits(input) {
    return this.#call("logits", input);
  }

  words(text) {
    return this.#call("words", text);
  }

  explain(input, options) {
    return this.#call("explain", input, options);
  }

  close() {
    this.#fail(new MixlingError("the model was closed"));
  }

  #call(method, ...given) {
    if (!this.#worker) return Promise.reject(new MixlingError("the model was closed"));
    return new Promise((resolve, reject) => {
      const id = this.#number++;
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, method, given });
    });
  }

  #fail(error) {
    this.#worker?.terminate();
    this.#worker = undefined;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** Return what decoding needs of the metadata; C has checked what it reads itself. */
function checked(engine, name) {
  if (!Object.hasOwn(DECODERS, engine.task)) {
    throw new UnsupportedModelError(`${name}: there is no decoder in JavaScript for its task, ${engine.task}`);
  }
  const wrong = new ModelFileError(`${name}: is damaged: its metadata has values that no model has`);
  const number = (value) => {
    if (!Number.isFinite(value)) throw wrong;
    return value;
  };
  const optional = (value) => (value === null || value === undefined ? null : number(value));
  try {
    const { threshold, label_thresholds, conformal, rule, reading, labels, texts } = JSON.parse(engine.metadata);
    if (new Set(engine.labels).size < engine.labels.length) throw wrong;
    const out = { threshold: optional(threshold), labelThresholds: new Map(), conformal: conformal ?? null };
    if (texts) {
      if (new Set(texts.map(String)).size !== engine.numTexts) throw wrong;
      out.texts = texts.map(String);
    }
    for (const [name, value] of Object.entries(label_thresholds ?? {})) out.labelThresholds.set(name, number(value));
    if (conformal && (number(conformal.quantile) < 0 || !["lac", "aps"].includes(conformal.method))) throw wrong;
    if (rule) {
      out.rule = { offsets: (rule.offsets ?? []).map(number), costs: (rule.costs ?? []).map((row) => row.map(number)) };
      out.rule.levels = rule.levels ? String(rule.levels) : "";
      const sizes = [out.rule.offsets.length || out.rule.costs.length, ...out.rule.costs.map((row) => row.length)];
      if (!out.rule.levels && sizes.some((size) => size !== engine.labels.length)) throw wrong;
    }
    if (engine.task === "question_answering") out.reading = { threshold: optional(reading.threshold) };
    if (engine.task === "regression") {
      out.numbers = { mean: number(labels.numbers.mean), deviation: number(labels.numbers.deviation) };
    }
    return out;
  } catch {
    throw wrong; // also of other types than those that are read here
  }
}

/** A value as a cell of a table; null where it is missing. */
function cellOf(value, name, number) {
  if (value === null || value === undefined || Number.isNaN(value)) return null;
  if (["string", "number", "boolean"].includes(typeof value)) return String(value);
  if (value instanceof Date) return value.toISOString();
  throw new DataError(`item ${number}: column ${JSON.stringify(name)} is ${typeof value}; give text, a number, or null`);
}

function compile(wasm) {
  if (wasm !== undefined) return compileFrom(wasm);
  compiled ??= compileFrom(besideThis()).catch((error) => {
    compiled = undefined; // so that the next model tries again
    throw error;
  });
  return compiled;
}

async function compileFrom(source) {
  if (source instanceof WebAssembly.Module) return source;
  const [bytes, name] = await read(source);
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    throw new MixlingError(`${name}: WebAssembly with SIMD is needed (browsers since 2023 have it): ${error.message}`);
  }
}

/** Return bytes, and their name for messages. */
async function read(source) {
  if (source instanceof ArrayBuffer) return [new Uint8Array(source), "the model's bytes"];
  if (ArrayBuffer.isView(source)) {
    return [new Uint8Array(source.buffer, source.byteOffset, source.byteLength), "the model's bytes"];
  }
  const name = String(source);
  try {
    if (!/^(https?|data|blob):/.test(name) && globalThis.process?.versions?.node) {
      const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ FILES_OF_NODE);
      return [await readFile(name.startsWith("file:") ? new URL(name) : name), name];
    }
    const response = await fetch(source);
    if (!response.ok) throw new Error(`the server answered with ${response.status}`);
    return [new Uint8Array(await response.arrayBuffer()), name];
  } catch (error) {
    throw new ModelFileError(`${name}: could not be read: ${error.message}`);
  }
}
