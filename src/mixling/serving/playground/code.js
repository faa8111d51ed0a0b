// What was typed as a link to this page, and as code that asks the server for the same answer.

const MAX_LINK = 4000; // characters; longer addresses are cut by some programs

/** Return the fragment of a link, which browsers send to no server; "" if what was typed is too long. */
export function fragmentOf(typed) {
  const found = new URLSearchParams(Object.entries(typed).filter(([, value]) => value));
  return `${found}`.length > MAX_LINK ? "" : `#${found}`;
}

/** Return what a fragment has. */
export function typedOf(fragment) {
  return Object.fromEntries(new URLSearchParams(fragment.replace(/^#/, "")));
}

/** Return the code of a request in the languages by their names; a server with keys wants one in place of KEY. */
export function codeOf(address, request, hasKey) {
  const body = JSON.stringify(request);
  const key = hasKey ? { Authorization: "Bearer KEY" } : {};
  const headers = { "Content-Type": "application/json", ...key };
  const quoted = `'${body.replaceAll("'", "'\\''")}'`;
  const options = Object.entries(headers).map(([name, value]) => ` \\\n  -H '${name}: ${value}'`).join("");
  return {
    curl: `curl '${address}'${options} \\\n  -d ${quoted}`,
    Python: [
      "import json, urllib.request",
      "",
      `body = ${JSON.stringify(body)}`,
      `headers = ${JSON.stringify(headers)}`,
      `request = urllib.request.Request(${JSON.stringify(address)}, body.encode(), headers)`,
      "with urllib.request.urlopen(request) as response:",
      '    print(json.load(response)["predictions"][0])',
    ].join("\n"),
    JavaScript: [
      `const response = await fetch(${JSON.stringify(address)}, {`,
      '  method: "POST",',
      `  headers: ${JSON.stringify(headers)},`,
      `  body: JSON.stringify(${body}),`,
      "});",
      "console.log((await response.json()).predictions[0]);",
    ].join("\n"),
  };
}
