// Runs page.js over a document with the few methods that it uses, and prints the texts and tags that it has made.
const fs = require("fs");
const vm = require("vm");
const [script, description] = process.argv.slice(2).map((path) => fs.readFileSync(path, "utf8"));

class Element {
  constructor(name) {
    this.name = name;
    this.attributes = {};
    this.children = [];
    this.hidden = false;
  }
  set textContent(text) {
    this.children = [String(text)];
  }
  setAttribute(key, value) {
    this.attributes[key] = value;
  }
  append(...children) {
    this.children.push(...children);
  }
  appendChild(child) {
    this.children.push(child);
    return child;
  }
  texts() {
    return this.children.flatMap((each) => (each instanceof Element ? each.texts() : [String(each)]));
  }
  get childNodes() {
    return this.children;
  }
  paragraphs() {
    const below = this.children.flatMap((each) => (each instanceof Element ? each.paragraphs() : []));
    return this.name === "p" ? [this.texts().join(""), ...below] : below;
  }
  tags() {
    return [this.name, ...this.children.flatMap((each) => (each instanceof Element ? each.tags() : []))];
  }
}

const byId = {};
for (const id of ["title", "description", "contents", "endpoints", "failure"]) byId[id] = new Element(id);
const context = {
  document: { createElement: (name) => new Element(name), getElementById: (id) => byId[id] },
  location: { origin: "http://127.0.0.1:9080", hash: "" },
  fetch: async () => ({ ok: true, json: async () => JSON.parse(description) }),
};
vm.runInNewContext(script, context);
setTimeout(() => {
  const parts = Object.values(byId);
  const found = (what) => parts.flatMap((each) => each[what]());
  console.log(JSON.stringify({ texts: found("texts"), tags: found("tags"), paragraphs: found("paragraphs") }));
}, 0);
