package kproxy.oracle;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * All that applications do, in small: codecs, transactions, groups of each protocol that members join and leave, topics
 * that come and go, leaders that move, a broker that is killed. tests/system/clients/workload.py says how it is talked
 * to; the arguments are a file of client settings and a name for topics and groups. Needs kafka-clients 4.
 */
public final class Workload {
    private static final Duration POLL = Duration.ofMillis(50);
    private static final int PARTITIONS = 3;
    private static final int PATIENCE_SECONDS = 180;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    private final BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private final List<AutoCloseable> open = new ArrayList<>();
    private final Map<String, Object> common = new HashMap<>();
    private final String name;
    private final Admin admin;
    private final KafkaConsumer<byte[], byte[]> assigned;
    /** By codec. */
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    /** By topic: how many records readers are to find. */
    private final Map<String, Integer> wanted = new HashMap<>();
    /** By reader and topic: the digest at each place. */
    private final Map<String, Map<String, String>> read = new HashMap<>();

    private Workload(Path settings, String name) throws IOException {
        this.name = name;
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(settings)) {
            properties.load(reader);
        }
        properties.forEach((key, value) -> common.put((String) key, value));
        admin = keep(Admin.create(settings(Map.of("client.id", "java-admin"))));
        assigned = keep(member("java-assigned", "assigned", "classic"));
    }

    public static void main(String[] arguments) throws Exception {
        Workload workload = new Workload(Path.of(arguments[0]), arguments[1]);
        workload.codecs();
        workload.transactions();
        workload.group("classic");
        workload.group("consumer");
        workload.share();
        workload.leaders();
        workload.deletion();
        workload.outage();
        workload.ledger();
        workload.stage("done");
        for (AutoCloseable one : workload.open) {
            one.close();
        }
    }

    // What is asked of us.

    private void stage(String word) throws IOException {
        System.out.println(word);
        String answer = in.readLine();
        check(answer != null, "nobody goes on");
        System.err.println("--- " + answer);
    }

    private void ledger() {
        read.forEach((reader, found) ->
                found.values().forEach(digest -> System.out.println("read " + reader + " " + digest)));
    }

    private static void check(boolean right, String what) {
        if (!right) {
            throw new IllegalStateException(what);
        }
    }

    private static void until(Callable<Boolean> condition, String what) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(PATIENCE_SECONDS).toNanos();
        while (true) {
            try {
                if (condition.call()) {
                    return;
                }
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof RetriableException)) {
                    throw error;
                }
            }
            check(System.nanoTime() < deadline, "not within " + PATIENCE_SECONDS + " s: " + what);
            Thread.sleep(50);
        }
    }

    // Clients.

    private <T extends AutoCloseable> T keep(T one) {
        open.add(one);
        return one;
    }

    private Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(common);
        settings.putAll(more);
        return settings;
    }

    private KafkaProducer<byte[], byte[]> producer(String id, Map<String, Object> more) {
        Map<String, Object> settings = settings(more);
        settings.put("client.id", id);
        return keep(new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer()));
    }

    private KafkaConsumer<byte[], byte[]> member(String id, String group, String protocol) {
        Map<String, Object> settings = settings(Map.of(
                "client.id", id,
                "group.id", name + "-" + group,
                "group.protocol", protocol,
                "enable.auto.commit", false,
                "isolation.level", "read_committed",
                "auto.offset.reset", "earliest"));
        if (protocol.equals("classic")) {
            settings.put("heartbeat.interval.ms", 500);
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private KafkaShareConsumer<byte[], byte[]> sharer(String id, String topic) {
        KafkaShareConsumer<byte[], byte[]> sharer = new KafkaShareConsumer<>(
                settings(Map.of("client.id", id, "group.id", name + "-share")),
                new ByteArrayDeserializer(),
                new ByteArrayDeserializer());
        sharer.subscribe(List.of(full(topic)));
        return sharer;
    }

    // Topics.

    private String full(String topic) {
        return name + "-" + topic;
    }

    /** Partition n is led by node n + 1 while all live. */
    private static List<Integer> replicas(int partition) {
        return Stream.of(0, 1, 2).map(place -> (partition + place) % 3 + 1).toList();
    }

    private void create(String topic) throws Exception {
        Map<Integer, List<Integer>> replicas = new HashMap<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            replicas.put(partition, replicas(partition));
        }
        admin.createTopics(List.of(new NewTopic(full(topic), replicas))).all().get();
        until(() -> leaders(topic).size() == PARTITIONS, topic + " has leaders");
    }

    private List<Integer> leaders(String topic) throws Exception {
        return admin.describeTopics(List.of(full(topic))).allTopicNames().get().get(full(topic)).partitions().stream()
                .map(TopicPartitionInfo::leader)
                .filter(Objects::nonNull)
                .map(Node::id)
                .toList();
    }

    private void elect(String topic, List<Integer> expected) throws Exception {
        Set<TopicPartition> all = Set.copyOf(partitions(topic));
        until(
                () -> {
                    admin.electLeaders(ElectionType.PREFERRED, all).partitions().get();
                    return leaders(topic).equals(expected);
                },
                "the leaders of " + topic + " are " + expected);
    }

    private List<TopicPartition> partitions(String topic) {
        return Stream.iterate(0, number -> number + 1)
                .limit(PARTITIONS)
                .map(partition -> new TopicPartition(full(topic), partition))
                .toList();
    }

    // Records, and what is noted of them.

    /** Values differ within a topic; null and empty keys, repeated headers, one without value. */
    private ProducerRecord<byte[], byte[]> record(String topic, String kind, int number) {
        byte[] key = number % 4 == 0 ? null : number % 4 == 1 ? new byte[0] : text("key " + number);
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                full(topic), number % PARTITIONS, key, text(kind + " " + number + " " + "é漢".repeat(number)));
        if (number % 2 == 1) {
            record.headers().add(new RecordHeader("repeated", text("" + number)));
            record.headers().add(new RecordHeader("repeated", new byte[0]));
            record.headers().add(new RecordHeader("null", (byte[]) null));
        }
        return record;
    }

    private static byte[] text(String value) {
        return value.getBytes(StandardCharsets.UTF_8);
    }

    private void send(KafkaProducer<byte[], byte[]> producer, String topic, String kind, int from, int to)
            throws ExecutionException, InterruptedException {
        List<Future<?>> futures = new ArrayList<>();
        for (int number = from; number < to; number++) {
            ProducerRecord<byte[], byte[]> record = record(topic, kind, number);
            note(record, "sent");
            futures.add(producer.send(record));
        }
        producer.flush();
        for (Future<?> future : futures) {
            future.get();
        }
    }

    private void note(ProducerRecord<byte[], byte[]> record, String what) {
        String topic = record.topic().substring(name.length() + 1);
        if (what.equals("sent")) {
            wanted.merge(topic, 1, Integer::sum);
        }
        System.out.println(what + " " + topic + " "
                + digest(topic, record.partition(), record.key(), record.value(), record.headers()));
    }

    private void take(String reader, ConsumerRecords<byte[], byte[]> records) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            String topic = record.topic().substring(name.length() + 1);
            String digest = digest(topic, record.partition(), record.key(), record.value(), record.headers());
            String before = found(reader, topic).put(record.partition() + "/" + record.offset(), digest);
            check(before == null || before.equals(digest), "another record than before at " + record.offset());
        }
    }

    private Map<String, String> found(String reader, String topic) {
        return read.computeIfAbsent(reader + " " + topic, unused -> new HashMap<>());
    }

    private boolean all(String reader, String topic) {
        return found(reader, topic).size() >= wanted.get(topic);
    }

    /** As tests/system/clients/workload.py makes it. */
    private static String digest(String topic, int partition, byte[] key, byte[] value, Iterable<Header> headers) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            add(digest, text(topic));
            add(digest, text("" + partition));
            add(digest, key);
            add(digest, value);
            for (Header header : headers) {
                add(digest, text(header.key()));
                add(digest, header.value());
            }
            return HexFormat.of().formatHex(digest.digest()).substring(0, 16);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static void add(MessageDigest digest, byte[] part) {
        digest.update(ByteBuffer.allocate(4).putInt(part == null ? -1 : part.length).array());
        if (part != null) {
            digest.update(part);
        }
    }

    // What it does.

    private void codecs() throws Exception {
        create("codecs");
        for (String codec : CODECS) {
            producers.put(codec, producer("java-" + codec, Map.of("compression.type", codec, "linger.ms", 5)));
            send(producers.get(codec), "codecs", codec, 0, 60);
        }
        readToTheEnd("codecs");
    }

    /** Without a group; what is there twice is found here. */
    private void readToTheEnd(String topic) throws Exception {
        List<TopicPartition> partitions = partitions(topic);
        assigned.assign(partitions);
        assigned.seekToBeginning(partitions);
        Map<TopicPartition, Long> ends = assigned.endOffsets(partitions);
        until(
                () -> {
                    take("assigned", assigned.poll(POLL));
                    return partitions.stream().allMatch(one -> assigned.position(one) >= ends.get(one));
                },
                topic + " is read to its end");
    }

    private void transactions() throws Exception {
        create("transactions");
        KafkaProducer<byte[], byte[]> producer =
                producer("java-transactions", Map.of("transactional.id", full("transactions")));
        KafkaConsumer<byte[], byte[]> member = keep(member("java-committing", "committing", "classic"));
        member.subscribe(List.of(full("transactions")));
        until(
                () -> {
                    member.poll(POLL);
                    return !member.assignment().isEmpty();
                },
                "a partition is assigned");
        producer.initTransactions();
        for (String kind : List.of("first", "aborted", "second")) {
            producer.beginTransaction();
            List<Future<?>> futures = new ArrayList<>();
            for (int number = 0; number < 6; number++) {
                ProducerRecord<byte[], byte[]> record = record("transactions", kind, number);
                note(record, kind.equals("aborted") ? "aborted" : "sent");
                futures.add(producer.send(record));
            }
            for (Future<?> future : futures) {
                future.get();
            }
            if (kind.equals("aborted")) {
                producer.abortTransaction();
                continue;
            }
            Map<TopicPartition, OffsetAndMetadata> nothing =
                    Map.of(new TopicPartition(full("transactions"), 0), new OffsetAndMetadata(0));
            producer.sendOffsetsToTransaction(nothing, member.groupMetadata());
            producer.commitTransaction();
        }
        poll(Map.of("committing", List.of(member)), () -> all("committing", "transactions"), "what was committed");
        readToTheEnd("transactions");
    }

    private void poll(
            Map<String, Collection<KafkaConsumer<byte[], byte[]>>> readers, Callable<Boolean> condition, String what)
            throws Exception {
        until(
                () -> {
                    readers.forEach(
                            (reader, members) -> members.forEach(member -> take(reader, member.poll(POLL))));
                    return condition.call();
                },
                what);
    }

    /** Where each of them is; polling ends what moves the group. */
    private void commit(String reader, List<KafkaConsumer<byte[], byte[]>> members) throws Exception {
        for (KafkaConsumer<byte[], byte[]> member : members) {
            until(
                    () -> {
                        try {
                            member.commitSync();
                            return true;
                        } catch (CommitFailedException | RebalanceInProgressException moving) {
                            members.forEach(one -> take(reader, one.poll(POLL)));
                            return false;
                        }
                    },
                    "positions are committed");
        }
    }

    /** A member joins, and another one leaves. */
    private void group(String protocol) throws Exception {
        create(protocol);
        KafkaProducer<byte[], byte[]> producer = producers.get("gzip");
        send(producer, protocol, "alone", 0, 30);
        KafkaConsumer<byte[], byte[]> first = member("java-first", protocol, protocol);
        first.subscribe(List.of(full(protocol)));
        poll(
                Map.of(protocol, List.of(first)),
                () -> first.assignment().size() == PARTITIONS && all(protocol, protocol),
                "the first member reads all");
        KafkaConsumer<byte[], byte[]> second = keep(member("java-second", protocol, protocol));
        second.subscribe(List.of(full(protocol)));
        poll(
                Map.of(protocol, List.of(first, second)),
                () -> Stream.of(first, second).allMatch(one -> Set.of(1, 2).contains(one.assignment().size())),
                "both have a share");
        send(producer, protocol, "together", 30, 60);
        poll(Map.of(protocol, List.of(first, second)), () -> all(protocol, protocol), "both read all");
        commit(protocol, List.of(first, second));
        first.close();
        send(producer, protocol, "left", 60, 90);
        poll(
                Map.of(protocol, List.of(second)),
                () -> second.assignment().size() == PARTITIONS && all(protocol, protocol),
                "who is left reads all");
        commit(protocol, List.of(second));
        readToTheEnd(protocol);
    }

    private void share() throws Exception {
        create("share");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, full("share"));
        AlterConfigOp earliest =
                new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
        KafkaProducer<byte[], byte[]> producer = producers.get("snappy");
        send(producer, "share", "alone", 0, 30);
        KafkaShareConsumer<byte[], byte[]> first = sharer("java-first-sharer", "share");
        sharePoll(List.of(first), () -> all("share", "share"), "the first member reads all");
        KafkaShareConsumer<byte[], byte[]> second = keep(sharer("java-second-sharer", "share"));
        sharePoll(
                List.of(first, second),
                () -> admin.describeShareGroups(List.of(full("share"))).all().get().get(full("share")).members().size()
                        == 2,
                "both are members");
        send(producer, "share", "together", 30, 60);
        sharePoll(List.of(first, second), () -> all("share", "share"), "both read all");
        first.close();
        send(producer, "share", "left", 60, 90);
        sharePoll(List.of(second), () -> all("share", "share"), "who is left reads all");
        readToTheEnd("share");
    }

    private void sharePoll(
            List<KafkaShareConsumer<byte[], byte[]>> members, Callable<Boolean> condition, String what)
            throws Exception {
        until(
                () -> {
                    for (KafkaShareConsumer<byte[], byte[]> member : members) {
                        take("share", member.poll(POLL));
                        for (Optional<?> error : member.commitSync().values()) {
                            check(error.isEmpty(), "acknowledging: " + error);
                        }
                    }
                    return condition.call();
                },
                what);
    }

    /** Every leader moves twice, while somebody sends and reads. */
    private void leaders() throws Exception {
        create("leaders");
        KafkaProducer<byte[], byte[]> producer = producers.get("lz4");
        KafkaConsumer<byte[], byte[]> reader = keep(member("java-follower", "follower", "classic"));
        reader.assign(partitions("leaders"));
        reader.seekToBeginning(partitions("leaders"));
        for (int round = 0; round < 3; round++) {
            send(producer, "leaders", "round", round * 15, round * 15 + 15);
            poll(Map.of("follower", List.of(reader)), () -> all("follower", "leaders"), "what was sent");
            Map<TopicPartition, Optional<NewPartitionReassignment>> moved = new HashMap<>();
            List<Integer> expected = new ArrayList<>();
            for (TopicPartition partition : partitions("leaders")) {
                List<Integer> replicas = replicas(partition.partition() + round + 1);
                moved.put(partition, Optional.of(new NewPartitionReassignment(replicas)));
                expected.add(replicas.get(0));
            }
            admin.alterPartitionReassignments(moved).all().get();
            elect("leaders", expected);
        }
        readToTheEnd("leaders");
    }

    private void deletion() throws Exception {
        create("short-lived");
        send(producers.get("zstd"), "short-lived", "soon gone", 0, 3);
        admin.deleteTopics(List.of(full("short-lived"))).all().get();
        until(() -> !admin.listTopics().names().get().contains(full("short-lived")), "the topic goes");
    }

    /** A broker is killed while records are sent, and starts again. */
    private void outage() throws Exception {
        create("outage");
        // A batch that comes after one whose leader was killed can be refused for ever.
        KafkaProducer<byte[], byte[]> producer = producer(
                "java-outage", Map.of("compression.type", "zstd", "max.in.flight.requests.per.connection", 1));
        Map<String, Collection<KafkaConsumer<byte[], byte[]>>> readers = new HashMap<>();
        for (String protocol : List.of("classic", "consumer")) {
            KafkaConsumer<byte[], byte[]> member = keep(member("java-outage-" + protocol, "outage-" + protocol, protocol));
            member.subscribe(List.of(full("outage")));
            readers.put("outage-" + protocol, List.of(member));
        }
        poll(
                readers,
                () -> readers.values().stream().flatMap(Collection::stream).allMatch(one -> one.assignment().size() == 3),
                "partitions are assigned");
        stage("steady");
        pace(producer, readers, 0);
        stage("survived");
        elect("outage", List.of(1, 2, 3));
        pace(producer, readers, 60);
        readToTheEnd("outage");
    }

    private void pace(
            KafkaProducer<byte[], byte[]> producer,
            Map<String, Collection<KafkaConsumer<byte[], byte[]>>> readers,
            int from)
            throws Exception {
        List<Future<?>> futures = new ArrayList<>();
        for (int number = from; number < from + 60; number++) {
            ProducerRecord<byte[], byte[]> record = record("outage", "paced", number);
            note(record, "sent");
            futures.add(producer.send(record));
            readers.forEach((reader, members) -> members.forEach(member -> take(reader, member.poll(Duration.ofMillis(20)))));
        }
        producer.flush();
        for (Future<?> future : futures) {
            future.get();
        }
        poll(readers, () -> readers.keySet().stream().allMatch(one -> all(one, "outage")), "what was sent");
    }
}
