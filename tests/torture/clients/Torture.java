import java.io.FileWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;

/** The Java client: what kproxy torture asks for in the environment. */
class Torture {
    static final int BATCH = 10;
    static final int PARTITIONS = 3;
    /** Polls in a row without records, after which a consumer that has seen all is at the end of the topic. */
    static final int QUIET = 2;
    static final int RECORDS = Integer.parseInt(System.getenv("KPROXY_RECORDS"));
    static final String TOPIC = System.getenv("KPROXY_TOPIC");

    static Properties settings(String... more) {
        Properties made = new Properties();
        String package_ = "org.apache.kafka.common.serialization.String";
        made.putAll(Map.of(
            "bootstrap.servers", System.getenv("KPROXY_BOOTSTRAP"), "request.timeout.ms", "4000",
            "key.deserializer", package_ + "Deserializer", "value.deserializer", package_ + "Deserializer",
            "key.serializer", package_ + "Serializer", "value.serializer", package_ + "Serializer"));
        for (int place = 0; place < more.length; place += 2) made.put(more[place], more[place + 1]);
        return made;
    }

    static List<Future<?>> send(KafkaProducer<String, String> producer, int first) {
        List<Future<?>> sent = new ArrayList<>();
        for (int number = first; number < Math.min(first + BATCH, RECORDS); number++) {
            sent.add(producer.send(new ProducerRecord<>(TOPIC, number % PARTITIONS, null, "" + number)));
        }
        return sent;
    }

    static void produce() throws Exception {
        Properties how = settings("enable.idempotence", "true", "linger.ms", "5", "delivery.timeout.ms", "30000");
        try (var producer = new KafkaProducer<String, String>(how)) {
            for (int first = 0; first < RECORDS; first += BATCH) {
                for (Future<?> future : send(producer, first)) future.get();
                Thread.sleep(300);
            }
        }
    }

    static void transact() throws Exception {
        Properties how = settings(
            "transactional.id", System.getenv("KPROXY_TRANSACTIONAL_ID"), "transaction.timeout.ms", "20000",
            "delivery.timeout.ms", "20000", "max.block.ms", "20000");
        try (var producer = new KafkaProducer<String, String>(how)) {
            producer.initTransactions();
            for (int first = 0; first < RECORDS; first += BATCH) {
                producer.beginTransaction();
                send(producer, first);
                producer.commitTransaction();
                Thread.sleep(300);
            }
        }
    }

    static void consume() throws Exception {
        Properties how = settings(
            "group.id", System.getenv("KPROXY_GROUP"), "auto.offset.reset", "earliest", "enable.auto.commit", "false",
            "isolation.level", "read_committed", "session.timeout.ms", "10000", "heartbeat.interval.ms", "500",
            "max.poll.records", "" + BATCH, "metadata.max.age.ms", "2000", "default.api.timeout.ms", "10000");
        Set<String> seen = new HashSet<>();
        boolean committed = false;
        int quiet = 0;
        try (var consumer = new KafkaConsumer<String, String>(how);
                var file = new FileWriter(System.getenv("KPROXY_READ"))) {
            consumer.subscribe(List.of(TOPIC));
            while (seen.size() < RECORDS || !committed || quiet < QUIET) {
                var found = consumer.poll(Duration.ofSeconds(1));
                for (var record : found) {
                    seen.add(record.value());
                    file.write(record.value() + "\n");
                    file.flush();
                }
                quiet = found.isEmpty() ? quiet + 1 : 0;
                if (!found.isEmpty() || (!committed && quiet >= QUIET)) {
                    try {
                        consumer.commitSync();
                        committed = true;
                    } catch (KafkaException error) {
                        System.out.println("commit: " + error);
                        committed = false;
                    }
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        try {
            switch (System.getenv("KPROXY_ROLE")) {
                case "produce" -> produce();
                case "transact" -> transact();
                case "consume" -> consume();
                default -> throw new IllegalArgumentException("the role is unknown");
            }
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }
}
