import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Reads rebalances as JSON Lines, and prints the result of Apache Kafka's own assignors for each. */
public class JavaAssignors {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] none) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line; (line = lines.readLine()) != null; ) out.println(result(JSON.readTree(line)));
        out.flush();
    }

    static ObjectNode result(JsonNode step) {
        ObjectNode result = JSON.createObjectNode();
        try {
            var assignments = named(step.get("assignor").asText()).assign(cluster(step), subscriptions(step));
            assignments.groupAssignment().forEach((member, assignment) -> {
                ArrayNode listed = result.withObject("/assignments").putArray(member);
                assignment.partitions().forEach(each -> listed.addArray().add(each.topic()).add(each.partition()));
            });
        } catch (RuntimeException error) {
            result.removeAll();
            result.put("error", error.toString());
        }
        return result;
    }

    static ConsumerPartitionAssignor named(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    /** A node for each rack and position of a replica, and nodes without a rack. */
    static Cluster cluster(JsonNode step) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        step.get("partitionsPerTopic").fields().forEachRemaining(topic -> {
            for (int number = 0; number < topic.getValue().asInt(); number++) {
                JsonNode racks = step.path("racks").path(topic.getKey()).path(number);
                Node[] replicas = new Node[Math.max(1, racks.size())];
                for (int place = 0; place < replicas.length; place++) {
                    String rack = racks.path(place).asText(null);
                    replicas[place] = nodes.computeIfAbsent(
                            rack + " " + place, name -> new Node(nodes.size(), "localhost", 9092, rack));
                }
                partitions.add(new PartitionInfo(topic.getKey(), number, replicas[0], replicas, replicas));
            }
        });
        return new Cluster("random", nodes.values(), partitions, Set.of(), Set.of());
    }

    static GroupSubscription subscriptions(JsonNode step) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : step.get("members")) {
            List<String> topics = new ArrayList<>();
            member.get("topics").forEach(topic -> topics.add(topic.asText()));
            List<TopicPartition> owned = new ArrayList<>();
            member.get("owned").forEach(each -> owned.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
            String data = member.get("userData").asText(null);
            var subscription = new Subscription(
                    topics,
                    data == null ? null : ByteBuffer.wrap(HexFormat.of().parseHex(data)),
                    owned,
                    member.get("generation").asInt(),
                    Optional.ofNullable(member.get("rack").asText(null)));
            subscription.setGroupInstanceId(Optional.ofNullable(member.get("instanceId").asText(null)));
            subscriptions.put(member.get("id").asText(), subscription);
        }
        return new GroupSubscription(subscriptions);
    }
}
