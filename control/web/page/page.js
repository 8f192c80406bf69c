// Draws /openapi.json. Texts become text nodes only, so that no name can become markup.
"use strict";

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// A paragraph or cell whose parts in `backticks` are code.
function sentences(name, text) {
  const made = element(name);
  text.split("`").forEach((part, index) => made.append(index % 2 ? element("code", part) : part));
  return made;
}

// A type; one that has a section of its own is a link to it.
function typeLink(schema, all) {
  const code = element("code", typeOf(schema, all));
  const target = (schema.type === "array" ? schema.items : schema).$ref;
  if (!target) return code;
  const link = element("a", undefined, { href: "#type-" + target.split("/").pop() });
  link.append(code);
  return link;
}

function resolved(schema, all) {
  return schema && schema.$ref ? all[schema.$ref.split("/").pop()] : schema || {};
}

function typeOf(schema, all) {
  if (schema.$ref) {
    const target = resolved(schema, all);
    return target.enum ? typeOf(target, all) : schema.$ref.split("/").pop();
  }
  if (schema.enum) return schema.enum.length > 8 ? "a name of " + schema.enum.length : schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map((each) => typeOf(each, all)).join(" | ");
  if (schema.type === "array") return schema.items ? typeOf(schema.items, all) + "[]" : "array";
  return schema.type || "any";
}

function limits(schema) {
  const parts = [];
  if (schema.minimum !== undefined) parts.push("from " + schema.minimum);
  if (schema.maximum !== undefined) parts.push("to " + schema.maximum);
  const standard = JSON.stringify(schema.default);
  if (standard !== undefined && !["null", '""', "[]"].includes(standard)) parts.push("default " + standard);
  return parts.length ? "(" + parts.join(", ") + ")" : "";
}

function quoted(text) {
  return "'" + text.replaceAll("'", "'\\''") + "'";
}

function curlLine(method, path, operation) {
  const url = location.origin + path;
  if (method === "post") {
    const example = operation.requestBody.content["application/json"].example;
    return "curl --json " + quoted(JSON.stringify(example)) + " " + url;
  }
  const parts = (operation.parameters || [])
    .filter((each) => each.example !== undefined)
    .map((each) => "--data-urlencode " + quoted(each.name + "=" + each.example));
  const waits = streams(operation) ? ["--no-buffer"] : [];
  return ["curl", ...waits, ...(parts.length ? ["--get"] : []), ...parts, url].join(" ");
}

function streams(operation) {
  return "text/event-stream" in operation.responses["200"].content;
}

function fieldTable(fields, all) {
  const table = element("table");
  const head = table.appendChild(element("thead")).appendChild(element("tr"));
  for (const title of ["Name", "Type", "Meaning"]) head.append(element("th", title, { scope: "col" }));
  const body = table.appendChild(element("tbody"));
  for (const [name, schema, required] of fields) {
    const row = body.appendChild(element("tr"));
    row.appendChild(element("td")).append(element("code", name));
    row.append(element("td", typeOf(schema, all) + (required ? ", required" : "")));
    row.append(sentences("td", [schema.description, limits(schema)].filter(Boolean).join(" ")));
  }
  return table;
}

function inputFields(operation, all) {
  if (operation.requestBody) {
    const schema = resolved(operation.requestBody.content["application/json"].schema, all);
    const required = new Set(schema.required || []);
    return Object.entries(schema.properties || {}).map(([name, each]) => [name, each, required.has(name)]);
  }
  return (operation.parameters || []).map((each) => [each.name, each.schema, each.required]);
}

function drawEndpoint(path, method, operation, all) {
  const section = element("section", undefined, { id: operation.operationId });
  const title = section.appendChild(element("h3"));
  title.append(element("span", method.toUpperCase(), { class: "method" }), " " + path);
  section.append(sentences("p", operation.description));
  const fields = inputFields(operation, all);
  if (fields.length) section.append(fieldTable(fields, all));
  section.append(element("pre", curlLine(method, path, operation)));
  const answer = Object.values(operation.responses["200"].content)[0].schema;
  const line = section.appendChild(element("p", streams(operation) ? "A stream of: " : "Answer: "));
  line.append(typeLink(answer, all), ". Refused with ");
  line.append(Object.keys(operation.responses).filter((each) => each !== "200").join(", ") + ".");
  return section;
}

function drawType(name, schema, all) {
  const section = element("section", undefined, { id: "type-" + name });
  section.append(element("h3", name), sentences("p", schema.description || ""));
  if (schema.enum) section.append(element("p", schema.enum.join(", ")));
  const required = new Set(schema.required || []);
  const fields = Object.entries(schema.properties || {}).map(([field, each]) => [field, each, required.has(field)]);
  if (fields.length) section.append(fieldTable(fields, all));
  return section;
}

function draw(description) {
  const all = description.components.schemas;
  document.getElementById("title").textContent = description.info.title + " " + description.info.version;
  document.getElementById("description").append(...sentences("p", description.info.description).childNodes);
  const list = document.getElementById("contents").appendChild(element("ul"));
  const endpoints = document.getElementById("endpoints");
  endpoints.append(element("h2", "Endpoints"));
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const link = element("a", method.toUpperCase() + " " + path, { href: "#" + operation.operationId });
      list.appendChild(element("li")).append(link);
      endpoints.append(drawEndpoint(path, method, operation, all));
    }
  }
  endpoints.append(element("h2", "Types"));
  for (const [name, schema] of Object.entries(all)) endpoints.append(drawType(name, schema, all));
  // The address may name a section, which did not exist when the page was loaded.
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

fetch("/openapi.json")
  .then((response) => (response.ok ? response.json() : Promise.reject(new Error(response.statusText))))
  .then(draw)
  .catch((error) => {
    const failure = document.getElementById("failure");
    failure.textContent = "openapi.json cannot be shown: " + error.message;
    failure.hidden = false;
  });
