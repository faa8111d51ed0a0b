// A worker of the page, whose script is an element of the page.

import { errorOf } from "../package/errors.js";

export class Remote {
  #worker = null;
  #waiting = new Map();
  #asked = 0;

  /** Return what a method of work.js returns. */
  async call(method, given, tell) {
    this.#worker ??= this.#begin();
    const worker = await this.#worker;
    return new Promise((done, failed) => {
      this.#waiting.set(++this.#asked, { done, failed, tell });
      worker.postMessage({ id: this.#asked, method, given });
    });
  }

  /** End the worker; what it was asked is not answered. */
  stop() {
    this.#worker?.then((worker) => worker.terminate());
    this.#worker = null;
    this.#waiting = new Map();
  }

  #begin() {
    const url = URL.createObjectURL(new Blob([document.getElementById("worker").textContent], { type: "text/javascript" }));
    const waiting = this.#waiting;
    return new Promise((resolve, reject) => {
      const made = new Worker(url);
      made.onerror = (event) => {
        const error = new Error(event.message || "the worker could not begin");
        reject(error);
        for (const { failed } of waiting.values()) failed(error);
      };
      made.onmessage = ({ data: { ready, id, progress, value, error } }) => {
        if (ready) return resolve(made);
        const { done, failed, tell } = waiting.get(id) ?? {};
        if (progress) return tell?.(progress);
        waiting.delete(id);
        if (error) failed?.(errorOf(error));
        else done?.(value);
      };
    });
  }
}
