// Starts `regroup serve` for one test, and looks and acts through its control port.
//
// The command is `regroup`, or that of the environment variable REGROUP.
const { spawn } = require("node:child_process");
const { mkdtempSync, rmSync } = require("node:fs");
const { tmpdir } = require("node:os");
const path = require("node:path");
const readline = require("node:readline");

async function startRegroup(...options) {
  const folder = mkdtempSync(path.join(tmpdir(), "regroup-"));
  const words = ["serve", "--port", "0", "--control", "127.0.0.1:0", "--store", path.join(folder, "groups.db")];
  words.push("--set", "group.initial.rebalance.delay.ms=0", "--log-level", "error", ...options);
  const server = spawn(process.env.REGROUP ?? "regroup", words, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => server.once("exit", resolve));
  const addresses = [];
  for await (const line of readline.createInterface({ input: server.stdout })) {
    addresses.push(line.split(" on ")[1]);
    if (addresses.length === 2) break;
  }
  if (addresses.length < 2) throw new Error("regroup has not started");
  const [servers, control] = addresses;

  async function ask(name, options) {
    const response = await fetch(new URL(name, control), options);
    const answer = await response.json();
    if (!response.ok) throw new Error(`${name}: ${JSON.stringify(answer)}`);
    return answer;
  }

  return {
    brokers: servers.split(","),
    look: (name, query = {}) => ask(`${name}?${new URLSearchParams(query)}`, {}),
    act: (name, body) =>
      ask(name, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
    async stop() {
      server.kill();
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

module.exports = { startRegroup };
