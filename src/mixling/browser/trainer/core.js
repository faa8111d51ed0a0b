// The functions of training.c, compiled to WebAssembly, in an instance that reads texts as one model does.

import { MixlingError } from "../package/errors.js";

export class Core {
  #functions;
  #reader;
  #steps;
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
    this.#done(status);
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
    this.#done(status);
  }

  /** Return the hash of a text, by which it is assigned to a part of the data. */
  hash(text) {
    return this.blake2b(JSON.stringify(text));
  }

  blake2b(content) {
    const bytes = new TextEncoder().encode(content);
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

  /**
   * Begin the steps of a network, and return its weights, which the next call may move.
   *
   * @param {BigInt64Array} plan its numbers, as network.h has them
   * @returns {() => Float32Array} all parameters
   */
  begin(plan) {
    this.#steps = this.#functions.mixling_steps_new(this.#put(plan), plan.length);
    if (!this.#steps) throw new MixlingError("out of memory");
    const at = this.#functions.mixling_steps_parameters(this.#steps);
    return () => this.#view(Float32Array, at, Number(plan[0]));
  }

  /** Return the logits (texts, labels) of texts, each as numbers of words. */
  logits(texts, labels) {
    this.#batch(texts);
    const at = this.#take(4 * texts.length * labels);
    this.#done(this.#functions.mixling_steps_evaluate(this.#steps, at));
    const found = this.#view(Float32Array, at, texts.length * labels).slice();
    this.#functions.free(at);
    return found;
  }

  /** Make a step; return the sums of losses and of weights, and the norm of the gradient. */
  step(texts, targets, settings) {
    this.#batch(texts);
    const [given, how] = [this.#put(Uint32Array.from(targets)), this.#put(Float64Array.from(settings))];
    this.#done(this.#functions.mixling_steps_train(this.#steps, given, how, this.#out));
    this.#functions.free(given);
    this.#functions.free(how);
    return this.#view(Float64Array, this.#out, 3).slice();
  }

  /** Return random numbers of a seed, as NumPy's: `floats` from 0 to below 1, `normals`, and `permutation` of numbers. */
  random(...seed) {
    const words = this.#put(Uint32Array.from(seed));
    const from = this.#functions.mixling_random_new(words, seed.length);
    this.#functions.free(words);
    if (!from) throw new MixlingError("out of memory");
    const drawn = (draw, Kind) => (number) => {
      const at = this.#take(4 * number);
      draw(from, at, number);
      const found = this.#view(Kind, at, number).slice();
      this.#functions.free(at);
      return found;
    };
    const { mixling_random_floats, mixling_random_normals, mixling_random_permutation } = this.#functions;
    return {
      floats: drawn(mixling_random_floats, Float32Array),
      normals: drawn(mixling_random_normals, Float32Array),
      permutation: drawn(mixling_random_permutation, Uint32Array),
      close: () => this.#functions.free(from),
    };
  }

  /** Make the batch of a step: the words of texts one after another, the number of words of each, and the bags of all words. */
  #batch(texts) {
    const lengths = Uint32Array.from(texts, (text) => text.length);
    const tokens = new Uint32Array(lengths.reduce((sum, length) => sum + length, 0));
    texts.reduce((at, text) => (tokens.set(text, at), at + text.length), 0);
    const [words, , , , , , , bags, parts] = this.#found();
    const [at, sizes] = [this.#put(tokens), this.#put(lengths)];
    this.#done(this.#functions.mixling_steps_read(this.#steps, at, sizes, texts.length, bags, words + 1, parts));
    this.#functions.free(at);
    this.#functions.free(sizes);
  }

  #done(status) {
    if (status) throw new MixlingError("out of memory");
  }

  #found() {
    this.#functions.mixling_reader_get(this.#reader, this.#out);
    return this.#numbers(this.#out, 9).slice();
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
