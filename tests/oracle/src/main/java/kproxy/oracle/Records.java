package kproxy.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.KRaftVersionRecordJsonConverter;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.LeaderChangeMessageJsonConverter;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotFooterRecordJsonConverter;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecordJsonConverter;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.message.VotersRecordJsonConverter;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Utils;

/**
 * Records as Kafka's own classes read and write them.
 *
 * <p>Without arguments takes a records field (base64) a line and answers each with a line of JSON: its batches, or a
 * string that says what is wrong. With a seed and a number it writes so many random fields, each as {"bytes",
 * "batches"}.
 */
public final class Records {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Base64.Encoder BASE64 = Base64.getEncoder();

    private Records() {}

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        if (args.length == 2) {
            Random random = new Random(Long.parseLong(args[0]));
            for (int i = Integer.parseInt(args[1]); i > 0; i--) {
                byte[] bytes = write(random);
                ObjectNode line = MAPPER.createObjectNode();
                line.put("bytes", BASE64.encodeToString(bytes));
                line.set("batches", read(bytes));
                out.println(MAPPER.writeValueAsString(line));
            }
        } else {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                try {
                    out.println(MAPPER.writeValueAsString(read(Base64.getDecoder().decode(line))));
                } catch (KafkaException | IllegalArgumentException problem) {
                    out.println(MAPPER.writeValueAsString(problem.toString()));
                }
            }
        }
        out.flush();
    }

    private static ArrayNode read(byte[] bytes) {
        ArrayNode batches = MAPPER.createArrayNode();
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            ObjectNode one = batches.addObject();
            one.put("magic", batch.magic());
            one.put("sizeInBytes", batch.sizeInBytes());
            one.put("compression", batch.compressionType().name);
            one.put("timestampType", batch.timestampType().name);
            one.put("maxTimestamp", batch.maxTimestamp());
            one.put("baseOffset", batch.baseOffset());
            one.put("lastOffset", batch.lastOffset());
            one.put("producerId", batch.producerId());
            one.put("producerEpoch", batch.producerEpoch());
            one.put("baseSequence", batch.baseSequence());
            one.put("partitionLeaderEpoch", batch.partitionLeaderEpoch());
            one.put("isTransactional", batch.isTransactional());
            one.put("isControl", batch.isControlBatch());
            batch.deleteHorizonMs().ifPresent(time -> one.put("deleteHorizon", time));
            ArrayNode records = one.putArray("records");
            for (Record record : batch) {
                ObjectNode shown = records.addObject();
                shown.put("offset", record.offset());
                shown.put("timestamp", record.timestamp());
                shown.put("key", text(record.key()));
                shown.put("value", text(record.value()));
                if (batch.isControlBatch()) {
                    ControlRecordType type = ControlRecordType.parse(record.key());
                    shown.put("type", type.name());
                    shown.set("decoded", decoded(type, record));
                }
                ArrayNode headers = shown.putArray("headers");
                for (Header header : record.headers()) {
                    headers.addArray()
                            .add(header.key())
                            .add(header.value() == null ? null : BASE64.encodeToString(header.value()));
                }
            }
        }
        return batches;
    }

    private static JsonNode decoded(ControlRecordType type, Record record) {
        switch (type) {
            case LEADER_CHANGE:
                LeaderChangeMessage change = ControlRecordUtils.deserializeLeaderChangeMessage(record);
                return LeaderChangeMessageJsonConverter.write(change, change.version());
            case SNAPSHOT_HEADER:
                return SnapshotHeaderRecordJsonConverter.write(
                        ControlRecordUtils.deserializeSnapshotHeaderRecord(record), (short) 0);
            case SNAPSHOT_FOOTER:
                return SnapshotFooterRecordJsonConverter.write(
                        ControlRecordUtils.deserializeSnapshotFooterRecord(record), (short) 0);
            case KRAFT_VERSION:
                return KRaftVersionRecordJsonConverter.write(
                        ControlRecordUtils.deserializeKRaftVersionRecord(record), (short) 0);
            case KRAFT_VOTERS:
                return VotersRecordJsonConverter.write(
                        ControlRecordUtils.deserializeVotersRecord(record), (short) 0);
            default:
                return MAPPER.createObjectNode()
                        .put("version", 0)
                        .put("coordinatorEpoch", EndTransactionMarker.deserialize(record).coordinatorEpoch());
        }
    }

    private static String text(ByteBuffer bytes) {
        return bytes == null ? null : BASE64.encodeToString(Utils.toArray(bytes));
    }

    private static byte[] write(Random random) {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        long offset = random.nextInt(1000);
        for (int i = 1 + random.nextInt(3); i > 0; i--) {
            byte magic = (byte) random.nextInt(3);
            CompressionType[] codecs = CompressionType.values();
            CompressionType codec = codecs[random.nextInt(magic == 2 ? codecs.length : 4)];
            TimestampType type = magic == 0
                    ? TimestampType.NO_TIMESTAMP_TYPE
                    : random.nextBoolean() ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME;
            boolean transactional = magic == 2 && random.nextBoolean();
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                    buffer, magic, Compression.of(codec).build(), type, offset, random.nextInt(1 << 30),
                    transactional ? random.nextInt(9) : -1, (short) (transactional ? 3 : -1),
                    transactional ? 7 : -1, transactional, false, random.nextInt(9), buffer.capacity());
            for (int j = 1 + random.nextInt(random.nextInt(8) == 0 ? 300 : 6); j > 0; j--) {
                long time = magic == 0 ? -1 : 1_700_000_000_000L + random.nextInt(1 << 20);
                byte[] key = blob(random, 20);
                byte[] value = blob(random, random.nextInt(8) == 0 ? 20_000 : 60);
                if (magic == 2) {
                    builder.appendWithOffset(offset, time, key, value, headers(random));
                } else {
                    builder.appendWithOffset(offset, time, key, value);
                }
                offset += 1 + (random.nextInt(4) == 0 ? random.nextInt(100) : 0);
                if (buffer.position() > 800_000) {
                    break;
                }
            }
            builder.close();
            buffer = builder.buffer();
        }
        if (random.nextInt(3) == 0) {
            control(random, buffer, offset);
        }
        buffer.flip();
        return Utils.toArray(buffer);
    }

    private static void control(Random random, ByteBuffer buffer, long offset) {
        ByteBuffer room = ByteBuffer.allocate(2000);
        long time = 1_700_000_000_000L;
        Uuid id = Uuid.randomUuid();
        buffer.put(
                switch (random.nextInt(7)) {
                    case 0 -> MemoryRecords.withLeaderChangeMessage(offset, time, 4, room, new LeaderChangeMessage()
                                    .setLeaderId(random.nextInt(9))
                                    .setVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(3))))
                            .buffer();
                    case 1 -> MemoryRecords.withSnapshotHeaderRecord(offset, time, 4, room, new SnapshotHeaderRecord()
                                    .setLastContainedLogTimestamp(random.nextLong()))
                            .buffer();
                    case 2 -> MemoryRecords.withSnapshotFooterRecord(
                                    offset, time, 4, room, new SnapshotFooterRecord())
                            .buffer();
                    case 3 -> MemoryRecords.withKRaftVersionRecord(
                                    offset, time, 4, room, new KRaftVersionRecord().setKRaftVersion((short) 1))
                            .buffer();
                    case 4 -> MemoryRecords.withVotersRecord(offset, time, 4, room, new VotersRecord()
                                    .setVoters(List.of(
                                            new VotersRecord.Voter().setVoterId(5).setVoterDirectoryId(id))))
                            .buffer();
                    default -> MemoryRecords.withEndTransactionMarker(
                                    offset, time, 4, 77L, (short) 2, new EndTransactionMarker(
                                            random.nextBoolean() ? ControlRecordType.ABORT : ControlRecordType.COMMIT,
                                            random.nextInt(99)))
                            .buffer();
                });
    }

    private static byte[] blob(Random random, int most) {
        if (random.nextInt(6) == 0) {
            return null;
        }
        byte[] bytes = new byte[random.nextInt(most)];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (random.nextInt(3) == 0 ? random.nextInt(256) : 'a');
        }
        return bytes;
    }

    private static Header[] headers(Random random) {
        Header[] headers = new Header[Math.max(0, random.nextInt(5) - 2)];
        for (int i = 0; i < headers.length; i++) {
            headers[i] = new RecordHeader("h" + random.nextInt(2), blob(random, 10));
        }
        return headers;
    }
}
