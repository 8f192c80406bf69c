import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Reads records of server_uniform.jsonl or server_range.jsonl, and prints each with the result of Kafka's own class.
 * If a record has "orders", each member's topics are printed there in the order of the hash map that Kafka stores.
 */
public class JavaServerAssignors {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] none) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line; (line = lines.readLine()) != null; ) {
            ObjectNode record = (ObjectNode) JSON.readTree(line);
            if (record.has("steps")) {
                for (JsonNode step : record.get("steps")) compute(record, (ObjectNode) step);
            } else {
                compute(record, record);
            }
            out.println(JSON.writeValueAsString(record));
        }
        out.flush();
    }

    static JsonNode field(ObjectNode record, ObjectNode step, String name) {
        return step.has(name) ? step.get(name) : record.path(name);
    }

    static void compute(ObjectNode record, ObjectNode step) {
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        field(record, step, "topicIds").fields().forEachRemaining(each -> {
            ids.put(each.getKey(), Uuid.fromString(each.getValue().asText()));
            names.put(ids.get(each.getKey()), each.getKey());
        });
        JsonNode sizes = field(record, step, "partitionsPerTopic");
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (JsonNode member : step.get("members")) {
            Set<Uuid> topics = new LinkedHashSet<>();
            member.get("topics").forEach(each -> topics.add(ids.computeIfAbsent(each.asText(), n -> Uuid.randomUuid())));
            Map<Uuid, Set<Integer>> current = new LinkedHashMap<>();
            member.path("current").forEach(each -> {
                Uuid id = ids.get(each.get(0).asText());
                current.computeIfAbsent(id, k -> new LinkedHashSet<>()).add(each.get(1).asInt());
                inverted.computeIfAbsent(id, k -> new HashMap<>()).put(each.get(1).asInt(), member.get("id").asText());
            });
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.ofNullable(member.path("instanceId").asText(null)), topics, new Assignment(current)));
        }
        SubscriptionType type = SubscriptionType.valueOf(field(record, step, "subscriptionType").asText().toUpperCase());
        GroupSpec group = new GroupSpecImpl(members, type, inverted);
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) {
                return names.containsKey(id) ? sizes.path(names.get(id)).asInt(-1) : -1;
            }

            public Set<String> racksForPartition(Uuid id, int partition) {
                return new HashSet<>();
            }
        };
        ConsumerGroupPartitionAssignor assignor =
            record.get("assignor").asText().equals("server-range") ? new RangeAssignor() : new UniformAssignor();
        if (!step.has("expected")) return;
        ObjectNode expected = JSON.createObjectNode();
        ObjectNode orders = JSON.createObjectNode();
        var result = assignor.assign(group, describer).members();
        for (String member : members.keySet()) {
            ArrayNode listed = expected.putArray(member);
            if (!result.containsKey(member)) continue;
            Map<String, TreeSet<Integer>> sorted = new TreeMap<>();
            result.get(member).partitions().forEach((id, set) -> sorted.put(names.get(id), new TreeSet<>(set)));
            Map<Uuid, Integer> stored = new HashMap<>();
            result.get(member).partitions().keySet().forEach(id -> stored.put(id, 0));
            ArrayNode order = orders.putArray(member);
            stored.keySet().forEach(id -> order.add(names.get(id)));
            sorted.forEach((topic, set) -> set.forEach(number -> listed.addArray().add(topic).add(number)));
        }
        step.set("expected", expected);
        if (step.has("orders")) step.set("orders", orders);
    }
}
