// A kafkajs consumer that prints its assignments, records and commits as lines of JSON.
//
//   NODE_PATH=… node consume.cjs HOST:PORT GROUP TOPIC
const { Kafka, logLevel } = require("kafkajs");

const [address, group, topic, sessionTimeout] = process.argv.slice(2);
const report = (what, details) => console.log(JSON.stringify({ what, ...details }));
const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR, retry: { initialRetryTime: 50, maxRetryTime: 500 } });
const consumer = kafka.consumer({ groupId: group, sessionTimeout: Number(sessionTimeout), heartbeatInterval: 200, maxWaitTimeInMs: 100 });

async function main() {
  let owned = [];
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    report("revoked", { partitions: owned });
    owned = (payload.memberAssignment[topic] ?? []).map((partition) => [topic, partition]);
    report("assigned", { partitions: owned });
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      const offset = Number(message.offset);
      report("record", { topic, partition, offset, value: message.value.toString() });
      await consumer.commitOffsets([{ topic, partition, offset: String(offset + 1) }]);
      report("committed", { why: "" });
    },
  });
}

main();
