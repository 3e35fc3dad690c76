package kproxy.oracle;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A share group (KIP-932); arguments and ending as those of {@link Client}. Needs kafka-clients 4. */
public final class ShareClient {
    private static final int MESSAGES = 100;

    private ShareClient() {}

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String name = args[1];
        Deque<AutoCloseable> open = new ArrayDeque<>();
        Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        open.push(admin);
        admin.createTopics(List.of(new NewTopic(name, 2, Short.parseShort(args[2])))).all().get();
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name + "-share");
        AlterConfigOp earliest =
                new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();

        KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer());
        open.push(producer);
        Set<String> sent = new TreeSet<>();
        for (int i = 0; i < MESSAGES; i++) {
            sent.add("shared " + i);
            producer.send(new ProducerRecord<>(name, "shared " + i));
        }
        producer.flush();

        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(
                Map.of("bootstrap.servers", bootstrap, "group.id", name + "-share"),
                new StringDeserializer(),
                new StringDeserializer());
        open.push(consumer);
        consumer.subscribe(List.of(name));
        Set<String> read = new TreeSet<>();
        long deadline = System.nanoTime() + Duration.ofSeconds(90).toNanos();
        while (!read.equals(sent)) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("read only " + read.size() + " of " + sent.size());
            }
            for (ConsumerRecord<String, String> found : consumer.poll(Duration.ofMillis(200))) {
                read.add(found.value());
            }
            consumer.commitSync();
        }
        Client.untilAsked(open);
    }
}
