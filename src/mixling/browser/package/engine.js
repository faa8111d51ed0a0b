// The functions of mixling.h, compiled to WebAssembly. An instance has a memory of its own and one model in it.

import { DataError, MixlingError, ModelFileError, UnsupportedModelError } from "./errors.js";

const UNSUPPORTED = 2;
const MEMORY = 3;
const ARGUMENT = 4;
const ERROR_SIZE = 200; // bytes
const TEXT_SIZE = 20; // bytes of the struct mixling_text
const CELL_SIZE = 8; // of mixling_cell
const NEXT_TEXT = 0xfe; // before a text after the second one
const WORD_SIZE = 12; // of mixling_word
const SPAN_SIZE = 40; // of mixling_span
const TRUNCATED = 1;
const EMPTY = 2;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

export class Engine {
  #functions;
  #bytes = new Uint8Array(0);
  #view = new DataView(new ArrayBuffer(0));
  #worker;
  #model;
  #out; // flags, a count, an answer and its flags
  #text; // a mixling_text
  #buffers = [
    { at: 0, size: 0 },
    { at: 0, size: 0 },
    { at: 0, size: 0 },
  ]; // of both texts, and of the cells beside them
  #cells = 0; // an array of mixling_cell
  #logits = 0;
  #words = 0;

  /**
   * Open a model.
   *
   * @param {WebAssembly.Module} module
   * @param {Uint8Array} data the content of a model.onnx
   * @param {string} name for messages
   * @param {number} cacheBytes
   */
  static async open(module, data, name, cacheBytes) {
    const engine = new Engine();
    engine.#functions = (await WebAssembly.instantiate(module, {})).exports;
    engine.#functions._initialize();
    try {
      engine.#open(data, name, cacheBytes);
    } catch (error) {
      if (error instanceof MixlingError) throw error;
      // A trap of WebAssembly, or text that is not UTF-8: no file that mixling wrote.
      throw new ModelFileError(`${name}: is damaged: ${error.message}`);
    }
    return engine;
  }

  #open(data, name, cacheBytes) {
    const { mixling_open, mixling_metadata, mixling_start, mixling_num_labels, mixling_label, mixling_task } =
      this.#functions;
    const { mixling_num_columns, mixling_column } = this.#functions;
    const at = this.#take(data.length);
    const out = (this.#out = this.#take(SPAN_SIZE + 1));
    const error = this.#take(ERROR_SIZE);
    this.#memory().set(data, at);
    const status = mixling_open(at, data.length, out, error, ERROR_SIZE);
    if (status === MEMORY) throw new MixlingError(`${name}: out of memory`);
    if (status === UNSUPPORTED) {
      throw new UnsupportedModelError(`${name}: the model needs ONNX Runtime, as in Python: ${this.#string(error)}`);
    }
    if (status) throw new ModelFileError(`${name}: ${this.#string(error)}`);
    const model = this.#number(out);
    if (mixling_metadata(at, data.length, out, out + 4)) throw new ModelFileError(`${name}: is damaged`);
    const start = this.#number(out);
    this.metadata = decoder.decode(this.#memory().slice(start, start + this.#number(out + 4)));
    this.#functions.free(at);
    this.#functions.free(error);
    const seed = crypto.getRandomValues(new BigInt64Array(1))[0];
    if (mixling_start(model, cacheBytes, seed, out)) throw new MixlingError(`${name}: out of memory`);
    this.#worker = this.#number(out);
    this.task = this.#string(mixling_task(model));
    this.labels = Array.from({ length: mixling_num_labels(model) }, (_, i) => this.#string(mixling_label(model, i)));
    if (!this.labels.every((label) => label.trim()) || new Set(this.labels).size < this.labels.length) {
      throw new ModelFileError(`${name}: a label is empty, or there twice`);
    }
    const number = mixling_num_columns(model);
    this.columns = Array.from({ length: number }, (_, i) => this.#string(mixling_column(model, i)));
    this.#cells = this.#take(number * CELL_SIZE);
    this.#model = model;
    this.numTexts = this.#functions.mixling_num_texts(model); // that belong together; 0: unknown
    this.maxLen = this.#functions.mixling_max_len(model);
    this.#text = this.#take(TEXT_SIZE);
    this.#logits = this.#take(this.labels.length * 4);
    this.#words = this.#take(this.maxLen * WORD_SIZE);
  }

  /** Return the logits of texts that belong together with the cells of their columns, strings or null, read to the end or up to the maximum, valid until the next call, and the flags. */
  predict({ texts, cells }, toEnd = true) {
    this.#write(texts, cells);
    const { mixling_predict, mixling_predict_long } = this.#functions;
    const out = this.#out;
    this.#check((toEnd ? mixling_predict_long : mixling_predict)(this.#worker, this.#text, 1, this.#logits, out));
    const logits = new Float32Array(this.#memory().buffer, this.#logits, this.labels.length);
    return { logits, ...this.#flags(this.#out) };
  }

  /** Return the words of a text that the model reads, `{start, end}` in characters. */
  words(text) {
    this.#write([text]);
    this.#check(this.#functions.mixling_words(this.#worker, this.#text, this.#words, this.#out, this.#out + 4));
    return this.#found(this.#words);
  }

  /** Return the words of a text, the logits (words, labels) as one array, the tags, their probabilities, and the flags. */
  tag(text) {
    this.#write([text]);
    const out = this.#out;
    const at = [4, 8, 12, 16].map((offset) => out + offset);
    this.#check(this.#functions.mixling_tag(this.#worker, this.#text, 1, ...at, out, out + 20));
    const [words, logits, tags, probabilities] = at.map((place) => this.#number(place));
    const found = this.#found(words);
    const memory = this.#memory().buffer;
    return {
      words: found,
      logits: new Float32Array(memory, logits, found.length * this.labels.length),
      tags: Array.from(new Uint32Array(memory, tags, found.length)),
      probabilities: Array.from(new Float32Array(memory, probabilities, found.length)),
      ...this.#flags(out + 20),
    };
  }

  /** Return the best span of the context that answers the question; see `mixling_span` in mixling.h. */
  answer(question, context) {
    this.#write([question, context]);
    const out = this.#out;
    const flags = out + SPAN_SIZE;
    this.#check(this.#functions.mixling_answer(this.#worker, this.#text, out, flags));
    const [start, end, found] = [0, 4, 8].map((offset) => this.#number(out + offset));
    const [margin, probability, noAnswer] = [16, 24, 32].map((offset) => this.#data().getFloat64(out + offset, true));
    return { start, end, found, margin, probability, noAnswer, ...this.#flags(flags) };
  }

  #flags(at) {
    const flags = this.#memory()[at];
    return { truncated: (flags & TRUNCATED) > 0, empty: (flags & EMPTY) > 0 };
  }

  #found(at) {
    const size = this.#number(this.#out);
    const values = new Uint32Array(this.#memory().buffer, at, (size * WORD_SIZE) / 4);
    return Array.from({ length: size }, (_, i) => ({ start: values[3 * i], end: values[3 * i + 1] }));
  }

  #check(status) {
    if (status === MEMORY) throw new MixlingError("out of memory");
    if (status === ARGUMENT) throw new DataError("another number of texts than the model reads together");
    if (status) throw new MixlingError(`status ${status}`);
  }

  /** Write texts where the library reads them: further ones after the second with a byte that no text has before each. */
  #write([first, ...further], cells) {
    const sizes = [0, 0, 0];
    const known = (cells ?? []).map((cell) => cell ?? "");
    for (const [i, parts] of [[first], further, [known.join("")]].entries()) {
      const length = parts.reduce((sum, part) => sum + part.length + 1, 0);
      const buffer = this.#buffers[i];
      if (buffer.size < 3 * length + 1) {
        if (buffer.size) this.#functions.free(buffer.at);
        buffer.size = 0;
        buffer.at = this.#take(6 * length + 256);
        buffer.size = 6 * length + 256;
      }
      const room = this.#memory().subarray(buffer.at, buffer.at + buffer.size);
      for (const [place, part] of parts.entries()) {
        if (place) room[sizes[i]++] = NEXT_TEXT;
        sizes[i] += encoder.encodeInto(part, room.subarray(sizes[i])).written;
      }
    }
    const view = this.#data();
    view.setUint32(this.#text, this.#buffers[0].at, true);
    view.setUint32(this.#text + 4, sizes[0], true);
    view.setUint32(this.#text + 8, further.length ? this.#buffers[1].at : 0, true);
    view.setUint32(this.#text + 12, sizes[1], true);
    view.setUint32(this.#text + 16, cells === undefined ? 0 : this.#cells, true);
    if (cells === undefined) return;
    let at = this.#buffers[2].at;
    for (const [i, cell] of cells.entries()) {
      const size = cell === null ? 0 : encoder.encode(cell).length;
      view.setUint32(this.#cells + i * CELL_SIZE, cell === null ? 0 : at, true);
      view.setUint32(this.#cells + i * CELL_SIZE + 4, size, true);
      at += size;
    }
    const bad = this.#functions.mixling_bad_cell(this.#model, this.#cells);
    if (bad === cells.length) return;
    const shown = JSON.stringify(cells[bad]);
    throw new DataError(`column ${JSON.stringify(this.columns[bad])} is of another kind than ${shown}; leave it empty (null) where it is missing`);
  }

  #take(size) {
    const at = this.#functions.malloc(size || 1) >>> 0; // JavaScript reads addresses above 2 GiB as negative
    if (!at) throw new MixlingError(`out of memory: ${size} bytes more are needed`);
    return at;
  }

  /** The memory, which is another object after it has grown. */
  #memory() {
    const { buffer } = this.#functions.memory;
    if (this.#bytes.buffer !== buffer) {
      this.#bytes = new Uint8Array(buffer);
      this.#view = new DataView(buffer);
    }
    return this.#bytes;
  }

  #data() {
    this.#memory();
    return this.#view;
  }

  #number(at) {
    return this.#data().getUint32(at, true);
  }

  #string(at) {
    const bytes = this.#memory();
    at >>>= 0;
    return decoder.decode(bytes.slice(at, bytes.indexOf(0, at)));
  }
}
