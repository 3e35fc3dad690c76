package kproxy.oracle;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.serialization.AbstractApiMessageSerde;
import org.apache.kafka.server.log.remote.metadata.storage.generated.MetadataRecordType;

/**
 * What Kafka's own classes read in records of internal topics.
 *
 * <p>Takes lines "topic, key, value" with tabs between them (base64, "null" for none) and answers each with a line of
 * JSON: {"key": {"type", "data"}, "value": {"type", "version", "data"}}, or a string that says what is wrong.
 */
public final class RecordJudge {
    private static final ObjectMapper MAPPER =
            JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    private static final AbstractApiMessageSerde REMOTE_STORAGE = new AbstractApiMessageSerde() {
        @Override
        public ApiMessage apiMessageFor(short type) {
            return MetadataRecordType.fromId(type).newMetadataRecord();
        }
    };

    private interface KeyToJson {
        JsonNode write(ApiMessage message);
    }

    private interface ToJson {
        JsonNode write(ApiMessage message, short version);
    }

    private RecordJudge() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            JsonNode answer;
            try {
                answer = read(parts[0], bytes(parts[1]), bytes(parts[2]));
            } catch (RuntimeException problem) {
                answer = MAPPER.valueToTree(problem.toString());
            }
            out.println(MAPPER.writeValueAsString(answer));
        }
        out.flush();
    }

    private static ByteBuffer bytes(String text) {
        return text.equals("null") ? null : ByteBuffer.wrap(Base64.getDecoder().decode(text));
    }

    private static JsonNode read(String topic, ByteBuffer key, ByteBuffer value) {
        return switch (topic) {
            case "__consumer_offsets" ->
                coordinator(
                        new GroupCoordinatorRecordSerde(),
                        org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters
                                ::writeRecordKeyAsJson,
                        org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters
                                ::writeRecordValueAsJson,
                        key,
                        value);
            case "__transaction_state" ->
                coordinator(
                        new TransactionCoordinatorRecordSerde(),
                        org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters
                                ::writeRecordKeyAsJson,
                        org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters
                                ::writeRecordValueAsJson,
                        key,
                        value);
            case "__share_group_state" ->
                coordinator(
                        new ShareCoordinatorRecordSerde(),
                        org.apache.kafka.coordinator.share.generated.CoordinatorRecordJsonConverters
                                ::writeRecordKeyAsJson,
                        org.apache.kafka.coordinator.share.generated.CoordinatorRecordJsonConverters
                                ::writeRecordValueAsJson,
                        key,
                        value);
            case "__cluster_metadata" ->
                metadata(MetadataRecordSerde.INSTANCE, MetadataJsonConverters::writeJson, value);
            case "__remote_log_metadata" ->
                metadata(
                        REMOTE_STORAGE,
                        org.apache.kafka.server.log.remote.metadata.storage.generated.MetadataJsonConverters::writeJson,
                        value);
            default -> throw new IllegalArgumentException(topic);
        };
    }

    private static JsonNode coordinator(
            CoordinatorRecordSerde serde, KeyToJson keyToJson, ToJson valueToJson, ByteBuffer key, ByteBuffer value) {
        CoordinatorRecord record = serde.deserialize(key, value);
        short type = record.key().apiKey();
        ObjectNode answer = JsonNodeFactory.instance.objectNode();
        answer.putObject("key").put("type", type).set("data", keyToJson.write(record.key()));
        if (record.value() == null) {
            answer.putNull("value");
        } else {
            answer.set("value", shown(type, record.value(), valueToJson));
        }
        return answer;
    }

    private static JsonNode metadata(AbstractApiMessageSerde serde, ToJson toJson, ByteBuffer value) {
        ApiMessageAndVersion record = serde.read(new ByteBufferAccessor(value), value.remaining());
        ObjectNode answer = JsonNodeFactory.instance.objectNode();
        answer.putNull("key");
        answer.set("value", shown(record.message().apiKey(), record, toJson));
        return answer;
    }

    private static ObjectNode shown(short type, ApiMessageAndVersion value, ToJson toJson) {
        ObjectNode shown = JsonNodeFactory.instance.objectNode();
        shown.put("type", type).put("version", value.version());
        shown.set("data", toJson.write(value.message(), value.version()));
        return shown;
    }
}
