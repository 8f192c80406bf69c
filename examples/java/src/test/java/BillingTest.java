import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** One consumer is dead, the answer to a commit is lost, the coordinator moves. */
class BillingTest {
    private static final String GROUP = "billing";

    @Test
    void aDeadConsumerIsReplaced() throws Exception {
        try (Regroup kafka = new Regroup("--topic", "orders:6");
                Service first = new Service(kafka.bootstrapServers, "first");
                Service second = new Service(kafka.bootstrapServers, "second")) {
            kafka.look("/group/wait-stable", Map.of("group", GROUP, "members", 2));
            kafka.act("/client/crash", Map.of("client", "second"));
            JsonNode group = kafka.look("/group/wait-stable", Map.of("group", GROUP, "members", 1));
            JsonNode member = group.get("members").get(0);
            assertEquals("first", member.get("client_id").asText());
            assertEquals(6, member.get("partitions").size());
            kafka.act("/client/revive", Map.of("client", "second")); // so that it can close
        }
    }

    @Test
    void noOrderIsHandledTwiceAfterALostCommit() throws Exception {
        try (Regroup kafka = new Regroup("--topic", "orders:1")) {
            Map<String, Object> lost = Map.of("on", "OffsetCommit", "group", GROUP, "close", "after", "times", 1);
            int fault = kafka.act("/fault/add", lost).get("fault").asInt();
            try (Service service = new Service(kafka.bootstrapServers, "first")) {
                kafka.act("/topic/produce", Map.of("topic", "orders", "value", "one pear"));
                kafka.look("/fault/wait-hits", Map.of("fault", fault));
                kafka.act("/topic/produce", Map.of("topic", "orders", "value", "two plums"));
                assertEquals(List.of("one pear", "two plums"), service.handled(2));
            }
        }
    }

    @Test
    void aServiceFollowsItsCoordinator() throws Exception {
        try (Regroup kafka = new Regroup("--topic", "orders:1", "--brokers", "2");
                Service service = new Service(kafka.bootstrapServers, "first")) {
            kafka.act("/topic/produce", Map.of("topic", "orders", "value", "one pear"));
            List<String> orders = new ArrayList<>(service.handled(1));
            int before = kafka.look("/group", Map.of("group", GROUP)).get("generation").asInt();
            kafka.act("/coordinator/move", Map.of("group", GROUP));
            kafka.act("/topic/produce", Map.of("topic", "orders", "value", "two plums"));
            orders.addAll(service.handled(1));
            int after = kafka.look("/group", Map.of("group", GROUP)).get("generation").asInt();
            assertEquals(List.of("one pear", "two plums"), orders);
            assertEquals(before, after, "without a rebalance");
        }
    }
}
