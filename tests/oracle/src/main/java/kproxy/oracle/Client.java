package kproxy.oracle;

import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What an application does with the Java client: admin calls, producing, a group, a transaction.
 *
 * <p>Arguments: bootstrap servers, a name for topics and groups, copies of each partition, then any of "modern" (the
 * broker is not of the ZooKeeper era). Says "open" when all is done and every connection still stands, and ends when a
 * line comes in. Any call that fails ends it with a stack trace.
 */
public final class Client {
    private static final int MESSAGES = 200;
    private static final Duration POLL = Duration.ofMillis(200);

    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private final Map<String, Object> common;
    private final String name;
    private final short copies;
    private final boolean modern;

    private Client(String[] args) throws IOException {
        common = common(args[0]);
        name = args[1];
        copies = Short.parseShort(args[2]);
        modern = Set.of(args).contains("modern");
    }

    public static void main(String[] args) throws Exception {
        Client client = new Client(args);
        client.admin();
        client.produceAndConsume();
        client.transaction();
        if (client.modern) {
            client.newGroup();
        }
        untilAsked(client.open);
    }

    /** Hold the connections until somebody has looked at them, then close all. */
    static void untilAsked(Deque<AutoCloseable> open) throws Exception {
        System.out.println("open");
        if (System.in.read() < 0) {
            throw new IOException("nobody asked for the end");
        }
        while (!open.isEmpty()) {
            open.pop().close();
        }
        System.out.println("closed");
    }

    private <T extends AutoCloseable> T keep(T closeable) {
        open.push(closeable);
        return closeable;
    }

    private static void check(boolean right, String what) {
        if (!right) {
            throw new IllegalStateException(what);
        }
    }

