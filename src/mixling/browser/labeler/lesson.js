// Trains a model on what has been labeled, tests it, and chooses what to label next: mixling/labeling/learner.py with
// n-grams alone, and mixling/audit/suggestions.py.

import { Mixling } from "../package/index.js";
import { train } from "../trainer/train.js";

const CHOSEN = 60;
const CANDIDATES = 10; // times as many of the most uncertain texts as are chosen
const OLDER = 2 / 3; // of the answers; a model of as many is compared with

const earlier = []; // of each model the number of its labels, and its answers to the same texts

const labelOf = (probabilities) => Object.entries(probabilities).reduce((best, one) => (one[1] > best[1] ? one : best))[0];
const count = (items, isCounted) => items.reduce((sum, item) => sum + isCounted(item), 0);

/** Return the numbers of the texts that teach most: uncertain ones, apart from each other. */
function spread(answers) {
  const points = answers.map((own) => Object.values(own).map(Math.sqrt));
  const sure = answers.map((own) => {
    const [first, second] = Object.values(own).sort((a, b) => b - a);
    return first - second;
  });
  const open = [...sure.keys()].sort((a, b) => sure[a] - sure[b]).slice(0, CANDIDATES * CHOSEN);
  const distances = new Map(open.map((i) => [i, 1]));
  const chosen = [];
  while (distances.size && chosen.length < CHOSEN) {
    const best = [...distances].reduce((top, [i, distance]) => ((1 - sure[i]) * distance > top[1] ? [i, (1 - sure[i]) * distance] : top), [-1, -1])[0];
    chosen.push(best);
    distances.delete(best);
    for (const [i, distance] of distances) {
      const square = points[i].reduce((sum, value, c) => sum + (value - points[best][c]) ** 2, 0);
      distances.set(i, Math.min(distance, Math.sqrt(square / 2)));
    }
  }
  return chosen;
}

/**
 * Return what was learned.
 *
 * @param {{said: {text: string, label: string}[], tests: {text: string, label: string}[], pool: string[], guessed: string[], stopSet: string[]}} lesson
 * @param given as `train` takes it
 */
export async function learn({ said, tests, pool, guessed, stopSet }, given) {
  const { content } = await train(said, { ...given, lesson: true });
  const model = await Mixling.load(content, { wasm: given.wasm });
  const answers = (texts) => texts.map((text) => model.predict(text).probabilities);
  const counts = new Map();
  for (const { label } of said) counts.set(label, (counts.get(label) ?? 0) + 1);
  const most = [...counts].reduce((top, one) => (one[1] > top[1] ? one : top))[0];
  const found = answers(tests.map(({ text }) => text)).map(labelOf);
  const right = count(tests.map(({ label }, i) => label === found[i]), Number);
  const baseline = count(tests, ({ label }) => Number(label === most));
  // Doubts of a model teach as far as it is better than the baseline; with one right and one wrong answer more.
  const skill = Math.max(0, (right - baseline + 1) / (tests.length - baseline + 2));
  const ofPool = answers(pool);
  const best = spread(ofPool);
  const doubted = new Set(best.slice(0, Math.ceil(best.length * skill)));
  const others = [...pool.keys()].filter((i) => !doubted.has(i));
  const steps = best.map((_, i) => Math.ceil((i + 1) * skill) > Math.ceil(i * skill));
  const chosen = steps.map((isDoubt, i) => (isDoubt ? best[Math.ceil(i * skill)] : others.shift()));
  const now = answers(stopSet).map(labelOf);
  const older = earlier.findLast(({ labels }) => labels <= OLDER * said.length);
  const changed = older ? count([...now.keys()], (i) => Number(now[i] !== older.answers[i])) / now.length : null;
  earlier.push({ labels: said.length, answers: now });
  const guesses = [...ofPool, ...answers(guessed)].map(labelOf);
  model.close();
  return { labels: said.length, right, of: tests.length, baseline, chosen, guesses, changed, since: older?.labels ?? 0 };
}
