// What the page of labeling asks of a server, answered by the page around it, which keeps the answers.

import { element } from "../playground/render.js";

export class ServerGone extends Error {}

export class Refused extends Error {}

const { session, save, train } = parent.mixling;
const METHODS = {
  "api/work": (asked) => session.work(asked),
  "api/list": ({ kind }) => ({ texts: session.list(kind) }),
};

export const useKey = () => {};
export const leave = () => {};

export async function ask(path, { body }) {
  return METHODS[path](JSON.parse(body));
}

export async function download(path, body) {
  return new Blob([session.exported(JSON.parse(body).format)]);
}

for (const kind of ["disagreements", "contradicted"]) document.querySelector(`#list [value=${kind}]`).remove(); // nobody else answers
const buttons = [["Save the project", save], ["Train a model", train]].map(([name, action]) => {
  const made = element("button", { type: "button" }, name);
  made.addEventListener("click", action);
  return element("p", {}, made);
});
document.querySelector("aside").prepend(element("h2", {}, "Project"), ...buttons);
document.getElementById("export").textContent = "The rows that have labels. The project has all rows, answers and notes: drop it here to go on.";
