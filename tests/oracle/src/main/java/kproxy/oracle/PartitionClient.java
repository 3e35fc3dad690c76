package kproxy.oracle;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes records of every shape, or reads a partition and prints what it finds.
 *
 * <p>Arguments: "produce", bootstrap servers, topic, then codecs; or "consume", bootstrap servers, topics. What is read of
 * partition 0 of each topic comes out as one JSON object a line, with keys, values and header values in base64.
 */
public final class PartitionClient {
    private static final long TIME = 1_700_000_000_000L;

    private PartitionClient() {}

    public static void main(String[] args) throws Exception {
        List<String> rest = List.of(args).subList(2, args.length);
        if (args[0].equals("produce")) {
            produce(args[1], rest.get(0), rest.subList(1, rest.size()));
        } else {
            consume(args[1], rest);
        }
    }

    private static byte[] text(String value) {
        return value.getBytes(StandardCharsets.UTF_8);
    }

    private static void produce(String bootstrap, String topic, List<String> codecs) throws Exception {
        for (String codec : codecs) {
            Map<String, Object> settings = Map.of(
                    "bootstrap.servers", bootstrap, "client.id", "java-" + codec, "compression.type", codec,
                    "linger.ms", 200, "batch.size", 4000);
            try (KafkaProducer<byte[], byte[]> producer =
                    new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int i = 0; i < 40; i++) {
                    byte[] key = i % 4 == 0 ? null : text("key " + i);
                    byte[] value = i % 7 == 3 ? null : i % 7 == 4 ? new byte[0] : text(codec + " " + "é漢".repeat(i) + i);
                    RecordHeaders headers = new RecordHeaders();
                    for (int j = 0; j < i % 3; j++) {
                        headers.add("repeated", text("value " + j)).add("null", null);
                    }
                    producer.send(new ProducerRecord<>(topic, 0, TIME + i * 1000L, key, value, headers));
                }
                producer.flush();
            }
        }
    }

    private static void consume(String bootstrap, List<String> topics) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "client.id", "java-judge");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (String topic : topics) {
                TopicPartition partition = new TopicPartition(topic, 0);
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                long end = consumer.endOffsets(List.of(partition)).get(partition);
                while (consumer.position(partition) < end) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                        System.out.println(mapper.writeValueAsString(shown(mapper, record)));
                    }
                }
            }
        }
    }

    private static ObjectNode shown(ObjectMapper mapper, ConsumerRecord<byte[], byte[]> record) {
        ObjectNode shown = mapper.createObjectNode();
        shown.put("topic", record.topic());
        shown.put("offset", record.offset());
        shown.put("timestamp", record.timestamp());
        shown.put("key", blob(record.key()));
        shown.put("value", blob(record.value()));
        ArrayNode headers = shown.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(blob(header.value()));
        }
        return shown;
    }

    private static String blob(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }
}
