"use strict";
// Where histories come from: the data inside this file, or the server that served the page.
//
// `historySource()` gives an object with
//   runs                   a list of { label, group, run }
//   read(number)           a promise of the document of the run with this number
//   changes(number, after) a promise of what has changed since a position; null where nothing can change

/** The source of this page's histories. */
async function historySource() {
  const inside = document.getElementById("data");
  return inside ? sourceOf(await unpacked(inside.textContent)) : servedSource();
}

function sourceOf(data) {
  return {
    runs: data.runs.map(({ label, group }) => ({ label: shown(label), group: shown(group) })),
    read: async (number) => data.runs[number].document,
    changes: async () => null,
  };
}

async function servedSource() {
  const { runs } = await fetchedJson("timelines");
  const address = (number, after) => `timeline?run=${runs[number].run}&group=${encodeURIComponent(runs[number].group)}&after=${after}`;
  return {
    runs: runs.map(({ label, group }) => ({ label: shown(label), group: shown(group) })),
    read: (number) => fetchedJson(address(number, 0)),
    changes: (number, after) => fetchedJson(address(number, after)),
  };
}

async function fetchedJson(address) {
  const response = await fetch(address, { headers: { accept: "application/json" } });
  const value = await response.json();
  if (!response.ok) throw new Error(value.error ?? `status ${response.status}`);
  return value;
}

/** JSON from gzip in base64. */
async function unpacked(text) {
  if (typeof DecompressionStream === "undefined") throw new Error(word("oldBrowser"));
  const binary = atob(text.trim()), bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}
