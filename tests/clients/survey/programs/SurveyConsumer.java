// A consumer of Apache Kafka's Java client. It gets its order as words, and prints what it does as lines of JSON.
//
//   echo '{"servers": "127.0.0.1:9092", …}' | java -cp 'kafka-clients.jar:…:classes' SurveyConsumer

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.AppInfoParser;

public class SurveyConsumer {
    private static final Map<Integer, Long> LAST = new HashMap<>();
    private static final long PAUSE_AFTER_ERROR_MS = 100;

    public static void main(String[] words) throws Exception {
        Class.forName(KafkaConsumer.class.getName());
        report("ready", "\"library\": \"Java kafka-clients\", \"version\": \"" + AppInfoParser.getVersion()
            + "\", \"runtime\": \"Java " + Runtime.version().feature() + "\"");
        String order = new BufferedReader(new InputStreamReader(System.in)).readLine();
        Properties settings = new Properties();
        settings.put("session.timeout.ms", number(order, "session_timeout_ms"));
        settings.put("heartbeat.interval.ms", number(order, "heartbeat_interval_ms"));
        settings.put("max.poll.interval.ms", number(order, "rebalance_timeout_ms"));
        settings.put("request.timeout.ms", number(order, "request_timeout_ms"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        report("settings", "\"settings\": {" + settings.entrySet().stream()
            .map(each -> "\"" + each.getKey() + "\": \"" + each.getValue() + "\"")
            .collect(Collectors.joining(", ")) + "}");
        settings.put("bootstrap.servers", text(order, "servers"));
        settings.put("group.id", text(order, "group"));
        settings.put("client.id", text(order, "client_id"));
        if (!text(order, "instance_id").isEmpty()) {
            settings.put("group.instance.id", text(order, "instance_id"));
        }
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        long intervalMs = Long.parseLong(number(order, "commit_interval_ms"));
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(text(order, "topic")), new Listener());
        long committedAt = System.nanoTime();
        boolean uncommitted = false;
        while (true) {
            try {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                    read(each.partition(), each.offset());
                    uncommitted = true;
                }
            } catch (KafkaException error) {
                raised("poll", error);
                Thread.sleep(PAUSE_AFTER_ERROR_MS);
                continue;
            }
            if (uncommitted && (System.nanoTime() - committedAt) / 1_000_000 >= intervalMs) {
                committedAt = System.nanoTime();
                uncommitted = false;
                try {
                    consumer.commitSync();
                    report("committed", "");
                } catch (KafkaException error) {
                    raised("commit", error);
                }
            }
        }
    }

    private static void read(int partition, long offset) {
        Long last = LAST.put(partition, offset);
        if (last == null || offset != last + 1) {
            report(last == null ? "began" : offset <= last ? "read-again" : "skipped", "\"partition\": " + partition + ", \"offset\": " + offset);
        }
    }

    private static void raised(String where, Exception error) {
        String message = String.valueOf(error.getMessage()).replace('"', '\'').replace('\n', ' ').replace('\\', '/');
        report("raised", "\"where\": \"" + where + "\", \"error\": \"" + error.getClass().getSimpleName()
            + "\", \"message\": \"" + message.substring(0, Math.min(200, message.length())) + "\"");
    }

    private static void report(String what, String details) {
        System.out.println("{\"what\": \"" + what + "\", \"at_ms\": " + System.currentTimeMillis()
            + (details.isEmpty() ? "" : ", " + details) + "}");
    }

    private static String text(String order, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": *\"([^\"]*)\"").matcher(order);
        return found.find() ? found.group(1) : "";
    }

    private static String number(String order, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": *(\\d+)").matcher(order);
        if (!found.find()) {
            throw new IllegalArgumentException("the order has no " + name + ": " + order);
        }
        return found.group(1);
    }

    static class Listener implements ConsumerRebalanceListener {
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            list("assigned", partitions);
        }

        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            list("revoked", partitions);
        }

        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            list("lost", partitions);
        }

        private void list(String what, Collection<TopicPartition> partitions) {
            report(what, "\"partitions\": " + partitions.stream().map(TopicPartition::partition).sorted().toList());
        }
    }
}
