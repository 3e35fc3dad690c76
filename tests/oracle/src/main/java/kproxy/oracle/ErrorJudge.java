package kproxy.oracle;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * Which errors the Java client finds in responses.
 *
 * <p>Takes lines "api key, version, bytes of the body (base64)" with tabs between them and answers each with a line of
 * JSON: the number of times each error occurs, by its name, or a string that says what is wrong.
 */
public final class ErrorJudge {
    private static final Method PARSE = Arrays.stream(AbstractResponse.class.getMethods())
            .filter(method -> method.getName().equals("parseResponse") && method.getParameterCount() == 3)
            .findFirst()
            .orElseThrow();
    /** Releases before 4.1 take the buffer itself. */
    private static final boolean TAKES_BUFFER = PARSE.getParameterTypes()[1] == ByteBuffer.class;

    private ErrorJudge() {}

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            Object answer;
            try {
                answer = errors(Short.parseShort(parts[0]), Short.parseShort(parts[1]), parts[2]);
            } catch (InvocationTargetException problem) {
                answer = problem.getCause().toString();
            }
            out.println(mapper.writeValueAsString(answer));
        }
        out.flush();
    }

    private static Object errors(short api, short version, String body) throws ReflectiveOperationException {
        ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(body));
        Object given = TAKES_BUFFER ? bytes : new ByteBufferAccessor(bytes);
        AbstractResponse read = (AbstractResponse) PARSE.invoke(null, ApiKeys.forId(api), given, version);
        return bytes.hasRemaining() ? bytes.remaining() + " bytes are left" : read.errorCounts();
    }
}
