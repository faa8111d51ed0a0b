// The accuracy on the random texts: a sentence, and a curve with its interval beside the most frequent label.

const SVG = "http://www.w3.org/2000/svg";
const [LEFT, RIGHT, TOP, BOTTOM] = [34, 312, 8, 128];

const percent = (value) => `${Math.round(100 * value)}%`;

function add(home, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  home.append(made);
}

export function drawModel(state, sentence, svg, settled) {
  const points = state.points.filter(({ of }) => of > 0);
  const last = points.at(-1);
  const now = state.training ? " Learning…" : "";
  settled.textContent = advice(state);
  svg.toggleAttribute("hidden", !last);
  if (!last) {
    const learned = state.points.length ? "It has learned; random texts will show how good it is." : "Learns after a dozen answers with different labels.";
    sentence.textContent = (state.problem ? `No model: ${state.problem}` : learned) + now;
    return;
  }
  const said = `${percent(last.right / last.of)} of ${last.of} random texts right (95% interval ${percent(last.low)} to ${percent(last.high)}), after ${last.labels} labels; the most frequent label alone: ${percent(last.baseline / last.of)}.`;
  sentence.textContent = said + (state.problem ? ` No newer model: ${state.problem}.` : "") + now;
  const most = Math.max(...points.map(({ labels }) => labels), 1);
  const x = (labels) => LEFT + ((RIGHT - LEFT) * labels) / most;
  const y = (rate) => BOTTOM - (BOTTOM - TOP) * rate;
  const place = (rate) => (point) => `${x(point.labels).toFixed(1)},${y(rate(point)).toFixed(1)}`;
  svg.replaceChildren();
  svg.setAttribute("aria-label", `Curve of accuracy: ${said}`);
  for (const rate of [0, 0.5, 1]) add(svg, "text", { x: 2, y: y(rate) + 4 }, percent(rate));
  add(svg, "text", { x: LEFT, y: 145 }, "0");
  add(svg, "text", { x: RIGHT, y: 145, "text-anchor": "end" }, `${most} labels`);
  const high = points.map(place(({ high }) => high));
  const low = points.map(place(({ low }) => low)).reverse();
  add(svg, "polygon", { class: "range", points: [...high, ...low].join(" ") });
  const base = y(last.baseline / last.of);
  add(svg, "line", { class: "base", x1: LEFT, x2: RIGHT, y1: base, y2: base });
  add(svg, "polyline", { class: "line", points: points.map(place(({ right, of }) => right / of)).join(" ") });
}

/** Say how often answers to random texts equal the model's guess, each as [equal, all], with it shown and without. */
export function biasOf({ guess, hidden_guess: hidden }) {
  if (!guess[1] || !hidden[1]) return "";
  const share = ([equal, all]) => `${percent(equal / all)} of ${all}`;
  return `Answers equal the guess in ${share(guess)} random texts where it was shown, and in ${share(hidden)} where it was not.`;
}

function advice({ changed, since, learned, settled }) {
  if (changed === null) return "";
  const share = `The last ${learned - since} labels changed ${(100 * changed).toFixed(1)}% of the model's answers`;
  return settled ? `${share}: more labels will not help much.` : `${share}.`;
}
