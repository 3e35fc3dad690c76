package kproxy.oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.EnumMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.zip.GZIPOutputStream;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * Random values of every message and version of a release, as bytes and as JSON, both by Kafka's generated classes.
 *
 * <p>Arguments: seed, messages of each version, gzip file to write. The file has a line a message: {"name", "version",
 * "bytes" (base64), "body"}. One line on standard output counts what was covered, and names what was not.
 */
public final class Oracle {
    private static final ObjectMapper MAPPER =
            JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    /** More messages are made while a case is missing, up to this many times the number asked for. */
    private static final int PATIENCE = 10;

    private final Random random;
    private final int count;
    private final OutputStream out;
    private final Map<Case, Long> cases = new EnumMap<>(Case.class);
    private final ArrayNode missing = JsonNodeFactory.instance.arrayNode();
    private final Map<String, Integer> kinds = new TreeMap<>();
    private final ArrayNode withdrawn = JsonNodeFactory.instance.arrayNode();
    private int messageVersions;
    private long messages;
    private long bytes;
    private long wanted;
    private long unknownTags;

    private Oracle(long seed, int count, OutputStream out) {
        this.random = new Random(seed);
        this.count = count;
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        long seed = Long.parseLong(args[0]);
        Map<String, Definition> definitions = Definition.all();
        Oracle oracle;
        try (OutputStream out =
                new BufferedOutputStream(new GZIPOutputStream(Files.newOutputStream(Path.of(args[2])), 1 << 16), 1 << 16)) {
            oracle = new Oracle(seed, Integer.parseInt(args[1]), out);
            for (Definition definition : definitions.values()) {
                oracle.message(definition);
            }
        }
        System.out.println(MAPPER.writeValueAsString(oracle.summary(seed)));
    }

    private ObjectNode summary(long seed) throws IOException {
        ObjectNode summary = JsonNodeFactory.instance.objectNode();
        summary.put("release", release());
        summary.put("seed", seed);
        summary.set("kinds", MAPPER.valueToTree(kinds));
        summary.set("withdrawn", withdrawn);
        summary.put("messageVersions", messageVersions);
        summary.put("messages", messages);
        summary.put("bytes", bytes);
        summary.put("unknownTags", unknownTags);
        summary.put("wanted", wanted);
        summary.set("cases", MAPPER.valueToTree(cases));
        summary.set("missing", missing);
        return summary;
    }

    private static String release() throws IOException {
        Properties properties = new Properties();
        try (InputStream stream = Message.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            properties.load(stream);
        }
        return properties.getProperty("version");
    }

    private void message(Definition definition) throws ReflectiveOperationException, IOException {
        if (!definition.valid()) {
            withdrawn.add(definition.name());
            return;
        }
        kinds.merge(definition.kind(), 1, Integer::sum);
        Class<?> type = Class.forName(definition.className());
        Class<?> converter = Class.forName(definition.className() + "JsonConverter");
        Method read = converter.getMethod("read", JsonNode.class, short.class);
        Method write = converter.getMethod("write", type, short.class, boolean.class);
        Message empty = (Message) type.getConstructor().newInstance();
        for (short version = empty.lowestSupportedVersion();
                version <= empty.highestSupportedVersion();
                version++) {
            version(definition, version, type, read, write);
        }
    }

    private void version(Definition definition, short version, Class<?> type, Method read, Method write)
            throws ReflectiveOperationException, IOException {
        Coverage coverage = new Coverage(definition, version);
        Values values = new Values(random, coverage, version);
        boolean flexible = definition.flexible().contains(version);
        for (int i = 0; i < count || i < count * PATIENCE && !coverage.missing().isEmpty(); i++) {
            if (i >= count) {
                coverage.replan();
            }
            Values.Size size = i == 0 ? Values.Size.BARE : i == 1 ? Values.Size.FULL : Values.Size.MIXED;
            ObjectNode given = values.message(definition, size);
            Message message = (Message) call(read, given, version);
            boolean unknown = flexible && i % 5 == 4;
            if (unknown) {
                addUnknown(definition.fields(), message, version);
            }
            byte[] encoded = encode(message, version, definition);
            Message again = (Message) type.getConstructor().newInstance();
            ByteBufferAccessor accessor = new ByteBufferAccessor(ByteBuffer.wrap(encoded));
            again.read(accessor, version);
            // By their bytes: a message with a NaN in it does not equal itself.
            if (accessor.remaining() != 0 || !Arrays.equals(encode(again, version, definition), encoded)) {
                throw new IllegalStateException(definition.name() + " v" + version + " is not read as it was written");
            }
            ObjectNode body = (ObjectNode) call(write, again, version, false);
            coverage.count(definition.fields(), given, body, "");
            if (unknown) {
                showUnknown(definition.fields(), again, body, version);
            }
            print(definition.name(), version, encoded, body);
        }
        messageVersions++;
        wanted += coverage.size();
        coverage.counts().forEach((one, number) -> cases.merge(one, number, Long::sum));
        for (String path : coverage.missing()) {
            missing.add(definition.name() + " v" + version + " " + path);
        }
    }

