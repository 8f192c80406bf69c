import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The service that is tested: it handles each order and commits it. */
final class Service implements AutoCloseable {
    private final BlockingQueue<String> committed = new LinkedBlockingQueue<>();
    private final KafkaConsumer<String, String> consumer;
    private final Thread thread = new Thread(this::run);

    Service(String bootstrapServers, String clientId) {
        consumer = new KafkaConsumer<>(Map.of(
            "bootstrap.servers", bootstrapServers,
            "group.id", "billing",
            "client.id", clientId,
            "auto.offset.reset", "earliest",
            "enable.auto.commit", "false",
            "heartbeat.interval.ms", "100"), // a consumer learns of a rebalance by its next heartbeat
            new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of("orders"));
        thread.start();
    }

    private void run() {
        try (consumer) {
            while (true) {
                for (ConsumerRecord<String, String> order : consumer.poll(Duration.ofSeconds(1))) {
                    consumer.commitSync();
                    committed.add(order.value());
                }
            }
        } catch (WakeupException end) {
            // close() ends the loop
        }
    }

    /** Waits until so many more orders have been handled and committed. */
    List<String> handled(int count) throws InterruptedException {
        List<String> orders = new ArrayList<>();
        while (orders.size() < count) {
            String order = committed.poll(20, TimeUnit.SECONDS);
            if (order == null) {
                throw new AssertionError("only " + orders + " were committed");
            }
            orders.add(order);
        }
        return orders;
    }

    @Override
    public void close() throws InterruptedException {
        consumer.wakeup();
        thread.join();
    }
}
