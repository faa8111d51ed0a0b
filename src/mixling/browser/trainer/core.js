// The functions of training.c, compiled to WebAssembly, in an instance that reads texts as one model does.

import { MixlingError } from "../package/errors.js";

export class Core {
  #functions;
  #reader;
  #out;

  /**
   * @param {WebAssembly.Module} module
   * @param {Uint8Array} model a file that splits texts into words as the trained model does
   * @param {{min_n: number, max_n: number}} lengths of character n-grams
   */
  static async open(module, model, { min_n, max_n }) {
    const core = new Core();
    const functions = (await WebAssembly.instantiate(module, {})).exports;
    core.#functions = functions;
    functions._initialize();
    const out = (core.#out = core.#take(64));
    const at = core.#put(model);
    if (functions.mixling_open(at, model.length, out, core.#take(256), 256)) throw new MixlingError("the trainer is damaged");
    const opened = core.#numbers(out, 1)[0];
    if (functions.mixling_start(opened, 1 << 20, 0n, out)) throw new MixlingError("out of memory");
    core.#reader = functions.mixling_reader_new(core.#numbers(out, 1)[0], min_n, max_n);
    if (!core.#reader) throw new MixlingError("out of memory");
    functions.free(at);
    return core;
  }

  /** Return the windows of a text, each as the numbers of its words; one of its first words where it is not read to its end. */
  read(text, toEnd = false) {
    const bytes = new TextEncoder().encode(text);
    const at = this.#put(bytes);
    const status = this.#functions.mixling_reader_read(this.#reader, at, bytes.length, toEnd ? 1 : 0);
    this.#functions.free(at);
    if (status) throw new MixlingError("out of memory");
    const [, , , , windows, ends, rows] = this.#found();
    let begin = 0;
    return Array.from(this.#numbers(ends, windows), (end) => {
      const window = this.#numbers(rows, end).slice(begin);
      begin = end;
      return window;
    });
  }

  /** Return the terms of all words that were read: hashes (W), n-grams (G) word after word, and where these begin (W + 1). */
  words() {
    const [number, hashes, grams, starts] = this.#found();
    const begins = this.#numbers(starts, number + 1).slice();
    return { hashes: this.#numbers(hashes, number).slice(), grams: this.#numbers(grams, begins[number]).slice(), starts: begins };
  }

  /** Fit margins; `problem` has the arrays of descent.h, whose `duals` and `weights` are changed. */
  fit({ starts, columns, values, signs, costs, duals, weights, scale }, sizes, tolerance, passes) {
    const arrays = [starts, columns, values, signs, costs, duals, weights, scale];
    const places = arrays.map((array) => (array ? this.#put(array) : 0));
    const given = this.#put(new Uint32Array([...places, sizes.rows, sizes.features, sizes.labels, 0, 0, 0, 0, 0]));
    const status = this.#functions.mixling_fit_margins(given, tolerance, passes);
    duals.set(this.#view(Float32Array, places[5], duals.length));
    weights.set(this.#view(Float32Array, places[6], weights.length));
    for (const place of [given, ...places]) this.#functions.free(place);
    if (status) throw new MixlingError("out of memory");
  }

  /** Return the hash of a text, by which it is assigned to a part of the data. */
  hash(text) {
    const bytes = new TextEncoder().encode(JSON.stringify(text));
    const at = this.#put(bytes);
    this.#functions.mixling_blake2b(at, bytes.length, this.#out);
    this.#functions.free(at);
    return this.#view(BigUint64Array, this.#out, 1)[0];
  }

  /** Return the SHA-256 of bytes in hexadecimal digits. */
  sha256(bytes) {
    const at = this.#put(bytes);
    this.#functions.mixling_sha256(at, bytes.length, this.#out);
    this.#functions.free(at);
    return Array.from(this.#view(Uint8Array, this.#out, 32), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  #found() {
    this.#functions.mixling_reader_get(this.#reader, this.#out);
    return this.#numbers(this.#out, 7).slice();
  }

  #numbers(at, size) {
    return this.#view(Uint32Array, at, size);
  }

  #view(Kind, at, size) {
    return new Kind(this.#functions.memory.buffer, at >>> 0, size);
  }

  #take(size) {
    const at = this.#functions.malloc(size || 1) >>> 0;
    if (!at) throw new MixlingError(`out of memory: ${size} bytes more are needed`);
    return at;
  }

  #put(array) {
    const at = this.#take(array.byteLength);
    this.#view(Uint8Array, at, array.byteLength).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    return at;
  }
}
