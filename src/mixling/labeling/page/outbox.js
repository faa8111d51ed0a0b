// Answers that the server has not confirmed: kept in this browser, and sent until it has.

const KEY = "mixling-answers";

export class Outbox {
  constructor(place) {
    this.key = `${KEY} ${place}`;
    this.lines = [];
  }

  /** Take over what pages of the same file left behind; the server knows each line by its id. */
  restore() {
    try {
      const kept = JSON.parse(localStorage.getItem(this.key) ?? "[]");
      const known = new Set(this.lines.map((line) => line.id));
      this.lines = [...kept.filter((line) => !known.has(line.id)), ...this.lines];
    } catch {
      /* a browser without storage */
    }
  }

  add(line) {
    this.lines.push(line);
    this.keep();
  }

  confirm(ids) {
    const done = new Set(ids);
    this.lines = this.lines.filter((line) => !done.has(line.id));
    this.keep(done);
  }

  /** Write to the browser's storage, beside what other pages have there. */
  keep(done = new Set()) {
    try {
      const mine = new Set(this.lines.map((line) => line.id));
      const others = JSON.parse(localStorage.getItem(this.key) ?? "[]");
      const kept = others.filter((line) => !mine.has(line.id) && !done.has(line.id));
      localStorage.setItem(this.key, JSON.stringify([...kept, ...this.lines]));
    } catch {
      /* they are in this page */
    }
  }
}
