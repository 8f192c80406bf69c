import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
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

/**
 * How long Apache Kafka's own assignors take once the JIT compiler has done what it can.
 *
 * <p>java -cp 'JARS/*' WarmAssignors.java 3x1x12 5x3x10 ...
 *
 * <p>For each assignor and each members x topics x partitions, all subscribed to every topic, a line: assignor, shape,
 * phase, and the nanoseconds of CPU time of one assign(), user data included. Phases: `fresh`, and for the
 * sticky ones `leaves`, after the first member has left the fresh assignment. Blocks of calls are timed until they
 * grow no quicker; a figure is the median of the last ones.
 */
public class WarmAssignors {
    static final long BLOCK_NS = Duration.ofMillis(50).toNanos();
    static final int WARM_UP_BLOCKS = 15, COUNTED_BLOCKS = 5, MAX_BLOCKS = 60;
    static final ThreadMXBean THREAD = ManagementFactory.getThreadMXBean();
    static int assignedMembers; // every result is used, so that the compiler leaves out no assignment

    public static void main(String[] shapes) {
        measure(shapes, false); // every assignor has run, and been compiled, before any of them is measured
        measure(shapes, true);
        if (assignedMembers < 0) System.out.println("never");
    }

    static void measure(String[] shapes, boolean prints) {
        for (String shape : shapes) {
            int[] n = Arrays.stream(shape.split("x")).mapToInt(Integer::parseInt).toArray();
            Cluster cluster = cluster(n[1], n[2]);
            for (String name : List.of("range", "roundrobin", "sticky", "cooperative-sticky")) {
                GroupSubscription fresh = subscriptions(name, cluster, n[0], Map.of());
                time(name + " " + shape + " fresh", prints, named(name), cluster, fresh);
                if (name.contains("sticky")) {
                    var last = new LinkedHashMap<>(named(name).assign(cluster, fresh).groupAssignment());
                    last.remove("consumer-00000");
                    GroupSubscription remaining = subscriptions(name, cluster, n[0], last);
                    time(name + " " + shape + " leaves", prints, named(name), cluster, remaining);
                }
            }
        }
    }

    static ConsumerPartitionAssignor named(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    static Cluster cluster(int topics, int partitions) {
        Node node = new Node(0, "localhost", 9092);
        List<PartitionInfo> all = new ArrayList<>();
        for (int topic = 0; topic < topics; topic++)
            for (int partition = 0; partition < partitions; partition++)
                all.add(new PartitionInfo(
                        String.format("topic-%04d", topic), partition, node, new Node[] {node}, new Node[] {node}));
        return new Cluster("bench", List.of(node), all, Collections.emptySet(), Collections.emptySet());
    }

    /** Of all members, or of those with a last assignment. */
    static GroupSubscription subscriptions(String name, Cluster cluster, int members,
            Map<String, Assignment> lastAssignments) {
        List<String> topics = new ArrayList<>(new TreeSet<>(cluster.topics()));
        Map<String, Subscription> subscriptions = new LinkedHashMap<>();
        for (int member = lastAssignments.isEmpty() ? 0 : 1; member < members; member++) {
            String id = String.format("consumer-%05d", member);
            ConsumerPartitionAssignor assignor = named(name);
            Assignment last = lastAssignments.get(id);
            if (last != null) assignor.onAssignment(last, new ConsumerGroupMetadata("bench", 1, id, Optional.empty()));
            var owned = last == null ? List.<TopicPartition>of() : last.partitions();
            subscriptions.put(id, new Subscription(topics, assignor.subscriptionUserData(Set.copyOf(topics)),
                    owned, last == null ? -1 : 1, Optional.empty()));
        }
        return new GroupSubscription(subscriptions);
    }

    static void time(String title, boolean prints, ConsumerPartitionAssignor assignor, Cluster cluster,
            GroupSubscription subscriptions) {
        List<Double> blocks = new ArrayList<>();
        int minBlocks = WARM_UP_BLOCKS + COUNTED_BLOCKS;
        while (blocks.size() < minBlocks || (blocks.size() < MAX_BLOCKS && getsQuicker(blocks)))
            blocks.add(block(assignor, cluster, subscriptions));
        List<Double> last = new ArrayList<>(blocks.subList(blocks.size() - COUNTED_BLOCKS, blocks.size()));
        Collections.sort(last);
        if (prints) System.out.printf("%s %.0f%n", title, last.get(COUNTED_BLOCKS / 2));
    }

    static boolean getsQuicker(List<Double> blocks) {
        double before = Collections.min(blocks.subList(0, blocks.size() - COUNTED_BLOCKS));
        return Collections.min(blocks.subList(blocks.size() - COUNTED_BLOCKS, blocks.size())) < 0.98 * before;
    }

    static double block(ConsumerPartitionAssignor assignor, Cluster cluster, GroupSubscription subscriptions) {
        long calls = 0, began = THREAD.getCurrentThreadCpuTime();
        for (long start = System.nanoTime(); System.nanoTime() - start < BLOCK_NS; calls++) {
            subscriptions.groupSubscription().values().forEach(each -> {
                if (each.userData() != null) each.userData().rewind(); // the decoder leaves it at its end
            });
            assignedMembers += assignor.assign(cluster, subscriptions).groupAssignment().size();
        }
        return (double) (THREAD.getCurrentThreadCpuTime() - began) / calls;
    }
}
