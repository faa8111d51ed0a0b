// Answers as elements. Texts are set as text only, never as HTML; offsets count code points, as in Python.

const SHOWN_LABELS = 10;
const SHORT = 3; // words

export function element(name, properties = {}, ...children) {
  const { className, dataset, ...rest } = properties;
  const made = document.createElement(name);
  if (className) made.className = className;
  Object.assign(made.dataset, dataset);
  Object.assign(made, rest);
  made.append(...children);
  return made;
}

const percent = (value) => `${(100 * value).toFixed(1)}%`;

/** Return the content of one model's answer to what was typed. */
export function answerOf(prediction, { text, other, further = [] }) {
  const parts = [];
  if (prediction.stopped !== undefined) return generated(prediction);
  if (prediction.label !== undefined) parts.push(headline(`${prediction.abstained ? "not sure, perhaps " : ""}${prediction.label}`, (prediction.path ?? prediction.probabilities)?.[prediction.label]));
  if (prediction.label_set) parts.push(note(`Conformal set: ${prediction.label_set.join(", ") || "no label"}`));
  if (prediction.labels) parts.push(headline(prediction.labels.join(", ") || "no label"));
  if (prediction.value !== undefined) parts.push(element("p", { className: "answer", dataset: { value: prediction.value } }, number(prediction.value)));
  if (prediction.answer !== undefined) parts.push(...found(prediction, other));
  if (prediction.spans) parts.push(...spans(prediction.spans, text));
  if (prediction.probabilities) parts.push(table(prediction.probabilities));
  if (prediction.explanation) parts.push(...words(prediction.explanation, [text, other, ...further]));
  if (prediction.abstained) {
    const short = text.trim().split(/\s+/).length < SHORT;
    parts.push(note(`The model abstains: ${short ? "too short to tell" : "the label is too uncertain"}.`));
  }
  if (prediction.empty) parts.push(note("The text has no words, so the answer depends on the model alone."));
  if (prediction.truncated) parts.push(note("The text is longer than the model reads; its end was ignored."));
  return parts;
}

/** Return an answer in one line. */
export function summaryOf(prediction) {
  const { label, labels, value, spans, answer } = prediction;
  const probability = (prediction.path ?? prediction.probabilities)?.[label];
  if (label !== undefined) return `${label}${probability === undefined ? "" : ` ${percent(probability)}`}${prediction.abstained ? ", not sure" : ""}`;
  if (labels) return labels.join(", ") || "no label";
  if (value !== undefined) return number(value);
  if (spans) return spans.map((span) => span.label).join(", ") || "no spans";
  return answer || "(an empty text)";
}

function generated({ answer, stopped }) {
  const shown = element("p", { className: "answer", dir: "auto" }, answer || "(an empty text)");
  return stopped ? [shown] : [shown, note("The text was cut at the maximum length.")];
}

function note(text) {
  return element("p", { className: "note" }, text);
}

function number(value) {
  return String(Number(value.toPrecision(6)));
}

function headline(label, probability) {
  const line = element("p", { className: "answer" }, label);
  if (probability !== undefined) line.append(` ${percent(probability)}`);
  return line;
}

function table(probabilities) {
  const entries = Object.entries(probabilities).sort((a, b) => b[1] - a[1]);
  const body = element("tbody");
  for (const [label, value] of entries.slice(0, SHOWN_LABELS)) {
    const bar = element("progress", { max: 1, value, ariaLabel: `probability of ${label}` });
    const cell = element("td", {}, element("data", { value: String(value) }, percent(value)));
    body.append(element("tr", {}, element("th", { scope: "row", dir: "auto" }, label), element("td", {}, bar), cell));
  }
  const caption = entries.length > SHOWN_LABELS ? `The first ${SHOWN_LABELS} of ${entries.length} labels` : "Probabilities";
  return element("div", {}, element("h3", {}, caption), element("table", { ariaLabel: caption }, body));
}

/** Return a text with the pieces that begin and end at given code points made by `wrap`. */
function pieces(text, ranges, wrap) {
  const characters = Array.from(text);
  const shown = element("p", { className: "text", dir: "auto", tabIndex: 0, role: "group", ariaLabel: "The text" });
  let at = 0;
  for (const range of ranges) {
    shown.append(characters.slice(at, range.start).join(""), wrap(range, characters.slice(range.start, range.end).join("")));
    at = range.end;
  }
  shown.append(characters.slice(at).join(""));
  return shown;
}

function spans(list, text) {
  const wrap = (span, inner) =>
    element("mark", { dataset: { label: span.label }, title: percent(span.score) }, element("bdi", {}, inner), element("small", {}, span.label));
  return [element("h3", {}, list.length ? "Spans" : "No spans"), pieces(text, list, wrap)];
}

function found(prediction, context) {
  if (prediction.no_answer) return [headline("no answer", prediction.score)];
  const shown = pieces(context, [prediction], (_, inner) => element("mark", {}, inner));
  // In a long context the answer may be below the edge.
  queueMicrotask(() => {
    const mark = shown.querySelector("mark");
    shown.scrollTop = mark.offsetTop - shown.offsetTop - shown.clientHeight / 3;
  });
  return [headline(prediction.answer, prediction.score), element("h3", {}, "In the context"), shown];
}

function words(explanation, texts) {
  const largest = Math.max(...explanation.words.map((word) => Math.abs(word.effect)), 1e-9);
  const wrap = (word, inner) => {
    const direction = word.effect < 0 ? "against" : "for";
    const made = element("span", { className: `word ${direction}`, title: `${direction}: ${word.effect.toFixed(3)}`, dataset: { effect: word.effect } }, inner);
    made.style.setProperty("--strength", `${Math.round((100 * Math.abs(word.effect)) / largest)}%`);
    return made;
  };
  const of = explanation.word === undefined ? "" : ` of “${explanation.words[explanation.word].word}”`;
  const target = explanation.target === undefined ? "the value" : `“${explanation.target}”${of}`;
  const shown = texts.map((_, part) => [part, explanation.words.filter((word) => (word.part ?? 0) === part)]);
  return [
    element("h3", {}, `Words for ${target} (solid) and against (dotted)`),
    ...shown.filter(([, list]) => list.length).map(([part, list]) => pieces(texts[part], list, wrap)),
    ...effects(explanation.columns ?? []),
  ];
}

/** Return the effects of columns. */
function effects(columns) {
  if (!columns.length) return [];
  const body = element("tbody");
  for (const { name, value, effect } of columns) {
    const cell = element("td", {}, element("data", { value: String(effect) }, effect.toFixed(3)));
    body.append(element("tr", {}, element("th", { scope: "row", dir: "auto" }, `${name}: ${value ?? "missing"}`), cell));
  }
  return [element("h3", {}, "Columns for (+) and against (-)"), element("table", { ariaLabel: "Effects of columns" }, body)];
}
