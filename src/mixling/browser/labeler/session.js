// The labeling of a file without a server: its texts, the lines of its record, and what they say together, as
// mixling/labeling has them for one annotator and one label a text.

import { interval } from "../trainer/interval.js";

const TESTS = 5; // one of so many texts tests the models
const [FIRST, FEWEST_NEW, SHARE] = [12, 4, 0.05]; // answers before the first training, and before the next one
const [POOL, GUESSED, STOP_SET] = [3000, 20, 1000]; // texts that a lesson has
const [HISTORY, LISTED] = [50, 200];
const [ENOUGH, SETTLED] = [100, 0.02]; // answers, and changed answers of the model, from which on more help little
const MOST = 200; // characters of a label
const KINDS = { csv: ".csv", jsonl: ".jsonl" };

const valueOf = (line) => (line?.what === "answer" ? line.label : null);
const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

function bounds(right, of) {
  const [low, high] = interval(right, of);
  return { low, high };
}

/** Return the problem of a label. */
function problemOf(label) {
  if (typeof label !== "string" || label.trim() !== label || !label || label.length > MOST) return `got the label ${JSON.stringify(label)}; allowed: 1 to ${MOST} characters, without spaces at the ends`;
  return /[\0\n\r|]/.test(label) ? `got the label ${JSON.stringify(label)}; allowed: without line ends and |` : "";
}

export class Session {
  #learned = 0;
  #asked = [0, 0];
  #chosen = [];
  #guesses = new Map();
  #lesson = { problem: "", changed: null, since: 0, labels: 0 };
  #busy = false;

  /**
   * @param {string} file its name
   * @param {{key: string, row: number, text: string, given: string | null, test: number, order: string}[]} texts
   * @param {object[]} lines of the record
   * @param {(lesson: object) => Promise<object>} learn trains a model, see lesson.js
   * @param {() => void} changed called when there are new lines
   */
  constructor(file, texts, lines, learn, changed) {
    Object.assign(this, { file, lines, learn, changed });
    this.byKey = new Map(texts.map((text) => [text.key, text]));
    const shuffled = texts.toSorted((a, b) => (a.order < b.order ? -1 : 1)).map(({ key }) => key);
    this.tests = shuffled.filter((key) => this.isTest(key));
    this.others = shuffled.filter((key) => !this.isTest(key));
    this.initial = [...new Set(texts.flatMap(({ given }) => given ?? []))];
    this.#replay();
    for (const key of this.last.keys()) this.#asked[Number(this.isTest(key))]++;
    this.#teach();
  }

  isTest(key) {
    return this.byKey.get(key).test === 0;
  }