    /** Ask again: a broker hears of a new topic a little after the controller. */
    private static void until(Callable<Boolean> condition, String otherwise) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (true) {
            try {
                if (condition.call()) {
                    return;
                }
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof UnknownTopicOrPartitionException)) {
                    throw error;
                }
            }
            check(System.nanoTime() < deadline, otherwise);
            Thread.sleep(50);
        }
    }

    private void admin() throws Exception {
        Admin admin = keep(Admin.create(settings(Map.of("client.id", "java-admin"))));
        check(!admin.describeCluster().nodes().get().isEmpty(), "no nodes");
        admin.createTopics(List.of(new NewTopic(name, 3, copies), new NewTopic(name + "-tx", 2, copies)))
                .all()
                .get();
        until(() -> admin.listTopics().names().get().contains(name), "the topic is not listed");
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4))).all().get();
        until(
                () -> admin.describeTopics(List.of(name)).allTopicNames().get().get(name).partitions().size() >= 3,
                "the partitions are not described");
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, name);
        if (modern) {
            AlterConfigOp set = new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(topic, List.of(set))).all().get();
            admin.describeFeatures().featureMetadata().get();
            admin.describeMetadataQuorum().quorumInfo().get();
            admin.describeProducers(List.of(new TopicPartition(name, 0))).all().get();
            admin.listOffsets(Map.of(new TopicPartition(name, 0), OffsetSpec.latest())).all().get();
        }
        check(admin.describeConfigs(List.of(topic)).all().get().get(topic).get("retention.ms") != null, "no config");
        admin.describeLogDirs(admin.describeCluster().nodes().get().stream().map(node -> node.id()).toList())
                .allDescriptions()
                .get();
    }

    /** What every client gets: the bootstrap servers and the file that -Dkproxy.settings names. */
    private static Map<String, Object> common(String bootstrap) throws IOException {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        String file = System.getProperty("kproxy.settings");
        if (file != null) {
            Properties read = new Properties();
            try (Reader reader = Files.newBufferedReader(Path.of(file))) {
                read.load(reader);
            }
            read.forEach((key, value) -> settings.put((String) key, value));
        }
        return settings;
    }

    private Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(common);
        settings.putAll(more);
        return settings;
    }

    private KafkaProducer<byte[], byte[]> producer(String id, Map<String, Object> more) {
        Map<String, Object> settings = settings(Map.of("client.id", id));
        settings.putAll(more);
        return keep(new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer()));
    }

    private KafkaConsumer<byte[], byte[]> consumer(String id, String group, Map<String, Object> more) {
        Map<String, Object> settings = settings(Map.of(
                "client.id", id,
                "group.id", group,
                "enable.auto.commit", false,
                "isolation.level", "read_committed",
                "auto.offset.reset", "earliest"));
        settings.putAll(more);
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        // With an old broker a close may take its whole time limit, 30 s unless told otherwise.
        open.push(() -> consumer.close(Duration.ofSeconds(2)));
        return consumer;
    }

    private static byte[] text(String value) {
        return value.getBytes(StandardCharsets.UTF_8);
    }

    private void produceAndConsume() throws ExecutionException, InterruptedException {
        Set<String> sent = new TreeSet<>();
        List<String> codecs = new ArrayList<>(List.of("none", "gzip", "snappy", "lz4"));
        if (modern) {
            codecs.add("zstd");
        }
        for (String codec : codecs) {
            KafkaProducer<byte[], byte[]> producer =
                    producer("java-" + codec, Map.of("compression.type", codec, "linger.ms", 5));
            for (int i = 0; i < MESSAGES; i++) {
                String value = codec + " " + i + " " + "é漢".repeat(i);
                sent.add(value);
                producer.send(new ProducerRecord<>(name, text("key " + i), text(value)));
            }
            producer.flush();
        }
        KafkaProducer<byte[], byte[]> careless = producer("java-acks-0", Map.of("acks", "0", "enable.idempotence", false));
        careless.send(new ProducerRecord<>(name, text("nobody answers"))).get();
        sent.add("nobody answers");
        readInGroup(name + "-group", Map.of(), sent);
    }

    private void newGroup() {
        Set<String> sent = new TreeSet<>(Set.of("first 0", "first 1", "second 0", "second 1"));
        KafkaConsumer<byte[], byte[]> consumer =
                consumer("java-new-group", name + "-new", Map.of("group.protocol", "consumer"));
        consumer.subscribe(List.of(name + "-tx"));
        Set<String> read = new TreeSet<>();
        poll(List.of(consumer), sent, read);
        consumer.commitSync();
    }

    /** Two members share the topic; both commit. */
    private void readInGroup(String group, Map<String, Object> more, Set<String> sent) {
        List<KafkaConsumer<byte[], byte[]>> members = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            KafkaConsumer<byte[], byte[]> member = consumer("java-member-" + i, group, more);
            member.subscribe(List.of(name));
            members.add(member);
        }
        Set<String> read = new TreeSet<>();
        poll(members, sent, read);
        for (KafkaConsumer<byte[], byte[]> member : members) {
            Set<TopicPartition> assigned = member.assignment();
            member.commitSync();
            check(!member.committed(assigned).isEmpty(), "nothing is committed");
            member.endOffsets(assigned);
        }
    }

    private static void poll(
            Collection<KafkaConsumer<byte[], byte[]>> members, Set<String> wanted, Set<String> read) {
        long deadline = System.nanoTime() + Duration.ofSeconds(90).toNanos();
        // Every member has its share: the group is then at rest, and takes commits.
        while (!read.containsAll(wanted) || members.stream().anyMatch(member -> member.assignment().isEmpty())) {
            check(System.nanoTime() < deadline, "read only " + read.size() + " of " + wanted.size());
            for (KafkaConsumer<byte[], byte[]> member : members) {
                for (ConsumerRecord<byte[], byte[]> found : member.poll(POLL)) {
                    String value = new String(found.value(), StandardCharsets.UTF_8);
                    check(wanted.contains(value), "read what nobody sent: " + value);
                    read.add(value);
                }
            }
        }
    }

    private void transaction() throws ExecutionException, InterruptedException {
        String topic = name + "-tx";
        KafkaProducer<byte[], byte[]> producer = producer("java-tx", Map.of("transactional.id", name + "-tx"));
        KafkaConsumer<byte[], byte[]> consumer = consumer("java-tx-reader", name + "-tx-group", Map.of());
        consumer.subscribe(List.of(topic));
        poll(List.of(consumer), Set.of(), new TreeSet<>());
        producer.initTransactions();
        for (String round : List.of("first", "aborted", "second")) {
            producer.beginTransaction();
            for (int i = 0; i < 2; i++) {
                producer.send(new ProducerRecord<>(topic, i, null, text(round + " " + i))).get();
            }
            if (round.equals("aborted")) {
                producer.abortTransaction();
                continue;
            }
            producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(0)),
                    // Brokers before 2.5 take no member in it.
                    modern ? consumer.groupMetadata() : new ConsumerGroupMetadata(name + "-tx-group"));
            producer.commitTransaction();
        }
        Set<String> committed = new TreeSet<>(Set.of("first 0", "first 1", "second 0", "second 1"));
        consumer.seekToBeginning(consumer.assignment());
        poll(List.of(consumer), committed, new TreeSet<>());
    }
}
