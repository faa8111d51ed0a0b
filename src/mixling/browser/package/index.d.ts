// Types of mixling. Offsets count characters (code points, as in Python), end exclusive: use `Array.from(text)`.

/** A text; of a model of pairs, two; of a model of named texts, each by its name (`texts`); of a model that answers questions, a question with the text to answer it from. */
export type Input =
  | string
  | { first: string; second: string; columns?: Columns }
  | { [text: string]: string }
  | ({ columns: Columns } & { [text: string]: string | Columns })
  | { text: string; columns: Columns }
  | { question: string; context: string };

/** The columns beside the text of a model that has such, by name; null where one is missing. */
export type Columns = Record<string, string | number | boolean | Date | null>;

/** The address of a file or its content; in node also a path. */
export type Source = string | URL | ArrayBuffer | ArrayBufferView;

export interface Span {
  label: string;
  start: number;
  end: number;
  /** The mean probability of the span's tags. */
  score: number;
}

/** The fields of the model's task, as `mixling predict` writes them in JSON. */
export interface Prediction {
  /** Characters beyond the first million, or the end of a very long word, were left out. */
  truncated: boolean;
  /** There, and true, where the text has no words. */
  empty?: boolean;
  /** classification: the answer; of labels with levels it may be a part of several, such as "card" of "card > lost". */
  label?: string;
  /** classification, of a model that abstains: whether the label is too uncertain. */
  abstained?: boolean;
  /** classification, of a model with conformal sets: the labels of the set, the most probable first. */
  label_set?: string[];
  /** classification, of labels with levels: the parts of the answer from the top, with their probabilities. */
  path?: Record<string, number>;
  /** multi_label: those whose probability reaches the threshold. */
  labels?: string[];
  /** classification, multi_label */
  probabilities?: Record<string, number>;
  /** regression */
  value?: number;
  /** tagging */
  spans?: Span[];
  tokens?: string[];
  tags?: string[];
  /** question_answering: a part of the context, or "". */
  answer?: string;
  start?: number | null;
  end?: number | null;
  score?: number;
  no_answer?: boolean;
}

export interface WordEffect {
  word: string;
  start: number;
  end: number;
  /** How much the score falls without the word. */
  effect: number;
  /** Of pairs: 0 or 1, the text that has the word. */
  part?: number;
}

export interface ColumnEffect {
  name: string;
  value: string | null;
  /** How much the score falls without the value. */
  effect: number;
}

export interface Explanation {
  /** The label that is explained; absent in regression. */
  target?: string;
  method: "leave_one_out";
  /** The log-odds of the label, or the predicted number. */
  score: number;
  /** The score of the text without words. */
  base: number;
  probability?: number;
  words: WordEffect[];
  /** Of a model with columns beside the text. */
  columns?: ColumnEffect[];
  /** The text is longer than the model reads at a time, and its end is not explained. */
  truncated: boolean;
}

export interface Options {
  /** mixling.wasm, which else lies beside index.js. */
  wasm?: Source | WebAssembly.Module;
  /** About the memory for the vectors of words that were met; 16 MiB. */
  cacheBytes?: number;
}

interface About {
  readonly task: "classification" | "multi_label" | "regression" | "tagging" | "question_answering";
  readonly labels: string[];
  /** The names of the columns beside each text; most models have none. */
  readonly columns: string[];
  /** Whether inputs are pairs; null where the file does not state it. */
  readonly pairs: boolean | null;
  /** Free the model. */
  close(): void;
}

/** A model. Methods throw a `DataError` for an input that is not of the model's kind. */
export class Mixling implements About {
  private constructor();
  /** Load a model; throws a `ModelFileError`, or an `UnsupportedModelError` for one that needs ONNX Runtime. */
  static load(source: Source, options?: Options): Promise<Mixling>;
  /** Load a model in a worker; browsers only. */
  static loadInWorker(source: Source, options?: Options): Promise<WorkerModel>;
  readonly task: About["task"];
  readonly labels: string[];
  readonly columns: string[];
  readonly pairs: boolean | null;
  predict(input: Input): Prediction;
  predict(inputs: Input[]): Prediction[];
  /** The raw scores of the labels; not of taggers and of models that answer questions. */
  logits(input: Input): number[];
  /** The words that the model reads at a time, from the first one on. */
  words(text: string): { start: number; end: number }[];
  /** The effect of each word on the most probable label, or on `target`; not of taggers and answers. */
  explain(input: Input, options?: { target?: string }): Explanation;
  close(): void;
}

/** A model in a worker of the browser. */
export interface WorkerModel extends About {
  predict(input: Input): Promise<Prediction>;
  predict(inputs: Input[]): Promise<Prediction[]>;
  logits(input: Input): Promise<number[]>;
  words(text: string): Promise<{ start: number; end: number }[]>;
  explain(input: Input, options?: { target?: string }): Promise<Explanation>;
}

export class MixlingError extends Error {}
/** There is no valid model in a file, or the file could not be read. */
export class ModelFileError extends MixlingError {}
/** A sound model that this package does not compute. */
export class UnsupportedModelError extends ModelFileError {}
export class DataError extends MixlingError {}
export class ConfigError extends MixlingError {}
