// A consumer of kafkajs. It gets its order as one line of JSON, and prints what it does as lines of JSON.
//
//   echo '{"servers": "127.0.0.1:9092", …}' | NODE_PATH=… node consume.cjs
const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");

const report = (what, details) => console.log(JSON.stringify({ what, at_ms: Date.now(), ...details }));
const raised = (where, error, details) =>
  report("raised", { where, error: error.type ?? error.name, message: String(error.message).slice(0, 200), ...details });

report("ready", {
  library: "kafkajs",
  version: require("kafkajs/package.json").version,
  runtime: `Node ${process.versions.node.split(".")[0]}`,
});
const input = readline.createInterface({ input: process.stdin });
input.once("line", (line) => consume(JSON.parse(line)));

async function consume(order) {
  const client = { requestTimeout: order.request_timeout_ms };
  const settings = {
    sessionTimeout: order.session_timeout_ms,
    heartbeatInterval: order.heartbeat_interval_ms,
    rebalanceTimeout: order.rebalance_timeout_ms,
  };
  report("settings", { settings: { ...client, ...settings, autoCommit: false, fromBeginning: true } });
  const kafka = new Kafka({
    ...client,
    brokers: order.servers.split(","),
    clientId: order.client_id,
    logLevel: logLevel.NOTHING,
  });
  const consumer = kafka.consumer({ ...settings, groupId: order.group });
  const last = new Map();
  const uncommitted = new Map();
  let owned = [];
  let committedAt = Date.now();

  const giveBack = (what) => {
    if (owned.length) report(what, { partitions: owned });
    owned = [];
  };
  consumer.on(consumer.events.REBALANCING, () => giveBack("revoked"));
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    owned = payload.memberAssignment[order.topic] ?? [];
    report("assigned", { partitions: owned });
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => raised("run", payload.error, { restarts: payload.restart }));

  await consumer.connect();
  await consumer.subscribe({ topic: order.topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      const offset = Number(message.offset);
      const before = last.get(partition);
      if (before === undefined) report("began", { partition, offset });
      else if (offset !== before + 1) report(offset <= before ? "read-again" : "skipped", { partition, offset });
      last.set(partition, offset);
      uncommitted.set(partition, { topic, partition, offset: String(offset + 1) });
      if (Date.now() - committedAt < order.commit_interval_ms) return;
      committedAt = Date.now();
      const offsets = [...uncommitted.values()];
      uncommitted.clear();
      try {
        await consumer.commitOffsets(offsets);
        report("committed");
      } catch (error) {
        raised("commit", error);
      }
    },
  });
}

process.on("unhandledRejection", (error) => {
  raised("start", error);
  process.exit(1);
});
