package kproxy.oracle;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.DeleteTopicsRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.DeleteTopicsRequest;
import org.apache.kafka.common.requests.EnvelopeRequest;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

/**
 * Random instances of what members of groups tell each other, written by Kafka's own classes.
 *
 * <p>Arguments: seed, instances of each version. Prints a line of JSON an instance: structure, version, bytes (base64)
 * and the facts, which are read back by Kafka's classes where they can read them.
 */
public final class Members {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int NEWEST_STREAMS = 11;

    private final Random random;
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private Members(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        Members members = new Members(Long.parseLong(arguments[0]));
        for (int index = 0; index < Integer.parseInt(arguments[1]); index++) {
            members.round();
        }
        members.out.flush();
    }

    private void round() throws Exception {
        for (short version = 0; version <= 3; version++) {
            consumer(version);
        }
        worker();
        assignment();
        for (boolean sessioned : new boolean[] {false, true}) {
            extended(sessioned);
        }
        for (int version = 1; version <= NEWEST_STREAMS; version++) {
            subscriptionInfo(version);
            assignmentInfo(version);
        }
        envelope();
    }

    private void consumer(short version) throws Exception {
        Set<TopicPartition> owned = partitions();
        ByteBuffer userData = random.nextBoolean() ? null : ByteBuffer.wrap(bytes(random.nextInt(5)));
        List<String> topics = texts();
        int generation = random.nextInt();
        String rack = random.nextBoolean() ? null : "rack" + text();
        Subscription subscription =
                new Subscription(topics, userData, new ArrayList<>(owned), generation, Optional.ofNullable(rack));
        ByteBuffer data = ConsumerProtocol.serializeSubscription(subscription, version);
        Subscription read = ConsumerProtocol.deserializeSubscription(data.duplicate());
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("topics", read.topics());
        facts.put("userData", base64(read.userData()));
        facts.put("ownedPartitions", plain(read.ownedPartitions()));
        facts.put("generationId", read.generationId().orElse(-1));
        facts.put("rackId", read.rackId().orElse(null));
        print("ConsumerProtocolSubscription", version, data, facts);

        data = ConsumerProtocol.serializeAssignment(new Assignment(new ArrayList<>(owned), userData), version);
        Assignment answer = ConsumerProtocol.deserializeAssignment(data.duplicate());
        facts = new LinkedHashMap<>();
        facts.put("assignedPartitions", plain(answer.partitions()));
        facts.put("userData", base64(answer.userData()));
        print("ConsumerProtocolAssignment", version, data, facts);
    }

