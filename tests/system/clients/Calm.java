import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** Clients of the Java library that do nothing wrong: bootstrap, seconds. */
class Calm {
    static String bootstrap;
    static int seconds;

    static Properties settings(String client, String... more) {
        Properties made = new Properties();
        String package_ = "org.apache.kafka.common.serialization.ByteArray";
        made.putAll(Map.of(
            "bootstrap.servers", bootstrap, "client.id", client,
            "key.deserializer", package_ + "Deserializer", "value.deserializer", package_ + "Deserializer",
            "key.serializer", package_ + "Serializer", "value.serializer", package_ + "Serializer"));
        for (int place = 0; place < more.length; place += 2) made.put(more[place], more[place + 1]);
        return made;
    }

    interface Work {
        void run() throws Exception;
    }

    static Thread start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable problem) {
                System.out.println("FAILED " + problem);
            }
        });
        thread.start();
        return thread;
    }

    static Thread member(String client, String group, String topic, String protocol, AtomicBoolean stop) {
        return start(() -> {
            Properties how = settings(
                client, "group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest");
            try (var consumer = new KafkaConsumer<byte[], byte[]>(how)) {
                consumer.subscribe(List.of(topic));
                while (!stop.get()) consumer.poll(Duration.ofMillis(200));
            }
        });
    }

    /** A group of three members that grows to five, and shrinks again. */
    static void scales(String protocol) throws Exception {
        List<AtomicBoolean> stops = new ArrayList<>();
        List<Thread> members = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            if (number == 3) Thread.sleep(seconds * 300L);
            stops.add(new AtomicBoolean());
            members.add(member(protocol + "-" + number, "java-" + protocol, "orders", protocol, stops.get(number)));
            if (number > 2) Thread.sleep(1000);
        }
        Thread.sleep(seconds * 300L);
        for (int number = 4; number >= 0; number--) {
            if (number == 2) Thread.sleep(seconds * 300L);
            stops.get(number).set(true);
            members.get(number).join();
        }
    }

    static void idles(String protocol) throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        Thread member = member("idle-" + protocol, "java-idle-" + protocol, "empty", protocol, stop);
        Thread.sleep(seconds * 1000L);
        stop.set(true);
        member.join();
    }

    static void shares(String client, long until) throws Exception {
        try (var consumer = new KafkaShareConsumer<byte[], byte[]>(settings(client, "group.id", "java-share"))) {
            consumer.subscribe(List.of("orders"));
            while (System.nanoTime() < until) consumer.poll(Duration.ofMillis(200));
        }
    }

    static void produces(long until) throws Exception {
        try (var producer = new KafkaProducer<byte[], byte[]>(settings("java-producer"))) {
            while (System.nanoTime() < until) {
                producer.send(new ProducerRecord<>("orders", new byte[200]));
                Thread.sleep(40);
            }
        }
    }

    /** Reads, processes and writes within transactions, as Kafka Streams does. */
    static void processes(long until) throws Exception {
        Properties reading = settings(
            "exact-reader", "group.id", "exact", "auto.offset.reset", "earliest", "enable.auto.commit", "false",
            "isolation.level", "read_committed");
        try (var producer = new KafkaProducer<byte[], byte[]>(settings("exact", "transactional.id", "exact"));
             var consumer = new KafkaConsumer<byte[], byte[]>(reading)) {
            producer.initTransactions();
            consumer.subscribe(List.of("orders"));
            while (System.nanoTime() < until) {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(100));
                if (found.isEmpty()) continue;
                try {
                    producer.beginTransaction();
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    for (var one : found) {
                        producer.send(new ProducerRecord<>("payments", one.key(), one.value()));
                        offsets.put(
                            new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
                    }
                    producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                    producer.commitTransaction();
                } catch (KafkaException problem) {
                    producer.abortTransaction();
                }
                Thread.sleep(100);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        seconds = Integer.parseInt(arguments[1]);
        long until = System.nanoTime() + seconds * 900_000_000L;
        List<Work> works = List.of(
            () -> scales("classic"), () -> scales("consumer"), () -> idles("classic"), () -> idles("consumer"),
            () -> shares("share-1", until), () -> shares("share-2", until), () -> produces(until),
            () -> processes(until));
        List<Thread> threads = new ArrayList<>();
        for (Work work : works) threads.add(start(work));
        for (Thread thread : threads) thread.join();
    }
}
