// A service with kafkajs: one consumer is dead, the answer to a commit is lost, the coordinator moves.
const assert = require("node:assert");
const { EventEmitter, once } = require("node:events");
const { test } = require("node:test");
const { Kafka, logLevel } = require("kafkajs");
const { startRegroup } = require("./regroup.js");

const GROUP = "billing";

// The service that is tested: it handles each order and commits it.
class Service extends EventEmitter {
  handled = [];

  // A consumer learns of a rebalance by its next heartbeat.
  constructor(brokers, clientId, heartbeatInterval = 100) {
    super();
    const retry = { initialRetryTime: 50, maxRetryTime: 500 };
    this.consumer = new Kafka({ brokers, clientId, retry, logLevel: logLevel.NOTHING }).consumer({
      groupId: GROUP,
      heartbeatInterval,
      maxWaitTimeInMs: 100,
    });
  }

  async start() {
    await this.consumer.connect();
    await this.consumer.subscribe({ topic: "orders", fromBeginning: true });
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => {
        this.handled.push(message.value.toString());
        await this.consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }]);
        this.emit("committed");
      },
    });
    return this;
  }

  async committed(count) {
    while (this.handled.length < count) await once(this, "committed", { signal: AbortSignal.timeout(20_000) });
  }
}

// A regroup for one test, and the services that the test starts; they end before it.
async function withRegroup(context, ...options) {
  const regroup = await startRegroup(...options);
  const services = [];
  context.after(async () => {
    for (const service of services) await service.consumer.disconnect();
    await regroup.stop();
  });
  const start = async (clientId, heartbeatInterval) => {
    services.push(await new Service(regroup.brokers, clientId, heartbeatInterval).start());
    return services.at(-1);
  };
  return { ...regroup, start };
}

test("a dead consumer is replaced", async (context) => {
  const regroup = await withRegroup(context, "--topic", "orders:6");
  await regroup.start("first");
  await regroup.start("second");
  await regroup.look("/group/wait-stable", { group: GROUP, members: 2 });
  await regroup.act("/client/crash", { client: "second" });
  const group = await regroup.look("/group/wait-stable", { group: GROUP, members: 1 });
  assert.strictEqual(group.members[0].client_id, "first");
  assert.strictEqual(group.members[0].partitions.length, 6);
  await regroup.act("/client/revive", { client: "second" }); // so that it can disconnect
});

test("no order is handled twice after a lost commit", async (context) => {
  const regroup = await withRegroup(context, "--topic", "orders:1");
  const lost = { on: "OffsetCommit", group: GROUP, close: "after", times: 1 };
  const { fault } = await regroup.act("/fault/add", lost);
  const service = await regroup.start("first");
  await regroup.act("/topic/produce", { topic: "orders", value: "one pear" });
  await regroup.look("/fault/wait-hits", { fault });
  await regroup.act("/topic/produce", { topic: "orders", value: "two plums" });
  await service.committed(2);
  assert.deepStrictEqual(service.handled, ["one pear", "two plums"]);
});

test("a service follows its coordinator", async (context) => {
  const regroup = await withRegroup(context, "--topic", "orders:1", "--brokers", "2");
  // kafkajs joins again if a heartbeat is the first to find the old coordinator; a commit looks for the new one.
  const service = await regroup.start("first", 10_000);
  await regroup.act("/topic/produce", { topic: "orders", value: "one pear" });
  await service.committed(1);
  const before = await regroup.look("/group", { group: GROUP });
  await regroup.act("/coordinator/move", { group: GROUP });
  await regroup.act("/topic/produce", { topic: "orders", value: "two plums" });
  await service.committed(2);
  const after = await regroup.look("/group", { group: GROUP });
  assert.deepStrictEqual(service.handled, ["one pear", "two plums"]);
  assert.strictEqual(after.generation, before.generation, "without a rebalance");
});
