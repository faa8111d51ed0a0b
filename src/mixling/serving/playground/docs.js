// The routes of the server, from its OpenAPI document. Texts are set as text only, never as HTML.

import { ask, Refused, useKey } from "./api.js";
import { codeOf } from "./code.js";
import { element } from "./render.js";

const by = (id) => document.getElementById(id);

function code(text, label) {
  return element("pre", { tabIndex: 0, role: "group", ariaLabel: label }, text);
}

/** Return the type of a schema in a few words. */
function typeOf(schema) {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((item) => JSON.stringify(item)).join(" or ");
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return [...new Set(several.map(typeOf))].join(" or ");
  if (schema.type === "array") {
    if (schema.prefixItems) return `list: ${schema.prefixItems.map(typeOf).join(", ")}`;
    return schema.items ? `list: ${typeOf(schema.items)}` : "list";
  }
  const limits = [
    ["from ", schema.minimum],
    ["up to ", schema.maximum],
  ].filter(([, value]) => value !== undefined);
  if (schema.maxLength) return `string of up to ${schema.maxLength} characters`;
  const name = Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "anything");
  return [name, ...limits.map(([word, value]) => word + value)].join(", ");
}

function fields(schema, caption) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, value]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("code", {}, name), (schema.required ?? []).includes(name) ? " (needed)" : ""),
      element("td", {}, [typeOf(value), value.description].filter(Boolean).join(": ")),
    ),
  );
  return rows.length ? [element("h3", {}, caption), element("table", {}, element("tbody", {}, ...rows))] : [];
}

/** Return a request with an example of each needed field. */
function exampleOf(schema) {
  if (schema.examples?.length) return schema.examples[0];
  const sample = (value) => {
    if (value.examples?.length) return value.examples[0];
    const first = (value.anyOf ?? value.oneOf ?? [value])[0];
    if (first.type === "array") return first.prefixItems ? first.prefixItems.map(sample) : [sample(first.items ?? {})];
    if (first.type === "object") return exampleOf(first);
    return { string: "a text", number: 0.5, integer: 1, boolean: true }[first.type] ?? null;
  };
  const names = schema.required ?? [];
  return Object.fromEntries(names.map((name) => [name, sample(schema.properties[name])]));
}

function route(path, method, operation) {
  const parts = [element("h2", {}, element("code", {}, `${method.toUpperCase()} ${path}`)), element("p", {}, operation.summary)];
  const body = operation.requestBody?.content["application/json"].schema;
  if (body) {
    const address = new URL(path.replace(/^\//, ""), document.baseURI).href;
    const has = Boolean(operation.security?.length);
    parts.push(...fields(body, "Request"), code(codeOf(address, exampleOf(body), has).curl, "An example with curl"));
  }
  const answer = operation.responses["200"].content["application/json"]?.schema ?? {};
  parts.push(...fields(answer, "Answer"));
  const inner = answer.properties?.predictions?.items;
  if (inner) parts.push(...fields(inner, "Each prediction"));
  const errors = Object.entries(operation.responses).filter(([status]) => status !== "200");
  const listed = errors.map(([status, { description }]) => element("li", {}, element("code", {}, status), ` ${description}`));
  if (listed.length) {
    parts.push(element("details", {}, element("summary", {}, "Errors"), element("ul", {}, ...listed)));
  }
  return element("article", {}, ...parts);
}

async function start() {
  try {
    const described = await ask("openapi.json");
    const routes = Object.entries(described.paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => route(path, method, operation)),
    );
    by("routes").replaceChildren(...routes);
    by("status").textContent = `${described.info.title} ${described.info.version}`;
    by("key-row").hidden = true;
  } catch (error) {
    if (error instanceof Refused && error.status === 401) by("key-row").hidden = false;
    by("status").textContent = error.message;
  }
}

by("key-row").addEventListener("submit", (event) => event.preventDefault());
by("key").addEventListener("change", (event) => {
  useKey(event.target.value);
  start();
});
await start();