    private static byte[] encode(Message message, short version, Definition definition) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(definition.name() + " v" + version + " is shorter than its size");
        }
        return buffer.array();
    }

    private void print(String name, short version, byte[] encoded, ObjectNode body) throws IOException {
        ObjectNode line = JsonNodeFactory.instance.objectNode();
        line.put("name", name);
        line.put("version", version);
        line.put("bytes", Base64.getEncoder().encodeToString(encoded));
        line.set("body", body);
        out.write(MAPPER.writer().without(JsonGenerator.Feature.AUTO_CLOSE_TARGET).writeValueAsBytes(line));
        out.write('\n');
        messages++;
        bytes += encoded.length;
    }

    /** Give the message, and some of the structs in it, tagged fields that its definition does not know. */
    private void addUnknown(List<Definition.Field> fields, Message message, short version)
            throws ReflectiveOperationException {
        if (random.nextInt(3) > 0) {
            int tag = 50;
            for (int i = random.nextInt(3); i >= 0; i--) {
                tag += 1 + random.nextInt(i == 0 ? 1 << 28 : 100);
                byte[] content = new byte[random.nextInt(4) == 0 ? 130 : random.nextInt(10)];
                random.nextBytes(content);
                message.unknownTaggedFields().add(new RawTaggedField(tag, content));
                unknownTags++;
            }
        }
        for (Definition.Field field : fields) {
            if (field.fields() != null && field.versions().contains(version)) {
                for (Message inner : structs(field, message)) {
                    // A tagged struct that is all defaults must stay so, else it would be on the wire after all.
                    if (!field.tagged().contains(version)) {
                        addUnknown(field.fields(), inner, version);
                    }
                }
            }
        }
    }

    /** Kafka does not print unknown tagged fields: add them in the form in which kproxy prints them. */
    private static void showUnknown(List<Definition.Field> fields, Message message, ObjectNode body, short version)
            throws ReflectiveOperationException {
        for (Definition.Field field : fields) {
            if (field.fields() == null || !field.versions().contains(version)) {
                continue;
            }
            JsonNode printed = body.get(field.name());
            if (printed == null || printed.isNull()) {
                continue;
            }
            Iterator<JsonNode> nodes = field.array() ? printed.iterator() : List.of(printed).iterator();
            for (Message inner : structs(field, message)) {
                showUnknown(field.fields(), inner, (ObjectNode) nodes.next(), version);
            }
        }
        if (!message.unknownTaggedFields().isEmpty()) {
            ArrayNode unknown = body.putArray("_unknownTaggedFields");
            for (RawTaggedField field : message.unknownTaggedFields()) {
                unknown.addObject()
                        .put("tag", field.tag())
                        .put("base64", Base64.getEncoder().encodeToString(field.data()));
            }
        }
    }

    private static List<Message> structs(Definition.Field field, Message message) throws ReflectiveOperationException {
        Object value = message.getClass().getMethod(field.name()).invoke(message);
        if (value == null) {
            return List.of();
        }
        if (field.array()) {
            return ((Collection<?>) value).stream().map(Message.class::cast).toList();
        }
        return List.of((Message) value);
    }

    private static Object call(Method method, Object... arguments) throws ReflectiveOperationException {
        try {
            return method.invoke(null, arguments);
        } catch (InvocationTargetException problem) {
            throw new IllegalStateException(
                    method.getDeclaringClass().getSimpleName() + " " + arguments[1] + " " + arguments[0],
                    problem.getCause());
        }
    }

}
