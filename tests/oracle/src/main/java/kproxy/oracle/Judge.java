package kproxy.oracle;

import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;

/**
 * What Kafka's own classes read in given bytes.
 *
 * <p>Takes lines "name, version, bytes (base64)" with tabs between them, e.g. of FetchRequest, and answers each with a
 * line of JSON: the body, or a string that says what is wrong.
 */
public final class Judge {
    private static final ObjectMapper MAPPER =
            JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    private Judge() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            JsonNode answer;
            try {
                answer = read(parts[0], Short.parseShort(parts[1]), Base64.getDecoder().decode(parts[2]));
            } catch (ReflectiveOperationException | RuntimeException problem) {
                answer = MAPPER.valueToTree(problem.toString());
            }
            out.println(MAPPER.writeValueAsString(answer));
        }
        out.flush();
    }

    private static JsonNode read(String name, short version, byte[] bytes) throws ReflectiveOperationException {
        String type = "org.apache.kafka.common.message." + name + "Data";
        Message message = (Message) Class.forName(type).getConstructor().newInstance();
        ByteBufferAccessor accessor = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
        message.read(accessor, version);
        if (accessor.remaining() > 0) {
            return MAPPER.valueToTree(accessor.remaining() + " bytes are left");
        }
        Method write = Class.forName(type + "JsonConverter")
                .getMethod("write", message.getClass(), short.class, boolean.class);
        return (JsonNode) write.invoke(null, message, version, false);
    }
}
