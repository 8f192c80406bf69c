// A Java consumer that prints its assignments, records and commits as lines of JSON.
//
//   java -cp 'kafka-clients.jar:…' Consume.java HOST:PORT GROUP TOPIC ASSIGNOR SESSION_TIMEOUT_MS [INSTANCE]
//
// The assignor `consumer` stands for the consumer protocol (KIP-848). A topic that begins with ~ is a regular expression,
// which the coordinator resolves. On SIGTERM the consumer is closed.

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

public class Consume {
    public static void main(String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", words[1]);
        if (words[3].equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + words[3]);
            settings.put("session.timeout.ms", words[4]);
            settings.put("heartbeat.interval.ms", "200");
        }
        if (words.length > 5) {
            settings.put("group.instance.id", words[5]);
        }
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        String text = "org.apache.kafka.common.serialization.StringDeserializer";
        settings.put("key.deserializer", text);
        settings.put("value.deserializer", text);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            Thread poller = Thread.currentThread();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                consumer.wakeup();
                try {
                    poller.join();
                    Runtime.getRuntime().halt(0);
                } catch (InterruptedException e) {
                    poller.interrupt();
                }
            }));
            if (words[2].startsWith("~")) {
                consumer.subscribe(new SubscriptionPattern(words[2].substring(1)), new Listener());
            } else {
                consumer.subscribe(List.of(words[2]), new Listener());
            }
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                records.forEach(each -> System.out.printf(
                    "{\"what\": \"record\", \"topic\": \"%s\", \"partition\": %d, \"offset\": %d, \"value\": \"%s\"}%n",
                    each.topic(), each.partition(), each.offset(), each.value()));
                if (!records.isEmpty()) {
                    consumer.commitSync();
                    System.out.println("{\"what\": \"committed\"}");
                }
            }
        } catch (WakeupException e) {
            System.out.println("{\"what\": \"closed\"}");
        }
    }

    static class Listener implements ConsumerRebalanceListener {
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            report("assigned", partitions);
        }

        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            report("revoked", partitions);
        }

        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            report("lost", partitions);
        }

        private void report(String what, Collection<TopicPartition> partitions) {
            String listed = partitions.stream()
                .map(each -> "[\"" + each.topic() + "\", " + each.partition() + "]")
                .collect(Collectors.joining(", "));
            System.out.println("{\"what\": \"" + what + "\", \"partitions\": [" + listed + "]}");
        }
    }
}