    private void worker() throws Exception {
        String url = "http://" + text() + "/";
        long offset = random.nextLong();
        ByteBuffer data = ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState(url, offset));
        ConnectProtocol.WorkerState read = ConnectProtocol.deserializeMetadata(data.duplicate());
        print("ConnectWorkerState", 0, data, Map.of("url", read.url(), "configOffset", read.offset()));
    }

    private void assignment() throws Exception {
        ConnectProtocol.Assignment given = new ConnectProtocol.Assignment(
                (short) random.nextInt(3), text(), text(), random.nextLong(), texts(), tasks());
        ByteBuffer data = ConnectProtocol.serializeAssignment(given);
        print("ConnectAssignment", 0, data, facts(ConnectProtocol.deserializeAssignment(data.duplicate())));
    }

    private void extended(boolean sessioned) throws Exception {
        short version = (short) (sessioned ? 2 : 1);
        ExtendedAssignment given = new ExtendedAssignment(
                version, (short) random.nextInt(3), text(), text(), random.nextLong(), texts(), tasks(), texts(),
                tasks(), random.nextInt());
        ByteBuffer data = IncrementalCooperativeConnectProtocol.serializeAssignment(given, sessioned);
        print("ConnectAssignment", version, data,
                facts(IncrementalCooperativeConnectProtocol.deserializeAssignment(data.duplicate())));
        ExtendedAssignment held = random.nextInt(3) == 0 ? null : given;
        data = IncrementalCooperativeConnectProtocol.serializeMetadata(
                new ExtendedWorkerState("http://" + text(), random.nextLong(), held), sessioned);
        ExtendedWorkerState read = IncrementalCooperativeConnectProtocol.deserializeMetadata(data.duplicate());
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("url", read.url());
        facts.put("configOffset", read.offset());
        facts.put("allocation", held == null ? null : facts(read.assignment()));
        print("ConnectWorkerState", version, data, facts);
    }

    private static Map<String, Object> facts(ConnectProtocol.Assignment read) {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("error", read.error());
        facts.put("leader", read.leader());
        facts.put("leaderUrl", read.leaderUrl());
        facts.put("configOffset", read.offset());
        facts.put("assignment", pairs(read.connectors(), read.tasks()));
        if (read instanceof ExtendedAssignment) {
            ExtendedAssignment extended = (ExtendedAssignment) read;
            facts.put("revoked", pairs(extended.revokedConnectors(), extended.revokedTasks()));
            facts.put("delay", extended.delay());
        }
        return facts;
    }

    private static List<Object> pairs(Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        List<Object> pairs = new ArrayList<>();
        connectors.forEach(connector -> pairs.add(List.of(connector, -1)));
        tasks.forEach(task -> pairs.add(List.of(task.connector(), task.task())));
        return pairs;
    }

    private void subscriptionInfo(int version) throws Exception {
        Map<TaskId, Long> sums = new HashMap<>();
        for (int index = random.nextInt(4); index > 0; index--) {
            sums.put(task(version), random.nextBoolean() ? -2L : (long) random.nextInt(1_000_000));
        }
        Map<String, String> tags = new HashMap<>();
        for (int index = random.nextInt(3); index > 0; index--) {
            tags.put(text(), text());
        }
        UUID process = new UUID(random.nextLong(), random.nextLong());
        String endPoint = random.nextBoolean() ? null : text() + ":80";
        byte unique = (byte) random.nextInt();
        int error = random.nextInt(4);
        SubscriptionInfo given = new SubscriptionInfo(
                version, NEWEST_STREAMS, new ProcessId(process), endPoint, sums, unique, error, tags);
        ByteBuffer data = given.encode();
        SubscriptionInfo read = SubscriptionInfo.decode(data.duplicate());
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("latestSupportedVersion", NEWEST_STREAMS);
        facts.put("processId", new Uuid(process.getMostSignificantBits(), process.getLeastSignificantBits()).toString());
        facts.put("prevTasks", version < 7 ? ids(read.prevTasks()) : List.of());
        facts.put("standbyTasks", version < 7 ? ids(read.standbyTasks()) : List.of());
        facts.put("userEndPoint", read.userEndPoint());
        List<Object> offsets = new ArrayList<>();
        if (version >= 7) {
            read.taskOffsetSums().forEach((task, sum) -> offsets.add(List.of(id(task), sum)));
        }
        facts.put("taskOffsetSums", offsets);
        facts.put("uniqueField", version < 8 ? null : unique);
        facts.put("errorCode", read.errorCode());
        facts.put("clientTags", read.clientTags());
        print("SubscriptionInfoData", version, data, facts);
    }

    private void assignmentInfo(int version) throws Exception {
        List<TaskId> active = new ArrayList<>();
        Map<TaskId, Set<TopicPartition>> standby = new HashMap<>();
        for (int index = random.nextInt(4); index > 0; index--) {
            active.add(task(version));
            standby.put(task(version), partitions());
        }
        int error = random.nextInt(4);
        AssignmentInfo given =
                new AssignmentInfo(version, NEWEST_STREAMS, active, standby, hosts(), hosts(), error);
        long next = random.nextLong();
        given.setNextRebalanceTime(next);
        ByteBuffer data = given.encode();
        AssignmentInfo read = AssignmentInfo.decode(data.duplicate());
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("commonlySupportedVersion", read.commonlySupportedVersion());
        facts.put("activeTasks", ids(read.activeTasks()));
        List<Object> tasks = new ArrayList<>();
        read.standbyTasks().forEach((task, of) -> tasks.add(List.of(id(task), plain(of))));
        facts.put("standbyTasks", tasks);
        facts.put("partitionsByHost", plain(read.partitionsByHost()));
        facts.put("standbyPartitionsByHost", plain(read.standbyPartitionByHost()));
        facts.put("errorCode", read.errCode());
        facts.put("nextRebalanceMs", version < 7 ? null : next);
        print("AssignmentInfo", version, data, facts);
    }

    private void envelope() throws Exception {
        KafkaPrincipal principal = new KafkaPrincipal("User", text(), random.nextBoolean());
        byte[] identity = new DefaultKafkaPrincipalBuilder(null, null).serialize(principal);
        byte[] address = bytes(random.nextBoolean() ? 4 : 16);
        String topic = text();
        int correlation = random.nextInt();
        DeleteTopicsRequest inner = new DeleteTopicsRequest.Builder(
                new DeleteTopicsRequestData().setTopicNames(List.of(topic)).setTimeoutMs(7)).build((short) 5);
        ByteBuffer forwarded =
                inner.serializeWithHeader(new RequestHeader(ApiKeys.DELETE_TOPICS, (short) 5, "admin", correlation));
        EnvelopeRequest outer = new EnvelopeRequest.Builder(forwarded, identity, address).build((short) 0);
        ByteBuffer data = outer.serializeWithHeader(new RequestHeader(ApiKeys.ENVELOPE, (short) 0, "broker", 1));
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("api", "DeleteTopics");
        facts.put("correlationId", correlation);
        facts.put("topicNames", List.of(topic));
        facts.put("name", principal.getName());
        facts.put("tokenAuthenticated", principal.tokenAuthenticated());
        facts.put("address", InetAddress.getByAddress(address).getHostAddress());
        print("EnvelopeRequest", 0, data, facts);
    }

    private Map<HostInfo, Set<TopicPartition>> hosts() {
        Map<HostInfo, Set<TopicPartition>> hosts = new HashMap<>();
        for (int index = random.nextInt(3); index > 0; index--) {
            hosts.put(new HostInfo(text(), random.nextInt(65536)), partitions());
        }
        return hosts;
    }

    private Set<TopicPartition> partitions() {
        Set<TopicPartition> partitions = new HashSet<>();
        for (int index = random.nextInt(5); index > 0; index--) {
            partitions.add(new TopicPartition(List.of("orders", "payments", "städte").get(random.nextInt(3)),
                    random.nextInt(100)));
        }
        return partitions;
    }

    private TaskId task(int version) {
        String topology = version >= 10 && random.nextBoolean() ? "top" + text() : null;
        return new TaskId(random.nextInt(100), random.nextInt(100), topology);
    }

    private List<ConnectorTaskId> tasks() {
        List<ConnectorTaskId> tasks = new ArrayList<>();
        for (int index = random.nextInt(4); index > 0; index--) {
            tasks.add(new ConnectorTaskId(text(), random.nextInt(10)));
        }
        return tasks;
    }

    private List<String> texts() {
        List<String> texts = new ArrayList<>();
        for (int index = random.nextInt(4); index > 0; index--) {
            texts.add(text());
        }
        return texts;
    }

    private String text() {
        return List.of("a", "connector-", "é", "日本", "Z_").get(random.nextInt(5)) + random.nextInt(100_000);
    }

    private byte[] bytes(int size) {
        byte[] bytes = new byte[size];
        random.nextBytes(bytes);
        return bytes;
    }

    private static List<Object> ids(Collection<TaskId> tasks) {
        List<Object> ids = new ArrayList<>();
        tasks.forEach(task -> ids.add(id(task)));
        return ids;
    }

    private static List<Object> id(TaskId task) {
        String topology = task.topologyName();
        return List.of(task.subtopology(), task.partition(), topology == null ? "" : topology);
    }

    private static List<Object> plain(Map<HostInfo, Set<TopicPartition>> hosts) {
        List<Object> plain = new ArrayList<>();
        hosts.forEach((host, of) -> plain.add(List.of(host.host(), host.port(), plain(of))));
        return plain;
    }

    private static List<Object> plain(Collection<TopicPartition> partitions) {
        List<Object> plain = new ArrayList<>();
        partitions.forEach(partition -> plain.add(List.of(partition.topic(), partition.partition())));
        return plain;
    }

    private static String base64(ByteBuffer data) {
        if (data == null) {
            return null;
        }
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    private void print(String structure, int version, ByteBuffer data, Map<String, ?> facts) throws Exception {
        data.rewind();
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("structure", structure);
        line.put("version", version);
        line.put("bytes", base64(data));
        line.put("facts", facts);
        out.println(JSON.writeValueAsString(line));
    }
}