  /** Find what all lines say together. */
  #replay() {
    this.undone = new Set(this.lines.flatMap(({ what, of }) => (what === "undo" ? of : [])));
    this.ids = new Set(this.lines.map(({ id }) => id));
    this.last = new Map();
    this.notes = new Map();
    this.models = this.lines.filter(({ what }) => what === "model");
    let labels = [...this.initial];
    const renamed = new Map();
    const add = (label) => labels.includes(label) || labels.push(label);
    const called = (label) => {
      while (renamed.has(label)) label = renamed.get(label);
      return label;
    };
    for (const line of this.lines) {
      if (this.undone.has(line.id)) continue;
      if (line.what === "note") this.notes.set(line.text, line.note);
      else if (line.what === "answer") {
        this.last.set(line.text, { ...line, label: called(line.label) });
        add(called(line.label));
      } else if (line.what === "skip" || line.what === "unsure") this.last.set(line.text, line);
      else if (line.what === "add") {
        renamed.delete(line.label);
        add(line.label);
      } else if (line.what === "rename" && called(line.label) !== line.to) {
        const old = called(line.label);
        renamed.delete(line.to);
        renamed.set(old, line.to);
        labels = labels.includes(line.to) ? labels.filter((label) => label !== old) : labels.map((label) => (label === old ? line.to : label));
        for (const [key, said] of this.last) if (said.label === old) this.last.set(key, { ...said, label: line.to });
      }
    }
    this.labels = labels;
    this.called = called;
  }

  /** Return the label of a text: the answer, or what the file says. */
  valueOf(key) {
    const { given } = this.byKey.get(key);
    return valueOf(this.last.get(key)) ?? (given === null ? null : this.called(given));
  }

  /** Return the rows that have labels. */
  values() {
    return [...this.byKey.values()].flatMap(({ key, text, row }) => (this.valueOf(key) === null ? [] : { text, label: this.valueOf(key), line: row }));
  }

  // What the page of labeling asks

  work({ lines, holding, count, text }) {
    const saved = lines.map((line) => ({ id: line.id, ...this.#save(line) }));
    const texts = this.#next(count, holding).map((key) => this.#shown(key));
    if (this.byKey.has(text)) texts.push(this.#shown(text));
    return { saved, texts, state: this.#state() };
  }

  list(kind) {
    if (kind === "notes") return [...this.notes].filter(([, note]) => note).slice(0, LISTED).map(([key]) => this.#listed(key));
    const what = kind === "answered" ? "answer" : "unsure";
    return [...this.last].filter(([, line]) => line.what === what).reverse().slice(0, LISTED).map(([key]) => this.#listed(key));
  }

  exported(format) {
    const rows = this.values();
    if (format === "jsonl") return rows.map(({ text, label }) => `${JSON.stringify({ text, label })}\n`).join("");
    return [["text", "label"], ...rows.map(({ text, label }) => [text, label])].map((cells) => `${cells.map(quoted).join(",")}\r\n`).join("");
  }

  #listed(key) {
    const value = valueOf(this.last.get(key));
    return { ...this.#shown(key), answers: value === null ? {} : { "": value } };
  }

  #shown(key) {
    const { row, text, given } = this.byKey.get(key);
    return { key, row, text, test: this.isTest(key), given, last: this.last.get(key) ?? null, note: this.notes.get(key) ?? "", guess: this.#guesses.get(key) ?? null };
  }

  #save({ seen, ...line }) {
    const labels = [line.label, line.to].filter((label) => label !== undefined);
    const refused = labels.map(problemOf).find(Boolean) ?? (line.text !== undefined && !this.byKey.has(line.text) ? "the file has no such text" : "");
    if (refused || this.ids.has(line.id)) return refused ? { refused } : {};
    const row = line.text === undefined ? {} : { row: this.byKey.get(line.text).row };
    if (!this.lines.length) this.lines.push({ what: "task", task: "classification" });
    this.lines.push({ ...line, ...row, annotator: "" });
    this.#replay();
    this.#teach();
    this.changed();
    return {};
  }

  #next(count, holding) {
    const held = new Set(holding);
    const isOpen = (key) => !held.has(key) && !this.last.has(key) && this.byKey.get(key).given === null;
    const isSkipped = (key) => !held.has(key) && this.last.get(key)?.what === "skip";
    const out = [];
    while (out.length < count) {
      const isDue = this.#asked[1] * TESTS <= this.#asked[0] + this.#asked[1];
      const others = [...this.#chosen, ...this.others];
      const all = isDue ? [this.tests, others] : [others, this.tests];
      const key = all[0].find(isOpen) ?? all[1].find(isOpen) ?? this.tests.find(isSkipped) ?? this.others.find(isSkipped);
      if (key === undefined) break;
      held.add(key);
      this.#asked[Number(this.isTest(key))]++;
      out.push(key);
    }
    return out;
  }

  #bias() {
    const counts = { guess: [0, 0], hidden_guess: [0, 0] };
    for (const line of this.lines.filter(({ what, id, text }) => what === "answer" && !this.undone.has(id) && this.isTest(text))) {
      for (const [name, count] of Object.entries(counts).filter(([name]) => name in line)) {
        count[0] += Number(line[name] === line.label);
        count[1] += 1;
      }
    }
    return counts;
  }

  #state() {
    const counts = new Map();
    for (const { label } of this.values()) counts.set(label, (counts.get(label) ?? 0) + 1);
    const { problem, changed, since, labels } = this.#lesson;
    return {
      file: this.file,
      kept: "Kept in this page",
      bias: this.#bias(),
      task: "classification",
      labels: this.labels.map((name) => ({ name, count: counts.get(name) ?? 0 })),
      texts: this.byKey.size,
      given: [...this.byKey.values()].filter(({ given }) => given !== null).length,
      answered: this.#answers(),
      points: this.models.map(({ labels, right, of, baseline }) => ({ labels, right, of, baseline, ...bounds(right, of) })),
      training: this.#busy,
      reviewing: false,
      problem,
      changed,
      since,
      learned: labels,
      settled: labels >= ENOUGH && changed !== null && changed <= SETTLED,
      agreement: null,
      exports: Object.entries(KINDS).map(([name, suffix]) => ({ name, suffix })),
      history: this.lines.filter(({ id, what }) => id !== undefined && what !== "undo" && !this.undone.has(id)).slice(-HISTORY).reverse(),
      annotator: "",
    };
  }

  #answers() {
    return [...this.last.values()].filter(({ what }) => what === "answer").length;
  }

  // The model

  /** Train a model if there are enough new answers. */
  async #teach() {
    const known = this.values().length;
    if (this.#busy || known < Math.max(FIRST, this.#learned + Math.max(FEWEST_NEW, Math.round(SHARE * this.#learned)))) return;
    const keys = [...this.byKey.keys()].filter((key) => this.valueOf(key) !== null);
    const isTested = (key) => this.isTest(key) && this.byKey.get(key).given === null;
    const rows = (chosen) => chosen.map((key) => ({ text: this.byKey.get(key).text, label: this.valueOf(key) }));
    const said = rows(keys.filter((key) => !isTested(key)));
    if (said.length < FIRST / 2 || new Set(said.map(({ label }) => label)).size < 2) return;
    const pool = this.others.filter((key) => this.valueOf(key) === null).slice(0, POOL);
    const guessed = this.tests.filter((key) => this.valueOf(key) === null).slice(0, GUESSED);
    const all = [...this.byKey.values()];
    const step = Math.max(1, Math.floor(all.length / STOP_SET));
    const texts = (chosen) => chosen.map((key) => this.byKey.get(key).text);
    this.#busy = true;
    this.#learned = known;
    try {
      const found = await this.learn({ said, tests: rows(keys.filter(isTested)), pool: texts(pool), guessed: texts(guessed), stopSet: all.filter((_, i) => i % step === 0).map(({ text }) => text) });
      this.#chosen = found.chosen.map((index) => pool[index]);
      this.#guesses = new Map([...pool, ...guessed].map((key, i) => [key, found.guesses[i]]));
      this.#lesson = { ...found, problem: "" };
      const { labels, right, of, baseline } = found;
      this.lines.push({ what: "model", labels, right, of, baseline });
      this.#replay();
    } catch (error) {
      this.#lesson = { ...this.#lesson, problem: error.message };
    }
    this.#busy = false;
    this.#teach();
  }
}
