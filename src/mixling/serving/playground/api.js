// Requests to the server that this page came from.

export class ServerGone extends Error {}

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

let key = "";

export const hasKey = () => Boolean(key);

/** Return the address that predictions of a model are asked from. */
export function addressOf(model) {
  return new URL(`v1/models/${encodeURIComponent(model)}/predict`, document.baseURI).href;
}

export function useKey(value) {
  key = value.trim();
}

function sent(path, options) {
  const headers = options.body ? { "Content-Type": "application/json" } : {};
  if (key) headers.Authorization = `Bearer ${key}`;
  return fetch(path, { ...options, headers, cache: "no-store" });
}

/** Return the file that a request is answered with. */
export async function download(path, body) {
  const response = await sent(path, { method: "POST", body });
  if (!response.ok) throw new Refused(response.status, (await response.json()).detail);
  return response.blob();
}

/** Say something while the page is left. */
export function leave(path, body) {
  sent(path, { method: "POST", body, keepalive: true });
}

/** Return the JSON of an answer; raise `ServerGone` or `Refused`. */
export async function ask(path, options = {}) {
  let response;
  try {
    response = await sent(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerGone("The server does not answer.");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  if (response.status === 502 || response.status === 504) throw new ServerGone("The server does not answer.");
  throw new Refused(response.status, answer.detail ?? `The server answered with ${response.status}.`);
}

export async function models() {
  return (await ask("v1/models")).models;
}

/** Return the predictions of a request. */
export async function predict(model, request, signal) {
  return (await ask(addressOf(model), { method: "POST", body: JSON.stringify(request), signal })).predictions;
}
