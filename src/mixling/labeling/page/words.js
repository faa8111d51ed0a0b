// A text whose words are selected by dragging, tapping or arrow keys, and spans of them that have labels.

import { element } from "../playground/render.js";

export class Words {
  /** `pieces`: what is before the first word, the word, what is before the next, ...; `change` is called after each. */
  constructor(home, pieces, spans, change) {
    this.home = home;
    this.pieces = pieces;
    this.count = (pieces.length - 1) / 2;
    this.spans = spans.map((span) => [...span]);
    this.change = change;
    this.at = 0; // the word of the keyboard
    this.range = null; // first and last selected word
    this.show();
  }

  show() {
    const inside = (word) => this.spans.find(([first, end]) => first <= word && word < end);
    const parts = [];
    let mark = null;
    for (let word = 0; word < this.count; word += 1) {
      const span = inside(word);
      const starts = span && span[0] === word;
      const before = this.pieces[2 * word];
      (mark && !starts && span ? mark : { append: (item) => parts.push(item) }).append(before);
      if (starts) parts.push((mark = element("mark", { title: `${span[2]}: press Delete to remove` })));
      const classes = ["word"];
      if (this.range && this.range[0] <= word && word <= this.range[1]) classes.push("chosen");
      if (word === this.at) classes.push("at");
      const shown = element("span", { className: classes.join(" "), dataset: { word } }, this.pieces[2 * word + 1]);
      if (span) {
        mark.append(shown);
        if (word === span[1] - 1) {
          mark.append(element("small", { dir: "auto" }, span[2]));
          mark = null;
        }
      } else parts.push(shown);
    }
    parts.push(this.pieces[2 * this.count]);
    this.home.replaceChildren(element("p", { className: "words" }, ...parts));
    this.change?.();
  }

  wordOf(event) {
    const found = document.elementFromPoint(event.clientX, event.clientY)?.closest?.("[data-word]");
    return found ? Number(found.dataset.word) : null;
  }

  press(event) {
    const word = this.wordOf(event);
    if (word === null) return;
    if (event.pointerType === "touch") return this.tap(word); // dragging scrolls
    event.preventDefault();
    this.home.focus();
    this.from = this.at = word;
    this.range = [word, word];
    this.show();
  }

  drag(event) {
    if (this.from === undefined) return;
    const word = this.wordOf(event);
    if (word === null || word === this.at) return;
    this.at = word;
    this.range = [Math.min(this.from, word), Math.max(this.from, word)];
    this.show();
  }

  release() {
    this.from = undefined;
  }

  /** The first tap selects a word, the second one all words up to it. */
  tap(word) {
    const single = this.range && this.range[0] === this.range[1] && this.range[0] !== word;
    this.range = single ? [Math.min(this.range[0], word), Math.max(this.range[0], word)] : [word, word];
    this.at = word;
    this.show();
  }

  /** Return whether a key was one for the words. */
  key(event) {
    const forward = getComputedStyle(this.home).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const steps = { [forward]: 1, [forward === "ArrowLeft" ? "ArrowRight" : "ArrowLeft"]: -1 };
    if (event.key in steps) {
      const anchor = this.anchor ?? this.at;
      this.at = Math.max(0, Math.min(this.count - 1, this.at + steps[event.key]));
      this.anchor = event.shiftKey ? anchor : undefined;
      this.range = event.shiftKey ? [Math.min(anchor, this.at), Math.max(anchor, this.at)] : null;
    } else if (event.key === "Delete") {
      const [first, last] = this.range ?? [this.at, this.at];
      this.spans = this.spans.filter(([from, end]) => end <= first || from > last);
    } else return false;
    this.show();
    this.home.querySelector(".at")?.scrollIntoView({ block: "nearest" });
    return true;
  }

  /** Give the selected words, or the one at the cursor, a label; spans that overlap are replaced. */
  give(label) {
    const [first, last] = this.range ?? [this.at, this.at];
    this.spans = this.spans.filter(([from, end]) => end <= first || from > last);
    this.spans.push([first, last + 1, label]);
    this.spans.sort((a, b) => a[0] - b[0]);
    this.range = null;
    this.anchor = undefined;
    this.at = Math.min(last + 1, this.count - 1);
    this.show();
  }
}
