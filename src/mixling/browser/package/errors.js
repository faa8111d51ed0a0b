// Errors, which have the names and messages that they have in Python.

/** The base class of all errors that mixling raises on purpose. */
export class MixlingError extends Error {
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

/** There is no valid model in a file, or the file could not be fetched. */
export class ModelFileError extends MixlingError {}

/** A sound model with parts that this package does not compute; `mixling serve` answers with it. */
export class UnsupportedModelError extends ModelFileError {}

/** An input is not a text, or not of the kind that the model was trained on. */
export class DataError extends MixlingError {}

/** A label or option that does not exist. */
export class ConfigError extends MixlingError {}

const KINDS = { MixlingError, ModelFileError, UnsupportedModelError, DataError, ConfigError };

/** Return the error that a worker reported by its name and message. */
export function errorOf({ name, message }) {
  return Object.hasOwn(KINDS, name) ? new KINDS[name](message) : Object.assign(new Error(message), { name });
}
